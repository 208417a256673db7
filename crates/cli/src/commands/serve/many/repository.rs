//! A folder of models: what is in it, with what settings, and whether it has changed.
//!
//! ```text
//! models/small.gguf           a model in one file (of a split one, the first), GGUF or ONNX
//! models/embedder/            a folder with a config.json
//! models/coder/model.toml     settings and probes beside any of these (optional)
//! models/coder/1/…            versions; the highest is served, or those that model.toml names
//! models/trees/config.pbtxt   Triton's configuration, beside versions (optional)
//! models/ocr/pipeline.toml    a pipeline of other models
//! ```
//!
//! A model that cannot be read is there with its problem; it does not keep others from being served.

mod digest;
mod files;
mod pipelines;
mod settings;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipeline::Definition;
use wire::oip::{CONFIG_BYTES, ModelConfig, VersionPolicy, check_model_name, versioned_name};

use crate::Failure;
use crate::commands::serve::name;
use digest::{digest, parts};
use files::{is_model_file, model_in, versions_in};
use pipelines::PIPELINE;
pub(super) use settings::{Settings, small_text};

/// The file of Triton's configuration of a model.
const CONFIG: &str = "config.pbtxt";
/// The name of a model's file in Triton's layout.
const MODEL_FILE: &str = "model.onnx";

/// A model of the folder.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The name of its file or folder; of a version that is not the default one, with the version.
    pub(super) name: String,
    /// The file or folder that is loaded.
    pub(super) path: PathBuf,
    /// The folder of its settings, which is that of its versions.
    pub(super) folder: PathBuf,
    /// What changes when one of its files does: their names, sizes and times.
    pub(super) digest: u64,
    pub(super) settings: Settings,
    /// The number of the version, if it has one.
    pub(super) version: Option<u64>,
    /// What `config.pbtxt` says.
    pub(super) config: Option<Arc<ModelConfig>>,
    /// The graph of a pipeline.
    pub(super) pipeline: Option<Arc<Definition>>,
    /// Why it cannot be served.
    pub(super) problem: Option<String>,
}

impl Found {
    /// Whether it is the version that requests find by the model's names.
    pub(super) fn is_default(&self) -> bool {
        self.version.is_none_or(|version| !self.name.ends_with(&versioned_name("", &version.to_string())))
    }
}

/// What a look at the folder found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The models, by name; the default version of a model before the others.
    pub(super) models: Vec<Found>,
}

/// Looks at the folder.
///
/// # Errors
/// The folder itself cannot be read.
pub(super) fn scan(folder: &Path) -> Result<Scan, Failure> {
    let at = folder.display();
    let cannot = |error: std::io::Error| Failure::new(format!("--models-dir {at}: {error}"));
    let mut scan = Scan::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.sort();
    for path in paths {
        // Hidden ones are downloads and the like.
        if file_name(&path).starts_with('.') {
            continue;
        }
        scan.models.extend(found(&path).unwrap_or_else(|why| vec![refused(&path, why)]));
    }
    Ok(scan)
}

/// What is told of a model that cannot be read.
fn refused(path: &Path, why: String) -> Found {
    let mut hasher = DefaultHasher::new();
    why.hash(&mut hasher);
    Found {
        name: name::of(&path.to_string_lossy()),
        path: path.to_owned(),
        folder: path.to_owned(),
        digest: hasher.finish(),
        settings: Settings::default(),
        version: None,
        config: None,
        pipeline: None,
        problem: Some(why),
    }
}

/// The versions of the model at a path, the default one first; empty if there is no model.
fn found(path: &Path) -> Result<Vec<Found>, String> {
    let file = file_name(path);
    if path.is_file() {
        if !is_model_file(&file) {
            return Ok(Vec::new());
        }
        let digest = digest(&parts(path, &file))?;
        return Ok(vec![Found { digest, problem: None, ..refused(path, String::new()) }]);
    }
    let settings = settings::read(path)?;
    let config = config(path, &file)?;
    settings.names.iter().try_for_each(|name| check_model_name(name).map_err(|fault| fault.message))?;
    let policy = policy(&settings, config.as_deref())?;
    let wanted = config.as_ref().and_then(|config| config.file.clone()).unwrap_or_else(|| MODEL_FILE.into());
    let label = |tensor: &wire::oip::ConfigTensor| tensor.labels.as_ref().map(|name| path.join(name));
    let labels: Vec<PathBuf> = config.iter().flat_map(|config| &config.outputs).filter_map(label).collect();
    let read = pipelines::read(path, config.as_deref())?;
    let is_pipeline = read.is_some();
    let named = read.as_ref().map(|read| read.files.clone()).unwrap_or_default();
    let pipeline = read.map(|read| read.definition);
    let models =
        if is_pipeline { vec![(None, path.join(PIPELINE))] } else { models(path, policy.as_ref(), &wanted)? };
    if models.is_empty() && (config.is_some() || path.join(settings::SETTINGS).is_file()) {
        return Err("there is no model beside its settings".into());
    }
    let of = |(at, (version, model)): (usize, (Option<u64>, PathBuf))| {
        let name = match (at, version) {
            (1.., Some(version)) => versioned_name(&file, &version.to_string()),
            _ => file.clone(),
        };
        let mut files = vec![model.clone(), path.join(settings::SETTINGS), path.join(CONFIG)];
        files.extend(labels.iter().chain(&named).cloned());
        let digest = digest(&files)?;
        let (settings, config, folder) = (settings.clone(), config.clone(), path.to_owned());
        let pipeline = pipeline.clone();
        Ok(Found { name, path: model, folder, digest, settings, version, config, pipeline, problem: None })
    };
    models.into_iter().enumerate().map(of).collect()
}

/// The models of a folder with their versions, the default one first.
fn models(
    folder: &Path,
    policy: Option<&VersionPolicy>,
    wanted: &str,
) -> Result<Vec<(Option<u64>, PathBuf)>, String> {
    if policy.is_none()
        && let Some(model) = model_in(folder, wanted)?
    {
        return Ok(vec![(None, model)]);
    }
    let mut there = Vec::new();
    for (version, path) in versions_in(folder)? {
        if let Some(model) = model_in(&path, wanted)? {
            there.push((version, model));
        }
    }
    there.sort();
    let numbers: Vec<u64> = there.iter().map(|(version, _)| *version).collect();
    let chosen = policy.unwrap_or(&VersionPolicy::default()).chosen(&numbers);
    if let (true, Some(VersionPolicy::Specific(wanted))) = (chosen.is_empty(), policy) {
        return Err(format!("none of the versions {wanted:?} has a model; there are {numbers:?}"));
    }
    let of = |version: u64| {
        let model = there.iter().find(|(number, _)| *number == version);
        model.map(|(_, model)| (Some(version), model.clone()))
    };
    Ok(chosen.into_iter().filter_map(of).collect())
}

/// The versions that are served.
fn policy(settings: &Settings, config: Option<&ModelConfig>) -> Result<Option<VersionPolicy>, String> {
    match (&settings.versions, config.and_then(|config| config.versions.clone())) {
        (Some(_), Some(_)) => {
            Err(format!("{} and {CONFIG} both say which versions are served", settings::SETTINGS))
        }
        (own, given) => Ok(own.clone().or(given)),
    }
}

/// What the folder's `config.pbtxt` says.
fn config(folder: &Path, name: &str) -> Result<Option<Arc<ModelConfig>>, String> {
    let Some(text) = small_text(&folder.join(CONFIG), CONFIG_BYTES as u64)? else { return Ok(None) };
    let config = ModelConfig::parse(&text).map_err(|error| format!("{CONFIG}: {error}"))?;
    if !config.name.is_empty() && config.name != name {
        return Err(format!("{CONFIG}: the name is {:?}; the folder is called {name}", config.name));
    }
    Ok(Some(Arc::new(config)))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scan: &Scan) -> Vec<&str> {
        scan.models.iter().map(|model| model.name.as_str()).collect()
    }

    #[test]
    fn a_folder_has_files_folders_and_versions_of_models() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        assert!(scan(&at("nowhere")).is_err());
        assert!(scan(folder.path()).expect("a scan").models.is_empty());
        for dir in ["hf", "versions/2", "versions/10", "versions/011", "empty", ".hidden", "one"] {
            fs::create_dir_all(at(dir)).expect("a folder");
        }
        for file in [
            "b.gguf",
            "big-00001-of-00002.gguf",
            "big-00002-of-00002.gguf",
            "notes.txt",
            ".c.gguf",
            "hf/config.json",
            ".hidden/config.json",
            "versions/2/config.json",
            "versions/10/m.gguf",
            "versions/011/m.gguf",
            "one/m.gguf",
            "trees.onnx",
        ] {
            fs::write(at(file), b"{}").expect("a file");
        }
        let found = scan(folder.path()).expect("a scan");
        assert_eq!(names(&found), ["b", "big", "hf", "one", "trees", "versions"]);
        assert_eq!((&found.models[5].path, found.models[5].version), (&at("versions/10/m.gguf"), Some(10)));
        fs::write(at("versions/model.toml"), "version = 2\nnames = [\"prod\"]\n").expect("a file");
        let model = scan(folder.path()).expect("a scan").models.remove(5);
        assert_eq!((model.path, model.settings.names), (at("versions/2"), vec!["prod".to_owned()]));
        fs::write(at("versions/model.toml"), "version = 3\n").expect("a file");
        fs::write(at("one/n.gguf"), b"").expect("a file");
        let found = scan(folder.path()).expect("a scan");
        let problems: Vec<&str> = found.models.iter().filter_map(|model| model.problem.as_deref()).collect();
        assert_eq!(problems.len(), 2, "the others are served all the same");
        assert!(problems[0].contains("several models"), "{problems:?}");
        assert!(
            problems[1].contains("none of the versions [3] has a model; there are [2, 10]"),
            "{problems:?}"
        );
        fs::write(at("versions/model.toml"), "versions = \"all\"\n").expect("a file");
        let found = scan(folder.path()).expect("a scan").models;
        let versions: Vec<_> = found[5..].iter().map(|model| (model.name.as_str(), model.version)).collect();
        assert_eq!(versions, [("versions", Some(10)), ("versions/versions/2", Some(2))]);
    }

    #[test]
    fn a_folder_of_triton_is_read_with_its_config() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for version in ["m/1", "m/2", "m/3"] {
            fs::create_dir_all(at(version)).expect("a folder");
            fs::write(at(version).join("model.onnx"), b"").expect("a file");
        }
        fs::write(at("m/3/other.onnx"), b"").expect("a file");
        let config = |text: &str| fs::write(at("m/config.pbtxt"), text).expect("a file");
        let scanned = || scan(folder.path()).expect("a scan").models;
        config("name: \"m\" version_policy { latest { num_versions: 2 } }");
        let found = scanned();
        assert_eq!(found.len(), 2);
        assert_eq!((&found[0].path, &found[1].path), (&at("m/3/model.onnx"), &at("m/2/model.onnx")));
        assert!(found.iter().all(|model| model.config.is_some() && model.folder == at("m")));
        let before = found[0].digest;
        config("name: \"m\" max_batch_size: 8 version_policy { latest { num_versions: 2 } }");
        assert_ne!(before, scanned()[0].digest, "a change of the configuration is a change");
        for (bad, words) in [
            ("name: \"n\"", "the folder is called m"),
            ("name: \"m\" input { name: \"x\" ", "config.pbtxt: line 1"),
            ("input {\n reshape { } }", "config.pbtxt: line 2: reshape is not supported"),
            ("default_model_filename: \"../x.onnx\"", "inside the model's folder"),
        ] {
            config(bad);
            let problem = scanned()[0].problem.clone().expect(bad);
            assert!(problem.contains(words), "{bad}: {problem}");
        }
    }

    #[test]
    fn a_change_of_any_file_changes_the_digest() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("hf")).expect("a folder");
        fs::write(at("hf/config.json"), b"{}").expect("a file");
        fs::write(at("big-00001-of-00002.gguf"), b"").expect("a file");
        let digests = || {
            let scan = scan(folder.path()).expect("a scan");
            scan.models.iter().map(|model| model.digest).collect::<Vec<_>>()
        };
        let before = digests();
        assert_eq!(before, digests());
        fs::write(at("hf/model.safetensors"), b"1").expect("a file");
        fs::write(at("big-00002-of-00002.gguf"), b"").expect("a file");
        let after = digests();
        assert!(before[0] != after[0] && before[1] != after[1]);
        fs::write(at("hf/model.safetensors.avx2.int8.packed"), b"1").expect("a file");
        assert_eq!(after, digests(), "what is written beside a model does not change it");
        fs::write(at("hf/model.toml"), b"").expect("a file");
        assert_ne!(after[1], digests()[1]);
    }
}
