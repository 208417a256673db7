//! GGUF, versions 2 and 3, little endian.
//!
//! The layout: magic, version, counts; key/value metadata; one record a tensor (name, dimensions, type, offset); the
//! data, each tensor aligned. Source: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. The file is
//! untrusted, so nothing is allocated for a count that the rest of the file could not hold, and every tensor's bytes
//! are checked to lie in the data section, aligned and apart from the others.

mod cursor;
mod error;
mod limits;
mod strings;
#[cfg(test)]
mod tests;
mod value;
mod write;

use std::collections::HashSet;
use std::ops::Range;

use tensor::Dtype;

use crate::element::Element;
use cursor::Cursor;
pub use error::Error;
use limits::{DEFAULT_ALIGNMENT, MAGIC, MAX_ALIGNMENT, MAX_DIMENSIONS, MAX_NAME_BYTES};
pub use strings::Strings;
pub use value::{Array, Metadata, Value};
pub use write::write;

/// The header record of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRecord {
    /// The tensor's name.
    pub name: String,
    /// The element type.
    pub element: Element,
    /// Row-major, outermost dimension first (GGUF files store the innermost first).
    pub shape: Vec<usize>,
    /// The tensor's byte range in the file.
    pub range: Range<usize>,
}

/// A parsed GGUF file: everything but the weights themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    /// The GGUF version, 2 or 3.
    pub version: u32,
    /// The key/value section.
    pub metadata: Metadata,
    /// The tensors, in file order.
    pub tensors: Vec<TensorRecord>,
    /// Alignment of tensor data, in bytes.
    pub alignment: u32,
    /// Offset of the data section in the file, in bytes.
    pub data_start: usize,
}

/// Whether `bytes` start with the GGUF magic.
pub fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Parses a whole file (mapped or read). Nothing is read from the data section.
///
/// # Errors
/// Any violation of the format, with its byte offset.
pub fn parse(bytes: &[u8]) -> Result<Gguf, Error> {
    let mut cursor = Cursor::new(bytes);
    let version = header(&mut cursor)?;
    // A tensor record takes at least a name's length, a dimension count, a type and an offset.
    let tensor_count = cursor.count(8 + 4 + 4 + 8, "the tensor count")?;
    // An entry takes at least a key's length, a type and a byte.
    let entry_count = cursor.count(8 + 4 + 1, "the metadata count")?;
    let metadata = entries(&mut cursor, entry_count)?;
    let alignment = alignment(&metadata)?;
    let mut raw = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensor_count {
        let record = RawRecord::read(&mut cursor)?;
        if !names.insert(record.name.clone()) {
            return Err(Error::DuplicateTensor { name: record.name });
        }
        raw.push(record);
    }
    // A file with metadata only may end before the padding.
    let data_start = cursor.at.next_multiple_of(alignment as usize).min(bytes.len());
    let tensors = raw
        .into_iter()
        .map(|record| record.place(alignment, data_start, bytes.len()))
        .collect::<Result<Vec<_>, _>>()?;
    check_disjoint(&tensors)?;
    Ok(Gguf { version, metadata, tensors, alignment, data_start })
}

fn header(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    if cursor.remaining() == 0 {
        return Err(Error::Empty);
    }
    let magic = cursor.take(cursor.remaining().min(4), "the magic")?;
    if magic != MAGIC {
        return Err(Error::Magic { found: magic.to_vec() });
    }
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => Ok(version),
        v if (1..=3).contains(&v.swap_bytes()) => Err(Error::BigEndian { version }),
        _ => Err(Error::Version { version }),
    }
}

fn entries(cursor: &mut Cursor<'_>, count: usize) -> Result<Metadata, Error> {
    let mut metadata = Metadata::default();
    for _ in 0..count {
        let offset = cursor.at;
        let key = cursor.string("a metadata key")?;
        if key.is_empty() {
            return Err(Error::EmptyKey { offset });
        }
        let value = cursor.value()?;
        if !metadata.insert(key.clone(), value) {
            return Err(Error::DuplicateKey { key });
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &Metadata) -> Result<u32, Error> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(a)) if a.is_power_of_two() && *a <= MAX_ALIGNMENT => Ok(*a),
        Some(other) => Err(Error::Alignment { value: format!("of type {}", other.type_name()) }),
    }
}

/// A tensor's record as read from the file, before its offset is checked.
struct RawRecord {
    name: String,
    dimensions: Vec<u64>,
    type_id: u32,
    offset: u64,
}

impl RawRecord {
    fn read(cursor: &mut Cursor<'_>) -> Result<RawRecord, Error> {
        let at = cursor.at;
        let name = cursor.string("a tensor name")?;
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let (value, limit) = (name.len() as u64, MAX_NAME_BYTES as u64);
            return Err(Error::TooMany { what: "a tensor name", offset: at, value, limit });
        }
        let count = cursor.u32("a dimension count")?;
        if count > MAX_DIMENSIONS {
            return Err(Error::Dimensions { name, dimensions: count });
        }
        let dimensions = (0..count).map(|_| cursor.u64("a dimension")).collect::<Result<Vec<_>, _>>()?;
        let type_id = cursor.u32("a tensor type")?;
        let offset = cursor.u64("a tensor offset")?;
        Ok(RawRecord { name, dimensions, type_id, offset })
    }

    /// The element type of the tensor, and its size in bytes.
    fn measure(&self) -> Result<(Element, u64), Error> {
        let shape =
            |problem| Error::Shape { name: self.name.clone(), shape: self.dimensions.clone(), problem };
        if self.dimensions.contains(&0) {
            return Err(shape("a dimension is zero"));
        }
        let overflow = || shape("its size overflows");
        let cols = self.dimensions.first().copied().unwrap_or(1);
        let rows =
            self.dimensions.iter().skip(1).try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(overflow)?;
        let (element, block, block_bytes) = element(self.type_id).ok_or_else(|| Error::Unsupported {
            name: self.name.clone(),
            type_name: type_name(self.type_id),
        })?;
        if !cols.is_multiple_of(block as u64) {
            return Err(Error::Blocks { name: self.name.clone(), type_name: element.name(), cols, block });
        }
        let row_bytes = (cols / block as u64).checked_mul(block_bytes as u64).ok_or_else(overflow)?;
        Ok((element, row_bytes.checked_mul(rows).ok_or_else(overflow)?))
    }

    fn place(self, alignment: u32, data_start: usize, file_bytes: usize) -> Result<TensorRecord, Error> {
        let (element, bytes) = self.measure()?;
        if !self.offset.is_multiple_of(u64::from(alignment)) {
            return Err(Error::Misaligned { name: self.name, offset: self.offset, alignment });
        }
        let data_bytes = (file_bytes - data_start) as u64;
        let end = self.offset.checked_add(bytes).filter(|&end| end <= data_bytes);
        let Some(end) = end else {
            return Err(Error::OutOfFile { name: self.name, offset: self.offset, bytes, data_bytes });
        };
        // Both offsets are within the mapped file, so they fit a usize. So does each dimension: it is at most the byte
        // count times the weights in a byte.
        let range = data_start + self.offset as usize..data_start + end as usize;
        let shape = self.dimensions.iter().rev().map(|&d| d as usize).collect();
        Ok(TensorRecord { name: self.name, element, shape, range })
    }
}

/// Refuses tensors whose byte ranges overlap.
fn check_disjoint(tensors: &[TensorRecord]) -> Result<(), Error> {
    let mut order: Vec<&TensorRecord> = tensors.iter().collect();
    order.sort_by_key(|t| t.range.start);
    for pair in order.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            return Err(Error::Overlap { first: pair[0].name.clone(), second: pair[1].name.clone() });
        }
    }
    Ok(())
}

/// The element type of a ggml type id, with the weights and bytes of a block.
fn element(id: u32) -> Option<(Element, usize, usize)> {
    if let Some(dtype) = Dtype::from_ggml(id) {
        return Some((Element::Weights(dtype), dtype.block_weights(), dtype.block_bytes()));
    }
    let (name, bytes) = match id {
        24 => ("I8", 1),
        25 => ("I16", 2),
        26 => ("I32", 4),
        27 => ("I64", 8),
        28 => ("F64", 8),
        _ => return None,
    };
    Some((Element::Other(name), 1, bytes))
}

/// The name of an unsupported ggml type for messages; from `enum ggml_type`.
fn type_name(id: u32) -> String {
    const NAMES: [(u32, &str); 6] = [
        (9, "Q8_1"),
        (15, "Q8_K"),
        (41, "Q1_0"),
        (42, "Q2_0"),
        (4, "Q4_2 (withdrawn)"),
        (5, "Q4_3 (withdrawn)"),
    ];
    match NAMES.iter().find(|(n, _)| *n == id) {
        Some((_, name)) => format!("{name} (ggml type {id})"),
        None => format!("ggml type {id}"),
    }
}

/// The position of a file in a split model (`llama-gguf-split`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Index of this file, from 0.
    pub number: usize,
    /// Number of files, at least 2.
    pub count: usize,
    /// Number of tensors in all files together.
    pub tensors: usize,
}

impl Gguf {
    /// The position of this file if it is part of a split model.
    ///
    /// # Errors
    /// Split keys that contradict themselves.
    pub fn split(&self) -> Result<Option<Split>, Error> {
        /// Models are split into a few dozen files; their names have room for five digits.
        const MAX_PARTS: usize = 4096;
        let read = |key: &'static str| match self.metadata.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|v| usize::try_from(v).ok()) {
                Some(v) => Ok(Some(v)),
                None => Err(Error::Split {
                    key,
                    value: value.type_name().to_owned(),
                    problem: "not a count".to_owned(),
                }),
            },
        };
        let Some(count) = read("split.count")?.filter(|&n| n > 1) else {
            return Ok(None);
        };
        let bad =
            |key, value: usize, problem: String| Error::Split { key, value: value.to_string(), problem };
        if count > MAX_PARTS {
            return Err(bad("split.count", count, format!("the limit is {MAX_PARTS}")));
        }
        let missing = |key| Error::Split {
            key,
            value: "missing".to_owned(),
            problem: format!("split.count is {count}"),
        };
        let number = read("split.no")?.ok_or_else(|| missing("split.no"))?;
        if number >= count {
            return Err(bad("split.no", number, format!("split.count is {count}")));
        }
        let tensors = read("split.tensors.count")?.ok_or_else(|| missing("split.tensors.count"))?;
        Ok(Some(Split { number, count, tensors }))
    }
}
