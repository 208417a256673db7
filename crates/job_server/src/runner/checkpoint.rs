//! Half an answer, as it is kept: its token ids, and what they depend on.

use jobs::checkpoint::{decode, encode};

use crate::executor::Begun;

/// The bytes of a checkpoint: the fingerprint's length in two bytes, the fingerprint, the token ids.
pub(super) fn pack(fingerprint: &str, tokens: &[u32]) -> Option<Vec<u8>> {
    let length = u16::try_from(fingerprint.len()).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(fingerprint.as_bytes());
    bytes.extend_from_slice(&encode(tokens).ok()?);
    Some(bytes)
}

/// What a checkpoint holds.
pub(super) fn unpack(bytes: &[u8]) -> Option<Begun> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (kept, tokens) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let fingerprint = std::str::from_utf8(kept).ok()?.to_owned();
    Some(Begun { fingerprint, tokens: decode(tokens).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back() {
        let packed = pack("a/avx2", &[1, 300, 70_000]).unwrap();
        let begun = unpack(&packed).unwrap();
        assert_eq!((begun.fingerprint.as_str(), begun.tokens.as_slice()), ("a/avx2", &[1, 300, 70_000][..]));
        for cut in 0..packed.len() {
            let found = unpack(&packed[..cut]).map_or(Vec::new(), |begun| begun.tokens);
            assert!([1, 300, 70_000].starts_with(&found), "{cut}: {found:?}");
        }
    }
}
