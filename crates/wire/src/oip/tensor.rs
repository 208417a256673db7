//! Tensors: a name, a datatype, a shape, and the elements in row-major order.

use bytes::Bytes;

use super::Datatype;
use crate::error::{Fault, quote};
use crate::limits;

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The name.
    pub name: String,
    /// The datatype of the elements.
    pub datatype: Datatype,
    /// The length of each dimension, the outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements. Their number and bytes are those of the shape and the datatype.
    pub data: TensorData,
}

/// The elements of a tensor, in row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorData {
    /// Elements of a fixed size, little-endian.
    Raw(Bytes),
    /// Strings of bytes.
    Strings(Vec<Bytes>),
}

/// The elements of a shape.
///
/// # Errors
/// More than [`limits::TENSOR_ELEMENTS`], or more dimensions than [`limits::TENSOR_RANK`]; in words.
pub fn elements(shape: &[usize]) -> Result<usize, String> {
    let (rank, most) = (shape.len(), limits::TENSOR_RANK);
    if rank > most {
        return Err(format!("has {rank} dimensions; at most {most} are allowed"));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1_usize, |all, dimension| all.checked_mul(*dimension));
    match count.filter(|count| *count <= limits::TENSOR_ELEMENTS) {
        Some(count) => Ok(count),
        None => {
            let count = count.map_or_else(|| "more than a word counts".to_owned(), |count| count.to_string());
            Err(format!("has {count} elements; at most {} are allowed", limits::TENSOR_ELEMENTS))
        }
    }
}

/// A shape as messages show it: `[2,3]`.
pub fn show_shape<T: ToString>(shape: &[T]) -> String {
    let dimensions: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dimensions.join(","))
}

impl Tensor {
    /// A tensor of checked elements of a fixed size.
    ///
    /// # Errors
    /// In words: bytes that are not those of the shape and datatype, a shape beyond the limits.
    pub fn raw(
        name: impl Into<String>,
        datatype: Datatype,
        shape: Vec<usize>,
        bytes: Bytes,
    ) -> Result<Tensor, String> {
        let count = elements(&shape)?;
        let size = datatype.size().ok_or("BYTES have no fixed size")?;
        let wanted = count.checked_mul(size).ok_or("more bytes than a word counts")?;
        if bytes.len() != wanted {
            return Err(format!("has {} bytes; {count} elements of {size} take {wanted}", bytes.len()));
        }
        if datatype == Datatype::Bool
            && let Some(at) = bytes.iter().position(|byte| *byte > 1)
        {
            return Err(format!("has the byte {} at element {at}; BOOL is 0 or 1", bytes[at]));
        }
        Ok(Tensor { name: name.into(), datatype, shape, data: TensorData::Raw(bytes) })
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// In words: a number of strings that is not that of the shape.
    pub fn strings(
        name: impl Into<String>,
        shape: Vec<usize>,
        strings: Vec<Bytes>,
    ) -> Result<Tensor, String> {
        let count = elements(&shape)?;
        if strings.len() != count {
            return Err(format!("has {} elements; its shape has {count}", strings.len()));
        }
        Ok(Tensor { name: name.into(), datatype: Datatype::Bytes, shape, data: TensorData::Strings(strings) })
    }

    /// A tensor of 32-bit floats.
    ///
    /// # Errors
    /// As [`Tensor::raw`].
    pub fn floats(name: impl Into<String>, shape: Vec<usize>, values: &[f32]) -> Result<Tensor, String> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::raw(name, Datatype::Fp32, shape, bytes.into())
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        match &self.data {
            TensorData::Raw(bytes) => bytes.len() / self.datatype.size().unwrap_or(1),
            TensorData::Strings(strings) => strings.len(),
        }
    }

    /// Bytes of the elements as they are sent in binary.
    pub fn byte_size(&self) -> usize {
        match &self.data {
            TensorData::Raw(bytes) => bytes.len(),
            TensorData::Strings(strings) => strings.iter().map(|string| 4 + string.len()).sum(),
        }
    }

    /// The tensor as messages name it: `"x" (FP32, shape [2,3])`.
    pub fn described(&self) -> String {
        describe(&self.name, self.datatype, &self.shape)
    }

    /// The elements as integers.
    ///
    /// # Errors
    /// Another datatype than an integer's, or a value above `i64`'s; names the tensor.
    pub fn integers(&self) -> Result<Vec<i64>, Fault> {
        let TensorData::Raw(bytes) = &self.data else { return Err(self.wrong("an integer type")) };
        let all = |read: &dyn Fn(&[u8]) -> i64| {
            bytes.chunks_exact(self.datatype.size().unwrap_or(1)).map(read).collect()
        };
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.try_into().unwrap_or([0; N])
        }
        Ok(match self.datatype {
            Datatype::Uint8 => all(&|b| i64::from(u8::from_le_bytes(array(b)))),
            Datatype::Uint16 => all(&|b| i64::from(u16::from_le_bytes(array(b)))),
            Datatype::Uint32 => all(&|b| i64::from(u32::from_le_bytes(array(b)))),
            Datatype::Int8 => all(&|b| i64::from(i8::from_le_bytes(array(b)))),
            Datatype::Int16 => all(&|b| i64::from(i16::from_le_bytes(array(b)))),
            Datatype::Int32 => all(&|b| i64::from(i32::from_le_bytes(array(b)))),
            Datatype::Int64 => all(&|b| i64::from_le_bytes(array(b))),
            Datatype::Uint64 => all(&|b| i64::try_from(u64::from_le_bytes(array(b))).unwrap_or(i64::MAX)),
            _ => return Err(self.wrong("an integer type")),
        })
    }

    /// The elements as strings of UTF-8.
    ///
    /// # Errors
    /// Another datatype than BYTES, or bytes that are not UTF-8; names the tensor and the element.
    pub fn texts(&self) -> Result<Vec<&str>, Fault> {
        let TensorData::Strings(strings) = &self.data else { return Err(self.wrong("BYTES")) };
        let text = |(at, string): (usize, &Bytes)| match std::str::from_utf8(string) {
            Ok(_) => Ok(at),
            Err(error) => {
                let place = error.valid_up_to();
                let message =
                    format!("{} is not UTF-8: element {at} breaks off after byte {place}", self.described());
                Err(Fault::field(self.name.clone(), message))
            }
        };
        strings.iter().enumerate().try_for_each(|entry| text(entry).map(drop))?;
        Ok(strings.iter().map(|string| std::str::from_utf8(string).unwrap_or_default()).collect())
    }

    fn wrong(&self, expected: &str) -> Fault {
        let message = format!("the input {} must be of {expected}", self.described());
        Fault::field(self.name.clone(), message)
    }
}

/// A tensor as messages name it.
pub(super) fn describe<T: ToString>(name: &str, datatype: Datatype, shape: &[T]) -> String {
    format!("{} ({}, shape {})", quote(name), datatype.name(), show_shape(shape))
}

/// The strings of a binary BYTES tensor: each a length of four bytes, little-endian, and as many bytes.
///
/// # Errors
/// In words: a length that leads out of the bytes, or another number of strings than `count`.
pub(super) fn split_strings(mut bytes: Bytes, count: usize) -> Result<Vec<Bytes>, String> {
    let (whole, most) = (bytes.len(), limits::TENSOR_STRINGS);
    if count > most {
        return Err(format!("has {count} strings; at most {most} are allowed"));
    }
    let mut strings = Vec::with_capacity(count.min(whole / 4));
    while !bytes.is_empty() {
        let at = whole - bytes.len();
        if strings.len() == count {
            return Err(format!("has {whole} bytes; {count} strings end after {at}"));
        }
        let Some((length, _)) = bytes.split_first_chunk::<4>() else {
            return Err(format!(
                "breaks off in the length of string {}, at byte {at} of {whole}",
                strings.len()
            ));
        };
        let length = u32::from_le_bytes(*length) as usize;
        let left = bytes.len() - 4;
        if length > left {
            let number = strings.len();
            return Err(format!("says that string {number} has {length} bytes; {left} are left of {whole}"));
        }
        drop(bytes.split_to(4));
        strings.push(bytes.split_to(length));
    }
    match strings.len() {
        found if found == count => Ok(strings),
        found => Err(format!("has {found} strings in {whole} bytes; its shape has {count}")),
    }
}

/// Appends the elements as they are sent in binary.
pub fn push_binary(out: &mut Vec<u8>, tensor: &Tensor) {
    match &tensor.data {
        TensorData::Raw(bytes) => out.extend_from_slice(bytes),
        TensorData::Strings(strings) => {
            for string in strings {
                // A string is part of a body, which is smaller.
                out.extend_from_slice(&u32::try_from(string.len()).unwrap_or(u32::MAX).to_le_bytes());
                out.extend_from_slice(string);
            }
        }
    }
}

/// The tensor of binary elements, whatever its datatype.
///
/// # Errors
/// In words: bytes that are not those of the shape and datatype.
pub fn from_binary(
    name: impl Into<String>,
    datatype: Datatype,
    shape: Vec<usize>,
    bytes: Bytes,
) -> Result<Tensor, String> {
    if datatype != Datatype::Bytes {
        return Tensor::raw(name, datatype, shape, bytes);
    }
    let count = elements(&shape)?;
    Tensor::strings(name, shape, split_strings(bytes, count)?)
}
