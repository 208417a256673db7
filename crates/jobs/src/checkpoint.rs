//! Token ids of an unfinished answer as bytes: a version, and each id as a LEB128 number.

/// At most so many tokens are kept.
pub const MAX_TOKENS: usize = 1 << 20;

/// The first byte.
const VERSION: u8 = 1;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// There are too many tokens.
    #[error("a checkpoint has at most {MAX_TOKENS} tokens")]
    TooMany,
    /// The bytes are of another version.
    #[error("the checkpoint's version is {0}; this program knows {VERSION}")]
    Version(u8),
    /// The bytes are no checkpoint.
    #[error("the checkpoint is damaged at byte {0}")]
    Damaged(usize),
}

/// The bytes of a checkpoint.
///
/// # Errors
/// [`CheckpointError::TooMany`].
pub fn encode(tokens: &[u32]) -> Result<Vec<u8>, CheckpointError> {
    if tokens.len() > MAX_TOKENS {
        return Err(CheckpointError::TooMany);
    }
    let mut bytes = Vec::with_capacity(1 + 3 * tokens.len());
    bytes.push(VERSION);
    for token in tokens {
        let mut rest = *token;
        while rest >= 0x80 {
            bytes.push((rest & 0x7F) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    Ok(bytes)
}

/// The tokens of a checkpoint.
///
/// # Errors
/// [`CheckpointError`]: bytes that [`encode`] does not write are refused.
pub fn decode(bytes: &[u8]) -> Result<Vec<u32>, CheckpointError> {
    let (version, rest) = bytes.split_first().ok_or(CheckpointError::Damaged(0))?;
    if *version != VERSION {
        return Err(CheckpointError::Version(*version));
    }
    let mut tokens = Vec::new();
    let mut token: u32 = 0;
    let mut shift: u32 = 0;
    for (at, byte) in rest.iter().enumerate() {
        let bits = u32::from(byte & 0x7F);
        let placed = bits << shift;
        let is_last = byte & 0x80 == 0;
        // Bits beyond the 32nd, and a last byte that adds nothing.
        if placed >> shift != bits || (is_last && bits == 0 && shift > 0) {
            return Err(CheckpointError::Damaged(at + 1));
        }
        token |= placed;
        shift += 7;
        if is_last {
            if tokens.len() == MAX_TOKENS {
                return Err(CheckpointError::TooMany);
            }
            tokens.push(token);
            (token, shift) = (0, 0);
        } else if shift > 28 {
            return Err(CheckpointError::Damaged(at + 1));
        }
    }
    if shift == 0 { Ok(tokens) } else { Err(CheckpointError::Damaged(bytes.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_leb128() {
        // 624485 is the example of the DWARF standard and of LEB128's descriptions: E5 8E 26.
        assert_eq!(encode(&[624_485, 0, 127, 128]).unwrap(), [1, 0xE5, 0x8E, 0x26, 0, 0x7F, 0x80, 1]);
        assert_eq!(encode(&[u32::MAX]).unwrap(), [1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
        assert_eq!(decode(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), Ok(vec![u32::MAX]));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        assert_eq!(decode(&[]), Err(CheckpointError::Damaged(0)));
        assert_eq!(decode(&[2, 5]), Err(CheckpointError::Version(2)));
        // Cut inside a number, a number of more than 32 bits, one of more than 5 bytes, one with a needless byte.
        assert_eq!(decode(&[1, 0xE5, 0x8E]), Err(CheckpointError::Damaged(3)));
        assert_eq!(decode(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F]), Err(CheckpointError::Damaged(5)));
        assert_eq!(decode(&[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0]), Err(CheckpointError::Damaged(5)));
        assert_eq!(decode(&[1, 0xE5, 0x00]), Err(CheckpointError::Damaged(2)));
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        assert_eq!(encode(&vec![7; MAX_TOKENS + 1]), Err(CheckpointError::TooMany));
        let mut bytes = encode(&vec![7; MAX_TOKENS]).unwrap();
        assert_eq!(decode(&bytes).unwrap().len(), MAX_TOKENS);
        bytes.push(7);
        assert_eq!(decode(&bytes), Err(CheckpointError::TooMany));
    }

    proptest! {
        #[test]
        fn tokens_come_back(tokens in proptest::collection::vec(any::<u32>(), 0..200)) {
            prop_assert_eq!(decode(&encode(&tokens).unwrap()), Ok(tokens));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(tokens) = decode(&bytes) {
                prop_assert_eq!(encode(&tokens).unwrap(), bytes);
            }
        }
    }
}
