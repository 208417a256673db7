//! The journal of a download directory, from which a killed pull is resumed.
//!
//! The journal has the origin of the bytes: a download is never continued from another origin. A finished file has its
//! own name; an unfinished one has `.part` appended, and its validator (the server's ETag) is in the journal.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Error, Event, Progress, hex};

pub(super) const NAME: &str = ".journal.json";
/// The largest journal that is read, in bytes. A journal has a few hundred bytes for each file.
const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// The download state of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileState {
    /// The server's strong ETag or Last-Modified, sent back as `If-Range`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) validator: Option<String>,
    /// Length of the whole file according to the server, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    /// SHA-256, once the file is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    /// Length in bytes of the complete file, or of the parts that are joined so far.
    #[serde(default)]
    pub(crate) bytes: u64,
    /// Number of parts that are joined so far.
    #[serde(default)]
    pub(crate) parts: usize,
    /// SHA-256 of the parts that are joined so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix_sha256: Option<String>,
}

#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct JournalFile {
    origin: String,
    files: BTreeMap<String, FileState>,
}

/// The journal of one download directory.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    page: JournalFile,
}

impl Journal {
    /// Opens the journal of `dir`; files from another origin are removed.
    pub(crate) fn open(dir: &Path, origin: &str) -> Result<Journal, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let path = dir.join(NAME);
        let fits = std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= MAX_JOURNAL_BYTES);
        let bytes = if fits { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let page: JournalFile = serde_json::from_slice(&bytes).unwrap_or_default();
        if page.origin == origin {
            return Ok(Journal { dir: dir.to_path_buf(), page });
        }
        empty(dir)?;
        let page = JournalFile { origin: origin.to_owned(), files: BTreeMap::new() };
        let journal = Journal { dir: dir.to_path_buf(), page };
        journal.save()?;
        Ok(journal)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of a finished file.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Path of an unfinished file.
    pub(crate) fn part(&self, file: &str) -> PathBuf {
        self.dir.join(format!("{file}.part"))
    }

    pub(crate) fn state(&self, file: &str) -> FileState {
        self.page.files.get(file).cloned().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, file: &str, state: FileState) -> Result<(), Error> {
        if self.page.files.get(file) == Some(&state) {
            return Ok(());
        }
        self.page.files.insert(file.to_owned(), state);
        self.save()
    }

    /// Hash and length of a finished file.
    pub(crate) fn finished(&self, file: &str) -> Option<(String, u64)> {
        let state = self.page.files.get(file)?;
        let length = std::fs::metadata(self.path(file)).ok()?.len();
        (length == state.bytes).then(|| state.sha256.clone().map(|sha256| (sha256, length)))?
    }

    /// Renames a complete `.part` file to its own name, after syncing it.
    pub(crate) fn finish(&mut self, file: &str, sha256: &str, bytes: u64) -> Result<(), Error> {
        let (part, path) = (self.part(file), self.path(file));
        let open = std::fs::OpenOptions::new().write(true).open(&part).map_err(Error::io("open", &part))?;
        open.sync_all().map_err(Error::io("sync", &part))?;
        std::fs::rename(&part, &path).map_err(Error::io("rename", &part))?;
        self.set(file, FileState { sha256: Some(sha256.to_owned()), bytes, ..FileState::default() })
    }

    /// Deletes a file and its state.
    pub(crate) fn discard(&mut self, file: &str) -> Result<(), Error> {
        for path in [self.part(file), self.path(file)] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        self.page.files.remove(file);
        self.save()
    }

    /// Deletes the journal, so that the directory has only the model's files.
    pub(crate) fn close(dir: &Path) -> Result<(), Error> {
        let path = dir.join(NAME);
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))
    }

    fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(&self.page).expect("strings and numbers always serialize");
        write_whole(&self.dir.join(NAME), &text)
    }
}

/// Removes everything inside `dir`, but not `dir` itself.
fn empty(dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("look at", &path))?;
        let done = if kind.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        done.map_err(Error::io("remove", &path))?;
    }
    Ok(())
}

/// Writes a small file atomically: readers see the old content or the new.
///
/// # Errors
/// The system's error for the file or its directory.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".tmp-");
    // Temporary files are private; this one gets the default mode, reduced by the process's umask.
    #[cfg(unix)]
    let readable: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    temporary.permissions(readable);
    let mut file = temporary.tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.as_file().sync_all().map_err(Error::io("sync", path))?;
    file.persist(path).map_err(|error| Error::io("rename", path)(error.error))?;
    Ok(())
}

/// Hashes the first `length` bytes of `path`; an error when there are fewer.
pub(crate) fn hash_prefix(
    path: &Path,
    name: &str,
    length: u64,
    progress: &mut dyn Progress,
) -> Result<Sha256, Error> {
    use std::io::Read;
    let mut file = std::fs::File::open(path).map_err(Error::io("open", path))?.take(length);
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 18];
    let mut done = 0u64;
    if length > 0 {
        progress.event(Event::Verify { file: name, total_bytes: length });
    }
    while done < length {
        if progress.cancelled() {
            return Err(Error::Cancelled);
        }
        let count = file.read(&mut chunk).map_err(Error::io("read", path))?;
        if count == 0 {
            return Err(Error::Size { file: name.to_owned(), got: done, want: length });
        }
        hasher.update(&chunk[..count]);
        done += count as u64;
    }
    Ok(hasher)
}

/// The digest of a finished hash.
pub(crate) fn digest(hasher: Sha256) -> String {
    hex(&hasher.finalize())
}
