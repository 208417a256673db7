//! The tables of a packed tokenizer, read in place from the bytes of a file.
//!
//! The bytes are untrusted: every read is checked against them, every walk ends with its text, and an id that is not in
//! the vocabulary is none.

mod bytes;
mod merges;
mod spans;
mod trie;

pub(crate) use bytes::{Table, TableBytes, TablePlace, TableWriter};
pub(crate) use merges::{Merge, MergePlace, MergeTable, merge_table};
pub(crate) use spans::{SpanPlaces, Spans};
pub(crate) use trie::{Trie, TrieTables};
