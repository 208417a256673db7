//! Bounds for untrusted tokenizer.json files: steps that could blow up a text are refused at load, and growth that
//! depends on the text is limited at run time.

use std::cell::Cell;

use fancy_regex::RegexBuilder;
use serde_json::Value;
use tokenizers::normalizers::replace::Replace;
use tokenizers::{ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper};

use crate::Error;

/// The most normalizer steps, and pre-tokenizer steps; files in use have at most a dozen.
const MAX_STEPS: usize = 64;
/// The largest growth of a text by all `Replace` steps together, as a factor.
const MAX_REPLACED: u64 = 4096;
/// The most bytes that `Prepend` steps add.
const MAX_PREPENDED: u64 = 1 << 10;
/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 16 << 10;
/// The largest growth of a text by the normalizer, as a factor, and the size in bytes that is always allowed.
const MAX_GROWTH: u64 = 16;
const SHORT: u64 = 1 << 20;
/// The most backtracking steps of a pattern on 256 characters.
const MAX_BACKTRACKS: usize = 20_000;
/// The most added tokens, and their total bytes.
const MAX_ADDED: usize = 256 << 10;
const MAX_ADDED_BYTES: usize = 32 << 20;
/// The longest word that WordPiece tokenizes, in characters; longer ones become unknown tokens.
const MAX_WORD: usize = 1000;
/// The most tokens that a post-processor adds around a text.
pub(crate) const MAX_AROUND: usize = 64;

fn too_large(what: &'static str, size: u64, limit: u64) -> Error {
    Error::TooLarge { what, size, limit }
}

fn at_most(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(too_large(what, size as u64, limit as u64)) } else { Ok(()) }
}

/// Collects the steps of a normalizer or pre-tokenizer, including those in sequences.
fn steps<'a>(step: &'a Value, list: &str, out: &mut Vec<&'a Value>) {
    match step.get(list).and_then(Value::as_array) {
        Some(inner) => inner.iter().for_each(|step| steps(step, list, out)),
        None => out.push(step),
    }
}

/// Checks the normalizer of a tokenizer.json.
///
/// # Errors
/// Too many steps, too much growth, or a pattern that backtracks too much.
pub(crate) fn check_normalizer(normalizer: &Value) -> Result<(), Error> {
    let mut all = Vec::new();
    steps(normalizer, "normalizers", &mut all);
    at_most("the number of normalizers", all.len(), MAX_STEPS)?;
    let (mut factor, mut before) = (1_u64, 0_u64);
    for step in all {
        let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "Replace" => {
                let pattern = step.get("pattern");
                check_pattern("a Replace normalizer", pattern)?;
                factor = factor.saturating_mul(replaces(pattern, text("content").len() as u64));
            }
            "Prepend" => before = before.saturating_add(text("prepend").len() as u64),
            _ => {}
        }
    }
    if factor > MAX_REPLACED {
        return Err(too_large("the growth of a text by all Replace normalizers", factor, MAX_REPLACED));
    }
    if before > MAX_PREPENDED {
        return Err(too_large("the bytes that Prepend normalizers add", before, MAX_PREPENDED));
    }
    Ok(())
}

/// The largest growth of a text by a `Replace` step, as a factor.
fn replaces(pattern: Option<&Value>, content: u64) -> u64 {
    match pattern.and_then(|pattern| pattern.get("String")?.as_str()) {
        Some("") => 1 + content,
        Some(found) => content.div_ceil(found.len() as u64).max(1),
        // The pattern may match one byte or none.
        None => content.max(1),
    }
}

/// Checks the pre-tokenizer of a tokenizer.json.
///
/// # Errors
/// Too many steps, a pattern that backtracks too much, or pieces of length zero.
pub(crate) fn check_pre_tokenizer(pre_tokenizer: &Value) -> Result<(), Error> {
    let mut all = Vec::new();
    steps(pre_tokenizer, "pretokenizers", &mut all);
    at_most("the number of pre-tokenizers", all.len(), MAX_STEPS)?;
    for step in all {
        match step.get("type").and_then(Value::as_str).unwrap_or_default() {
            "Split" => check_pattern("a Split pre-tokenizer", step.get("pattern"))?,
            "FixedLength" if step.get("length").and_then(Value::as_u64) == Some(0) => {
                return Err(Error::malformed("a FixedLength pre-tokenizer", "its length is 0"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a pattern that is too long, does not compile, or backtracks too much on typical worst-case texts.
fn check_pattern(what: &str, pattern: Option<&Value>) -> Result<(), Error> {
    let text = |key: &str| pattern.and_then(|pattern| pattern.get(key)).and_then(Value::as_str);
    for pattern in [text("String"), text("Regex")].into_iter().flatten() {
        at_most("a pattern of the tokenizer in bytes", pattern.len(), MAX_PATTERN)?;
    }
    text("Regex").map_or(Ok(()), |pattern| check_regex(what, pattern))
}

/// Refuses a regular expression that does not compile, or backtracks too much on typical worst-case texts.
pub(crate) fn check_regex(what: &str, pattern: &str) -> Result<(), Error> {
    at_most("a pattern of the tokenizer in bytes", pattern.len(), MAX_PATTERN)?;
    let shown: String = pattern.chars().take(60).collect();
    let regex = RegexBuilder::new(pattern)
        .backtrack_limit(MAX_BACKTRACKS)
        .build()
        .map_err(|e| Error::malformed(what.to_owned(), format!("the pattern {shown:?}: {e}")))?;
    for probe in ["a", " ", "1", "\n", "aA", "a ", "=", "é", "0a", "_", "\u{3042}"] {
        for end in ["", "!", "\u{1}"] {
            let text = probe.repeat(256 / probe.len()) + end;
            for found in regex.find_iter(&text).take(512) {
                found.map_err(|e| {
                    Error::malformed(
                        what.to_owned(),
                        format!("the pattern {shown:?} takes too long on {probe:?} repeated: {e}"),
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// Checks the added tokens.
///
/// # Errors
/// Too many added tokens, or too many bytes in total.
pub(crate) fn check_added<'a>(added: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let (mut count, mut bytes) = (0, 0);
    for content in added {
        count += 1;
        bytes += content.len();
    }
    at_most("the number of added tokens", count, MAX_ADDED)?;
    at_most("the bytes of added tokens", bytes, MAX_ADDED_BYTES)
}

/// Checks the model of a tokenizer.json.
///
/// # Errors
/// A WordPiece model that accepts too long words.
pub(crate) fn check_model(model: &ModelWrapper) -> Result<(), Error> {
    match model {
        ModelWrapper::WordPiece(pieces) => check_word(pieces.max_input_chars_per_word),
        _ => Ok(()),
    }
}

/// Checks the longest word that a WordPiece model accepts.
///
/// # Errors
/// Words that are too long.
pub(crate) fn check_word(max_chars: usize) -> Result<(), Error> {
    at_most("max_input_chars_per_word", max_chars, MAX_WORD)
}

thread_local! {
    static REFUSED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Takes the message of the last normalizer failure on this thread, which the library drops.
pub(crate) fn refusal() -> Option<String> {
    REFUSED.take()
}

/// A normalizer whose steps fail if they would make a text much longer.
#[derive(Clone)]
pub(crate) struct BoundedNormalizer(Vec<(NormalizerWrapper, u64)>);

impl BoundedNormalizer {
    pub(crate) fn new(normalizer: NormalizerWrapper) -> BoundedNormalizer {
        let mut out = Vec::new();
        flatten(normalizer, &mut out);
        BoundedNormalizer(out)
    }
}

fn flatten(normalizer: NormalizerWrapper, out: &mut Vec<(NormalizerWrapper, u64)>) {
    match normalizer {
        NormalizerWrapper::Sequence(sequence) => {
            sequence.as_ref().iter().for_each(|step| flatten(step.clone(), out));
        }
        step => {
            let factor = growth(&step);
            out.push((step, factor));
        }
    }
}

/// Fails if a step that grows a text by at most `factor` could exceed the limit; `original` and `now` are bytes.
pub(crate) fn may_grow(original: usize, now: usize, factor: u64) -> Result<(), String> {
    let limit = (original as u64).saturating_mul(MAX_GROWTH).max(SHORT);
    let longest = (now as u64).saturating_mul(factor);
    if longest <= limit {
        return Ok(());
    }
    Err(format!("its normalizer would make up to {longest} bytes of {original}; the limit is {limit}"))
}

/// The largest growth of a text by a normalizer step, as a factor.
pub(crate) fn growth(step: &NormalizerWrapper) -> u64 {
    match step {
        NormalizerWrapper::Replace(replace) => replaces_of(replace),
        // From Unicode's tables: NFKC maps the 3 bytes of U+FDFA to 33.
        NormalizerWrapper::NFKC(_) | NormalizerWrapper::NFKD(_) | NormalizerWrapper::Precompiled(_) => 11,
        NormalizerWrapper::BertNormalizer(_) => 4,
        NormalizerWrapper::NFC(_) | NormalizerWrapper::NFD(_) => 3,
        NormalizerWrapper::Lowercase(_) | NormalizerWrapper::ByteLevel(_) => 2,
        NormalizerWrapper::StripNormalizer(_)
        | NormalizerWrapper::StripAccents(_)
        | NormalizerWrapper::Nmt(_)
        | NormalizerWrapper::Prepend(_)
        | NormalizerWrapper::Sequence(_) => 1,
    }
}

fn replaces_of(replace: &Replace) -> u64 {
    let step = serde_json::to_value(replace).unwrap_or_default();
    replaces(step.get("pattern"), replace.content.len() as u64)
}

impl Normalizer for BoundedNormalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        for (step, factor) in &self.0 {
            if let Err(words) = may_grow(text.len_original(), text.len(), *factor) {
                // The library drops the errors of normalizers.
                REFUSED.set(Some(words.clone()));
                return Err(words.into());
            }
            step.normalize(text)?;
        }
        Ok(())
    }
}
