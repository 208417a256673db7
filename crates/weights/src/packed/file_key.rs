//! Which file of a model weights were packed from.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fetch::hex;

/// Places where a model's file is looked at.
const SPOTS: usize = 64;

/// Bytes looked at in each.
const SPOT_BYTES: usize = 4096;

/// Which file of a model it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileKey {
    /// Length.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: u64,
    /// Lower-case hex SHA-256 of all before the tensors, and of 64 short pieces spread over these. A copy may keep its
    /// time, and an image gives all files the same one: weights of another training are told apart by what they are.
    pub sha256: String,
}

/// Identifies a file of a model, `bytes`, whose tensors begin at `data`.
pub(crate) fn file_key(bytes: &[u8], data: usize, modified_ns: u64) -> FileKey {
    let mut hasher = Sha256::new();
    let (head, tensors) = bytes.split_at(data.min(bytes.len()));
    hasher.update(head);
    let last = tensors.len().saturating_sub(SPOT_BYTES);
    for spot in 0..SPOTS {
        let at = (last as u128 * spot as u128 / (SPOTS - 1) as u128) as usize;
        hasher.update(&tensors[at..tensors.len().min(at + SPOT_BYTES)]);
    }
    FileKey { bytes: bytes.len() as u64, modified_ns, sha256: hex(&hasher.finalize()) }
}
