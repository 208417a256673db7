//! The Hugging Face hub: chooses the files of a repository that make a model, and downloads them.
//!
//! The listing comes from `GET {endpoint}/api/models/{repo}/revision/{revision}?blobs=true`. It has the commit, from
//! which all files are then downloaded even if the branch moves, and the length and SHA-256 (LFS object id) of large
//! files.

use std::path::Path;

use serde::Deserialize;
use ureq::http::Uri;

use super::download::{DownloadRequest, download};
use super::http::{Client, Token, origin};
use super::source::{check_relative, shown};
use super::{
    Error, FetchConfig, FetchedModel, Hub, HubSource, Journal, ModelSource, Progress, RequestedFiles,
    is_sha256,
};

const MAX_LISTING_BYTES: u64 = 32 << 20;
const MAX_FILES: usize = 10_000;
/// The files of a model directory besides the weights.
const SIDE_FILES: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "sparse_linear.safetensors",
    "colbert_linear.safetensors",
];
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

impl Hub {
    fn client(&self, config: &FetchConfig) -> Result<Client, Error> {
        let server = self.endpoint.parse::<Uri>().ok().and_then(|uri| origin(&uri));
        let token = match (&self.token, server) {
            (Some(secret), Some(endpoint)) => Some(Token { endpoint, secret: secret.clone() }),
            _ => None,
        };
        Client::new(config, token)
    }
}

#[derive(Debug, Deserialize)]
struct Listing {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<RepoFile>,
}

/// A file of a repository's listing.
#[derive(Debug, Clone, Deserialize)]
struct RepoFile {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Debug, Clone, Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

impl RepoFile {
    fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref()?.sha256.as_deref().filter(|sha256| is_sha256(sha256))
    }

    fn size(&self) -> Option<u64> {
        self.lfs.as_ref().and_then(|lfs| lfs.size).or(self.size)
    }
}

pub(super) fn fetch(
    source: &HubSource,
    want: &RequestedFiles,
    dir: &Path,
    config: &FetchConfig,
    progress: &mut dyn Progress,
) -> Result<FetchedModel, Error> {
    let hub = &config.hub;
    let fail = |reason: String| Error::Hub { repo: source.repo.clone(), reason };
    if hub.offline {
        return Err(fail("HF_HUB_OFFLINE is set".to_owned()));
    }
    let client = hub.client(config)?;
    let revision = source.revision.as_deref().unwrap_or("main");
    let url =
        format!("{}/api/models/{}/revision/{}?blobs=true", hub.endpoint, source.repo, escaped(revision, ""));
    let listing = list(&client, &url, &source.repo, progress)?;
    let commit =
        listing.sha.filter(|sha| is_commit(sha)).ok_or_else(|| fail("the hub named no commit".to_owned()))?;
    let pinned = HubSource { revision: Some(commit.clone()), ..source.clone() };
    let origin = ModelSource::Hub(pinned).to_string();
    let mut journal = Journal::open(dir, &origin)?;
    let mut delivery = FetchedModel { origin, file: None, files: Vec::new(), network_bytes: 0 };

    let mut chosen = choose(&listing.siblings, source.file.as_deref()).map_err(fail)?;
    refuse_wrong_hashes(&chosen, want)?;
    let whole: u64 = chosen.files.iter().filter_map(|file| file.size()).fold(0, u64::saturating_add);
    let present: u64 = chosen.files.iter().filter_map(|file| file_bytes(&journal, &file.rfilename)).sum();
    super::reserve(dir, whole.saturating_sub(present))?;
    let mut at = 0;
    while let Some(file) = chosen.files.get(at).cloned() {
        at += 1;
        let path = escaped(&file.rfilename, "/");
        let url = format!("{}/{}/resolve/{commit}/{path}", hub.endpoint, source.repo);
        let name = chosen.stored_name(&file.rfilename, want);
        let order = DownloadRequest {
            url: &url,
            name: &name,
            pin: want.pin(&name),
            listed: (file.sha256(), file.size()),
        };
        let (arrived, bytes) = download(&client, &order, &mut journal, progress)?;
        delivery.network_bytes += bytes;
        delivery.files.push(arrived);
        if file.rfilename == INDEX {
            let shards = read_index(&journal.path(&name), &listing.siblings).map_err(fail)?;
            chosen.files.extend(shards);
        }
    }
    delivery.file = chosen.file.then(|| delivery.files.first().map(|file| file.name.clone())).flatten();
    Ok(delivery)
}

/// Bytes of a file that are already on disk.
fn file_bytes(journal: &Journal, name: &str) -> Option<u64> {
    let length = |path: &Path| std::fs::metadata(path).map(|meta| meta.len()).ok();
    length(&journal.path(name)).or_else(|| length(&journal.part(name)))
}

fn list(client: &Client, url: &str, repo: &str, progress: &mut dyn Progress) -> Result<Listing, Error> {
    let (status, text) = client.text(url, MAX_LISTING_BYTES, progress)?;
    let hint = match status {
        200 => {
            let listing: Listing = serde_json::from_str(&text).map_err(|error| Error::Http {
                url: shown(url),
                reason: format!("not a listing: {error}"),
            })?;
            if listing.siblings.len() > MAX_FILES {
                let reason = format!("{} files, more than the limit of {MAX_FILES}", listing.siblings.len());
                return Err(Error::Hub { repo: repo.to_owned(), reason });
            }
            return Ok(listing);
        }
        // The hub responds 401 also for repositories that do not exist, so as not to reveal private names.
        401 | 404 => ": no such repository or revision, or a private or gated one (then set HF_TOKEN)",
        403 => ": gated; accept its terms on the hub and set HF_TOKEN",
        _ => "",
    };
    Err(Error::Status { url: shown(url), status, hint: hint.to_owned() })
}

/// The chosen files of a repository.
#[derive(Debug)]
struct ModelFiles {
    files: Vec<RepoFile>,
    /// Whether the model is a GGUF (single or split) and not a directory.
    file: bool,
}

impl ModelFiles {
    /// The name under which a file is stored: the catalog's for a single file, else the repository's.
    fn stored_name(&self, listed: &str, want: &RequestedFiles) -> String {
        let base = listed.rsplit('/').next().unwrap_or(listed).to_owned();
        match (&want.file, self.file) {
            (Some(file), true) if self.files.len() == 1 => file.clone(),
            (_, true) => base,
            (_, false) => listed.to_owned(),
        }
    }
}

fn choose(files: &[RepoFile], named: Option<&str>) -> Result<ModelFiles, String> {
    for file in files {
        check_relative(&file.rfilename)?;
    }
    let has = |name: &str| files.iter().find(|file| file.rfilename == name).cloned();
    let ggufs: Vec<&str> = files
        .iter()
        .map(|file| file.rfilename.as_str())
        .filter(|name| name.ends_with(".gguf") && !name.contains("mmproj") && !name.contains("imatrix"))
        .collect();
    let first = match named {
        Some(named) if has(named).is_some() => named.to_owned(),
        Some(part) => one_of(&ggufs, part)?,
        None if has("config.json").is_some() && files.iter().any(is_weights) => return directory(files),
        None if files.iter().any(is_network_of_module) => return directory(files),
        None if ggufs.is_empty() => {
            return Err("neither config.json with safetensors nor a GGUF is there".to_owned());
        }
        None => one_of(&ggufs, "").or_else(|error| one_of(&ggufs, "Q4_K_M").map_err(|_| error))?,
    };
    let folder = first.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let base = first.rsplit('/').next().unwrap_or(&first);
    let names = split_names(base).unwrap_or_else(|| vec![base.to_owned()]);
    let files = names.iter().map(|name| {
        let path = format!("{folder}{name}");
        has(&path).ok_or_else(|| format!("{path} is missing from the repository"))
    });
    Ok(ModelFiles { files: files.collect::<Result<_, _>>()?, file: true })
}

/// The only GGUF whose name contains `part`, ignoring case; the first file of a split one.
fn one_of(ggufs: &[&str], part: &str) -> Result<String, String> {
    let part = part.to_ascii_lowercase();
    let first = |name: &&&str| split_names(name).is_none_or(|names| name.ends_with(names[0].as_str()));
    let fits = |name: &&&str| labels(name).any(|label| label == part) || part.is_empty();
    let mut found: Vec<&str> = ggufs.iter().filter(fits).filter(first).copied().collect();
    if found.is_empty() {
        found = ggufs
            .iter()
            .filter(|name| name.to_ascii_lowercase().contains(&part))
            .filter(first)
            .copied()
            .collect();
    }
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(format!("no file fits {part:?}; there are: {}", some(ggufs))),
        _ => Err(format!("several GGUF files fit, name one after a colon: {}", some(&found))),
    }
}

/// The parts of a file name that may be a quantization: `x-Q4_K_M.gguf` → …, `q4_k_m`, …
fn labels(name: &str) -> impl Iterator<Item = String> {
    let base = name.trim_end_matches(".gguf").to_ascii_lowercase();
    base.split(['-', '.', '/']).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn some(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

fn is_weights(file: &RepoFile) -> bool {
    let name = file.rfilename.as_str();
    name.ends_with(".safetensors") && !name.contains('/') && !SIDE_FILES.contains(&name)
}

/// The name of a file in the folder of a sentence-transformers module, such as `2_Dense/config.json`.
fn in_module(name: &str) -> Option<(&str, &str)> {
    let (folder, base) = name.split_once('/')?;
    let (index, kind) = folder.split_once('_')?;
    let module = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()) && !kind.is_empty();
    (module && !base.contains('/')).then_some((folder, base))
}

/// Whether the file is the weights of a network in a folder of its own.
fn is_network_of_module(file: &RepoFile) -> bool {
    in_module(&file.rfilename)
        .is_some_and(|(folder, base)| folder.ends_with("_Transformer") && base == WEIGHTS)
}

fn directory(files: &[RepoFile]) -> Result<ModelFiles, String> {
    let side = |name: &str| match in_module(name) {
        Some((_, base)) => base == WEIGHTS || SIDE_FILES.contains(&base),
        None => SIDE_FILES.contains(&name),
    };
    let mut chosen: Vec<RepoFile> = files.iter().filter(|file| side(&file.rfilename)).cloned().collect();
    let pickle = |file: &&RepoFile| {
        in_module(&file.rfilename).is_some_and(|(folder, base)| {
            base == "pytorch_model.bin"
                && !chosen.iter().any(|f| f.rfilename == format!("{folder}/{WEIGHTS}"))
        })
    };
    if let Some(file) = files.iter().find(pickle) {
        return Err(format!(
            "{} is a PyTorch pickle, which is not read; take a revision of the model with safetensors, or convert it",
            file.rfilename
        ));
    }
    if let Some(index) = files.iter().find(|file| file.rfilename == INDEX) {
        // Last, because the shards that the index names are added after it.
        chosen.push(index.clone());
        return Ok(ModelFiles { files: chosen, file: false });
    }
    let single = files.iter().find(|file| file.rfilename == WEIGHTS);
    let weights: Vec<RepoFile> = match single {
        Some(file) => vec![file.clone()],
        None => files.iter().filter(|file| is_weights(file)).cloned().collect(),
    };
    match weights.as_slice() {
        [_] => chosen.extend(weights),
        [] if chosen.iter().any(is_network_of_module) => {}
        _ => return Err(format!("several safetensors files and no {INDEX} that orders them")),
    }
    Ok(ModelFiles { files: chosen, file: false })
}

/// The shards that `model.safetensors.index.json` names, without duplicates.
fn read_index(path: &Path, files: &[RepoFile]) -> Result<Vec<RepoFile>, String> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let length = std::fs::metadata(path).map(|meta| meta.len()).unwrap_or(u64::MAX);
    if length > MAX_LISTING_BYTES {
        return Err(format!("{INDEX} is over the limit of {MAX_LISTING_BYTES} bytes"));
    }
    let text = std::fs::read(path).map_err(|error| format!("cannot read {INDEX}: {error}"))?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| format!("{INDEX}: {error}"))?;
    let names: std::collections::BTreeSet<String> = index.weight_map.into_values().collect();
    let find = |name: &String| files.iter().find(|file| file.rfilename == *name).cloned();
    names
        .iter()
        .map(|name| find(name).ok_or_else(|| format!("{INDEX} names {name}, which is not there")))
        .collect()
}

/// Compares the listing's hashes with the pinned ones, before anything is downloaded.
fn refuse_wrong_hashes(chosen: &ModelFiles, want: &RequestedFiles) -> Result<(), Error> {
    for file in &chosen.files {
        let name = chosen.stored_name(&file.rfilename, want);
        let Some(pin) = want.pin(&name) else { continue };
        if let Some(size) = file.size() {
            super::check(pin, file.sha256().unwrap_or(&pin.sha256), size)?;
        }
    }
    Ok(())
}

/// All file names of a split GGUF, from the name of any of them: `x-00001-of-00003.gguf`.
pub(super) fn split_names(name: &str) -> Option<Vec<String>> {
    const MAX_SPLITS: u32 = 1000;
    let base = name.strip_suffix(".gguf")?;
    let (head, count) = base.rsplit_once("-of-")?;
    let (stem, number) = head.rsplit_once('-')?;
    let digits = |text: &str| {
        (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (number, count): (u32, u32) = (digits(number)?, digits(count)?);
    let fine = (1..=count).contains(&number) && count <= MAX_SPLITS;
    fine.then(|| (1..=count).map(|i| format!("{stem}-{i:05}-of-{count:05}.gguf")).collect())
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Percent-encodes a path component; the characters of `also` are kept.
pub fn escaped(text: &str, also: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::super::config::DEFAULT_ENDPOINT;
    use super::*;

    fn repo(names: &[&str]) -> Vec<RepoFile> {
        names
            .iter()
            .map(|name| RepoFile { rfilename: (*name).to_owned(), size: Some(1), lfs: None })
            .collect()
    }

    fn names(files: &[&str], named: Option<&str>) -> Result<Vec<String>, String> {
        choose(&repo(files), named)
            .map(|chosen| chosen.files.into_iter().map(|file| file.rfilename).collect())
    }

    #[test]
    fn a_gguf_is_found_by_name_by_label_or_alone() {
        let files = ["README.md", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf", "mmproj-m-f16.gguf"];
        assert_eq!(names(&files, Some("m-Q8_0.gguf")).unwrap(), ["m-Q8_0.gguf"]);
        assert_eq!(names(&files, Some("q8_0")).unwrap(), ["m-Q8_0.gguf"]);
        assert_eq!(names(&files, None).unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(names(&["m.gguf"], None).unwrap(), ["m.gguf"]);
        let error = names(&files, Some("Q4_K")).unwrap_err();
        assert!(error.contains("m-Q4_K_M.gguf, m-Q4_K_S.gguf"), "{error}");
        let error = names(&files, Some("Q5_0")).unwrap_err();
        assert!(error.contains("no file fits") && error.contains("m-Q8_0.gguf"), "{error}");
        assert!(names(&["a.bin"], None).is_err());
    }

    #[test]
    fn all_files_of_a_split_gguf_are_taken() {
        let files = ["q/m-Q4_K_M-00001-of-00002.gguf", "q/m-Q4_K_M-00002-of-00002.gguf", "q/m-Q8_0.gguf"];
        assert_eq!(names(&files, Some("Q4_K_M")).unwrap(), files[..2]);
        let error = names(&files[..1], Some("Q4_K_M")).unwrap_err();
        assert!(error.contains("00002-of-00002.gguf is missing"), "{error}");
        assert_eq!(split_names("x-00003-of-00002.gguf"), None);
        assert_eq!(split_names("x-00001-of-99999.gguf"), None);
    }

    #[test]
    fn a_directory_takes_what_a_model_needs_and_no_duplicate_weights() {
        let files = [
            "config.json",
            "tokenizer.json",
            "consolidated.safetensors",
            "model.safetensors",
            "onnx/model.onnx",
            "pytorch_model.bin",
            "1_Pooling/config.json",
            "README.md",
        ];
        let got = names(&files, None).unwrap();
        assert_eq!(got, ["config.json", "tokenizer.json", "1_Pooling/config.json", "model.safetensors"]);
        let sharded = ["config.json", "model-00001-of-00002.safetensors", INDEX, "consolidated.safetensors"];
        assert_eq!(names(&sharded, None).unwrap(), ["config.json", INDEX]);
    }

    #[test]
    fn the_folders_of_modules_are_taken() {
        let files = [
            "modules.json",
            "config.json",
            "model.safetensors",
            "sparse_linear.safetensors",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "2_Dense/deeper/config.json",
            "onnx/config.json",
            "x_y/config.json",
        ];
        let got = names(&files, None).unwrap();
        let want = [
            "modules.json",
            "config.json",
            "sparse_linear.safetensors",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "model.safetensors",
        ];
        assert_eq!(got, want);
        let pickled: Vec<&str> =
            files.into_iter().filter(|name| *name != "2_Dense/model.safetensors").collect();
        let error = names(&pickled, None).unwrap_err();
        assert!(error.contains("2_Dense/pytorch_model.bin is a PyTorch pickle"), "{error}");
        let own = [
            "modules.json",
            "0_Transformer/config.json",
            "0_Transformer/model.safetensors",
            "0_Transformer/vocab.txt",
            "1_Pooling/config.json",
        ];
        assert_eq!(names(&own, None).unwrap(), own);
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in ["../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a\\..\\x.gguf", "a//x.gguf"] {
            assert!(names(&[name], None).is_err(), "{name}");
        }
        assert_eq!(escaped("a b/%#?.gguf", "/"), "a%20b/%25%23%3F.gguf");
    }

    #[test]
    fn the_usual_variables_are_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "hf_file\n").unwrap();
        let home = dir.path().as_os_str().to_owned();
        let hub = |pairs: &[(&str, &str)]| {
            Hub::from_env(&|name: &str| {
                let pair = pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
                pair.or_else(|| (name == "HF_HOME").then(|| home.clone()))
            })
        };
        assert_eq!(hub(&[]).token.as_deref(), Some("hf_file"));
        assert_eq!(hub(&[]).endpoint, DEFAULT_ENDPOINT);
        assert_eq!(hub(&[("HF_TOKEN", "hf_env")]).token.as_deref(), Some("hf_env"));
        assert_eq!(hub(&[("HF_TOKEN_PATH", "/nowhere")]).token, None);
        assert_eq!(hub(&[("HF_TOKEN", "two\nlines")]).token, None);
        assert_eq!(hub(&[("HF_ENDPOINT", "http://127.0.0.1:1/")]).endpoint, "http://127.0.0.1:1");
        assert!(hub(&[("HF_HUB_OFFLINE", "1")]).offline);
        assert!(!format!("{:?}", hub(&[])).contains("hf_file"));
    }
}
