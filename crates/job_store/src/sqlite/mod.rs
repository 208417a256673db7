//! A store in an SQLite file: one server. Survives `kill -9` and power loss: write-ahead log with full synchronization.

mod blobs;
mod care;
mod connection;
mod place;
mod writer;

use crate::backend::{Backend, Kept};
use crate::common::transaction;
use crate::error::StoreError;
use crate::ops::parts::Stored;
use crate::ops::{files, sweep};
use crate::sql::{Act, act};
use crate::store::Answer;
use crate::types::StoreLimits;
pub use care::{CheckReport, Exported};

use blobs::Blobs;
use connection::SqliteSql;
use jobs::schedule::Credits;
use jobs::{File, Millis};
use place::Lock;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use writer::Writer;

/// Connections that read.
const READERS: usize = 2;

/// Bytes up to this many lie in rows.
const INLINE: usize = 16 << 10;

/// Folders in which one sweep looks for leftovers.
const FOLDERS: u8 = 8;

/// After so long, a file that was begun is not gone on with.
const STALE_PART: Millis = 24 * 3_600_000;

/// Pages that one sweep gives back to the file system.
const VACUUM: &str = "PRAGMA incremental_vacuum(512)";

/// A [`crate::Store`] in a folder: the tables in `jobs.db`, large bodies and files beside it.
pub struct SqliteStore {
    dir: PathBuf,
    writer: Arc<Writer>,
    readers: Arc<Mutex<Vec<SqliteSql>>>,
    /// One turn for each reader: those that wait are futures, not blocked threads.
    turns: Arc<Semaphore>,
    blobs: Arc<Blobs>,
    credits: Mutex<Credits>,
    limits: StoreLimits,
    /// The folders in which the next sweep looks for leftovers.
    folder: AtomicU8,
    _lock: Lock,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    /// The lock is given back only when nothing is written any more.
    fn drop(&mut self) {
        self.writer.wait_until_idle();
    }
}

impl SqliteStore {
    /// Opens a folder, makes it if it is absent, and brings its tables up to date. Blocks.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::NetworkFileSystem`], [`StoreError::Damaged`], [`StoreError::TooNew`], and if the
    /// folder cannot be written.
    pub fn open(dir: &Path, limits: StoreLimits) -> Result<SqliteStore, StoreError> {
        place::prepare(dir)?;
        let lock = Lock::take(dir)?;
        let path = dir.join("jobs.db");
        let writer = SqliteSql::writer(&path)?;
        let readers = (0..READERS).map(|_| SqliteSql::reader(&path)).collect::<Result<Vec<_>, _>>()?;
        let blobs = Blobs::open(dir)?;
        Ok(SqliteStore {
            dir: dir.to_owned(),
            writer: Arc::new(Writer::new(writer)),
            readers: Arc::new(Mutex::new(readers)),
            turns: Arc::new(Semaphore::new(READERS)),
            blobs: Arc::new(blobs),
            credits: Mutex::default(),
            limits,
            folder: AtomicU8::new(0),
            _lock: lock,
        })
    }

    /// Looks for damage in a folder, whether a server uses it or not, and changes nothing. Blocks, and reads everything.
    ///
    /// # Errors
    /// If there is no store or it cannot be read; what is wrong in it is told in the report.
    pub fn check(dir: &Path) -> Result<CheckReport, StoreError> {
        care::check(dir)
    }

    /// Copies the store in a folder into another folder, which must be absent; also while a server uses it. Blocks.
    ///
    /// # Errors
    /// If there is no store, it cannot be read, or the other folder is there or cannot be written.
    pub fn export(dir: &Path, to: &Path) -> Result<Exported, StoreError> {
        care::export(dir, to)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Does something with a reader, on a thread that may block.
    async fn with_reader<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut SqliteSql) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| gone())?;
        let readers = self.readers.clone();
        blocking(move || {
            let _turn = turn;
            let reader = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut reader = reader.ok_or_else(gone)?;
            reader.roll_back();
            let result = act(&mut reader);
            readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            result
        })
        .await
    }

    async fn seal_file(&self, file: File, now: Millis) -> Result<(), StoreError> {
        let (blobs, limits) = (self.blobs.clone(), self.limits);
        let bytes = file.bytes;
        transaction!(read(self), [], |sql| files::check_space(sql, bytes, &limits)).await?;
        let sealed = file.clone();
        let (place, pin) = blocking(move || blobs.seal(&sealed)).await?;
        let input = Arc::new((file, place, pin));
        let seal = transaction!(write(self), [input], |sql| files::seal(
            sql,
            &input.0,
            Some(&input.1),
            &limits,
            now
        ));
        let result = seal.await;
        if result.is_err() {
            let blobs = self.blobs.clone();
            blocking(move || {
                blobs.unseal(&input.0.id, &input.1);
                Ok(())
            })
            .await?;
        }
        result
    }

    /// Deletes bytes that no row names.
    async fn tidy_up(&self, now: Millis) -> Result<(), StoreError> {
        let first = self.folder.fetch_add(FOLDERS, Ordering::Relaxed);
        let blobs = self.blobs.clone();
        let done = self.with_reader(move |sql| {
            let mut done = Vec::new();
            for place in sql.read(&act(|sql| Box::pin(sweep::garbage(sql))))? {
                blobs.delete(&place, |place| is_named(sql, place))?;
                done.push(place);
            }
            for byte in 0..FOLDERS {
                for place in blobs.places(first.wrapping_add(byte)) {
                    blobs.delete(&place, |place| is_named(sql, place))?;
                }
            }
            blobs.drop_stale_parts(now.saturating_sub(STALE_PART));
            Ok(done)
        });
        let done = Arc::new(done.await?);
        transaction!(write(self), [done], |sql| sweep::forget_garbage(sql, &done)).await?;
        self.write(act(|sql| sql.query(VACUUM, Vec::new()))).await?;
        Ok(())
    }
}

/// Asks in a transaction of its own, so that the answer is as of now.
fn is_named(sql: &mut SqliteSql, place: &str) -> Result<bool, StoreError> {
    let place = place.to_owned();
    sql.read(&act(move |sql| {
        let place = place.clone();
        Box::pin(async move { sweep::is_named(sql, &place).await })
    }))
}

fn gone() -> StoreError {
    StoreError::Unavailable("SQLite: the call was ended by the runtime".to_owned())
}

/// Runs something on a thread that may block.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    spawn_blocking(act).await.map_err(|_| gone())?
}

impl Backend for SqliteStore {
    fn write<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T> {
        Box::pin(self.writer.clone().write(act))
    }

    fn read<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T> {
        Box::pin(self.with_reader(move |sql| sql.read(&act)))
    }

    fn keep(&self, bytes: Vec<u8>) -> Answer<'_, Kept> {
        if bytes.len() <= INLINE {
            let kept = Kept { stored: Stored::Rows(bytes), keep: None };
            return Box::pin(std::future::ready(Ok(kept)));
        }
        let blobs = self.blobs.clone();
        Box::pin(blocking(move || {
            let (place, pin) = blobs.keep(&bytes)?;
            let stored = Stored::Outside { place, size: bytes.len() as u64 };
            Ok(Kept { stored, keep: Some(Box::new(pin)) })
        }))
    }

    fn load(&self, place: String) -> Answer<'_, Vec<u8>> {
        let blobs = self.blobs.clone();
        Box::pin(blocking(move || blobs.load(&place)))
    }

    fn write_bytes(&self, id: String, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()> {
        let blobs = self.blobs.clone();
        Box::pin(blocking(move || blobs.write(&id, offset, &bytes)))
    }

    fn seal(&self, file: File, now: Millis) -> Answer<'_, ()> {
        Box::pin(self.seal_file(file, now))
    }

    fn discard(&self, id: String) -> Answer<'_, ()> {
        let blobs = self.blobs.clone();
        Box::pin(blocking(move || blobs.discard(&id)))
    }

    fn read_bytes(&self, id: String, offset: u64, most: usize) -> Answer<'_, Vec<u8>> {
        Box::pin(async move {
            let (place, _) = transaction!(read(self), [id], |sql| files::place(sql, &id)).await?;
            let place = place.ok_or(StoreError::NotFound("file"))?;
            let blobs = self.blobs.clone();
            blocking(move || blobs.read(&place, offset, most)).await
        })
    }

    fn tidy(&self, now: Millis) -> Answer<'_, ()> {
        Box::pin(self.tidy_up(now))
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn woken(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.writer.woken.notified())
    }

    fn credits(&self) -> &Mutex<Credits> {
        &self.credits
    }

    fn limits(&self) -> StoreLimits {
        self.limits
    }
}
