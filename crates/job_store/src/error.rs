//! Why a call of a store failed.

/// A failed call of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or did not do what was asked. The next call may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The disk or the quota of the database is full. Nothing was changed.
    #[error("the store is full: {0}")]
    Full(String),
    /// A bound of [`crate::StoreLimits`] is reached; nothing was accepted.
    #[error("{what}: {most} at most")]
    Limit {
        /// Such as `open jobs of this key`.
        what: &'static str,
        /// The bound.
        most: u64,
    },
    /// The store was written by a later version of the program.
    #[error(
        "{place} has version {found} of the tables of jobs; this program knows up to {known}: use a later one"
    )]
    TooNew {
        /// The file or database.
        place: String,
        /// The version in it.
        found: i64,
        /// The last version that this program knows.
        known: i64,
    },
    /// Another process has the store open (SQLite).
    #[error(
        "{place} is in use by process {pid}: one server has a file of jobs at a time; several share a PostgreSQL database"
    )]
    InUse {
        /// The file.
        place: String,
        /// The process.
        pid: u32,
    },
    /// The file lies where SQLite cannot be trusted.
    #[error(
        "{place} lies on {kind}, a network file system: SQLite needs a local disk; several servers share a PostgreSQL database"
    )]
    NetworkFileSystem {
        /// The file.
        place: String,
        /// Such as `nfs`.
        kind: &'static str,
    },
    /// The file is damaged, and nothing was changed in it.
    #[error("{place} is damaged: {why}; `gristmill jobs check` says more")]
    Damaged {
        /// The file.
        place: String,
        /// What SQLite says.
        why: String,
    },
    /// The thing is not there, or not this key's.
    #[error("there is no {0}")]
    NotFound(&'static str),
    /// The thing was there; its time is over.
    #[error("the {0} is no longer kept")]
    Gone(&'static str),
    /// The thing is not in a state in which this can be done.
    #[error("{0}")]
    Conflict(String),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    OtherRequest,
}
