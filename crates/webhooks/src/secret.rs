//! Secrets that a server and a receiver share, and signatures made with them (version `v1` of Standard Webhooks).
//!
//! Signed are the message's id, the attempt's time in seconds and the raw body, joined by dots, by HMAC-SHA256. While a
//! secret is being replaced, a message carries a signature of each.

use ring::hmac;

use crate::base64;

const PREFIX: &str = "whsec_";
const FEWEST_BYTES: usize = 24;
const MOST_BYTES: usize = 64;
/// How far a message's time may be from the receiver's, in seconds, as Standard Webhooks advises.
pub const TOLERANCE_SECONDS: i64 = 300;
/// Signatures of a message that are looked at.
const MOST_SIGNATURES: usize = 16;

/// A shared secret.
#[derive(Clone)]
pub struct Secret {
    key: Vec<u8>,
}

/// Why a text is no secret. The text itself is not told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Another beginning.
    #[error("a signing secret begins with `{0}`")]
    Prefix(&'static str),
    /// Not base 64.
    #[error("what follows `{0}` in a signing secret is not base 64")]
    Base64(&'static str),
    /// Too short or too long.
    #[error("a signing secret `{0}…` has {1} bytes; it takes {2}")]
    Length(&'static str, usize, &'static str),
    /// The two halves of a key pair do not belong together.
    #[error("the public half of a signing key `whsk_…` does not belong to its private half")]
    Halves,
}

/// Why a message is not taken for genuine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// No time.
    #[error("the header `webhook-timestamp` is {0:?}; it takes seconds since 1970")]
    Timestamp(String),
    /// Too far from now.
    #[error("the message's time is {0} s away from now; at most {TOLERANCE_SECONDS} are allowed")]
    Stale(i64),
    /// Signed by somebody else, or changed.
    #[error("no signature of the message is by this secret")]
    Signature,
}

impl Secret {
    /// A new secret of random bytes.
    pub fn new(random: [u8; 32]) -> Secret {
        Secret { key: random.to_vec() }
    }

    /// Reads `whsec_` and base 64.
    ///
    /// # Errors
    /// A text that is no secret, or one of fewer than 24 or more than 64 bytes.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let digits = text.strip_prefix(PREFIX).ok_or(SecretError::Prefix(PREFIX))?;
        let key = base64::decode(digits).ok_or(SecretError::Base64(PREFIX))?;
        if !(FEWEST_BYTES..=MOST_BYTES).contains(&key.len()) {
            return Err(SecretError::Length(PREFIX, key.len(), "24 to 64"));
        }
        Ok(Secret { key })
    }

    /// The secret as text. Shown to its owner once, and kept sealed.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", base64::encode(&self.key))
    }

    /// As much of the secret as tells it from another: its last four characters before the padding.
    pub fn hint(&self) -> String {
        let text = base64::encode(&self.key);
        let digits = text.trim_end_matches('=');
        format!("{PREFIX}…{}", &digits[digits.len() - 4..])
    }

    /// The signature of a message, as `webhook-signature` carries it.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
        let tag = hmac::sign(&key, &signed(id, &timestamp.to_string(), body));
        format!("v1,{}", base64::encode(tag.as_ref()))
    }

    /// Checks a message as a receiver does: its time against `now` (both in seconds), and that one of its signatures is
    /// by this secret.
    ///
    /// # Errors
    /// A message that is not genuine, or too old.
    pub fn verify(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
        now: i64,
    ) -> Result<(), Unverified> {
        check_time(timestamp, now)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
        let signed = signed(id, timestamp, body);
        let genuine = of_version(signatures, "v1").any(|tag| hmac::verify(&key, &signed, &tag).is_ok());
        if genuine { Ok(()) } else { Err(Unverified::Signature) }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Secret").field(&self.hint()).finish()
    }
}

/// The value of `webhook-signature`: a signature of each secret, newest secret first.
pub fn signatures(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let all: Vec<String> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    all.join(" ")
}

/// The headers of a message at an attempt, whose time is in seconds. Without secrets it is not signed.
pub fn headers(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> Vec<(&'static str, String)> {
    let mut headers = vec![("webhook-id", id.to_owned()), ("webhook-timestamp", timestamp.to_string())];
    if !secrets.is_empty() {
        headers.push(("webhook-signature", signatures(secrets, id, timestamp, body)));
    }
    headers
}

/// What is signed.
pub(crate) fn signed(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    let mut signed = Vec::with_capacity(id.len() + timestamp.len() + body.len() + 2);
    signed.extend_from_slice(id.as_bytes());
    signed.push(b'.');
    signed.extend_from_slice(timestamp.as_bytes());
    signed.push(b'.');
    signed.extend_from_slice(body);
    signed
}

/// Whether a message's time is near enough to the receiver's.
pub(crate) fn check_time(timestamp: &str, now: i64) -> Result<(), Unverified> {
    let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let time: Option<i64> = digits.then(|| timestamp.parse().ok()).flatten();
    let time = time.ok_or_else(|| Unverified::Timestamp(timestamp.chars().take(32).collect()))?;
    let away = now.abs_diff(time);
    if away > TOLERANCE_SECONDS.unsigned_abs() {
        return Err(Unverified::Stale(i64::try_from(away).unwrap_or(i64::MAX)));
    }
    Ok(())
}

/// The signatures of one version in a header, as bytes.
pub(crate) fn of_version(signatures: &str, version: &str) -> impl Iterator<Item = Vec<u8>> {
    signatures
        .split(' ')
        .take(MOST_SIGNATURES)
        .filter_map(|one| one.split_once(','))
        .filter(move |(of, _)| *of == version)
        .filter_map(|(_, text)| base64::decode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_secret_is_read_and_shown_as_it_was() {
        let secret = Secret::parse(TEXT).unwrap();
        assert_eq!(secret.reveal(), TEXT);
        assert_eq!(secret.hint(), "whsec_…LaSw");
        assert_eq!(format!("{secret:?}"), r#"Secret("whsec_…LaSw")"#);
        assert_eq!(Secret::new([7; 32]).reveal().len(), 6 + 44);
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert_eq!(Secret::parse("sk-1").unwrap_err(), SecretError::Prefix("whsec_"));
        assert_eq!(Secret::parse("whsec_!").unwrap_err(), SecretError::Base64("whsec_"));
        let of = |bytes: usize| Secret::parse(&format!("whsec_{}", base64::encode(&vec![1; bytes])));
        assert_eq!(
            of(23).unwrap_err().to_string(),
            "a signing secret `whsec_…` has 23 bytes; it takes 24 to 64"
        );
        assert!(of(24).is_ok() && of(64).is_ok() && of(65).is_err());
    }

    #[test]
    fn signatures_of_both_secrets_go_along_while_one_is_replaced() {
        let (new, old) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let header = signatures(&[new.clone(), old.clone()], "evt_1", 1_700_000_000, b"{}");
        assert_eq!(header.split(' ').count(), 2);
        for secret in [new, old] {
            assert_eq!(secret.verify("evt_1", "1700000000", &header, b"{}", 1_700_000_299), Ok(()));
        }
    }

    #[test]
    fn abuse_messages_that_are_not_genuine() {
        let secret = Secret::parse(TEXT).unwrap();
        let header = secret.sign("evt_1", 1_700_000_000, b"{}");
        let verify = |id, time, header: &str, body, now| secret.verify(id, time, header, body, now);
        let (now, time) = (1_700_000_000, "1700000000");
        assert_eq!(verify("evt_1", time, &header, b"{}", now), Ok(()));
        assert_eq!(verify("evt_2", time, &header, b"{}", now), Err(Unverified::Signature));
        assert_eq!(verify("evt_1", "1700000001", &header, b"{}", now), Err(Unverified::Signature));
        assert_eq!(verify("evt_1", time, &header, b"{ }", now), Err(Unverified::Signature));
        assert_eq!(
            verify("evt_1", time, &header.replace("v1,", "v2,"), b"{}", now),
            Err(Unverified::Signature)
        );
        assert_eq!(
            verify("evt_1", time, &header.replace("v1,", "v1a,"), b"{}", now),
            Err(Unverified::Signature)
        );
        assert_eq!(verify("evt_1", time, "v1,", b"{}", now), Err(Unverified::Signature));
        assert_eq!(verify("evt_1", time, "", b"{}", now), Err(Unverified::Signature));
        assert_eq!(verify("evt_1", time, &header, b"{}", now + 301), Err(Unverified::Stale(301)));
        assert_eq!(verify("evt_1", time, &header, b"{}", now - 301), Err(Unverified::Stale(301)));
        for no_time in ["", "+1700000000", "-1", "1e9", "99999999999999999999", "1700000000 "] {
            let found = verify("evt_1", no_time, &header, b"{}", now);
            assert_eq!(found, Err(Unverified::Timestamp(no_time.to_owned())));
        }
    }
}
