//! From the texts of a request to the inputs of an encoder: prompts, special tokens, limits of length.

use std::sync::Arc;

use engine::encoder::Text;
use inference::{InputLength, InputPrompt, Length, RequestContext, TextInput, Truncation};
use text::{EncodeOptions, EncoderError, EncoderInput, PairTruncation, Special, TextOrPair, TextTruncation};
use wire::Fault;

use crate::encoding::Encoding;
use crate::preparation::{Stop, left};

/// Most windows of one text that is encoded in parts.
const WINDOWS: usize = 4_096;

/// Reads the texts of one request, on a thread that may compute.
pub(crate) struct Reader {
    pub(crate) encoding: Encoding,
    pub(crate) model: String,
    pub(crate) stop: Stop,
    pub(crate) context: Arc<RequestContext>,
}

/// How the texts of a request are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The text before each input.
    pub(crate) prompt: Option<&'a str>,
    pub(crate) length: Length,
    pub(crate) pair: PairTruncation,
    /// Most tokens of the second text of a pair.
    pub(crate) second: Option<usize>,
    /// Whether the places of tokens in the text are wanted.
    pub(crate) offsets: bool,
}

impl Reading<'_> {
    /// Texts without a prompt, within a limit of length.
    pub(crate) fn within(length: Length) -> Reading<'static> {
        Reading { prompt: None, length, pair: PairTruncation::LongestFirst, second: None, offsets: false }
    }
}

impl Reader {
    /// Most tokens of an input of this request.
    fn limit(&self, length: Length) -> usize {
        let most = self.encoding.engine.context();
        length.tokens.map_or(most, |tokens| tokens.min(most))
    }

    /// The prompt that the request asks for, if the model has it.
    pub(crate) fn prompt(&self, prompt: &InputPrompt) -> Result<Option<&str>, Fault> {
        let prompts = &self.encoding.heads.prompts;
        match prompt {
            InputPrompt::None => Ok(None),
            InputPrompt::Default => Ok(prompts
                .default
                .as_ref()
                .and_then(|name| prompts.find(name))
                .filter(|text| !text.is_empty())),
            InputPrompt::FirstOf(names) => {
                Ok(names.iter().find_map(|name| prompts.find(name)).filter(|text| !text.is_empty()))
            }
            InputPrompt::Named(name) => {
                let found = prompts.find(name).ok_or_else(|| {
                    let known: Vec<&str> = prompts.texts.iter().map(|(name, _)| name.as_str()).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    let name = wire::error::quote(name);
                    let message = format!(
                        "prompt_name is {name}; the prompts of the model {} are: {known}",
                        self.model
                    );
                    Fault::field("prompt_name", message)
                })?;
                Ok(Some(found).filter(|text| !text.is_empty()))
            }
        }
    }

    /// The tokens of an input, which is in `field`.
    pub(crate) fn input(
        &self,
        field: &str,
        input: &TextInput,
        reading: &Reading<'_>,
    ) -> Result<EncoderInput, Fault> {
        match input {
            TextInput::Text(text) => self.text(field, &TextOrPair::Text(text), reading),
            TextInput::Pair(first, second) => self.text(field, &TextOrPair::Pair(first, second), reading),
            TextInput::Tokens(tokens) => self.tokens(field, tokens, &[], reading),
            TextInput::TypedTokens { tokens, types } => {
                self.check_types(field, tokens, types)?;
                self.tokens(field, tokens, types, reading)
            }
        }
    }

    /// The tokens of a text or a pair.
    pub(crate) fn text(
        &self,
        field: &str,
        text: &TextOrPair<'_>,
        reading: &Reading<'_>,
    ) -> Result<EncoderInput, Fault> {
        let is_empty = match text {
            TextOrPair::Text(text) => text.is_empty(),
            TextOrPair::Pair(first, second) => first.is_empty() && second.is_empty(),
        };
        if is_empty {
            return Err(empty(field));
        }
        let should_stop = || self.stop.is_set();
        let options = self.options(field, reading, &should_stop)?;
        let input = self.encoding.text.encode(text, &options);
        let input = input.map_err(|error| self.fault(field, error))?;
        self.context.add_prepared(input.tokens.len() + input.truncated);
        Ok(input)
    }

    /// A text in parts that each are within the limit.
    pub(crate) fn windows(
        &self,
        field: &str,
        text: &str,
        reading: &Reading<'_>,
    ) -> Result<Vec<EncoderInput>, Fault> {
        if text.is_empty() {
            return Err(empty(field));
        }
        let should_stop = || self.stop.is_set();
        let options = self.options(field, reading, &should_stop)?;
        let windows = self.encoding.text.encode_windows(text, &options, WINDOWS);
        let windows = windows.map_err(|error| self.fault(field, error))?;
        self.context.add_prepared(windows.iter().map(|window| window.tokens.len()).sum());
        Ok(windows)
    }

    /// Given tokens, which must be the model's.
    fn tokens(
        &self,
        field: &str,
        tokens: &[u32],
        types: &[u8],
        reading: &Reading<'_>,
    ) -> Result<EncoderInput, Fault> {
        let (limit, vocab) = (self.limit(reading.length), self.encoding.engine.vocab());
        if tokens.is_empty() {
            return Err(empty(field));
        }
        if let Some(at) = tokens.iter().position(|id| *id as usize >= vocab) {
            let message = format!(
                "{field}[{at}] is {}; token ids of the model {} are below {vocab}",
                tokens[at], self.model
            );
            return Err(Fault::field(format!("{field}[{at}]"), message));
        }
        let truncated = tokens.len().saturating_sub(limit);
        let kept = match reading.length.truncation {
            Truncation::End => 0..tokens.len() - truncated,
            Truncation::Start => truncated..tokens.len(),
            Truncation::Refuse | Truncation::Chunk if truncated > 0 => {
                return Err(self.too_long(field, tokens.len(), true, limit));
            }
            Truncation::Refuse | Truncation::Chunk => 0..tokens.len(),
        };
        if kept.is_empty() {
            return Err(Fault::field("max_tokens", "the limit of tokens is 0; it must be at least 1"));
        }
        self.context.add_prepared(tokens.len());
        let types = types.get(kept.clone()).unwrap_or_default().to_vec();
        let (second, tokens) = (kept.len(), tokens[kept].to_vec());
        Ok(EncoderInput { tokens, types, second, truncated, ..EncoderInput::default() })
    }

    /// Given token types, which must be those that the model has: the tokenizer gives them to the texts of a pair.
    fn check_types(&self, field: &str, tokens: &[u32], types: &[u8]) -> Result<(), Fault> {
        if types.len() != tokens.len() {
            let message = format!("{field} has {} tokens and {} token types", tokens.len(), types.len());
            return Err(Fault::field(field, message));
        }
        let should_stop = || self.stop.is_set();
        let options = self.options(field, &Reading::within(Length::default()), &should_stop)?;
        let pair = self.encoding.text.encode(&TextOrPair::Pair("a", "b"), &options);
        let most = pair.ok().and_then(|pair| pair.types.into_iter().max()).unwrap_or(0);
        match types.iter().position(|kind| *kind > most) {
            None => Ok(()),
            Some(at) => {
                let message = format!(
                    "{field} has the token type {} at token {at}; the greatest of the model {} is {most}",
                    types[at], self.model
                );
                Err(Fault::field(field, message))
            }
        }
    }

    fn options<'a>(
        &self,
        field: &str,
        reading: &Reading<'a>,
        should_stop: &'a dyn Fn() -> bool,
    ) -> Result<EncodeOptions<'a>, Fault> {
        // A request of many texts ends between two of them too.
        if should_stop() {
            return Err(left());
        }
        let truncation = match reading.length.truncation {
            Truncation::Refuse => TextTruncation::Refuse,
            Truncation::End | Truncation::Chunk => TextTruncation::End,
            Truncation::Start => TextTruncation::Start,
        };
        if reading.length.tokens == Some(0) {
            let message = format!("the limit of tokens of {field} is 0; it must be at least 1");
            return Err(Fault::field("max_tokens", message));
        }
        Ok(EncodeOptions {
            prompt: reading.prompt,
            max_tokens: self.limit(reading.length),
            truncation,
            pair: reading.pair,
            max_second: reading.second,
            special: Special::Plain,
            offsets: reading.offsets,
            should_stop,
        })
    }

    fn too_long(&self, field: &str, tokens: usize, exact: bool, limit: usize) -> Fault {
        let (at_least, model) = (if exact { "" } else { "at least " }, self.encoding.engine.context());
        let whose = if limit < model { "the request's limit" } else { "this model's limit" };
        let message = format!("{field} has {at_least}{tokens} tokens; {whose} is {limit}");
        Fault { code: Some("context_length_exceeded"), ..Fault::field(field, message) }
    }

    /// The fault of an input that could not be built.
    pub(crate) fn fault(&self, field: &str, error: EncoderError) -> Fault {
        match error {
            EncoderError::TooLong { tokens, exact, limit } => self.too_long(field, tokens, exact, limit),
            EncoderError::FirstTooLong { .. } => {
                let message = format!("{field}: {error}");
                Fault { code: Some("context_length_exceeded"), ..Fault::field(field, message) }
            }
            EncoderError::LimitTooSmall { .. } => Fault::field("max_tokens", error.to_string()),
            EncoderError::NoPairs => Fault::unsupported(field, format!("{field}: {error}")),
            EncoderError::Stopped => left(),
            EncoderError::TooManyBytes { .. } | EncoderError::Unpartable { .. } | EncoderError::Failed(_) => {
                Fault::field(field, format!("{field}: {error}"))
            }
        }
    }
}

/// The fault of an input without anything in it.
pub(crate) fn empty(field: &str) -> Fault {
    Fault::field(field, format!("{field} is empty; it must have at least 1 character"))
}

/// What of an input is encoded and what is cut.
pub(crate) fn length(input: &EncoderInput) -> InputLength {
    InputLength { tokens: input.tokens.len(), truncated: input.truncated }
}

/// An input as the encoder takes it. `unpooled` leaves the prompt's tokens out of pooling.
pub(crate) fn text(input: EncoderInput, unpooled: bool) -> Text {
    let skip = if unpooled { input.skip.min(input.tokens.len().saturating_sub(1)) } else { 0 };
    Text { tokens: input.tokens, types: input.types, skip }
}
