//! Idempotency keys: which header is one, and when two requests are the same.
//!
//! Draft: <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>.

use crate::canonical::canonical_json;
use crate::hash::sha256_hex;

/// The longest key.
pub const MAX_KEY: usize = 255;

/// Why a header is no idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is nothing in it.
    #[error("the idempotency key is empty")]
    Empty,
    /// There is too much in it.
    #[error("the idempotency key has {0} bytes: {MAX_KEY} at most")]
    TooLong(usize),
    /// There is something else in it.
    #[error("the idempotency key must have visible ASCII characters only")]
    NotVisible,
}

/// The idempotency key of a header's value: 1 to 255 visible ASCII characters, kept as they are.
///
/// # Errors
/// [`KeyError`].
pub fn idempotency_key(header: &[u8]) -> Result<&str, KeyError> {
    match header.len() {
        0 => return Err(KeyError::Empty),
        1..=MAX_KEY => {}
        length => return Err(KeyError::TooLong(length)),
    }
    if !header.iter().all(u8::is_ascii_graphic) {
        return Err(KeyError::NotVisible);
    }
    std::str::from_utf8(header).map_err(|_| KeyError::NotVisible)
}

/// What tells whether two bodies ask for the same: SHA-256, in hex, of the body as canonical JSON, or of its bytes if it is
/// no JSON.
pub fn fingerprint(body: &[u8]) -> String {
    canonical_json(body).map_or_else(|| sha256_hex(body), |canonical| sha256_hex(canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_ascii() {
        assert_eq!(idempotency_key(b"8e03978e-40d5-43dd-bc93-6894a57f9324").unwrap().len(), 36);
        assert_eq!(idempotency_key(b"\"quoted!~\""), Ok("\"quoted!~\""));
        assert_eq!(idempotency_key(b""), Err(KeyError::Empty));
        assert!(idempotency_key(&[b'a'; 255]).is_ok());
        assert_eq!(idempotency_key(&[b'a'; 256]), Err(KeyError::TooLong(256)));
        for bad in [&b"a b"[..], b"a\n", b"\x7F", "ü".as_bytes(), b"\xFF"] {
            assert_eq!(idempotency_key(bad), Err(KeyError::NotVisible), "{bad:?}");
        }
    }

    #[test]
    fn a_request_is_the_same_however_it_is_written() {
        let body = br#"{"model":"m","n":1,"messages":[{"role":"user","content":"\u00e9"}]}"#;
        let other =
            "{ \"messages\": [{\"content\": \"é\", \"role\": \"user\"}],\n\"n\": 1, \"model\": \"m\"}";
        assert_eq!(fingerprint(body), fingerprint(other.as_bytes()));
        assert_ne!(fingerprint(b"[1,2]"), fingerprint(b"[2,1]"));
        assert_ne!(fingerprint(b"{\"n\":1}"), fingerprint(b"{\"n\":1.0}"));
    }

    #[test]
    fn what_is_no_json_is_its_bytes() {
        assert_eq!(fingerprint(b"{"), sha256_hex(b"{"));
        assert_ne!(fingerprint(b"{ "), fingerprint(b"{"));
        assert_eq!(fingerprint(b""), sha256_hex(b""));
    }
}
