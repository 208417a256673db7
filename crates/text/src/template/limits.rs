//! What a template may take, whoever wrote it.

/// Steps of a template; a conversation of a thousand messages takes some two hundred thousand.
pub(super) const FUEL: u64 = 1_500_000;

/// Bytes that a template may write.
pub(super) const MAX_OUTPUT: usize = 64 << 20;

/// Bytes of a template; the longest in use has 40 thousand.
pub(super) const MAX_SOURCE: usize = 128 << 10;
