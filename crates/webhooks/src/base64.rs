//! Base 64 of RFC 4648, section 4.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            if digit <= group.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes of a text. Padding may be left out, but not be wrong; bits that mean nothing must be 0, so that bytes have
/// one text only.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.as_bytes().chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            bits = bits << 6 | group.get(at).map_or(Some(0), |&digit| value(digit))?;
        }
        let [_, whole @ ..] = bits.to_be_bytes();
        let length = group.len() - 1;
        if whole[length..].iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&whole[..length]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_rfc() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in vectors {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
            assert_eq!(decode(text.trim_end_matches('=')).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode("+/+/").unwrap(), [0xfb, 0xff, 0xbf]);
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in
            ["Z", "Zg=", "Zg===", "Z===", "Zm9v=", "Zh==", "Zm9=", "Z m9", "Zm-v", "Zm_v", "=", "====", "é"]
        {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_come_back(bytes: Vec<u8>) {
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
