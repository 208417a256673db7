//! A list of byte strings: all of them after one another, and where each begins.

use serde::{Deserialize, Serialize};

use super::bytes::{Table, TableBytes, TablePlace, TableWriter, number};

/// Byte strings, in memory or in a packed tokenizer.
pub(crate) enum Spans {
    /// In memory; the starts are `[count + 1]`.
    Owned { bytes: Vec<u8>, starts: Vec<u32> },
    /// In a packed tokenizer.
    Packed { bytes: Table, starts: Table },
}

/// The places of the two tables of [`Spans`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SpanPlaces {
    bytes: TablePlace,
    starts: TablePlace,
}

impl Spans {
    /// The strings of a packed tokenizer; `None` if they are not `count` or not in the file.
    pub(crate) fn open(bytes: &TableBytes, places: &SpanPlaces, count: usize) -> Option<Spans> {
        let starts = Table::new(bytes, places.starts, count.checked_add(1)?.checked_mul(4)?)?;
        Some(Spans::Packed { bytes: Table::any(bytes, places.bytes)?, starts })
    }

    /// The string at an index.
    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let (bytes, start, end) = match self {
            Spans::Owned { bytes, starts } => (&bytes[..], *starts.get(at)?, *starts.get(at + 1)?),
            Spans::Packed { bytes, starts } => {
                let starts = starts.bytes();
                (bytes.bytes(), number(starts, at)?, number(starts, at + 1)?)
            }
        };
        bytes.get(start as usize..end as usize)
    }

    /// Writes `count` strings; `None` if they have more than 4 GiB.
    pub(crate) fn write<'a>(
        strings: impl Iterator<Item = &'a [u8]>,
        out: &mut TableWriter,
    ) -> Option<SpanPlaces> {
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        for string in strings {
            bytes.extend_from_slice(string);
            starts.push(u32::try_from(bytes.len()).ok()?);
        }
        Some(SpanPlaces { bytes: out.put(&bytes), starts: out.put_numbers(&starts) })
    }
}
