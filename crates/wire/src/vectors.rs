//! Vectors as answers carry them: JSON numbers, base64, and Cohere's small integers and bits.
//!
//! An answer may have millions of numbers, so they are written into the answer's bytes directly.

use crate::error::Fault;

/// Base64's alphabet (RFC 4648, section 4).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// How a vector is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VectorFormat {
    /// JSON numbers.
    #[default]
    Float,
    /// Base64 of little-endian `f32`.
    Base64,
    /// [`int8`].
    Int8,
    /// [`uint8`].
    Uint8,
    /// [`binary`].
    Binary,
    /// [`ubinary`].
    Ubinary,
}

impl VectorFormat {
    /// All of them, with their names.
    pub const ALL: [(&'static str, VectorFormat); 6] = [
        ("float", VectorFormat::Float),
        ("base64", VectorFormat::Base64),
        ("int8", VectorFormat::Int8),
        ("uint8", VectorFormat::Uint8),
        ("binary", VectorFormat::Binary),
        ("ubinary", VectorFormat::Ubinary),
    ];

    /// Appends a vector as JSON.
    pub fn push(self, out: &mut Vec<u8>, values: &[f32]) {
        match self {
            VectorFormat::Float => push_floats(out, values),
            VectorFormat::Base64 => push_base64(out, values),
            VectorFormat::Int8 => push_json(out, &int8(values)),
            VectorFormat::Uint8 => push_json(out, &uint8(values)),
            VectorFormat::Binary => push_json(out, &binary(values)),
            VectorFormat::Ubinary => push_json(out, &ubinary(values)),
        }
    }
}

/// Refuses an answer whose vectors have more numbers than `limit`.
///
/// # Errors
/// Names the numbers and the limit.
pub fn check_numbers(numbers: usize, limit: usize) -> Result<(), Fault> {
    if numbers <= limit {
        return Ok(());
    }
    let message = format!(
        "the answer's vectors have {numbers} numbers; at most {limit} are allowed: send fewer inputs"
    );
    Err(Fault { code: Some("answer_too_large"), ..Fault::body(message) })
}

/// Appends a JSON array whose entries are written by `push`.
pub fn push_list<T>(
    out: &mut Vec<u8>,
    entries: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, entry) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(out, entry);
    }
    out.push(b']');
}

/// Appends a JSON array of the numbers, each in the fewest digits that give the same `f32` back.
pub fn push_floats(out: &mut Vec<u8>, values: &[f32]) {
    out.reserve(values.len() * 12 + 2);
    push_json(out, values);
}

/// Appends a value as JSON.
pub fn push_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing into memory does not fail, nor do numbers and strings.
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Appends a JSON string of the base64 of the numbers as little-endian `f32`.
pub fn push_base64(out: &mut Vec<u8>, values: &[f32]) {
    out.reserve((values.len() * 4).div_ceil(3) * 4 + 2);
    out.push(b'"');
    // Three numbers are twelve bytes: four groups without a remainder.
    let mut bytes = [0_u8; 12];
    for chunk in values.chunks(3) {
        let used = chunk.len() * 4;
        for (place, value) in bytes.chunks_exact_mut(4).zip(chunk) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes[..used].chunks(3).for_each(|group| push_group(out, group));
    }
    out.push(b'"');
}

/// Appends one to three bytes as four characters.
fn push_group(out: &mut Vec<u8>, group: &[u8]) {
    let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for at in 0..4 {
        let sextet = (bits >> (18 - 6 * at)) as usize & 63;
        out.push(if at <= group.len() { ALPHABET[sextet] } else { b'=' });
    }
}

/// The vector as integers of -127 to 127: each number times 127 over the largest magnitude, rounded. Cosines of such
/// vectors are those of the originals up to rounding.
pub fn int8(values: &[f32]) -> Vec<i8> {
    let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "within ±127, and NaN becomes 0")]
    let quantized = |value: &f32| (value * scale).round() as i8;
    values.iter().map(quantized).collect()
}

/// [`int8`] plus 128.
pub fn uint8(values: &[f32]) -> Vec<u8> {
    int8(values).into_iter().map(|value| value.cast_unsigned() ^ 0x80).collect()
}

/// A bit for each number, 1 for positive ones, the first in the highest bit of the first byte; the last byte is filled
/// with zeros.
pub fn ubinary(values: &[f32]) -> Vec<u8> {
    let byte = |chunk: &[f32]| {
        chunk.iter().zip(0..8).fold(0, |byte, (value, at)| byte | u8::from(*value > 0.0) << (7 - at))
    };
    values.chunks(8).map(byte).collect()
}

/// [`ubinary`] minus 128.
pub fn binary(values: &[f32]) -> Vec<i8> {
    ubinary(values).into_iter().map(|byte| (byte ^ 0x80).cast_signed()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(values: &[f32]) -> String {
        let mut out = Vec::new();
        push_base64(&mut out, values);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn base64_is_that_of_python() {
        // base64.b64encode(struct.pack("<Nf", …))
        assert_eq!(base64(&[]), "\"\"");
        assert_eq!(base64(&[1.0]), "\"AACAPw==\"");
        assert_eq!(base64(&[1.0, -2.5]), "\"AACAPwAAIMA=\"");
        assert_eq!(base64(&[1.0, -2.5, 0.1]), "\"AACAPwAAIMDNzMw9\"");
        assert_eq!(base64(&[1.0, -2.5, 0.1, 3.25]), "\"AACAPwAAIMDNzMw9AABQQA==\"");
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        let values = [0.1_f32, -1.0e-8, 3.402_823_5e38, 0.0, -0.0, 1.0, 0.333_333_34, f32::MIN_POSITIVE];
        let mut out = Vec::new();
        push_floats(&mut out, &values);
        let read: Vec<f32> = serde_json::from_slice(&out).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(&values));
        assert!(out.starts_with(b"[0.1,"), "{}", String::from_utf8_lossy(&out));
        out.clear();
        push_floats(&mut out, &[f32::NAN]);
        assert_eq!(out, b"[null]");
    }

    #[test]
    fn an_answer_of_too_many_numbers_is_refused() {
        assert!(check_numbers(7, 7).is_ok());
        let fault = check_numbers(8, 7).unwrap_err();
        assert_eq!((fault.status, fault.code), (400, Some("answer_too_large")));
    }

    #[test]
    fn small_types_are_those_of_numpy() {
        let values = [0.5, -1.0, 0.25, 0.0, 1.0, -0.1, 0.0, 0.3, 0.7];
        assert_eq!(int8(&values), [64, -127, 32, 0, 127, -13, 0, 38, 89]);
        assert_eq!(uint8(&values), [192, 1, 160, 128, 255, 115, 128, 166, 217]);
        // np.packbits(np.array(values) > 0)
        assert_eq!(ubinary(&values), [0b1010_1001, 0b1000_0000]);
        assert_eq!(binary(&values), [41, 0]);
        assert_eq!(int8(&[0.0, 0.0]), [0, 0]);
        assert_eq!(int8(&[f32::NAN, 1.0]), [0, 127]);
    }
}
