//! Limits of templates, which are untrusted.

/// The most interpreter steps of a run; a conversation of a thousand messages takes about two hundred thousand.
pub(super) const FUEL: u64 = 1_500_000;

/// The most bytes of output.
pub(super) const MAX_OUTPUT: usize = 64 << 20;

/// The longest template, in bytes; the longest in use has 40 thousand.
pub(super) const MAX_SOURCE: usize = 128 << 10;
