//! One pull of a model at a time, across processes.
//!
//! The operating system frees the lock when its holder ends, however it ends. Lock files are empty and stay: removing
//! one would let two processes hold "the" lock on different files.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Error;
use crate::fetch::{self, Event, Progress, pause};

const POLL: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Freed on drop.
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

    /// The lock, or `None` when someone else holds it.
    pub(super) fn attempt(path: &Path) -> Result<Option<Lock>, Error> {
        let file = Lock::file(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fetch::Error::io("lock", path)(error).into()),
        }
    }

    /// Waits for the lock up to `limit`, and says so every few seconds.
    pub(super) fn wait(
        path: &Path,
        model: &str,
        limit: Duration,
        progress: &mut dyn Progress,
    ) -> Result<Lock, Error> {
        let begin = Instant::now();
        let mut told: Option<Instant> = None;
        loop {
            if let Some(lock) = Lock::attempt(path)? {
                return Ok(lock);
            }
            let waited_s = begin.elapsed().as_secs();
            if begin.elapsed() >= limit {
                return Err(Error::Locked { model: model.to_owned(), waited_s, lock: path.to_path_buf() });
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                progress.event(Event::Waiting { model, waited_s });
            }
            pause(POLL.min(limit), progress)?;
        }
    }
}
