//! A lock for each model, so that one process at a time pulls or removes it.
//!
//! The operating system frees the lock if its holder dies. Lock files are empty and never removed: otherwise two
//! processes could lock different files of the same name.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Error;
use crate::fetch::{self, Event, Progress, pause};

const POLL: Duration = Duration::from_millis(200);
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// A held lock, freed on drop.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    fn file(path: &Path) -> Result<File, fetch::Error> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(fetch::Error::io("create", dir))?;
        }
        std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(fetch::Error::io("open", path))
    }

    /// The lock, or `None` if another process holds it.
    pub(super) fn attempt(path: &Path) -> Result<Option<Lock>, Error> {
        let file = Lock::file(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fetch::Error::io("lock", path)(error).into()),
        }
    }

    /// Waits up to `limit` for the lock, and reports the wait every few seconds.
    pub(super) fn wait(
        path: &Path,
        model: &str,
        limit: Duration,
        progress: &mut dyn Progress,
    ) -> Result<Lock, Error> {
        let begin = Instant::now();
        let mut reported: Option<Instant> = None;
        loop {
            if let Some(lock) = Lock::attempt(path)? {
                return Ok(lock);
            }
            let waited_s = begin.elapsed().as_secs();
            if begin.elapsed() >= limit {
                return Err(Error::Locked { model: model.to_owned(), waited_s, lock: path.to_path_buf() });
            }
            if reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
                reported = Some(Instant::now());
                progress.event(Event::Waiting { model, waited_s });
            }
            pause(POLL.min(limit), progress)?;
        }
    }
}
