//! Files that clients put in and batches write.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Lines of a batch.
    Batch,
    /// Answers or errors of a batch; made by the server.
    BatchOutput,
    /// Whatever a client keeps.
    UserData,
}

/// A file, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// `file-…`.
    pub id: String,
    /// The name of the API key that made it; empty without keys.
    pub key: String,
    /// Its name at the client's.
    pub filename: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// When it was made.
    pub created_at: Millis,
    /// When it is deleted.
    pub expires_at: Option<Millis>,
    /// Whether clients see it: the input of Anthropic's batches is hidden.
    pub hidden: bool,
}
