//! One process a journal.

use crate::error::Error;
use crate::output::whole::{remove, with_ending};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held while a process runs on a journal. The system takes it back when the process dies.
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of a journal.
    pub(crate) fn take(journal: &Path) -> Result<Lock, Error> {
        let path = with_ending(journal, ".lock");
        // A holder removes the file before it lets go: a lock of a file that has lost its name is worth nothing.
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            let mut file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(Error::io("open", &path))?;
            match file.try_lock() {
                Ok(()) if is_named(&file, &path) => {
                    sign(&mut file).map_err(Error::io("write", &path))?;
                    return Ok(Lock { path, _file: file });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use(journal, &mut file)),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        }
        Err(Error::InUse { path: journal.to_owned(), pid: "unknown".to_owned() })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

fn is_named(file: &File, path: &Path) -> bool {
    let named = std::fs::metadata(path).map(|named| (named.dev(), named.ino()));
    let held = file.metadata().map(|held| (held.dev(), held.ino()));
    matches!((named, held), (Ok(named), Ok(held)) if named == held)
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn in_use(journal: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    let _ = file.take(20).read_to_string(&mut text);
    let pid = text.trim();
    let known = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    Error::InUse { path: journal.to_owned(), pid: if known { pid } else { "unknown" }.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("out.gristmill");
        let held = Lock::take(&journal).unwrap();
        let Err(Error::InUse { pid, .. }) = Lock::take(&journal) else { panic!("taken twice") };
        assert_eq!(pid, std::process::id().to_string());
        drop(held);
        drop(Lock::take(&journal).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
