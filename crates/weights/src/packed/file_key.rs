//! Identifies the model files from which weights were packed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fetch::hex;

/// The number of samples of a file that are hashed.
const SPOTS: usize = 64;

/// Bytes of a sample.
const SPOT_BYTES: usize = 4096;

/// The identity of a model file: size, time and a sampled hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileKey {
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// Lower-case hex SHA-256 of the header and of 64 samples of the tensor data. Copies may keep the modification
    /// time, and container images give all files the same one, so the time alone does not identify the weights.
    pub sha256: String,
}

/// The identity of a model file with content `bytes`, whose tensor data starts at offset `data`.
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
