//! The bytes of each token, computed once at load.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::tables::Spans;

/// How tokens are decoded to bytes; the counterpart of the `decoder` section of tokenizer.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DecoderKind {
    /// GPT-2's byte-level alphabet: each byte is one of 256 printable characters.
    ByteLevel,
    /// SentencePiece: `▁` is a space, and `<0x0A>` is a byte (byte fallback).
    Metaspace {
        /// The character that stands for a space.
        space: char,
        /// How the space that the tokenizer added before the text is decoded.
        lead: LeadingSpace,
        /// Whether tokens such as `<0x0A>` are bytes.
        bytes: bool,
    },
    /// BERT: tokens that begin a word are preceded by a space.
    WordPiece {
        /// The prefix of tokens that continue a word (`##`).
        prefix: String,
        /// Whether spaces before punctuation are removed.
        cleanup: bool,
    },
    /// Words with an end-of-word suffix (`</w>`), which becomes a space.
    Suffixed(String),
    /// Tokens are words with a space between them.
    Words,
    /// Tokens are their own text.
    Verbatim,
}

/// How the space before the first word is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LeadingSpace {
    /// It is kept.
    Keep,
    /// One space at the start of the text is removed.
    StripOne,
    /// All spaces of the first token are removed.
    StripFirstToken,
}

/// The position of a token in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenPosition {
    /// The first token of the text.
    Text,
    /// A later token.
    Middle,
}

/// The bytes of all tokens.
pub(crate) struct TokenBytes {
    decoder_kind: DecoderKind,
    /// `[vocab]`
    spans: Spans,
}

impl TokenBytes {
    /// Decodes each token's text; ids without a token get no bytes.
    pub(crate) fn new(decoder_kind: DecoderKind, texts: &[Option<String>]) -> Result<TokenBytes, Error> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(texts.len() + 1));
        let too_large = |len: usize| Error::TooLarge {
            what: "the vocabulary's text in bytes",
            size: len as u64,
            limit: u64::from(u32::MAX),
        };
        starts.push(0);
        for text in texts {
            if let Some(text) = text {
                decoder_kind.write(text, &mut bytes);
            }
            starts.push(u32::try_from(bytes.len()).map_err(|_| too_large(bytes.len()))?);
        }
        Ok(TokenBytes { decoder_kind, spans: Spans::Owned { bytes, starts } })
    }

    /// The bytes of a packed tokenizer.
    pub(crate) fn packed(decoder_kind: DecoderKind, spans: Spans) -> TokenBytes {
        TokenBytes { decoder_kind, spans }
    }

    /// How tokens are decoded.
    pub(crate) fn decoder_kind(&self) -> &DecoderKind {
        &self.decoder_kind
    }

    /// The token's own bytes, without separators to its neighbours; `None` beyond the vocabulary.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        self.spans.get(id as usize)
    }

    /// Appends a token's bytes to `out`; returns the position of the next token.
    pub(crate) fn append(&self, id: u32, start: TokenPosition, out: &mut Vec<u8>) -> TokenPosition {
        let piece = match self.get(id) {
            Some(piece) if !piece.is_empty() => piece,
            _ => return start,
        };
        match &self.decoder_kind {
            DecoderKind::ByteLevel | DecoderKind::Verbatim | DecoderKind::Suffixed(_) => {
                out.extend_from_slice(piece)
            }
            DecoderKind::Metaspace { lead, .. } => match (lead, start) {
                (LeadingSpace::StripOne, TokenPosition::Text) => {
                    out.extend_from_slice(piece.strip_prefix(b" ").unwrap_or(piece))
                }
                (LeadingSpace::StripFirstToken, TokenPosition::Text) => {
                    out.extend(piece.iter().filter(|byte| **byte != b' '))
                }
                _ => out.extend_from_slice(piece),
            },
            DecoderKind::WordPiece { prefix, cleanup } => {
                let text = String::from_utf8_lossy(piece);
                let joined = match (start, text.strip_prefix(prefix.as_str())) {
                    (TokenPosition::Text, _) => text.into_owned(),
                    (TokenPosition::Middle, Some(rest)) => rest.to_owned(),
                    (TokenPosition::Middle, None) => format!(" {text}"),
                };
                let joined = if *cleanup { tidy(&joined) } else { joined };
                out.extend_from_slice(joined.as_bytes());
            }
            DecoderKind::Words => {
                if start == TokenPosition::Middle {
                    out.push(b' ');
                }
                out.extend_from_slice(piece);
            }
        }
        TokenPosition::Middle
    }
}

impl DecoderKind {
    /// Appends the bytes that a token's text encodes.
    fn write(&self, text: &str, out: &mut Vec<u8>) {
        match self {
            DecoderKind::ByteLevel => {
                let from = out.len();
                for c in text.chars() {
                    let Some(byte) = byte_of(c) else {
                        out.truncate(from);
                        out.extend_from_slice(text.as_bytes());
                        return;
                    };
                    out.push(byte);
                }
            }
            DecoderKind::Metaspace { space, bytes, .. } => match byte_piece(text) {
                Some(byte) if *bytes => out.push(byte),
                _ => out.extend_from_slice(text.replace(*space, " ").as_bytes()),
            },
            DecoderKind::Suffixed(suffix) => {
                out.extend_from_slice(text.replace(suffix.as_str(), " ").as_bytes())
            }
            DecoderKind::WordPiece { .. } | DecoderKind::Words | DecoderKind::Verbatim => {
                out.extend_from_slice(text.as_bytes())
            }
        }
    }
}

/// The byte of a token such as `<0x0A>`.
pub(crate) fn byte_piece(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// GPT-2's alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 onwards in order.
/// Source: `bytes_to_unicode` in OpenAI's gpt-2 `encoder.py`.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Removes spaces before English punctuation, as Hugging Face's WordPiece decoder does.
fn tidy(text: &str) -> String {
    const RULES: [(&str, &str); 11] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    RULES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_covers_each_byte_once() {
        let mut seen = [false; 256];
        for c in (0..0x200).filter_map(char::from_u32) {
            if let Some(byte) = byte_of(c) {
                assert!(!std::mem::replace(&mut seen[usize::from(byte)], true), "{byte} twice");
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert_eq!((byte_of('Ġ'), byte_of('Ċ'), byte_of('A')), (Some(b' '), Some(b'\n'), Some(b'A')));
    }

    #[test]
    fn byte_pieces_are_exact() {
        assert_eq!(byte_piece("<0x0A>"), Some(10));
        assert_eq!(byte_piece("<0x+A>"), None);
        assert_eq!(byte_piece("<0xA>"), None);
        assert_eq!(byte_piece("<0x0A>x"), None);
    }
}
