//! Ranges of the bytes of a packed tokenizer.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weights::packed::BundleBytes;

/// The bytes that all tables of a tokenizer lie in.
pub(crate) type TableBytes = Arc<BundleBytes>;

/// Alignment of tables, in bytes.
const ALIGN: usize = 64;

/// A table: a range of the file's data.
#[derive(Clone)]
pub(crate) struct Table {
    bytes: TableBytes,
    range: Range<usize>,
}

/// The place of a table in the file's data, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TablePlace {
    start: usize,
    len: usize,
}

impl Table {
    /// The table at `place`; `None` if it lies outside the data or is not of `len` bytes.
    pub(crate) fn new(bytes: &TableBytes, place: TablePlace, len: usize) -> Option<Table> {
        let range = place.start..place.start.checked_add(place.len)?;
        bytes.get(range.clone()).filter(|table| table.len() == len)?;
        Some(Table { bytes: Arc::clone(bytes), range })
    }

    /// The table at `place`, whatever its length; `None` if it lies outside the data.
    pub(crate) fn any(bytes: &TableBytes, place: TablePlace) -> Option<Table> {
        Table::new(bytes, place, place.len)
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }

    /// The 32-bit number at index `at`.
    pub(crate) fn number(&self, at: usize) -> Option<u32> {
        number(self.bytes(), at)
    }
}

/// The 32-bit number at index `at` of a table's bytes.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let start = at.checked_mul(4)?;
    bytes.get(start..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// Collects the tables of a packed tokenizer.
#[derive(Default)]
pub(crate) struct TableWriter {
    data: Vec<u8>,
}

impl TableWriter {
    /// Appends a table.
    pub(crate) fn put(&mut self, table: &[u8]) -> TablePlace {
        self.data.resize(self.data.len().next_multiple_of(ALIGN), 0);
        let start = self.data.len();
        self.data.extend_from_slice(table);
        TablePlace { start, len: table.len() }
    }

    /// Appends a table of 32-bit numbers.
    pub(crate) fn put_numbers(&mut self, numbers: &[u32]) -> TablePlace {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// All tables.
    pub(crate) fn into_data(self) -> Vec<u8> {
        self.data
    }
}
