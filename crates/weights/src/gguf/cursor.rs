//! A bounds-checked reader of little-endian fields.

use super::{Array, Error, Strings, Value};

/// Longest string, in bytes: real files hold chat templates and license texts of some hundred kilobytes.
const MAX_STRING_BYTES: u64 = 64 << 20;
/// The deepest nesting of arrays. Files in use have none; the format allows any depth.
const MAX_ARRAY_DEPTH: u32 = 4;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Error> {
        let ends = || Error::Ends { what, offset: self.at, need: len as u64, have: self.remaining() };
        let end = self.at.checked_add(len).ok_or_else(ends)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(ends)?;
        self.at = end;
        Ok(taken)
    }

    fn array_of<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array_of(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array_of(what)?))
    }

    /// Reads a count of items of at least `least` bytes each; an error if the rest of the file cannot hold them.
    pub(super) fn count(&mut self, least: usize, what: &'static str) -> Result<usize, Error> {
        let offset = self.at;
        let count = self.u64(what)?;
        let need = count.saturating_mul(least as u64);
        if need > self.remaining() as u64 {
            return Err(Error::Ends { what, offset, need, have: self.remaining() });
        }
        usize::try_from(count).map_err(|_| Error::Ends { what, offset, need, have: self.remaining() })
    }

    pub(super) fn string(&mut self, what: &'static str) -> Result<String, Error> {
        self.text(what).map(str::to_owned)
    }

    fn text(&mut self, what: &'static str) -> Result<&'a str, Error> {
        let offset = self.at;
        let len = self.count(1, what)?;
        if len as u64 > MAX_STRING_BYTES {
            return Err(Error::TooMany { what, offset, value: len as u64, limit: MAX_STRING_BYTES });
        }
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| Error::NotUtf8 { what, offset })
    }

    /// The bytes of `count` texts of an array, with their lengths.
    fn texts(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let what = "a string in an array";
        let start = self.at;
        let (mut ends, mut is_long) = (Vec::with_capacity(count), false);
        for _ in 0..count {
            let len = self.count(1, what)?;
            self.take(len, what)?;
            ends.push(self.at);
            is_long |= len as u64 > MAX_STRING_BYTES;
        }
        let bytes = &self.bytes[start..self.at];
        // Checked in one go, which lengths below 128 do not disturb: then each text is one if it ends between characters.
        let whole = std::str::from_utf8(bytes).ok().filter(|_| !is_long);
        if whole.is_none_or(|whole| !ends.iter().all(|end| whole.is_char_boundary(end - start))) {
            self.at = start;
            for _ in 0..count {
                self.text(what)?;
            }
        }
        Ok(bytes)
    }

    pub(super) fn value(&mut self) -> Result<Value, Error> {
        let offset = self.at;
        let what = "a metadata value";
        Ok(match self.u32("a metadata type")? {
            0 => Value::U8(self.array_of::<1>(what)?[0]),
            1 => Value::I8(i8::from_le_bytes(self.array_of(what)?)),
            2 => Value::U16(u16::from_le_bytes(self.array_of(what)?)),
            3 => Value::I16(i16::from_le_bytes(self.array_of(what)?)),
            4 => Value::U32(self.u32(what)?),
            5 => Value::I32(i32::from_le_bytes(self.array_of(what)?)),
            6 => Value::F32(f32::from_le_bytes(self.array_of(what)?)),
            7 => Value::Bool(boolean(self.array_of::<1>(what)?[0], offset)?),
            8 => Value::String(self.string("a metadata string")?),
            9 => Value::Array(self.array(0)?),
            10 => Value::U64(self.u64(what)?),
            11 => Value::I64(i64::from_le_bytes(self.array_of(what)?)),
            12 => Value::F64(f64::from_le_bytes(self.array_of(what)?)),
            id => return Err(Error::ValueType { id, offset }),
        })
    }

    fn numbers<const N: usize, T>(&mut self, read: fn([u8; N]) -> T) -> Result<Vec<T>, Error> {
        let what = "a metadata array";
        let count = self.count(N, what)?;
        // `count` checked that the product is within the file.
        let bytes = self.take(count * N, what)?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect())
    }

    fn array(&mut self, depth: u32) -> Result<Array, Error> {
        let offset = self.at;
        let what = "a metadata array";
        Ok(match self.u32("an array's element type")? {
            0 => Array::U8(self.numbers(|[b]: [u8; 1]| b)?),
            1 => Array::I8(self.numbers(i8::from_le_bytes)?),
            2 => Array::U16(self.numbers(u16::from_le_bytes)?),
            3 => Array::I16(self.numbers(i16::from_le_bytes)?),
            4 => Array::U32(self.numbers(u32::from_le_bytes)?),
            5 => Array::I32(self.numbers(i32::from_le_bytes)?),
            6 => Array::F32(self.numbers(f32::from_le_bytes)?),
            7 => {
                let bytes = self.numbers(|[b]: [u8; 1]| b)?;
                Array::Bool(bytes.into_iter().map(|b| boolean(b, offset)).collect::<Result<_, _>>()?)
            }
            8 => {
                let count = self.count(8, what)?;
                let bytes = self.texts(count)?;
                Array::String(Strings::encoded(bytes, count))
            }
            9 if depth + 1 >= MAX_ARRAY_DEPTH => {
                return Err(Error::TooDeep { offset, limit: MAX_ARRAY_DEPTH });
            }
            9 => {
                let count = self.count(12, what)?;
                Array::Array((0..count).map(|_| self.array(depth + 1)).collect::<Result<_, _>>()?)
            }
            10 => Array::U64(self.numbers(u64::from_le_bytes)?),
            11 => Array::I64(self.numbers(i64::from_le_bytes)?),
            12 => Array::F64(self.numbers(f64::from_le_bytes)?),
            id => return Err(Error::ValueType { id, offset }),
        })
    }
}

fn boolean(byte: u8, offset: usize) -> Result<bool, Error> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::NotABool { value: byte, offset }),
    }
}
