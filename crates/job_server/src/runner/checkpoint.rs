//! Half an answer, as it is kept: its token ids, and what they depend on.

use jobs::checkpoint::{decode, encode};

/// The bytes of a checkpoint: the fingerprint's length in two bytes, the fingerprint, the token ids.
pub(super) fn pack(fingerprint: &str, tokens: &[u32]) -> Option<Vec<u8>> {
    let length = u16::try_from(fingerprint.len()).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(fingerprint.as_bytes());
    bytes.extend_from_slice(&encode(tokens).ok()?);
    Some(bytes)
}

/// The token ids of a checkpoint, if they were made where this fingerprint holds.
pub(super) fn unpack(bytes: &[u8], fingerprint: &str) -> Option<Vec<u32>> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (kept, tokens) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    if kept != fingerprint.as_bytes() {
        return None;
    }
    decode(tokens).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_only_where_they_were_made() {
        let packed = pack("a/avx2", &[1, 300, 70_000]).unwrap();
        assert_eq!(unpack(&packed, "a/avx2"), Some(vec![1, 300, 70_000]));
        assert_eq!(unpack(&packed, "a/amx"), None);
        for cut in 0..packed.len() {
            let found = unpack(&packed[..cut], "a/avx2").unwrap_or_default();
            assert!([1, 300, 70_000].starts_with(&found), "{cut}: {found:?}");
        }
    }
}
