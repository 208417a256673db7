//! The record of an installed model: origin, and size, time and hash of each file.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fetch::{Checked, Error, Progress, check_relative, digest, hash_prefix, write_whole};

/// The file name of the record, in the model's directory.
pub(crate) const NAME: &str = "record.json";
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// One file of an installed model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path within the model, `/` between its parts.
    pub name: String,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Lower-case hex SHA-256 of the content.
    pub sha256: String,
    /// How the hash was verified when the file was pulled.
    pub checked: Checked,
    /// Modification time when the file was last hashed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// The record of an installed model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The catalog name or source of the model.
    pub model: String,
    /// The source that delivered the model, with its revision pinned.
    pub origin: String,
    /// The file to open; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// All files of the model.
    pub files: Vec<FileRecord>,
    /// Time of the pull, in seconds since 1970.
    pub pulled_s: u64,
}

impl Record {
    /// Reads the record; `None` if it is missing, damaged, or names paths outside the model.
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

    /// Whether every file has the length and modification time that it had when it was hashed.
    pub(super) fn looks_untouched(&self, dir: &Path) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| file.looks_untouched(&dir.join(&file.name)))
    }

    /// Hashes every file; the error is that of the first damaged one.
    pub(super) fn check(&self, dir: &Path, progress: &mut dyn Progress) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| file.check(&dir.join(&file.name), progress))
    }

    /// Hashes all files, or those whose length or time has changed, and records their new times.
    pub(super) fn verify(&mut self, dir: &Path, all: bool, progress: &mut dyn Progress) -> Result<(), Error> {
        for file in &mut self.files {
            let path = dir.join(&file.name);
            if all || !file.looks_untouched(&path) {
                file.check(&path, progress)?;
                file.modified_ns = stamp(&path).map_or(0, |(_, modified)| modified);
            }
        }
        self.save(dir)
    }
}

impl FileRecord {
    fn looks_untouched(&self, path: &Path) -> bool {
        const SECOND: u64 = 1_000_000_000;
        stamp(path).is_some_and(|(size, modified)| {
            // Archives and container image layers may store whole seconds only.
            let whole = modified % SECOND == 0 && modified / SECOND == self.modified_ns / SECOND;
            size == self.size_bytes && (modified == self.modified_ns || whole)
        })
    }

    fn check(&self, path: &Path, progress: &mut dyn Progress) -> Result<(), Error> {
        let got = stamp(path).map_or(0, |(bytes, _)| bytes);
        if got != self.size_bytes {
            return Err(Error::Size { file: self.name.clone(), got, want: self.size_bytes });
        }
        let got = digest(hash_prefix(path, &self.name, self.size_bytes, progress)?);
        if got != self.sha256 {
            return Err(Error::Hash { file: self.name.clone(), got, want: self.sha256.clone() });
        }
        Ok(())
    }
}

/// Length in bytes and modification time in nanoseconds; `None` if `path` is not a regular file.
pub(super) fn stamp(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    meta.is_file().then_some((meta.len(), u64::try_from(modified).ok()?))
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::NoProgress;

    #[test]
    fn times_cut_to_seconds_still_count_as_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"abc").unwrap();
        let set = |ns: u64| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + std::time::Duration::from_nanos(ns)).unwrap();
        };
        let sha256 = crate::fetch::hex(&<sha2::Sha256 as sha2::Digest>::digest(b"abc"));
        let modified_ns = 1_700_000_000_123_456_789;
        let mut file =
            FileRecord { name: "f".into(), size_bytes: 3, sha256, checked: Checked::Hub, modified_ns };
        for (ns, untouched) in [(0, true), (123_456_789, true), (123_456_788, false), (1_000_000_000, false)]
        {
            set(1_700_000_000_000_000_000 + ns);
            assert_eq!(file.looks_untouched(&path), untouched, "{ns}");
        }
        assert!(file.check(&path, &mut NoProgress).is_ok());
        file.size_bytes = 4;
        assert!(!file.looks_untouched(&path));
        assert!(matches!(file.check(&path, &mut NoProgress), Err(Error::Size { got: 3, want: 4, .. })));
    }

    #[test]
    fn a_record_that_points_outside_is_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| FileRecord {
            name: name.to_owned(),
            size_bytes: 1,
            sha256: String::new(),
            checked: Checked::Recorded,
            modified_ns: 0,
        };
        let record = |name: &str, main: &str| Record {
            model: "m".into(),
            origin: "o".into(),
            file: Some(main.to_owned()),
            files: vec![file(name)],
            pulled_s: 0,
        };
        for (name, main, fine) in
            [("a", "a", true), ("../a", "a", false), ("a", "/etc/passwd", false), ("a/../b", "a", false)]
        {
            record(name, main).save(dir.path()).unwrap();
            assert_eq!(Record::load(dir.path()).is_some(), fine, "{name} {main}");
        }
        std::fs::write(dir.path().join(NAME), b"{").unwrap();
        assert!(Record::load(dir.path()).is_none());
    }
}
