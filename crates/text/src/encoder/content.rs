//! The tokens of a text, of which the first or the last are kept and all are counted.

use std::collections::VecDeque;

use crate::safe_cuts::PART_BYTES;
use crate::word_encoder::TokenSink;
use crate::{EncodeError, Special, Tokenizer};

use super::options::EncoderError;

/// Bytes of a refused text up to which its tokens are counted to the end.
const COUNTED_BYTES: usize = 256 << 10;
/// Most bytes that are tokenized at once by the library, which keeps up to 400 bytes for each.
const MAX_PART_BYTES: usize = 1 << 20;

/// A token and its byte range in the text; `0..0` if offsets are not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) id: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// What is wanted of a text's tokens.
pub(super) struct Demand<'a> {
    /// Most tokens that are kept.
    pub(super) keep: usize,
    /// Whether the last tokens are kept, not the first.
    pub(super) from_end: bool,
    /// Whether more tokens than `keep` are an error, so that very long texts need not be counted.
    pub(super) refuse: bool,
    pub(super) special: Special,
    pub(super) offsets: bool,
    pub(super) should_stop: &'a dyn Fn() -> bool,
}

/// The kept tokens of a text.
#[derive(Debug, Default)]
pub(super) struct Content {
    tokens: VecDeque<Placed>,
    total: usize,
    from_end: bool,
}

impl Content {
    /// All tokens of a text.
    pub(super) fn of(tokens: Vec<Placed>) -> Content {
        Content { total: tokens.len(), tokens: tokens.into(), from_end: false }
    }

    /// The number of tokens of the whole text.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The kept tokens.
    pub(super) fn tokens(&self) -> impl ExactSizeIterator<Item = Placed> + '_ {
        self.tokens.iter().copied()
    }

    /// Drops tokens beyond `count`.
    pub(super) fn keep(&mut self, count: usize) {
        if self.from_end {
            self.tokens.drain(..self.tokens.len().saturating_sub(count));
        } else {
            self.tokens.truncate(count);
        }
    }
}

/// Tokenizes a text part by part.
///
/// # Errors
/// A refused text that is too long to be counted ([`EncoderError::TooLong`] with the text's own tokens and limit), a
/// stretch that is too long to be tokenized at once, a stop, or a failure of the tokenizer.
pub(super) fn tokenize(
    tokenizer: &Tokenizer,
    text: &str,
    demand: &Demand<'_>,
) -> Result<Content, EncoderError> {
    let gives_up = demand.refuse && text.len() > COUNTED_BYTES;
    let too_long = |tokens| EncoderError::TooLong { tokens, exact: false, limit: demand.keep };
    if gives_up && tokenizer.fewest_tokens(text) > demand.keep {
        return Err(too_long(tokenizer.fewest_tokens(text)));
    }
    let content = Content { from_end: demand.from_end, ..Content::default() };
    let mut collector =
        Collector { tokenizer, demand, gives_up, content, place: (0, 0), spelled: Vec::new() };
    let done = match tokenizer.words().filter(|_| !demand.offsets) {
        Some(words) => {
            let run = || words.encode(text, demand.special == Special::Plain, &mut collector);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            caught.unwrap_or_else(|_| Err(EncodeError::Failed("the tokenizer's tables are broken".into())))
        }
        None => by_parts(tokenizer, text, demand, &mut collector)?,
    };
    match done {
        Ok(()) => Ok(collector.content),
        Err(EncodeError::TooMany { at_least, .. }) => Err(too_long(at_least)),
        Err(EncodeError::Stopped { .. }) => Err(EncoderError::Stopped),
        Err(EncodeError::Failed(message)) => Err(EncoderError::Failed(message)),
    }
}

fn by_parts(
    tokenizer: &Tokenizer,
    text: &str,
    demand: &Demand<'_>,
    collector: &mut Collector<'_>,
) -> Result<Result<(), EncodeError>, EncoderError> {
    let mut start = 0;
    while start < text.len() {
        let part = &text[start..start + tokenizer.safe_cuts().part(&text[start..])];
        if part.len() > MAX_PART_BYTES {
            return Err(EncoderError::Unpartable { bytes: part.len(), limit: MAX_PART_BYTES });
        }
        // Offsets at the start of a part depend on what is before it: it goes in with the letter before its first space.
        let context = usize::from(demand.offsets && start > 0);
        let part = &text[start - context..start + part.len()];
        let mut done = collector.check_stop();
        if done.is_ok() {
            done = tokenizer.encode_part(part, demand.special, demand.offsets, &mut |id, place| {
                if place.0 < context {
                    return Ok(());
                }
                let at = start - context;
                collector.place = (at + place.0, at + place.1);
                collector.put(id)
            });
        }
        if done.is_err() {
            return Ok(done);
        }
        start += part.len() - context;
    }
    Ok(Ok(()))
}

/// Keeps and counts tokens.
struct Collector<'a> {
    tokenizer: &'a Tokenizer,
    demand: &'a Demand<'a>,
    /// Whether the first token that is too many ends the work.
    gives_up: bool,
    content: Content,
    place: (usize, usize),
    spelled: Vec<u32>,
}

impl Collector<'_> {
    fn push(&mut self, id: u32) {
        let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let placed = Placed { id, start: byte(self.place.0), end: byte(self.place.1) };
        let (content, keep) = (&mut self.content, self.demand.keep);
        content.total += 1;
        if content.from_end {
            content.tokens.push_back(placed);
            if content.tokens.len() > keep {
                content.tokens.pop_front();
            }
        } else if content.tokens.len() < keep {
            content.tokens.push_back(placed);
        }
    }
}

impl TokenSink for Collector<'_> {
    fn put(&mut self, id: u32) -> Result<(), EncodeError> {
        if self.tokenizer.is_spelled(id, self.demand.special) {
            let mut spelled = std::mem::take(&mut self.spelled);
            spelled.clear();
            self.tokenizer.spell(id, &mut spelled).map_err(|e| EncodeError::Failed(e.to_string()))?;
            spelled.iter().for_each(|id| self.push(*id));
            self.spelled = spelled;
        } else {
            self.push(id);
        }
        let count = self.content.total;
        if self.gives_up && count > self.demand.keep {
            return Err(EncodeError::TooMany { at_least: count, worked: count });
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), EncodeError> {
        let worked = self.content.total;
        if (self.demand.should_stop)() { Err(EncodeError::Stopped { worked }) } else { Ok(()) }
    }
}

const _: () = assert!(PART_BYTES < MAX_PART_BYTES && MAX_PART_BYTES <= u32::MAX as usize);
