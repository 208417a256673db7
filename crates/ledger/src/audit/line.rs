//! Lines of the audit chain: what they hold, how they are written, and how one is checked.

use crate::amount::Amount;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Length limit of a line, in bytes. Lines that are written are far below it.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Length limit of a text in an entry, in bytes; longer ones are cut.
const MAX_TEXT_BYTES: usize = 256;

/// The most upstreams of an entry.
const MAX_TRIED: usize = 8;

/// The hash before the first line.
pub(crate) const FIRST: [u8; 32] = [0; 32];

/// Between a line's content and its hash.
const HASH_FIELD: &[u8] = b",\"hash\":\"";

/// What stands between the content and the end of a line: the field, 64 digits and `"}`.
const TAIL: usize = HASH_FIELD.len() + 64 + 2;

/// An upstream that a request was sent to, or was not, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The upstream's name in the configuration.
    pub upstream: String,
    /// `first`, `retry after 503`, `label forbids it`, …
    pub reason: String,
}

/// What was decided for a request, without a word of what was asked or answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When the request ended, in Unix seconds.
    pub time: i64,
    /// The request's id.
    pub request: String,
    /// The API key's name, never the key.
    pub key: String,
    /// The data label.
    pub label: String,
    /// What was decided: `sent`, `refused: budget`, `cache`, …
    pub decision: String,
    /// The upstreams, in their order; at most eight are kept.
    pub upstreams: Vec<Tried>,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// What it cost, in nano units.
    pub cost: Amount,
}

impl Entry {
    /// Cuts texts and lists to their bounds.
    pub(crate) fn bound(&mut self) {
        self.upstreams.truncate(MAX_TRIED);
        let tried = self.upstreams.iter_mut().flat_map(|tried| [&mut tried.upstream, &mut tried.reason]);
        let own = [&mut self.request, &mut self.key, &mut self.label, &mut self.decision];
        for text in own.into_iter().chain(tried) {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        }
    }
}

/// What a line says, besides its place in the chain.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Record {
    /// A decision.
    Request(Entry),
    /// A file begins, after another.
    File { time: i64, previous: Option<String> },
    /// A file ends.
    Next { time: i64, next: String },
    /// A process begins to write. What the one before left unfinished is kept in `torn_file`.
    Start { time: i64, torn_bytes: u64, torn_file: Option<String> },
    /// Entries that there was no room for.
    Gap { time: i64, lost: u64 },
}

/// The last line of a chain: kept elsewhere, it shows that lines were cut off at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The line's number.
    pub seq: u64,
    /// The line's hash.
    pub hash: [u8; 32],
}

impl Head {
    /// The head before the first line.
    pub(crate) const START: Head = Head { seq: 0, hash: FIRST };

    /// Reads `SEQ:HASH`.
    pub fn parse(text: &str) -> Option<Head> {
        let (seq, hash) = text.trim().split_once(':')?;
        Some(Head { seq: seq.parse().ok()?, hash: from_hex(hash.as_bytes())? })
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seq, hex(&self.hash))
    }
}

/// A failed call on audit files.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Another process writes to the folder.
    #[error("{}: another process writes this audit chain", .0.display())]
    Busy(PathBuf),
    /// The last line is whole, and is not what was written.
    #[error("{}: {reason}; move the files of this chain away to begin a new one", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl AuditError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> AuditError + '_ {
        move |error| AuditError::Io { path: path.to_owned(), error }
    }
}

/// Writes a record as the line after `head`, and moves the head to it.
pub(crate) fn write_line(record: &Record, head: &mut Head, out: &mut Vec<u8>) {
    let body = serde_json::to_string(record).unwrap_or_else(|_| "{\"kind\":\"gap\",\"lost\":1}".to_owned());
    let seq = head.seq + 1;
    let mut line = format!("{{\"seq\":{seq},{}", &body[1..body.len() - 1]);
    let _ = write!(line, ",\"prev\":\"{}\"", hex(&head.hash));
    let hash = hash_of(&head.hash, line.as_bytes());
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(HASH_FIELD);
    out.extend_from_slice(hex(&hash).as_bytes());
    out.extend_from_slice(b"\"}\n");
    *head = Head { seq, hash };
}

/// SHA-256 over the hash before and the line's content with its closing brace.
fn hash_of(previous: &[u8; 32], content: &[u8]) -> [u8; 32] {
    let mut sha = Sha256::new();
    sha.update(previous);
    sha.update(content);
    sha.update(b"}");
    sha.finalize().into()
}

/// What a line says of its place.
#[derive(Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) prev: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) lost: u64,
    #[serde(default)]
    pub(crate) torn_bytes: u64,
}

/// A line that agrees with its own hash.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) place: Place,
    pub(crate) previous: [u8; 32],
    pub(crate) hash: [u8; 32],
}

/// Checks a line without its end of line: its form, and its hash by the previous hash that it names.
pub(crate) fn check_line(line: &[u8]) -> Result<Checked, &'static str> {
    let at = line.len().checked_sub(TAIL).ok_or("the line is too short")?;
    let (content, tail) = line.split_at(at);
    let digits = tail.strip_prefix(HASH_FIELD).and_then(|rest| rest.strip_suffix(b"\"}"));
    let hash = digits.and_then(from_hex).ok_or("the line does not end with its hash")?;
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let place: Place = serde_json::from_str(text).map_err(|_| "the line is not a line of an audit chain")?;
    let previous = from_hex(place.prev.as_bytes()).ok_or("`prev` is not a hash")?;
    if hash_of(&previous, content) != hash {
        return Err("the line was changed: its hash is another");
    }
    Ok(Checked { place, previous, hash })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
