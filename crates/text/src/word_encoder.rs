//! The word-by-word encoder: runs the library's pipeline over slices of the text, without copies.
//!
//! The library keeps offsets and originals for every piece of a text, up to about 400 bytes for each byte of text. They
//! are not needed here. So the same steps (added tokens, normalizer, pre-tokenizers) process one slice at a time, each
//! word goes through the library's model by itself, and only ids are kept. This also allows limits and cancellation
//! between two words.
//!
//! Tokenizers with steps that are not supported here use the library's pipeline. The tests compare both.

use std::borrow::Cow;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use fancy_regex::Regex;
use serde_json::Value;
use tokenizers::{
    NormalizedString, Normalizer as _, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _, PreTokenizerWrapper,
};

use crate::pipeline::{PipelineIndex, SharedModel};
use crate::split_points::SplitPoints;
use crate::{EncodeError, bounds};

/// GPT-2's pattern, as `ByteLevel` has it (OpenAI's gpt-2 `encoder.py`).
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The length in bytes from which a word is split at a split point, if it has one.
const LONG_WORD: usize = 8 << 10;

/// The word-by-word encoder of a tokenizer.
pub(crate) struct WordEncoder {
    /// Added tokens that are matched in the text (`raw`), and in the normalized text (`normalized`).
    raw: AddedTokens,
    normalized: AddedTokens,
    normal: Vec<NormalizerStep>,
    steps: Vec<PreTokenizerStep>,
    model: SharedModel,
    split_points: OnceLock<Option<SplitPoints>>,
}

/// Added tokens, which are matched in text before the model runs.
struct AddedTokens {
    search: AhoCorasick,
    tokens: Vec<AddedTokenRule>,
}

struct AddedTokenRule {
    id: u32,
    special: bool,
    /// Whether the match includes the spaces before (`lstrip`) and after (`rstrip`).
    strips: [bool; 2],
}

/// A step of the normalizer.
enum NormalizerStep {
    Composed(NormalizerWrapper),
    Before(String),
    Replace(String, String),
    /// Any other step, run by the library on a copy of the text.
    Other(NormalizerWrapper),
}

impl NormalizerStep {
    /// The largest growth of a text by this step, as a factor.
    fn growth(&self) -> u64 {
        match self {
            NormalizerStep::Composed(step) | NormalizerStep::Other(step) => bounds::growth(step),
            NormalizerStep::Before(_) => 1,
            NormalizerStep::Replace(from, to) => (to.len() as u64).div_ceil(from.len().max(1) as u64).max(1),
        }
    }
}

/// A step of the pre-tokenizer.
enum PreTokenizerStep {
    /// Splits before and after each match (`Isolated`).
    Isolate(Pattern),
    /// Splits after each match, which joins the piece before it (`MergedWithPrevious`).
    CutAfter(Pattern),
    Digits,
    DigitRuns,
    /// Adds a space before a piece that does not begin with one.
    AddPrefixSpace,
    /// Maps bytes to characters of GPT-2's alphabet.
    Bytes,
    /// Any other step that depends on its piece only, run by the library.
    Other(PreTokenizerWrapper),
}

/// A pattern, compiled when it is first used: Unicode classes take milliseconds.
struct Pattern {
    text: String,
    /// Whether its cost is to be checked before it is used.
    is_foreign: bool,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    fn new(text: impl Into<String>) -> Pattern {
        Pattern { text: text.into(), is_foreign: false, compiled: OnceLock::new() }
    }

    /// The compiled pattern.
    fn regex(&self) -> Result<&Regex, EncodeError> {
        let compiled = self.compiled.get_or_init(|| {
            let is_good = !self.is_foreign || bounds::check_regex("a pattern", &self.text).is_ok();
            is_good.then(|| Regex::new(&self.text).ok()).flatten()
        });
        compiled.as_ref().ok_or_else(|| failed("a pattern of the vocabulary does not compile"))
    }
}

/// A receiver of token ids; its errors end the encoding.
pub(crate) trait TokenSink {
    /// Receives the next id of the text.
    fn put(&mut self, id: u32) -> Result<(), EncodeError>;
    /// Called at least once for each word; an error stops the encoding.
    fn check_stop(&self) -> Result<(), EncodeError>;
}

type Done = Result<(), EncodeError>;

fn failed(error: impl std::fmt::Display) -> EncodeError {
    EncodeError::Failed(format!("the text cannot be tokenized: {error}"))
}

impl WordEncoder {
    /// `None` if the pipeline has a part that is not supported here. With `later`, patterns are compiled and their cost is
    /// checked when a text needs them; otherwise their cost has been checked.
    pub(crate) fn new(index: &PipelineIndex, model: &SharedModel, later: bool) -> Option<WordEncoder> {
        let mut steps = index.pre_tokenizer.as_ref().map_or(Some(Vec::new()), steps)?;
        for step in &mut steps {
            if let PreTokenizerStep::Isolate(pattern) | PreTokenizerStep::CutAfter(pattern) = step {
                pattern.is_foreign = later;
                if !later && pattern.regex().is_err() {
                    return None;
                }
            }
        }
        let normal = index.normalizer.as_ref().map_or(Some(Vec::new()), normalizer_steps)?;
        let mut words = WordEncoder {
            raw: AddedTokens::new(Vec::new())?,
            normalized: AddedTokens::new(Vec::new())?,
            normal,
            steps,
            model: model.clone(),
            split_points: OnceLock::new(),
        };
        let (mut raw, mut normalized) = (Vec::new(), Vec::new());
        for (id, token) in index.added.iter().filter(|(_, token)| !token.content.is_empty()) {
            if token.single_word {
                return None;
            }
            let entry =
                AddedTokenRule { id: *id, special: token.special, strips: [token.lstrip, token.rstrip] };
            if token.normalized {
                normalized.push((words.normalize(&token.content).ok()?.into_owned(), entry));
            } else {
                raw.push((token.content.clone(), entry));
            }
        }
        (words.raw, words.normalized) = (AddedTokens::new(raw)?, AddedTokens::new(normalized)?);
        Some(words)
    }

    /// The factor by which the normalizer can shorten a text at most; `None` if it can remove text entirely, so that a
    /// text's length says nothing about its tokens.
    pub(crate) fn shrinks(&self) -> Option<usize> {
        let strips = |added: &AddedTokens| added.tokens.iter().any(|token| token.strips != [false; 2]);
        if strips(&self.raw) || strips(&self.normalized) {
            return None;
        }
        let mut times = 1;
        for normal in &self.normal {
            match normal {
                // The shortest composition of a letter with three marks of two bytes each has two bytes.
                NormalizerStep::Composed(_) => times *= 4,
                NormalizerStep::Before(_) => {}
                NormalizerStep::Replace(from, to) if to.len() >= from.len() => {}
                NormalizerStep::Replace(..) | NormalizerStep::Other(_) => return None,
            }
        }
        Some(times)
    }

    /// Encodes a text. With `plain`, names of control tokens are text.
    pub(crate) fn encode(&self, text: &str, plain: bool, sink: &mut impl TokenSink) -> Done {
        self.raw.split(text, plain, &mut |id, part| match id {
            Some(id) => sink.put(id),
            None => {
                let part = self.normalize(part)?;
                self.normalized.split(&part, plain, &mut |id, part| match id {
                    Some(id) => sink.put(id),
                    None => self.step(&self.steps, part, sink),
                })
            }
        })
    }

    fn normalize<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, EncodeError> {
        let original = text.len();
        let mut text = Cow::Borrowed(text);
        for normal in &self.normal {
            bounds::may_grow(original, text.len(), normal.growth()).map_err(failed)?;
            text = match normal {
                NormalizerStep::Composed(_) if text.is_ascii() => text,
                NormalizerStep::Composed(composed) => composed_in_parts(composed, &text)?.into(),
                NormalizerStep::Before(before) if !text.is_empty() => format!("{before}{text}").into(),
                NormalizerStep::Before(_) => text,
                NormalizerStep::Replace(from, to) if text.contains(from.as_str()) => {
                    text.replace(from.as_str(), to).into()
                }
                NormalizerStep::Replace(..) => text,
                NormalizerStep::Other(other) => normalized_by(other, &text)?.into(),
            };
        }
        Ok(text)
    }

    fn step(&self, steps: &[PreTokenizerStep], part: &str, sink: &mut impl TokenSink) -> Done {
        if part.is_empty() {
            return Ok(());
        }
        let Some((step, rest)) = steps.split_first() else { return self.word(part, sink) };
        match step {
            PreTokenizerStep::Isolate(regex) => {
                pieces(regex.regex()?, part, &mut |piece, _| self.step(rest, piece, sink))
            }
            PreTokenizerStep::CutAfter(regex) => {
                // The piece that the next match is merged into.
                let (mut open, mut last_matched) = (0..0, false);
                pieces(regex.regex()?, part, &mut |piece, matched| {
                    let end = open.end + piece.len();
                    if matched && !last_matched {
                        open.end = end;
                    } else {
                        self.step(rest, &part[open.clone()], sink)?;
                        open = open.end..end;
                    }
                    last_matched = matched;
                    Ok(())
                })?;
                self.step(rest, &part[open], sink)
            }
            PreTokenizerStep::Digits | PreTokenizerStep::DigitRuns => {
                let alone = matches!(step, PreTokenizerStep::Digits);
                let mut start = 0;
                let mut before: Option<bool> = None;
                for (at, c) in part.char_indices() {
                    let digit = c.is_numeric();
                    if before.is_some_and(|before| before != digit || (digit && alone)) {
                        self.step(rest, &part[start..at], sink)?;
                        start = at;
                    }
                    before = Some(digit);
                }
                self.step(rest, &part[start..], sink)
            }
            PreTokenizerStep::AddPrefixSpace if part.starts_with(' ') => self.step(rest, part, sink),
            PreTokenizerStep::AddPrefixSpace => self.step(rest, &format!(" {part}"), sink),
            PreTokenizerStep::Bytes => self.step(rest, &part.bytes().map(char_of).collect::<String>(), sink),
            PreTokenizerStep::Other(other) => {
                let mut split = PreTokenizedString::from(part);
                other.pre_tokenize(&mut split).map_err(failed)?;
                let pieces = split.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
                pieces.into_iter().try_for_each(|(piece, _, _)| self.step(rest, piece, sink))
            }
        }
    }

    /// Tokenizes a word with the model; a long word is split at split points.
    fn word(&self, word: &str, sink: &mut impl TokenSink) -> Done {
        sink.check_stop()?;
        if word.len() > LONG_WORD
            && let Some(split_points) = self.split_points.get_or_init(|| SplitPoints::new(&self.model))
        {
            let mut rest = word;
            while let Some(at) = split_points.find(rest, LONG_WORD / 2) {
                self.tokens(&rest[..at], sink)?;
                rest = &rest[at..];
                sink.check_stop()?;
            }
            return self.tokens(rest, sink);
        }
        self.tokens(word, sink)
    }

    fn tokens(&self, word: &str, sink: &mut impl TokenSink) -> Done {
        let tokens = self.model.tokenize_while(word, &|| sink.check_stop().is_ok()).map_err(|error| {
            // The stop signal is more specific than the model's error.
            sink.check_stop().err().unwrap_or_else(|| failed(error))
        })?;
        tokens.into_iter().try_for_each(|token| sink.put(token.id))
    }
}

/// Calls `take` with each non-empty match and each text between matches, in order.
fn pieces(regex: &Regex, part: &str, take: &mut impl FnMut(&str, bool) -> Done) -> Done {
    let mut done = 0;
    let mut hand_on = |piece: &str, matched| if piece.is_empty() { Ok(()) } else { take(piece, matched) };
    for found in regex.find_iter(part) {
        // The pattern exceeds its backtracking limit on runs of about a million characters of one kind.
        let found = found.map_err(|_| failed("a run of one kind of characters is too long"))?;
        hand_on(&part[done..found.start()], false)?;
        hand_on(found.as_str(), true)?;
        done = found.end();
    }
    hand_on(&part[done..], false)
}

impl AddedTokens {
    /// `None` if two tokens have the same text.
    fn new(tokens: Vec<(String, AddedTokenRule)>) -> Option<AddedTokens> {
        let mut names: Vec<&str> = tokens.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < tokens.len() || names.first() == Some(&"") {
            return None;
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(name, _)| name));
        Some(AddedTokens {
            search: search.ok()?,
            tokens: tokens.into_iter().map(|(_, token)| token).collect(),
        })
    }

    /// Calls `take` with each token that is found and with each text between them, in order.
    fn split(&self, text: &str, plain: bool, take: &mut impl FnMut(Option<u32>, &str) -> Done) -> Done {
        let mut done = 0;
        for found in self.search.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            if plain && token.special {
                continue;
            }
            let (mut start, mut end) = (found.start(), found.end());
            if token.strips[0] {
                start = text[..start].trim_end().len().max(done);
            }
            if token.strips[1] {
                end = text.len() - text[end..].trim_start().len();
            }
            if done < start {
                take(None, &text[done..start])?;
            }
            take(Some(token.id), &text[start..end])?;
            done = end;
        }
        if done < text.len() { take(None, &text[done..]) } else { Ok(()) }
    }
}

fn normalized_by(normalizer: &NormalizerWrapper, text: &str) -> Result<String, EncodeError> {
    let mut text = NormalizedString::from(text);
    normalizer.normalize(&mut text).map_err(failed)?;
    Ok(text.get().to_owned())
}

/// Bytes of text that are NFC-normalized at once; more if there is no safe boundary.
const COMPOSED_AT_ONCE: usize = 4 << 10;

/// NFC-normalizes a text in parts, because the library keeps records for every byte.
fn composed_in_parts(composed: &NormalizerWrapper, text: &str) -> Result<String, EncodeError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let apart = |(at, c): &(usize, char)| *at >= COMPOSED_AT_ONCE && stands_alone(*c);
        let end = rest.char_indices().find(apart).map_or(rest.len(), |(at, _)| at);
        let (part, others) = rest.split_at(end);
        if part.is_ascii() {
            out.push_str(part)
        } else {
            out.push_str(&normalized_by(composed, part)?)
        }
        if others.is_empty() {
            return Ok(out);
        }
        rest = others;
    }
}

/// Whether a character never composes with the one before it: of common scripts, those with combining class 0 that are
/// not the second character of a composition (UnicodeData.txt and CompositionExclusions.txt, Unicode 16).
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\0'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{64a}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{1f300}'..='\u{1faff}')
}

/// The character of a byte in GPT-2's alphabet: printable Latin-1 as itself, the others from U+0100 on in order.
pub(crate) fn char_of(byte: u8) -> char {
    let code = match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u32::from(byte),
        0..=0x20 => 0x100 + u32::from(byte),
        0x7f..=0xa0 => 0x121 + u32::from(byte) - 0x7f,
        0xad => 0x143,
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// The steps of a sequence, flattened, or the single step itself.
fn flat<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match value.get(list).and_then(Value::as_array) {
        Some(steps) => steps.iter().flat_map(|step| flat(step, list)).collect(),
        None => vec![value],
    }
}

fn normalizer_steps(value: &Value) -> Option<Vec<NormalizerStep>> {
    let one = |step: &Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let library = || serde_json::from_value(step.clone()).ok();
        Some(match kind(step) {
            "NFC" => NormalizerStep::Composed(library()?),
            "Prepend" => NormalizerStep::Before(text(&step["prepend"])?),
            "Replace" if step["pattern"]["String"].as_str().is_some_and(|from| !from.is_empty()) => {
                NormalizerStep::Replace(text(&step["pattern"]["String"])?, text(&step["content"])?)
            }
            _ => NormalizerStep::Other(library()?),
        })
    };
    flat(value, "normalizers").into_iter().map(one).collect()
}

fn steps(value: &Value) -> Option<Vec<PreTokenizerStep>> {
    let mut steps = Vec::new();
    for step in flat(value, "pretokenizers") {
        let library = || serde_json::from_value(step.clone()).ok();
        match kind(step) {
            "Split" if step["invert"] == false => {
                let pattern = &step["pattern"];
                let regex = match (pattern["Regex"].as_str(), pattern["String"].as_str()) {
                    (Some(regex), _) => Pattern::new(regex),
                    (_, Some(text)) => Pattern::new(fancy_regex::escape(text)),
                    _ => return None,
                };
                steps.push(match step["behavior"].as_str()? {
                    "Isolated" => PreTokenizerStep::Isolate(regex),
                    "MergedWithPrevious" => PreTokenizerStep::CutAfter(regex),
                    _ => return None,
                });
            }
            "Digits" if step["individual_digits"] == true => steps.push(PreTokenizerStep::Digits),
            "Digits" => steps.push(PreTokenizerStep::DigitRuns),
            "ByteLevel" => {
                if step["add_prefix_space"] != false {
                    steps.push(PreTokenizerStep::AddPrefixSpace);
                }
                if step["use_regex"] != false {
                    steps.push(PreTokenizerStep::Isolate(Pattern::new(GPT2)));
                }
                steps.push(PreTokenizerStep::Bytes);
            }
            "Punctuation" => steps.push(PreTokenizerStep::Other(library()?)),
            _ => return None,
        }
    }
    Some(steps)
}
