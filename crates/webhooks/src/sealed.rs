//! Secrets at rest: sealed by AES-256-GCM under the server's key, or as they are where there is none.
//!
//! What is kept is `aes256gcm:` and base 64 of nonce, ciphertext and tag, or `plain:` and the secret. The name of what
//! the secret belongs to is authenticated too, so that nobody who writes to the store can move a secret elsewhere.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::base64;

const SEALED: &str = "aes256gcm:";
const PLAIN: &str = "plain:";
const KEY_BYTES: usize = 32;

/// What seals and opens secrets.
pub struct SecretBox {
    key: Option<LessSafeKey>,
}

/// Why a secret cannot be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A key file of another length.
    #[error("the key file has {0} bytes; it takes 32 bytes, or these in base 64 (44 characters) or hex (64)")]
    Key(usize),
    /// There is a sealed secret, and no key.
    #[error("the secret of {0} is sealed, and no key file is given")]
    NoKey(String),
    /// Sealed by another key, moved or damaged.
    #[error("the secret of {0} is not sealed by this key, or is damaged")]
    Opened(String),
}

impl SecretBox {
    /// Keeps secrets as they are.
    pub fn plain() -> SecretBox {
        SecretBox { key: None }
    }

    /// Seals secrets under the key of a file: 32 bytes, or these in base 64 or hex on a line.
    ///
    /// # Errors
    /// A file that holds no such key.
    pub fn new(file: &[u8]) -> Result<SecretBox, SealError> {
        let bytes = key_of(file).ok_or(SealError::Key(file.len()))?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| SealError::Key(bytes.len()))?;
        Ok(SecretBox { key: Some(LessSafeKey::new(key)) })
    }

    /// Whether secrets are sealed.
    pub fn seals(&self) -> bool {
        self.key.is_some()
    }

    /// A secret as it is kept. `owner` is the id of what it belongs to; `nonce` is random and used once.
    ///
    /// # Errors
    /// A secret that is too long for the cipher.
    pub fn seal(&self, owner: &str, secret: &str, nonce: [u8; NONCE_LEN]) -> Result<String, SealError> {
        let Some(key) = &self.key else { return Ok(format!("{PLAIN}{secret}")) };
        let mut sealed = secret.as_bytes().to_vec();
        let aad = Aad::from(owner.as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(|_| SealError::Opened(owner.to_owned()))?;
        Ok(format!("{SEALED}{}", base64::encode(&[nonce.as_slice(), &sealed].concat())))
    }

    /// A kept secret as it was. What was kept before there was a key can be read with one.
    ///
    /// # Errors
    /// A secret that is sealed by another key, belongs to another owner, or is damaged.
    pub fn open(&self, owner: &str, kept: &str) -> Result<String, SealError> {
        if let Some(secret) = kept.strip_prefix(PLAIN) {
            return Ok(secret.to_owned());
        }
        let failed = || SealError::Opened(owner.to_owned());
        let digits = kept.strip_prefix(SEALED).ok_or_else(failed)?;
        let key = self.key.as_ref().ok_or_else(|| SealError::NoKey(owner.to_owned()))?;
        let bytes = base64::decode(digits).ok_or_else(failed)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(failed)?;
        let mut sealed = sealed.to_vec();
        let opened = key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(owner.as_bytes()), &mut sealed)
            .map_err(|_| failed())?;
        String::from_utf8(opened.to_vec()).map_err(|_| failed())
    }
}

impl std::fmt::Debug for SecretBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretBox").field("seals", &self.seals()).finish()
    }
}

fn key_of(file: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if let Ok(bytes) = file.try_into() {
        return Some(bytes);
    }
    let text = std::str::from_utf8(file).ok()?.trim_end_matches(['\r', '\n']);
    let bytes = if text.len() == 2 * KEY_BYTES { of_hex(text)? } else { base64::decode(text)? };
    bytes.try_into().ok()
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::try_from(digit(pair[0])? << 4 | digit(*pair.get(1)?)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn secrets_come_back() {
        let keyed = SecretBox::new(&[9; 32]).unwrap();
        let kept = keyed.seal("wh_1", SECRET, [1; 12]).unwrap();
        assert!(kept.starts_with("aes256gcm:") && !kept.contains("MfKQ"));
        assert_eq!(keyed.open("wh_1", &kept).unwrap(), SECRET);
        let plain = SecretBox::plain();
        let kept = plain.seal("wh_1", SECRET, [1; 12]).unwrap();
        assert_eq!(kept, format!("plain:{SECRET}"));
        assert_eq!(keyed.open("wh_1", &kept).unwrap(), SECRET);
    }

    #[test]
    fn abuse_sealed_secrets_cannot_be_moved_or_changed() {
        let keyed = SecretBox::new(&[9; 32]).unwrap();
        let kept = keyed.seal("wh_1", SECRET, [1; 12]).unwrap();
        let failed = |owner: &str| SealError::Opened(owner.to_owned());
        assert_eq!(keyed.open("wh_2", &kept), Err(failed("wh_2")));
        assert_eq!(SecretBox::new(&[8; 32]).unwrap().open("wh_1", &kept), Err(failed("wh_1")));
        assert_eq!(SecretBox::plain().open("wh_1", &kept), Err(SealError::NoKey("wh_1".to_owned())));
        let mut bytes = base64::decode(&kept[SEALED.len()..]).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let changed = format!("{SEALED}{}", base64::encode(&bytes));
            assert_eq!(keyed.open("wh_1", &changed), Err(failed("wh_1")));
            bytes[at] ^= 1;
        }
        for damaged in ["", "aes256gcm:", "aes256gcm:AAAA", "aes256gcm:!", SECRET] {
            assert_eq!(keyed.open("wh_1", damaged), Err(failed("wh_1")));
        }
    }

    #[test]
    fn a_key_file_holds_bytes_or_text() {
        let raw = SecretBox::new(&[0x41; 32]).unwrap();
        let kept = raw.seal("wh_1", SECRET, [1; 12]).unwrap();
        for text in [
            format!("{}\n", base64::encode(&[0x41; 32])),
            "41".repeat(32),
            format!("{}\r\n", "41".repeat(32)),
        ] {
            assert_eq!(SecretBox::new(text.as_bytes()).unwrap().open("wh_1", &kept).unwrap(), SECRET);
        }
        for wrong in [0, 16, 31, 33, 63, 66] {
            assert_eq!(SecretBox::new(&vec![b'A'; wrong]).unwrap_err(), SealError::Key(wrong));
        }
        assert!(SecretBox::new("é".repeat(32).as_bytes()).is_err());
    }

    #[test]
    fn what_another_program_seals_is_opened() {
        #[derive(serde::Deserialize)]
        struct Row {
            key: String,
            owner: String,
            nonce: [u8; NONCE_LEN],
            secret: String,
            kept: String,
        }
        let rows: Vec<Row> = serde_json::from_str(include_str!("../tests/fixtures/sealed.json")).unwrap();
        assert_eq!(rows.len(), 10);
        for row in rows {
            let keyed = SecretBox::new(row.key.as_bytes()).unwrap();
            assert_eq!(keyed.open(&row.owner, &row.kept), Ok(row.secret.clone()));
            assert_eq!(keyed.seal(&row.owner, &row.secret, row.nonce), Ok(row.kept));
        }
    }
}
