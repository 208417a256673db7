//! What was written down when a model arrived, beside its files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fetch::{Checked, Error, Progress, check_relative, digest, hash_prefix, write_whole};

/// Beside the model's files.
pub(crate) const NAME: &str = "record.json";
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// One file of an installed model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path within the model, `/` between its parts.
    pub name: String,
    /// Length.
    pub size_bytes: u64,
    /// Lower-case hex SHA-256 of the content.
    pub sha256: String,
    /// Who vouched for that hash.
    pub checked: Checked,
    /// Modification time when it was last hashed, nanoseconds since 1970.
    pub modified_ns: u64,
}

/// An installed model's papers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Model as the user knows it: catalog name or source.
    pub model: String,
    /// Source that delivered, its revision pinned.
    pub origin: String,
    /// The file to open; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Every file.
    pub files: Vec<FileRecord>,
    /// When it was pulled, seconds since 1970.
    pub pulled_s: u64,
}

impl Record {
    /// `None` when it is missing, damaged, or names paths outside the model.
    pub(super) fn load(dir: &Path) -> Option<Record> {
        let path = dir.join(NAME);
        if std::fs::metadata(&path).ok()?.len() > MAX_RECORD_BYTES {
            return None;
        }
        let record: Record = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let inside = |name: &String| check_relative(name).is_ok();
        let fine = record.files.iter().all(|file| inside(&file.name)) && record.file.iter().all(inside);
        fine.then_some(record)
    }

    pub(super) fn save(&self, dir: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).expect("strings and numbers always serialize");
        write_whole(&dir.join(NAME), &text)
    }

    /// Every file is there with the length and time it had when it was hashed.
    pub(super) fn looks_untouched(&self, dir: &Path) -> bool {
        !self.files.is_empty()
            && self.files.iter().all(|file| {
                stamp(&dir.join(&file.name)).is_some_and(|stamp| stamp == (file.size_bytes, file.modified_ns))
            })
    }

    /// Hashes files again: all of them, or those that do not look untouched. Notes new times.
    /// The error says what is wrong with the first bad one.
    pub(super) fn verify(&mut self, dir: &Path, all: bool, progress: &mut dyn Progress) -> Result<(), Error> {
        for file in &mut self.files {
            let path = dir.join(&file.name);
            let found = stamp(&path);
            if !all && found == Some((file.size_bytes, file.modified_ns)) {
                continue;
            }
            let got = found.map_or(0, |(bytes, _)| bytes);
            if got != file.size_bytes {
                return Err(Error::Size { file: file.name.clone(), got, want: file.size_bytes });
            }
            let got = digest(hash_prefix(&path, &file.name, file.size_bytes, progress)?);
            if got != file.sha256 {
                return Err(Error::Hash { file: file.name.clone(), got, want: file.sha256.clone() });
            }
            file.modified_ns = found.map_or(0, |(_, modified)| modified);
        }
        self.save(dir)
    }
}

/// Length and modification time in nanoseconds; nothing for what is no plain file.
pub(super) fn stamp(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    meta.is_file().then_some((meta.len(), u64::try_from(modified).ok()?))
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
