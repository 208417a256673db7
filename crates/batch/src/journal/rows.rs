//! What the journal's tables hold.

use crate::fault::Fault;
use crate::report::Tokens;
use crate::request::Key;

/// A line, as it is entered when the input is read.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The line's number among the records, from 0.
    pub(crate) number: u64,
    /// Where it is in the input.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The number of the line of text, from 1.
    pub(crate) at: u64,
    pub(crate) request: Result<Asked, Fault>,
}

/// What a line asks.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) key: Key,
    /// Whether lines with the same key are answered by one request.
    pub(crate) is_repeatable: bool,
    /// Hash of the `custom_id`.
    pub(crate) custom_id: Option<Key>,
}

/// A request that is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) id: i64,
    pub(crate) key: Key,
    pub(crate) copy: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A request that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) id: i64,
    pub(crate) status: Option<u16>,
    /// The body of the answer, also of one that tells an error.
    pub(crate) body: Vec<u8>,
    pub(crate) fault: Option<Fault>,
    pub(crate) tokens: Tokens,
}

/// A line with what became of it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) number: u64,
    /// Why it is no request.
    pub(crate) fault: Option<Fault>,
    pub(crate) answer: Option<Answer>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) key: Key,
    pub(crate) status: Option<u16>,
    pub(crate) body: Vec<u8>,
    pub(crate) fault: Option<Fault>,
}
