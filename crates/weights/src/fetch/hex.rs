//! Hexadecimal digests.

/// The bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether `text` is 64 lower-case hex digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digests_are_told_from_other_text() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        assert!(is_sha256(&"0a".repeat(32)));
        for text in ["", "zz", &"0A".repeat(32), &"a".repeat(63)] {
            assert!(!is_sha256(text));
        }
    }
}
