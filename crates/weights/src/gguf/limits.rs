//! Constants of the GGUF format, and limits for untrusted files.

pub(super) const MAGIC: &[u8; 4] = b"GGUF";

pub(super) const DEFAULT_ALIGNMENT: u32 = 32;

pub(super) const MAX_ALIGNMENT: u32 = 1 << 20;

/// `GGML_MAX_DIMS`.
pub(super) const MAX_DIMENSIONS: u32 = 4;

/// Longest tensor name, in bytes; ggml itself stops at 63.
pub(super) const MAX_NAME_BYTES: usize = 1024;
