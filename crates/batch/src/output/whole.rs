//! Files that are written whole or not at all.

use crate::error::Error;
use crate::hashing::{Digested, Hashing};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name, which gets its own name when it is complete. Dropped before, it is removed.
pub(crate) struct Whole {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<Hashing<BufWriter<File>>>,
}

impl Whole {
    pub(crate) fn create(path: &Path) -> Result<Whole, Error> {
        let temporary = with_ending(path, ".part");
        let file = File::create(&temporary).map_err(Error::io("create", &temporary))?;
        let file = Some(Hashing::new(BufWriter::with_capacity(256 << 10, file)));
        Ok(Whole { path: path.to_owned(), temporary, file })
    }

    /// Makes the file durable and gives it its name.
    pub(crate) fn finish(mut self) -> Result<Digested, Error> {
        let file = self.file.take().ok_or_else(|| Error::Internal("a file was finished twice".to_owned()))?;
        let (file, digest) = file.into_parts();
        let synced =
            file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        if let Err(error) = synced {
            let _ = fs::remove_file(&self.temporary);
            return Err(Error::io("write", &self.path)(error));
        }
        fs::rename(&self.temporary, &self.path).map_err(Error::io("rename", &self.temporary))?;
        sync_folder(&self.path)?;
        Ok(digest)
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Makes the names in the folder of a file durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// A path with an ending appended to its name.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut whole = Whole::create(&path).unwrap();
        whole.write_all(b"abc").unwrap();
        assert!(!path.exists());
        drop(whole);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        let mut whole = Whole::create(&path).unwrap();
        whole.write_all(b"abc").unwrap();
        let digest = whole.finish().unwrap();
        assert_eq!(digest.bytes, 3);
        assert!(digest.sha256.starts_with("ba7816bf8f01cfea"));
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
