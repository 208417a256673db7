//! Places where a text may be cut so that the tokens of its parts are the tokens of the whole.
//!
//! The library keeps up to about 400 bytes for each byte of a text that it tokenizes, and looks for the client's
//! cancellation nowhere. Long texts are therefore tokenized part by part. A cut stands before a whitespace character
//! between two ASCII letters, and only for pipelines whose every step treats both sides alike: it ends a word, no
//! character there composes with its neighbour, and no added token reaches over it.

use serde_json::Value;
use tokenizers::AddedToken;

use crate::pipeline::PipelineIndex;

/// The length in bytes from which a part of a text ends at the next cut.
pub(crate) const PART_BYTES: usize = 4 << 10;

/// Which whitespace a pipeline may be cut at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafeCuts {
    /// Nowhere.
    None,
    /// Before a space.
    Spaces,
    /// Before a space, tab or line end.
    Whitespace,
}

impl SafeCuts {
    /// The cuts of a pipeline.
    pub(crate) fn of(index: &PipelineIndex) -> SafeCuts {
        let Some(pre) = &index.pre_tokenizer else { return SafeCuts::None };
        let (normalizers, pres) =
            (flat(index.normalizer.as_ref(), "normalizers"), flat(Some(pre), "pretokenizers"));
        let words = pres
            .iter()
            .any(|step| matches!(kind(step), "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit"));
        let always = pres.iter().any(|step| kind(step) == "Metaspace" && step["prepend_scheme"] == "always");
        if !pres.iter().all(|step| cuts_words(step)) || !pres.iter().any(|step| ends_words(step)) {
            return SafeCuts::None;
        }
        if !normalizers.iter().all(|step| is_local(step, words || always)) {
            return SafeCuts::None;
        }
        if !index.added.iter().all(|(_, token)| stays_within(token)) {
            return SafeCuts::None;
        }
        if words { SafeCuts::Whitespace } else { SafeCuts::Spaces }
    }

    /// The end of the first part of `text`: the first cut from `PART_BYTES` on, or the text's end.
    pub(crate) fn part(self, text: &str) -> usize {
        let bytes = text.as_bytes();
        if self == SafeCuts::None || bytes.len() <= PART_BYTES {
            return bytes.len();
        }
        let is_cut = |three: &[u8]| {
            let space = match self {
                SafeCuts::Whitespace => matches!(three[1], b' ' | b'\n' | b'\t' | b'\r'),
                SafeCuts::Spaces | SafeCuts::None => three[1] == b' ',
            };
            space && three[0].is_ascii_alphabetic() && three[2].is_ascii_alphabetic()
        };
        let found = bytes[PART_BYTES - 1..].windows(3).position(is_cut);
        found.map_or(bytes.len(), |at| PART_BYTES + at)
    }
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

fn flat<'a>(value: Option<&'a Value>, list: &str) -> Vec<&'a Value> {
    let Some(value) = value else { return Vec::new() };
    match value.get(list).and_then(Value::as_array) {
        Some(steps) => steps.iter().flat_map(|step| flat(Some(step), list)).collect(),
        None => vec![value],
    }
}

/// Whether a normalizer step does the same to the two sides of a cut as to the whole. `words`: whether a later step
/// makes up for spaces that are removed at the start of a part.
fn is_local(step: &Value, words: bool) -> bool {
    let (content, pattern) = (step["content"].as_str().unwrap_or_default(), &step["pattern"]);
    match kind(step) {
        "BertNormalizer" | "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "StripAccents" | "Nmt"
        | "Precompiled" => true,
        "Strip" => words,
        "Replace" => match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
            (Some(text), _) => {
                !text.is_empty() && !text.contains(|c: char| c.is_ascii_alphabetic() || c.is_whitespace())
            }
            (None, Some(" {2,}" | "\\s{2,}" | "\\s+")) => matches!(content, " " | "▁"),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a pre-tokenizer step only cuts texts, by each character and its neighbours.
fn cuts_words(step: &Value) -> bool {
    match kind(step) {
        "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" | "Punctuation" | "Digits" | "ByteLevel" => {
            true
        }
        "Metaspace" => step["replacement"] == "▁",
        _ => false,
    }
}

/// Whether a pre-tokenizer step ends a word at each cut.
fn ends_words(step: &Value) -> bool {
    match kind(step) {
        "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" => true,
        "Metaspace" => step["split"] != false,
        "ByteLevel" => step["use_regex"] != false,
        _ => false,
    }
}

/// Whether no match of an added token reaches over a cut.
fn stays_within(token: &AddedToken) -> bool {
    let content = token.content.as_str();
    let ends_in_letter = content.ends_with(|c: char| c.is_ascii_alphabetic());
    !(content.contains(char::is_whitespace) || token.rstrip && ends_in_letter)
}
