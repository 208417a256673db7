//! Key pairs for receivers that are not to hold a secret: signatures of version `v1a` of Standard Webhooks, by Ed25519.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::base64;
use crate::secret::{SecretError, Unverified, check_time, of_version, signed};

const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
const SEED_BYTES: usize = 32;
const PUBLIC_BYTES: usize = 32;

/// A pair of which the server signs with the private half.
pub struct Pair {
    seed: [u8; SEED_BYTES],
    keys: Ed25519KeyPair,
}

/// The half that a receiver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public([u8; PUBLIC_BYTES]);

impl Pair {
    /// A new pair of random bytes.
    pub fn new(random: [u8; SEED_BYTES]) -> Pair {
        let keys =
            Ed25519KeyPair::from_seed_unchecked(&random).expect("every 32 bytes are a seed of Ed25519");
        Pair { seed: random, keys }
    }

    /// Reads `whsk_` and base 64 of the seed, which the public half may follow.
    ///
    /// # Errors
    /// A text that is no private key, or one whose halves do not belong together.
    pub fn parse(text: &str) -> Result<Pair, SecretError> {
        let digits = text.strip_prefix(PRIVATE).ok_or(SecretError::Prefix(PRIVATE))?;
        let bytes = base64::decode(digits).ok_or(SecretError::Base64(PRIVATE))?;
        let wrong_length = SecretError::Length(PRIVATE, bytes.len(), "32 or 64");
        let (seed, public) = bytes.split_first_chunk().ok_or(wrong_length.clone())?;
        let pair = Pair::new(*seed);
        match public.len() {
            0 => Ok(pair),
            PUBLIC_BYTES if public == pair.keys.public_key().as_ref() => Ok(pair),
            PUBLIC_BYTES => Err(SecretError::Halves),
            _ => Err(wrong_length),
        }
    }

    /// The pair as text: `whsk_` and base 64 of the seed and the public half.
    pub fn reveal(&self) -> String {
        let both = [self.seed.as_slice(), self.keys.public_key().as_ref()].concat();
        format!("{PRIVATE}{}", base64::encode(&both))
    }

    /// The half for the receiver.
    pub fn public(&self) -> Public {
        let bytes = self.keys.public_key().as_ref();
        Public(bytes.try_into().expect("public keys of Ed25519 have 32 bytes"))
    }

    /// The signature of a message, as `webhook-signature` carries it.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signature = self.keys.sign(&signed(id, &timestamp.to_string(), body));
        format!("v1a,{}", base64::encode(signature.as_ref()))
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pair").field(&self.public().to_string()).finish()
    }
}

impl Public {
    /// Reads `whpk_` and base 64.
    ///
    /// # Errors
    /// A text that is no public key.
    pub fn parse(text: &str) -> Result<Public, SecretError> {
        let digits = text.strip_prefix(PUBLIC).ok_or(SecretError::Prefix(PUBLIC))?;
        let bytes = base64::decode(digits).ok_or(SecretError::Base64(PUBLIC))?;
        let length = bytes.len();
        let bytes = bytes.try_into().map_err(|_| SecretError::Length(PUBLIC, length, "32"))?;
        Ok(Public(bytes))
    }

    /// Checks a message as a receiver does; times are in seconds.
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
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        let signed = signed(id, timestamp, body);
        let genuine = of_version(signatures, "v1a").any(|signature| key.verify(&signed, &signature).is_ok());
        if genuine { Ok(()) } else { Err(Unverified::Signature) }
    }
}

impl std::fmt::Display for Public {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PUBLIC}{}", base64::encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_from_their_text() {
        let pair = Pair::new([3; 32]);
        let read = Pair::parse(&pair.reveal()).unwrap();
        assert_eq!(read.public(), pair.public());
        let seed_only = format!("whsk_{}", base64::encode(&[3; 32]));
        assert_eq!(Pair::parse(&seed_only).unwrap().public(), pair.public());
        assert_eq!(Public::parse(&pair.public().to_string()).unwrap(), pair.public());
        assert!(!format!("{pair:?}").contains("whsk_"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let halves = format!("whsk_{}", base64::encode(&[3; 64]));
        assert_eq!(Pair::parse(&halves).unwrap_err(), SecretError::Halves);
        for bytes in [31, 33, 63, 65] {
            let text = format!("whsk_{}", base64::encode(&vec![3; bytes]));
            assert_eq!(Pair::parse(&text).unwrap_err(), SecretError::Length("whsk_", bytes, "32 or 64"));
        }
        assert_eq!(Public::parse("whsk_").unwrap_err(), SecretError::Prefix("whpk_"));
        assert_eq!(Public::parse("whpk_AAAA").unwrap_err(), SecretError::Length("whpk_", 3, "32"));
    }

    #[test]
    fn abuse_messages_that_no_key_pair_signed() {
        let pair = Pair::new([3; 32]);
        let public = pair.public();
        let header = pair.sign("evt_1", 1_700_000_000, b"{}");
        let verify = |id, header: &str, body, now| public.verify(id, "1700000000", header, body, now);
        assert_eq!(verify("evt_1", &header, b"{}", 1_700_000_000), Ok(()));
        assert_eq!(verify("evt_1", &header, b"[]", 1_700_000_000), Err(Unverified::Signature));
        assert_eq!(verify("evt_1", &header, b"{}", 1_700_000_301), Err(Unverified::Stale(301)));
        let other = Pair::new([4; 32]).sign("evt_1", 1_700_000_000, b"{}");
        assert_eq!(verify("evt_1", &other, b"{}", 1_700_000_000), Err(Unverified::Signature));
        assert_eq!(
            verify("evt_1", &header.replace("v1a", "v1"), b"{}", 1_700_000_000),
            Err(Unverified::Signature)
        );
    }
}
