//! Parses safetensors files.
//!
//! The header is read and checked by the `safetensors` crate: its length against the file, the header's UTF-8 and JSON,
//! shapes times element size against the offsets with checked arithmetic, and that the tensors follow one another
//! without a gap or an overlap to the end of the file. This module converts the result to [`TensorRecord`]s.

use std::ops::Range;

use ::safetensors::{Dtype as Stored, SafeTensorError, SafeTensors};
use tensor::Dtype;

use crate::element::Element;

/// Longest tensor name, in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// The most dimensions of a tensor; weights have at most a handful.
const MAX_DIMENSIONS: usize = 8;

/// Why a file is not valid safetensors.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("the file is empty: its download did not end well; fetch it again")]
    Empty,
    #[error("the file has {bytes} bytes; a safetensors file has at least 8")]
    TooShort { bytes: usize },
    #[error(
        "the header is said to take {header} bytes, but {left} follow: the file is cut short, or is none"
    )]
    HeaderLength { header: u64, left: usize },
    #[error("the header is not valid: {0}")]
    Header(SafeTensorError),
    #[error("the file has not as many bytes as its header lists: its download may not have ended")]
    Incomplete,
    #[error("a tensor's name has {bytes} bytes; the limit is {MAX_NAME_BYTES}")]
    Name { bytes: usize },
    #[error("tensor '{name}' has {dimensions} dimensions; the limit is {MAX_DIMENSIONS}")]
    Dimensions { name: String, dimensions: usize },
}

/// The header record of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRecord {
    /// The tensor's name.
    pub name: String,
    /// The element type.
    pub element: Element,
    /// Row-major, outermost dimension first.
    pub shape: Vec<usize>,
    /// The tensor's byte range in the file.
    pub range: Range<usize>,
}

/// Parses the header of a whole file (mapped or read); returns the tensors in the order of their data.
///
/// # Errors
/// Any violation of the format.
pub fn parse(bytes: &[u8]) -> Result<Vec<TensorRecord>, Error> {
    let Some(head) = bytes.first_chunk::<8>() else {
        return Err(if bytes.is_empty() { Error::Empty } else { Error::TooShort { bytes: bytes.len() } });
    };
    // The `safetensors` crate checks this too, but without the numbers.
    let header = u64::from_le_bytes(*head);
    if header > (bytes.len() - 8) as u64 {
        return Err(Error::HeaderLength { header, left: bytes.len() - 8 });
    }
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| match error {
        SafeTensorError::MetadataIncompleteBuffer => Error::Incomplete,
        other => Error::Header(other),
    })?;
    let data_start = 8 + header;
    let mut tensors = Vec::new();
    for name in metadata.offset_keys() {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::Name { bytes: name.len() });
        }
        let Some(info) = metadata.info(&name) else { continue };
        if info.shape.len() > MAX_DIMENSIONS {
            return Err(Error::Dimensions { name, dimensions: info.shape.len() });
        }
        let (start, end) = info.data_offsets;
        tensors.push(TensorRecord {
            name,
            element: element(info.dtype),
            shape: info.shape.clone(),
            range: data_start + start..data_start + end,
        });
    }
    Ok(tensors)
}

fn element(stored: Stored) -> Element {
    match stored {
        Stored::F32 => Element::Weights(Dtype::F32),
        Stored::F16 => Element::Weights(Dtype::F16),
        Stored::BF16 => Element::Weights(Dtype::BF16),
        Stored::BOOL => Element::Other("BOOL"),
        Stored::U8 => Element::Other("U8"),
        Stored::I8 => Element::Other("I8"),
        Stored::I16 => Element::Other("I16"),
        Stored::U16 => Element::Other("U16"),
        Stored::I32 => Element::Other("I32"),
        Stored::U32 => Element::Other("U32"),
        Stored::I64 => Element::Other("I64"),
        Stored::U64 => Element::Other("U64"),
        Stored::F64 => Element::Other("F64"),
        Stored::F8_E5M2 => Element::Other("F8_E5M2"),
        Stored::F8_E4M3 => Element::Other("F8_E4M3"),
        Stored::F8_E8M0 => Element::Other("F8_E8M0"),
        Stored::F8_E4M3FNUZ => Element::Other("F8_E4M3FNUZ"),
        Stored::F8_E5M2FNUZ => Element::Other("F8_E5M2FNUZ"),
        Stored::F6_E2M3 => Element::Other("F6_E2M3"),
        Stored::F6_E3M2 => Element::Other("F6_E3M2"),
        Stored::F4 => Element::Other("F4"),
        Stored::C64 => Element::Other("C64"),
        _ => Element::Other("unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    const GOOD: &str = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}"#;

    #[test]
    fn reads_tensors_in_the_order_of_their_bytes() {
        let bytes = file(GOOD, &[7; 16]);
        let tensors = parse(&bytes).unwrap();
        assert_eq!(tensors[0].name, "a");
        assert_eq!(tensors[0].element, Element::Weights(Dtype::BF16));
        assert_eq!(tensors[0].shape, [2, 2]);
        assert_eq!(tensors[0].range, bytes.len() - 16..bytes.len() - 8);
        assert_eq!(tensors[1].element, Element::Other("I64"));
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = file(GOOD, &[7; 16]);
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn lies_in_the_header_are_refused() {
        let one = |info: &str| file(&format!(r#"{{"a":{info}}}"#), &[0; 16]);
        let bad = [
            // Past the end, short of it, overlapping nothing but leaving a hole, backwards.
            r#"{"dtype":"F32","shape":[4],"data_offsets":[0,17]}"#,
            r#"{"dtype":"F32","shape":[3],"data_offsets":[0,12]}"#,
            r#"{"dtype":"F32","shape":[3],"data_offsets":[4,16]}"#,
            r#"{"dtype":"F32","shape":[4],"data_offsets":[16,0]}"#,
            // A shape that is not the bytes, that overflows, that is negative, fractional or not a shape.
            r#"{"dtype":"F32","shape":[5],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[4.5],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":"4","data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]}"#,
            r#"{"dtype":"Q4_K","shape":[4],"data_offsets":[0,16]}"#,
            r#"{"dtype":"F32","shape":[4],"data_offsets":[0]}"#,
            r#"{"shape":[4],"data_offsets":[0,16]}"#,
            "[]",
            "null",
        ];
        for info in bad {
            assert!(parse(&one(info)).is_err(), "{info}");
        }
        assert!(parse(&one(r#"{"dtype":"F32","shape":[4],"data_offsets":[0,16]}"#)).is_ok());
        let long =
            format!(r#"{{"{}":{{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}}}"#, "x".repeat(2000));
        assert!(matches!(parse(&file(&long, &[0; 16])), Err(Error::Name { bytes: 2000 })));
    }

    #[test]
    fn overlapping_and_repeated_tensors_are_refused() {
        let two = r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}}"#;
        assert!(parse(&file(two, &[0; 16])).is_err());
        let same = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}"#;
        assert!(parse(&file(same, &[0; 16])).is_err());
    }

    #[test]
    fn hostile_headers_are_refused() {
        assert!(matches!(parse(&[]), Err(Error::Empty)));
        assert!(matches!(parse(&[1, 2, 3]), Err(Error::TooShort { bytes: 3 })));
        assert!(matches!(parse(&[0xff; 64]), Err(Error::HeaderLength { .. })));
        assert!(parse(&file("not json", &[])).is_err());
        assert!(parse(&file(&"[".repeat(100_000), &[])).is_err());
        assert!(parse(&file(&"{\"a\":".repeat(100_000), &[])).is_err());
        let mut not_utf8 = file("{}      ", &[]);
        not_utf8[12] = 0xff;
        assert!(parse(&not_utf8).is_err());
        // No tensors at all is a file, if a useless one.
        assert_eq!(parse(&file("{}", &[])).unwrap(), []);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_changed_byte_gives_an_error_or_ranges_in_the_file(at in 0usize..200, value: u8) {
            let mut bytes = file(GOOD, &[7; 16]);
            let at = at % bytes.len();
            bytes[at] = value;
            for tensor in parse(&bytes).unwrap_or_default() {
                proptest::prop_assert!(tensor.range.start <= tensor.range.end && tensor.range.end <= bytes.len());
            }
        }
    }
}
