//! The manifest: what was asked, of whom, and what came of it.

use crate::error::Error;
use crate::hashing::Digested;
use crate::journal::header::Header;
use crate::output::whole::Whole;
use crate::report::{Counts, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The largest manifest that is read.
const LARGEST: u64 = 64 << 20;

/// What is told of a run beside its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the program.
    pub(crate) gristmill: String,
    /// What tells the run from others.
    pub(crate) run: Header,
    /// How the output is written.
    pub(crate) form: Value,
    pub(crate) input: Digested,
    pub(crate) output: Digested,
    pub(crate) errors: Option<Digested>,
    pub(crate) counts: Counts,
    pub(crate) failed_lines: u64,
    pub(crate) usage: Tokens,
    /// What was spent, in millionths of the currency of the prices.
    pub(crate) cost_micros: Option<u64>,
    /// How requests without a seed got theirs.
    pub(crate) seed: String,
}

/// How requests without a seed get theirs.
pub(crate) const SEED_RULE: &str =
    "53 bits of SHA-256 of path and body with sorted fields; of the n-th copy, with n";

impl Manifest {
    /// Writes it: whole, or not at all.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::Internal(error.to_string()))?;
        let mut whole = Whole::create(path)?;
        whole.write_all(&text).and_then(|()| whole.write_all(b"\n")).map_err(Error::io("write", path))?;
        whole.finish().map(drop)
    }

    /// Reads it; `None` if there is none that can be read.
    pub(crate) fn read(path: &Path) -> Option<Manifest> {
        let mut text = Vec::new();
        File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}
