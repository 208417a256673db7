//! The audit chain: one line of JSON for each decision, never a text, chained by hashes so that later changes show.
//!
//! A line's hash is SHA-256 over the hash of the line before and the line itself up to its hash. Whoever changes, removes
//! or reorders lines must compute all later hashes anew, and then the last one differs from a head that was kept
//! elsewhere. The hash has no key: without such a head, a chain that was written anew as a whole is not found out.

mod chain;
mod line;
mod log;
mod verify;

pub use chain::{Chain, ChainOptions};
pub use line::{AuditError, Entry, Head, MAX_LINE_BYTES, Tried};
pub use log::{AuditLog, AuditStats};
pub use verify::{Broken, Summary, verify, verify_bytes};
