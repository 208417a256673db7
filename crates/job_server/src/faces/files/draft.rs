//! A file that is being written: in pieces, counted and hashed, and forgotten if it is not finished.

use std::fmt::Write as _;
use std::sync::Arc;

use job_store::StoreError;
use jobs::{File, Millis, Purpose};
use sha2::{Digest, Sha256};

use crate::shared::Jobs;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

/// A file that is being written.
pub(crate) struct Draft {
    jobs: Arc<Jobs>,
    /// Its id.
    pub(crate) id: String,
    hash: Sha256,
    written: u64,
    waiting: Vec<u8>,
    begun: bool,
    sealed: bool,
}

/// What is known of a file beside its bytes.
pub(crate) struct About {
    pub(crate) key: String,
    pub(crate) filename: String,
    pub(crate) purpose: Purpose,
    pub(crate) expires_at: Option<Millis>,
    pub(crate) hidden: bool,
}

impl Draft {
    /// A file of this id, from its beginning. What another attempt has written under the id is written over.
    pub(crate) fn new(jobs: &Arc<Jobs>, id: String) -> Draft {
        Draft {
            jobs: jobs.clone(),
            id,
            hash: Sha256::new(),
            written: 0,
            waiting: Vec::new(),
            begun: false,
            sealed: false,
        }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A store that is full or out of reach.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        let bytes = std::mem::take(&mut self.waiting);
        self.hash.update(&bytes);
        self.begun = true;
        let length = bytes.len() as u64;
        self.jobs.store.write_file(&self.id, self.written, bytes).await?;
        self.written += length;
        Ok(())
    }

    /// Makes the file visible.
    ///
    /// # Errors
    /// A store that is full or out of reach.
    pub(crate) async fn seal(mut self, about: About) -> Result<File, StoreError> {
        if !self.waiting.is_empty() || !self.begun {
            self.flush().await?;
        }
        let sha256 = self.hash.finalize_reset().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a text does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let now = self.jobs.now();
        let About { key, filename, purpose, expires_at, hidden } = about;
        let file = File {
            id: self.id.clone(),
            key,
            filename,
            purpose,
            bytes: self.written,
            sha256,
            created_at: now,
            expires_at,
            hidden,
        };
        let sealed = self.jobs.store.seal_file(file, now).await?;
        self.sealed = true;
        Ok(sealed)
    }
}

impl Drop for Draft {
    /// Also when its client has left: the store would forget it too, but later.
    fn drop(&mut self) {
        if self.sealed || !self.begun {
            return;
        }
        let (jobs, id) = (self.jobs.clone(), std::mem::take(&mut self.id));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = jobs.store.discard_file(&id).await {
                    tracing::warn!(file = id, %error, "a file that was not finished could not be discarded yet");
                }
            });
        }
    }
}
