//! Where a model's packed weights and tokenizer are kept, and the digest of its files that they are known by.
//!
//! Beside the model, or in the store where its folder cannot be written. The digest is worked out once for files that do
//! not change: a note in the store has it, with each file's size, times and inode.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{PackedCache, PackedPlace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;
use text::TokenizerCache;
use weights::Opened;
use weights::packed::FileKey;

use crate::{Failure, store};

/// The kind of the store's note about files.
const KIND: &str = "files";
/// Raised when the digest is made otherwise.
const VERSION: u32 = 1;
/// A file that changed so shortly ago could change again within the clock's step.
const SETTLED: Duration = Duration::from_secs(2);
/// Bytes of a file beside the weights that are read.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Files beside the weights.
const MAX_FILES: usize = 256;

/// Where a model's packed files are.
#[derive(Clone, Debug)]
pub(crate) struct PackedFiles {
    cache: PackedCache,
    digest: String,
    /// The store's folder for them; none if they are beside the model.
    folder: Option<PathBuf>,
}

impl PackedFiles {
    /// The packed files of a model with this digest; none if no cache is wanted, or there is no place for it.
    pub(crate) fn new(opened: &Opened, cache: PackedCache, digest: &str) -> Option<PackedFiles> {
        if cache == PackedCache::Off {
            return None;
        }
        let beside = opened.first_file()?.parent().filter(|folder| !folder.as_os_str().is_empty());
        let may_write = rustix::fs::access(beside.unwrap_or(Path::new(".")), rustix::fs::Access::WRITE_OK);
        let folder = match may_write {
            Ok(()) => None,
            Err(_) => Some(store::home().ok()?.packed_folder(opened.path(), digest)?),
        };
        Some(PackedFiles { cache, digest: digest.to_owned(), folder })
    }

    /// The digest of the model's files.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Where packed weights are.
    pub(crate) fn place(&self) -> PackedPlace<'_> {
        PackedPlace { cache: self.cache, folder: self.folder.as_deref() }
    }

    /// Where the packed tokenizer is.
    pub(crate) fn tokenizer(&self, opened: &Opened) -> Option<TokenizerCache> {
        Some(TokenizerCache {
            path: weights::packed::path_for(opened, self.folder.as_deref(), "tokenizer")?,
            key: self.digest.clone(),
            mapped: self.cache == PackedCache::Map,
        })
    }
}

/// What the store's note says of a model's files.
#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    files: Vec<Stamp>,
    digest: String,
    keys: Vec<FileKey>,
}

/// What changes when a file does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Stamp> {
        let file = std::fs::metadata(path)?;
        Ok(Stamp {
            path: path.to_owned(),
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }

    /// Whether the file has not been changed in the last moments.
    fn is_settled(&self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0.max(self.modified.0)).unwrap_or(0);
        now.duration_since(UNIX_EPOCH + Duration::from_secs(seconds)).is_ok_and(|age| age >= SETTLED)
    }
}

/// The digest of a model's files, in hexadecimal: sizes, headers and 64 samples of the tensors of each, and the settings
/// and vocabularies beside them. The same files give the same digest wherever they are, whenever they were copied.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn digest(path: &Path, opened: &Opened) -> Result<String, Failure> {
    let settings = if path.is_dir() { settings(path)? } else { Vec::new() };
    let files = opened.files().map(|(file, _)| file).chain(settings.iter().map(PathBuf::as_path));
    let files: Option<Vec<Stamp>> = files.map(|file| Stamp::of(file).ok()).collect();
    let store = store::home().ok();
    let known = store.as_ref().and_then(|store| store.note(KIND, path));
    if let (Some(files), Some(known)) = (&files, known)
        && let Ok(note) = serde_json::from_slice::<Note>(&known)
        && note.version == VERSION
        && note.files == *files
    {
        opened.remember_file_keys(note.keys);
        return Ok(note.digest);
    }
    let digest = hash(path, opened, &settings)?;
    let now = SystemTime::now();
    if let (Some(store), Some(files), Some(keys)) = (store, files, opened.file_keys())
        && files.iter().all(|file| file.is_settled(now))
    {
        let note = Note { version: VERSION, files, digest: digest.clone(), keys: keys.to_vec() };
        // A store that cannot be written only costs the next start's time.
        if let Ok(text) = serde_json::to_vec(&note)
            && let Err(error) = store.write_note(KIND, path, &text)
        {
            tracing::debug!(%error, "the digest of the files is not kept");
        }
    }
    Ok(digest)
}

fn hash(path: &Path, opened: &Opened, settings: &[PathBuf]) -> Result<String, Failure> {
    let mut hasher = Sha256::new();
    for key in opened.file_keys().unwrap_or_default() {
        hasher.update(format!("{} {}\n", key.bytes, key.sha256));
    }
    for file in settings {
        let name = file.strip_prefix(path).unwrap_or(file).to_string_lossy().into_owned();
        let cannot = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", file.display()));
        if std::fs::metadata(file).map_err(cannot)?.len() > MAX_FILE_BYTES {
            continue;
        }
        hasher.update(format!("{name}\n"));
        hasher.update(Sha256::digest(std::fs::read(file).map_err(cannot)?));
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Settings and vocabularies of a directory and of its folders, by name.
fn settings(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    folders.extend(list(dir)?.into_iter().filter(|path| path.is_dir()));
    for folder in folders {
        files.extend(list(&folder)?.into_iter().filter(|path| path.is_file() && matters(path)));
        if files.len() > MAX_FILES {
            return Err(Failure::new(format!(
                "{} has more than {MAX_FILES} files of settings",
                dir.display()
            )));
        }
    }
    files.sort();
    Ok(files)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", dir.display()));
    std::fs::read_dir(dir)
        .map_err(cannot)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(cannot))
        .collect()
}

/// Whether vectors depend on a file beside the weights. The store's own record is not one.
fn matters(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    name == "vocab.txt" || kind == "model" || (kind == "json" && name != "record.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_that_vectors_depend_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("1_Pooling")).expect("a folder");
        for name in [
            "config.json",
            "1_Pooling/config.json",
            "vocab.txt",
            "README.md",
            "record.json",
            "model.safetensors",
        ] {
            std::fs::write(at(name), b"{}").expect("a file");
        }
        let found = settings(folder.path()).expect("files");
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(folder.path()).expect("inside")).collect();
        assert_eq!(names, ["1_Pooling/config.json", "config.json", "vocab.txt"].map(Path::new));
    }

    #[test]
    fn a_file_in_the_place_of_another_is_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.json");
        std::fs::write(&path, b"one").expect("a file");
        let (before, time) = (Stamp::of(&path).expect("a file"), std::fs::metadata(&path).expect("a file"));
        assert_eq!(before, Stamp::of(&path).expect("a file"));
        assert!(!before.is_settled(SystemTime::now()), "it has just been written");
        assert!(before.is_settled(SystemTime::now() + 3 * SETTLED));
        let other = folder.path().join("other");
        std::fs::write(&other, b"two").expect("a file");
        let modified = time.modified().expect("a time");
        std::fs::File::open(&other).and_then(|file| file.set_modified(modified)).expect("a time");
        std::fs::rename(&other, &path).expect("a file");
        assert_ne!(before, Stamp::of(&path).expect("a file"), "of the same size and time");
    }
}
