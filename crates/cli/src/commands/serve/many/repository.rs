//! A folder of models: what is in it, with what settings, and whether it has changed.
//!
//! ```text
//! models/small.gguf           a model in one file (of a split one, the first), GGUF or ONNX
//! models/embedder/            a folder with a config.json
//! models/coder/model.toml     settings and probes beside any of these (optional)
//! models/coder/1/…            versions; the highest is served, or the one that model.toml names
//! ```
//!
//! A model that cannot be read is told and left out; it does not keep others from being served.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use service::probe::Probe;

use super::flags::time;
use crate::Failure;
use crate::commands::serve::{door, name};

/// The file of a model's settings.
const SETTINGS: &str = "model.toml";
/// Most bytes of that file.
const SETTINGS_BYTES: u64 = 64 << 10;
/// Most files of a model, and folders inside one another.
const MOST_FILES: usize = 4_096;
const MOST_DEPTH: usize = 4;
/// Most probes of a model, and tokens of an answer to one.
const MOST_PROBES: usize = 32;
const PROBE_TOKENS: usize = 32;

/// A model of the folder.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The name of its file or folder.
    pub(super) name: String,
    /// The file or folder that is loaded.
    pub(super) path: PathBuf,
    /// What changes when one of its files does: their names, sizes and times.
    pub(super) digest: u64,
    pub(super) settings: Settings,
}

/// What `model.toml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Settings {
    /// The names of the model in place of its folder's.
    pub(super) names: Vec<String>,
    pub(super) pinned: bool,
    pub(super) preload: bool,
    pub(super) keep_alive: Option<Duration>,
    pub(super) context: Option<usize>,
    pub(super) kv_memory: Option<u64>,
    /// What another generation must answer before it takes over.
    pub(super) probes: Vec<Probe>,
}

/// `model.toml` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    pinned: bool,
    #[serde(default)]
    preload: bool,
    keep_alive: Option<String>,
    context: Option<usize>,
    kv_memory: Option<String>,
    version: Option<u64>,
    #[serde(default)]
    probe: Vec<WrittenProbe>,
}

/// A `[[probe]]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenProbe {
    chat: Option<String>,
    prompt: Option<String>,
    text: Option<String>,
    contains: Option<String>,
    max_tokens: Option<usize>,
    near: Option<String>,
    cosine: Option<f32>,
    label: Option<String>,
}

/// What a look at the folder found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The models, by name.
    pub(super) models: Vec<Found>,
    /// What was left out, by name, and why.
    pub(super) refused: Vec<Refused>,
}

/// What cannot be served.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refused {
    /// As [`Found::name`].
    pub(super) name: String,
    pub(super) why: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is left out: {}", self.name, self.why)
    }
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
        match found(&path) {
            Ok(Some(model)) => scan.models.push(model),
            Ok(None) => {}
            Err(why) => scan.refused.push(Refused { name: file_name(&path), why }),
        }
    }
    Ok(scan)
}

/// The model at a path; none if there is none.
fn found(path: &Path) -> Result<Option<Found>, String> {
    let file = file_name(path);
    // Hidden ones are downloads and the like.
    if file.starts_with('.') {
        return Ok(None);
    }
    if path.is_file() {
        if !is_model_file(&file) {
            return Ok(None);
        }
        let digest = digest(&parts(path, &file))?;
        let name = name::of(&path.to_string_lossy());
        return Ok(Some(Found { name, path: path.to_owned(), digest, settings: Settings::default() }));
    }
    let (settings, version) = settings(path)?;
    let Some(model) = model_in(path, version)? else {
        let has_settings = path.join(SETTINGS).is_file();
        return if has_settings { Err("there is no model beside model.toml".into()) } else { Ok(None) };
    };
    let digest = digest(&[model.clone(), path.join(SETTINGS)])?;
    Ok(Some(Found { name: file, path: model, digest, settings }))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a file is a model, or the first part of one.
fn is_model_file(name: &str) -> bool {
    let is_part = name.contains("-of-") && !name.contains("-00001-of-");
    (name.ends_with(".gguf") || name.ends_with(".onnx")) && !is_part
}

/// All files of a split model, or the only one.
fn parts(path: &Path, name: &str) -> Vec<PathBuf> {
    let Some((head, _)) = name.split_once("-00001-of-") else { return vec![path.to_owned()] };
    let all = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mine = |part: &PathBuf| {
        part.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{head}-")))
    };
    let mut parts: Vec<PathBuf> = all.map(|entry| entry.path()).filter(mine).collect();
    parts.sort();
    parts
}

/// The model of a folder: the folder itself, the model file in it, or one of its versions.
fn model_in(folder: &Path, version: Option<u64>) -> Result<Option<PathBuf>, String> {
    if let Some(version) = version {
        let path = folder.join(version.to_string());
        let found = if path.is_dir() { plain_model_in(&path)? } else { None };
        return found.map(Some).ok_or_else(|| format!("version {version} has no model"));
    }
    if let Some(found) = plain_model_in(folder)? {
        return Ok(Some(found));
    }
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `01` would be the same version as `1`.
        let number: u64 = name.parse().ok().filter(|number: &u64| number.to_string() == name)?;
        Some((number, entry.path()))
    };
    let mut versions: Vec<(u64, PathBuf)> = entries.flatten().filter_map(number).collect();
    versions.sort();
    for (_, path) in versions.into_iter().rev() {
        if let Some(found) = plain_model_in(&path)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn plain_model_in(folder: &Path) -> Result<Option<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.flatten().filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
    let mut files: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if files.iter().any(|name| name == "config.json") {
        // Exports to ONNX have it too.
        let only_onnx = files.iter().any(|name| name.ends_with(".onnx"))
            && !files.iter().any(|name| name.ends_with(".safetensors"));
        if !only_onnx {
            return Ok(Some(folder.to_owned()));
        }
    }
    files.retain(|name| is_model_file(name) && !name.starts_with('.'));
    files.sort();
    match files.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        [first, second, ..] => {
            Err(format!("there are several models in {}: {first}, {second}", folder.display()))
        }
    }
}

/// A digest of names, sizes and times of files, and of all files in folders. A file that is not there counts as such.
fn digest(paths: &[PathBuf]) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    let mut left = MOST_FILES;
    for path in paths {
        add(path, MOST_DEPTH, &mut left, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn add(path: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) -> Result<(), String> {
    path.hash(hasher);
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    *left = left.checked_sub(1).ok_or_else(|| format!("there are more than {MOST_FILES} files"))?;
    if !metadata.is_dir() {
        let time = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        (metadata.len(), time.map(|time| time.as_nanos())).hash(hasher);
        return Ok(());
    }
    if depth == 0 {
        return Err(format!("{} is more than {MOST_DEPTH} folders deep", path.display()));
    }
    let entries = fs::read_dir(path).map_err(|error| error.to_string())?;
    let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inside.sort();
    inside.iter().try_for_each(|path| add(path, depth - 1, left, hasher))
}

/// What the folder's `model.toml` says, and which version.
fn settings(folder: &Path) -> Result<(Settings, Option<u64>), String> {
    let path = folder.join(SETTINGS);
    let Ok(metadata) = fs::metadata(&path) else { return Ok(Default::default()) };
    if metadata.len() > SETTINGS_BYTES {
        return Err(format!("{SETTINGS} has {} bytes; the limit is {SETTINGS_BYTES}", metadata.len()));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{SETTINGS}: {error}"))?;
    parse(&text).map_err(|why| format!("{SETTINGS}: {why}"))
}

fn parse(text: &str) -> Result<(Settings, Option<u64>), String> {
    let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
    if written.probe.len() > MOST_PROBES {
        return Err(format!("{} probes; the limit is {MOST_PROBES}", written.probe.len()));
    }
    let numbered = |(index, probe): (usize, WrittenProbe)| {
        probe.read().map_err(|why| format!("probe {}: {why}", index + 1))
    };
    let settings = Settings {
        names: written.names,
        pinned: written.pinned,
        preload: written.preload || written.pinned,
        keep_alive: written.keep_alive.as_deref().map(time).transpose()?,
        context: written.context,
        kv_memory: written.kv_memory.as_deref().map(door::bytes).transpose()?,
        probes: written.probe.into_iter().enumerate().map(numbered).collect::<Result<_, _>>()?,
    };
    Ok((settings, written.version))
}

impl WrittenProbe {
    fn read(self) -> Result<Probe, String> {
        let WrittenProbe { chat, prompt, text, contains, max_tokens, near, cosine, label } = self;
        let max_tokens = max_tokens.unwrap_or(PROBE_TOKENS);
        match (chat, prompt, text, contains, near, cosine, label) {
            (Some(message), None, None, Some(contains), None, None, None) => {
                Ok(Probe::Chat { message, contains, max_tokens })
            }
            (None, Some(prompt), None, Some(contains), None, None, None) => {
                Ok(Probe::Continue { prompt, contains, max_tokens })
            }
            (None, None, Some(text), None, Some(near), Some(cosine), None) => {
                Ok(Probe::Near { texts: [text, near], cosine })
            }
            (None, None, Some(text), None, None, None, Some(label)) => Ok(Probe::Label { text, label }),
            _ => {
                Err("a probe has chat and contains, prompt and contains, text, near and cosine, or text and \
                      label"
                    .into())
            }
        }
    }
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
        assert_eq!(found.models[5].path, at("versions/10/m.gguf"));
        fs::write(at("versions/model.toml"), "version = 2\nnames = [\"prod\"]\n").expect("a file");
        let model = scan(folder.path()).expect("a scan").models.remove(5);
        assert_eq!((model.path, model.settings.names), (at("versions/2"), vec!["prod".to_owned()]));
        fs::write(at("versions/model.toml"), "version = 3\n").expect("a file");
        fs::write(at("one/n.gguf"), b"").expect("a file");
        let found = scan(folder.path()).expect("a scan");
        assert_eq!(names(&found), ["b", "big", "hf", "trees"], "the others are served all the same");
        assert!(found.refused[0].why.contains("several models"), "{:?}", found.refused);
        assert!(found.refused[1].why.contains("version 3 has no model"), "{:?}", found.refused);
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
        fs::write(at("hf/model.toml"), b"").expect("a file");
        assert_ne!(after[1], digests()[1]);
    }

    #[test]
    fn settings_and_probes_are_read_or_refused_by_name() {
        let text = "pinned = true\nkeep-alive = \"5m\"\n[[probe]]\nchat = \"2+2?\"\ncontains = \"4\"\n\
                    [[probe]]\ntext = \"a\"\nnear = \"b\"\ncosine = 0.5\n";
        let (settings, version) = parse(text).expect("settings");
        assert!(settings.pinned && settings.preload && version.is_none());
        let four = Probe::Chat { message: "2+2?".into(), contains: "4".into(), max_tokens: PROBE_TOKENS };
        let near = Probe::Near { texts: ["a".into(), "b".into()], cosine: 0.5 };
        assert_eq!(settings.probes, [four, near]);
        for (bad, words) in [
            ("colour = 1", "colour"),
            ("keep-alive = \"soon\"", "no time"),
            ("[[probe]]\nchat = \"a\"\nlabel = \"b\"", "probe 1: a probe has"),
            ("[[probe]]\ntext = \"a\"\ncosine = 1.0", "probe 1"),
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(words), "{bad}: {error}");
        }
    }
}
