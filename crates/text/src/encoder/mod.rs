//! Inputs of encoders: tokens of a text or of a pair with their special tokens, token types, offsets and truncation.
//!
//! The layout (`[CLS] A [SEP] B [SEP]`, `<s> A </s></s> B </s>`) follows the tokenizer's file. A text that is too long
//! is refused or cut as asked, and the number of cut tokens is exact: the whole text is tokenized, part by part, and
//! only what is kept is stored.

mod content;
mod cut;
mod input;
mod options;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weights::opened::Opened;

use crate::layout::{Frame, Layout};
use crate::{Error, Tokenizer};
use content::{Content, Demand};

pub use input::EncoderInput;
pub use options::{EncodeOptions, EncoderError, PairTruncation, TextOrPair, TextTruncation};

/// The longest text of an encoder, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// A tokenizer that builds the inputs of an encoder. Immutable, and shared between threads.
#[derive(Debug, Clone)]
pub struct EncoderTokenizer {
    tokenizer: Arc<Tokenizer>,
    layout: Layout,
}

impl EncoderTokenizer {
    /// Loads the tokenizer of an opened model.
    ///
    /// # Errors
    /// As [`Tokenizer::open`] and [`EncoderTokenizer::new`].
    pub fn open(opened: &Opened) -> Result<EncoderTokenizer, Error> {
        EncoderTokenizer::new(Arc::new(Tokenizer::open(opened)?))
    }

    /// Builds inputs with a loaded tokenizer.
    ///
    /// # Errors
    /// A post-processor whose template does not have the text exactly once.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Result<EncoderTokenizer, Error> {
        let layout = tokenizer.layout().cloned();
        let layout = layout.ok_or_else(|| {
            Error::malformed("post_processor", "its template does not have the text exactly once")
        })?;
        Ok(EncoderTokenizer { tokenizer, layout })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The number of special tokens that are put around a text or around and between the texts of a pair; `None` for
    /// pairs if the model has no layout for them.
    pub fn special_tokens(&self, pair: bool) -> Option<usize> {
        if pair { self.layout.pair.as_ref().map(Frame::special) } else { Some(self.layout.single.special()) }
    }

    /// Builds the input of a text or a pair. An empty text gives the special tokens alone.
    ///
    /// # Errors
    /// A text that is too long where truncation is refused or cannot help, a pair for a model without a layout for
    /// pairs, or a tokenizer that refuses the text.
    pub fn encode(
        &self,
        text: &TextOrPair<'_>,
        options: &EncodeOptions<'_>,
    ) -> Result<EncoderInput, EncoderError> {
        let (frame, first, second) = self.texts(text)?;
        let allowed = self.room(frame, options)?;
        let whole = options.whole(first);
        let mut contents = vec![self.content(&whole, allowed, options)?];
        if let Some(second) = second {
            contents.push(self.second(second, allowed, options)?);
        }
        let totals = (contents[0].total(), contents.get(1).map(Content::total));
        let kept = cut::lengths(totals, allowed, frame.special(), options)?;
        let truncated = totals.0 + totals.1.unwrap_or(0) - kept.0 - kept.1;
        contents[0].keep(kept.0);
        if let Some(second) = contents.get_mut(1) {
            second.keep(kept.1);
        }
        let skip = self.prompt_tokens(options, totals.0 - kept.0)?;
        let mut input = EncoderInput::assemble(frame, &contents, truncated);
        input.skip =
            if options.prompt.is_some() { (frame.before.len() + skip).min(input.tokens.len()) } else { 0 };
        if options.offsets {
            let prompt = options.prompt.unwrap_or_default().len();
            let texts = [(first, prompt), (second.unwrap_or_default(), 0)];
            input.locate(&self.tokenizer, frame, &contents, texts)?;
        }
        Ok(input)
    }

    /// Splits a text into consecutive windows of at most `options.max_tokens` tokens, each with the prompt and the
    /// special tokens; nothing is cut. At most `most` windows.
    ///
    /// # Errors
    /// As [`EncoderTokenizer::encode`]; a text of more windows is too long.
    pub fn encode_windows(
        &self,
        text: &str,
        options: &EncodeOptions<'_>,
        most: usize,
    ) -> Result<Vec<EncoderInput>, EncoderError> {
        let frame = &self.layout.single;
        let allowed = self.room(frame, options)?;
        let prompt = self.prompt_tokens(options, 0)?;
        let limit = options.max_tokens;
        if prompt >= allowed {
            let tokens = prompt + frame.special();
            return Err(EncoderError::TooLong { tokens, exact: true, limit });
        }
        let content = allowed - prompt;
        let whole_allowed = prompt.saturating_add(content.saturating_mul(most));
        let refuse = EncodeOptions { truncation: TextTruncation::Refuse, ..*options };
        let all = self.content(&options.whole(text), whole_allowed, &refuse)?;
        if all.total() > whole_allowed {
            let limit = whole_allowed.saturating_add(frame.special());
            return Err(EncoderError::TooLong { tokens: all.total() + frame.special(), exact: true, limit });
        }
        let tokens: Vec<_> = all.tokens().collect();
        let (head, rest) = tokens.split_at(prompt.min(tokens.len()));
        let mut parts: Vec<&[_]> = rest.chunks(content).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let inputs = parts.into_iter().map(|part| {
            let content = Content::of([head, part].concat());
            let mut input = EncoderInput::assemble(frame, &[content], 0);
            input.skip = if options.prompt.is_some() { frame.before.len() + head.len() } else { 0 };
            input
        });
        Ok(inputs.collect())
    }

    fn texts<'a>(&self, text: &TextOrPair<'a>) -> Result<(&Frame, &'a str, Option<&'a str>), EncoderError> {
        match *text {
            TextOrPair::Text(first) => Ok((&self.layout.single, first, None)),
            TextOrPair::Pair(first, second) => {
                let frame = self.layout.pair.as_ref().ok_or(EncoderError::NoPairs)?;
                Ok((frame, first, Some(second)))
            }
        }
    }

    /// Tokens that the limit leaves for texts.
    fn room(&self, frame: &Frame, options: &EncodeOptions<'_>) -> Result<usize, EncoderError> {
        let special = frame.special();
        let (limit, small) = (options.max_tokens, options.max_tokens <= special && special > 0);
        if small || limit == 0 {
            Err(EncoderError::LimitTooSmall { limit, special })
        } else {
            Ok(limit - special)
        }
    }

    fn content(
        &self,
        text: &str,
        allowed: usize,
        options: &EncodeOptions<'_>,
    ) -> Result<Content, EncoderError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(EncoderError::TooManyBytes { bytes: text.len(), limit: MAX_TEXT_BYTES });
        }
        let demand = Demand {
            keep: allowed,
            from_end: options.truncation == TextTruncation::Start,
            refuse: options.truncation == TextTruncation::Refuse,
            special: options.special,
            offsets: options.offsets,
            should_stop: options.should_stop,
        };
        let content = content::tokenize(&self.tokenizer, text, &demand);
        content
            .map_err(|error| error.in_input(options.max_tokens.saturating_sub(allowed), options.max_tokens))
    }

    fn second(
        &self,
        text: &str,
        allowed: usize,
        options: &EncodeOptions<'_>,
    ) -> Result<Content, EncoderError> {
        let Some(most) = options.max_second else { return self.content(text, allowed, options) };
        // A long second text is cut even if a long pair is refused.
        let end = TextTruncation::End;
        let cut = if options.truncation == TextTruncation::Refuse { end } else { options.truncation };
        let cutting = EncodeOptions { truncation: cut, ..*options };
        self.content(text, allowed.min(most), &cutting)
    }

    /// Tokens of the prompt that are left when `cut` tokens of prompt and text are cut.
    fn prompt_tokens(&self, options: &EncodeOptions<'_>, cut: usize) -> Result<usize, EncoderError> {
        let Some(prompt) = options.prompt else { return Ok(0) };
        let alone = EncodeOptions { truncation: TextTruncation::End, offsets: false, ..*options };
        let count = self.content(prompt, 0, &alone)?.total();
        let from_start = options.truncation == TextTruncation::Start;
        Ok(if from_start { count.saturating_sub(cut) } else { count })
    }
}
