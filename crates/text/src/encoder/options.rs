//! What is asked of an encoder's input, and why it may be refused.

use std::borrow::Cow;

use crate::Special;

/// A text, or two texts that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrPair<'a> {
    /// A text.
    Text(&'a str),
    /// A pair, such as a query and a document.
    Pair(&'a str, &'a str),
}

/// What becomes of a text that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextTruncation {
    /// An error.
    #[default]
    Refuse,
    /// Tokens are cut from the text's end.
    End,
    /// Tokens are cut from the text's start.
    Start,
}

/// Which text of a pair is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairTruncation {
    /// The second text only (transformers' `only_second`).
    #[default]
    OnlySecond,
    /// The longer text first, then both alike (transformers' `longest_first`).
    LongestFirst,
}

/// The options of an encoder's input.
#[derive(Clone, Copy)]
pub struct EncodeOptions<'a> {
    /// The text before the first text, as one text with it; its tokens count as [`EncoderInput::skip`].
    ///
    /// [`EncoderInput::skip`]: crate::EncoderInput::skip
    pub prompt: Option<&'a str>,
    /// Most tokens, special tokens included.
    pub max_tokens: usize,
    /// What becomes of longer texts.
    pub truncation: TextTruncation,
    /// Which text of a pair is cut.
    pub pair: PairTruncation,
    /// Most tokens of the second text of a pair, which is cut to them in any case.
    pub max_second: Option<usize>,
    /// Whether names of control tokens in the texts are parsed.
    pub special: Special,
    /// Whether offsets and subwords are wanted.
    pub offsets: bool,
    /// Called every few kilobytes of text; true stops with [`EncoderError::Stopped`].
    pub should_stop: &'a dyn Fn() -> bool,
}

impl EncodeOptions<'_> {
    /// A limit of tokens; longer texts are refused.
    pub fn new(max_tokens: usize) -> EncodeOptions<'static> {
        EncodeOptions {
            prompt: None,
            max_tokens,
            truncation: TextTruncation::Refuse,
            pair: PairTruncation::OnlySecond,
            max_second: None,
            special: Special::Plain,
            offsets: false,
            should_stop: &|| false,
        }
    }

    /// The prompt and the first text as they are tokenized.
    pub(super) fn whole<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.prompt {
            None => Cow::Borrowed(text),
            Some(prompt) => Cow::Owned(format!("{prompt}{text}")),
        }
    }
}

impl std::fmt::Debug for EncodeOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncodeOptions")
            .field("prompt", &self.prompt)
            .field("max_tokens", &self.max_tokens)
            .field("truncation", &self.truncation)
            .field("pair", &self.pair)
            .finish_non_exhaustive()
    }
}

/// Why an encoder's input could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncoderError {
    /// The text has more tokens than the limit.
    #[error("the text has {}{tokens} tokens with its special tokens; the limit is {limit}", if *exact { "" } else { "at least " })]
    TooLong {
        /// Tokens of the text or pair, special tokens included.
        tokens: usize,
        /// Whether the text has exactly that many; very long texts are given up before they are counted.
        exact: bool,
        /// The limit.
        limit: usize,
    },
    /// The first text of a pair leaves no room for the second, which alone may be cut.
    #[error(
        "the first text of the pair has {tokens} tokens with the special tokens, which leaves no room for the second; the limit is {limit}"
    )]
    FirstTooLong {
        /// Tokens of the first text and special tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// The text is longer than any that is tokenized.
    #[error("the text has {bytes} bytes; the limit is {limit}")]
    TooManyBytes {
        /// Bytes of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text has a stretch that must be tokenized at once and is too long for that.
    #[error(
        "the text has {bytes} bytes without a place where this tokenizer can part it; the limit is {limit}"
    )]
    Unpartable {
        /// Bytes of the stretch.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The limit leaves no room for a text beside the special tokens.
    #[error("a limit of {limit} tokens leaves no room for a text: the model adds {special} special tokens")]
    LimitTooSmall {
        /// The limit.
        limit: usize,
        /// Special tokens of a text or pair.
        special: usize,
    },
    /// The tokenizer's file has no layout of pairs.
    #[error("the model's tokenizer has no layout for pairs of texts")]
    NoPairs,
    /// [`EncodeOptions::should_stop`] returned true.
    #[error("stopped")]
    Stopped,
    /// The tokenizer failed, with its message.
    #[error("cannot tokenize: {0}")]
    Failed(String),
}

impl EncoderError {
    /// The error of a text as that of the whole input, of `limit` tokens, with its special tokens.
    pub(super) fn in_input(self, special: usize, limit: usize) -> EncoderError {
        match self {
            EncoderError::TooLong { tokens, exact, .. } => {
                EncoderError::TooLong { tokens: tokens.saturating_add(special), exact, limit }
            }
            other => other,
        }
    }
}
