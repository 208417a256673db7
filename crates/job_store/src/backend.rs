//! What a database brings with it: transactions, and places for bytes.

use crate::ops::parts::Stored;
use crate::sql::Act;
use crate::store::Answer;
use crate::types::StoreLimits;
use jobs::schedule::Credits;
use jobs::{File, Millis};
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

/// Keeps bytes from being deleted until the rows that name them are there.
pub(crate) trait Keep: Send + Sync {}

/// Bytes that rows can name now.
pub(crate) struct Kept {
    pub(crate) stored: Stored,
    pub(crate) keep: Option<Box<dyn Keep>>,
}

/// A database.
pub(crate) trait Backend: Send + Sync + 'static {
    /// A transaction that writes; durable when it is done.
    fn write<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T>;

    /// A transaction that reads.
    fn read<T: Send + 'static>(&self, act: Act<T>) -> Answer<'_, T>;

    /// Makes bytes ready to be named by a row.
    fn keep(&self, bytes: Vec<u8>) -> Answer<'_, Kept>;

    /// Bytes at a place outside the database.
    fn load(&self, place: String) -> Answer<'_, Vec<u8>>;

    /// Writes bytes of a file that is not sealed.
    fn write_bytes(&self, id: String, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()>;

    /// Makes a written file visible.
    fn seal(&self, file: File, now: Millis) -> Answer<'_, ()>;

    /// Forgets bytes that were not sealed.
    fn discard(&self, id: String) -> Answer<'_, ()>;

    /// Bytes of a sealed file.
    fn read_bytes(&self, id: String, offset: u64, most: usize) -> Answer<'_, Vec<u8>>;

    /// Deletes bytes that no row names; some at a time.
    fn tidy(&self, now: Millis) -> Answer<'_, ()>;

    /// Whether only this process has the database, so that leases of its start are nobody's.
    fn is_alone(&self) -> bool;

    /// Waits until another transaction says that there is work.
    fn woken(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// What the classes are owed.
    fn credits(&self) -> &Mutex<Credits>;

    /// Bounds of what is kept.
    fn limits(&self) -> StoreLimits;
}
