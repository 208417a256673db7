//! Inputs of encoders: texts, pairs and token ids, their limit of length, and the prompt before them.
//!
//! The types are those of the operations too; each dialect has its own names for them, which are read here.

use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields, show, wrong};
use crate::request_fields::{self, Route};
use crate::{limits, sampling};

/// An input of an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextInput {
    /// A text.
    Text(String),
    /// Two texts that are read together, such as a query and a document.
    Pair(String, String),
    /// Token ids, special tokens included.
    Tokens(Vec<u32>),
    /// Token ids with the type (segment) of each, special tokens included.
    TypedTokens {
        /// Token ids.
        tokens: Vec<u32>,
        /// The type of each token, as the model's tokenizer gives them.
        types: Vec<u8>,
    },
}

/// What becomes of an input that is longer than the model's or the request's limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Truncation {
    /// The request fails.
    #[default]
    Refuse,
    /// Tokens are cut from the end.
    End,
    /// Tokens are cut from the start.
    Start,
    /// The text is encoded in parts, whose vectors are averaged with their token counts as weights. For one vector
    /// an input only.
    Chunk,
}

/// The limit of an input's length, and what becomes of longer ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Length {
    /// Most tokens, special tokens included; none is the model's own limit, which always holds.
    pub tokens: Option<usize>,
    /// What becomes of longer inputs.
    pub truncation: Truncation,
}

impl Length {
    /// The model's own limit, with this truncation.
    pub fn of_model(truncation: Truncation) -> Length {
        Length { tokens: None, truncation }
    }
}

/// The text that is put before each input, as the model's file names it (`prompts` of
/// `config_sentence_transformers.json`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum InputPrompt {
    /// The model's default prompt, which most models do not have.
    #[default]
    Default,
    /// The prompt of this name; the request fails if the model has none of this name.
    Named(String),
    /// The first of these prompts that the model has, else none: for dialects that tell queries from documents.
    FirstOf(&'static [&'static str]),
    /// No prompt.
    None,
}

impl InputPrompt {
    /// For a query of a search.
    pub const QUERY: InputPrompt = InputPrompt::FirstOf(&["query", "search_query", "Retrieval-query"]);
    /// For a text that is searched.
    pub const DOCUMENT: InputPrompt =
        InputPrompt::FirstOf(&["document", "search_document", "passage", "Retrieval-document"]);
    /// For a text that is classified.
    pub const CLASSIFICATION: InputPrompt = InputPrompt::FirstOf(&["classification", "Classification"]);
    /// For a text that is clustered.
    pub const CLUSTERING: InputPrompt = InputPrompt::FirstOf(&["clustering", "Clustering"]);

    /// `prompt_name`; none is the model's default.
    pub(crate) fn named(body: &Fields<'_>) -> Result<InputPrompt, Fault> {
        let name = body.text("prompt_name", limits::NAME_BYTES)?;
        Ok(name.map_or(InputPrompt::Default, |name| InputPrompt::Named(name.to_owned())))
    }
}

/// How the labels of tokens become entities (transformers' `aggregation_strategy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// Each token is an entity.
    None,
    /// Neighbouring tokens of one label are an entity, by BIO and BIOES prefixes.
    #[default]
    Simple,
    /// As `Simple`; a word has the label of its first token.
    First,
    /// As `Simple`; a word has the label of its most certain token.
    Max,
    /// As `Simple`; a word has the label of its tokens' mean scores.
    Average,
}

impl Aggregation {
    /// `name`, in transformers' words; none is `simple`.
    pub(crate) fn read(body: &Fields<'_>, name: &str) -> Result<Aggregation, Fault> {
        choice(
            body,
            name,
            &[
                ("none", Aggregation::None),
                ("simple", Aggregation::Simple),
                ("first", Aggregation::First),
                ("max", Aggregation::Max),
                ("average", Aggregation::Average),
            ],
        )
        .map(Option::unwrap_or_default)
    }
}

/// What every request of an encoder has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EncoderOptions {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// Seconds after which an unfinished request fails.
    pub timeout_s: Option<f32>,
    /// Sentences about parts of the request that are left out.
    pub warnings: Vec<String>,
}

impl EncoderOptions {
    /// Checks the fields of the body against the table, and reads those that all bodies have.
    pub(crate) fn read(body: &Fields<'_>, route: Route) -> Result<EncoderOptions, Fault> {
        Ok(EncoderOptions {
            warnings: request_fields::check(body, route)?,
            model: body.text("model", usize::MAX)?.filter(|name| !name.is_empty()).map(str::to_owned),
            timeout_s: body.float("timeout", 0.001..=limits::TIMEOUT_S)?,
        })
    }
}

/// One of several words, in upper or lower case.
pub(crate) fn choice<T: Copy>(
    body: &Fields<'_>,
    name: &str,
    words: &[(&str, T)],
) -> Result<Option<T>, Fault> {
    let Some(value) = body.get(name) else { return Ok(None) };
    let param = body.param(name);
    let Some(word) = value.as_str() else { return Err(wrong(&param, value, "a string")) };
    if let Some((_, meant)) = words.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
        return Ok(Some(*meant));
    }
    let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
    let message = format!("{param} is {}; it must be one of {}", show(value), known.join(", "));
    Err(Fault::field(param, message))
}

/// A text, a list of token ids, or a list of either; and whether it was a list of inputs.
pub(crate) fn texts_or_tokens(body: &Fields<'_>, name: &str) -> Result<(Vec<TextInput>, bool), Fault> {
    const EXPECTED: &str = "a string, an array of strings or of token ids";
    let param = body.param(name);
    match body.get(name) {
        None => Err(Fault::missing(param)),
        Some(Value::String(text)) => Ok((vec![TextInput::Text(text.clone())], false)),
        Some(Value::Array(list)) if list.is_empty() => Err(empty(param)),
        Some(Value::Array(list)) if list.iter().all(Value::is_number) => {
            Ok((vec![tokens(&param, list)?], false))
        }
        Some(Value::Array(list)) if list.len() > limits::INPUTS => {
            Err(fields::too_many(&param, list.len(), limits::INPUTS))
        }
        Some(Value::Array(list)) => {
            let input = |(i, entry): (usize, &Value)| match entry {
                Value::String(text) => Ok(TextInput::Text(text.clone())),
                Value::Array(ids) => tokens(&format!("{param}[{i}]"), ids),
                other => Err(wrong(&format!("{param}[{i}]"), other, "a string or an array of token ids")),
            };
            Ok((list.iter().enumerate().map(input).collect::<Result<_, Fault>>()?, true))
        }
        Some(other) => Err(wrong(&param, other, EXPECTED)),
    }
}

fn tokens(param: &str, ids: &[Value]) -> Result<TextInput, Fault> {
    match ids.len() {
        0 => Err(Fault::field(param, format!("{param} is empty; it must have at least 1 token id"))),
        found if found > limits::INPUT_TOKENS => Err(fields::too_many(param, found, limits::INPUT_TOKENS)),
        _ => Ok(TextInput::Tokens(sampling::token_ids(param, ids)?)),
    }
}

/// A text or a list of texts; and whether it was a list.
pub(crate) fn texts(body: &Fields<'_>, name: &str, most: usize) -> Result<(Vec<String>, bool), Fault> {
    let param = body.param(name);
    match body.get(name) {
        None => Err(Fault::missing(param)),
        Some(Value::String(text)) => Ok((vec![text.clone()], false)),
        Some(Value::Array(_)) => Ok((text_list(body, name, most)?, true)),
        Some(other) => Err(wrong(&param, other, "a string or an array of strings")),
    }
}

/// A list of texts that is not empty.
pub(crate) fn text_list(body: &Fields<'_>, name: &str, most: usize) -> Result<Vec<String>, Fault> {
    let param = body.param(name);
    let list = body.list(name, most)?.ok_or_else(|| Fault::missing(param.clone()))?;
    if list.is_empty() {
        return Err(empty(param));
    }
    let entry = |(i, entry): (usize, &Value)| match entry {
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong(&format!("{param}[{i}]"), other, "a string")),
    };
    list.iter().enumerate().map(entry).collect()
}

pub(crate) fn empty(param: String) -> Fault {
    let message = format!("{param} is empty; it must have at least 1 entry");
    Fault { code: Some("empty_input"), ..Fault::field(param, message) }
}

/// vLLM's `truncate_prompt_tokens` and `truncation_side`: so many tokens are kept, -1 is as many as the model takes;
/// without the field an input that is too long is refused.
pub(crate) fn vllm_length(body: &Fields<'_>) -> Result<Option<Length>, Fault> {
    let name = "truncate_prompt_tokens";
    let side = choice(body, "truncation_side", &[("right", Truncation::End), ("left", Truncation::Start)])?;
    let tokens = match body.integer(name, -1..=limits::TOKENS)? {
        None => return Ok(side.map(Length::of_model)),
        Some(0) => {
            let message = format!("{name} is 0; it must be -1 (what the model takes) or at least 1");
            return Err(Fault::field(name, message));
        }
        Some(most) => usize::try_from(most).ok(),
    };
    Ok(Some(Length { tokens, truncation: side.unwrap_or(Truncation::End) }))
}

/// `truncate`: a boolean, or where to cut (`NONE`, `START`, `END`, `CHUNK`).
pub(crate) fn truncate(body: &Fields<'_>, chunks: bool) -> Result<Option<Truncation>, Fault> {
    let name = "truncate";
    const WORDS: [(&str, Truncation); 4] = [
        ("NONE", Truncation::Refuse),
        ("START", Truncation::Start),
        ("END", Truncation::End),
        ("CHUNK", Truncation::Chunk),
    ];
    match body.get(name) {
        None => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(if *on { Truncation::End } else { Truncation::Refuse })),
        Some(Value::String(_)) => choice(body, name, if chunks { &WORDS } else { &WORDS[..3] }),
        Some(other) => Err(wrong(&body.param(name), other, "true, false, or one of NONE, START, END")),
    }
}

/// The numbers that are kept of each vector.
pub(crate) fn dimensions(body: &Fields<'_>, name: &str) -> Result<Option<usize>, Fault> {
    body.count(name, 1..=limits::DIMENSIONS)
}

/// Checks that a text that is paired with `count` others is not repeated into more bytes than a request may hold.
pub(crate) fn check_pair_bytes(text: &str, count: usize, param: &str) -> Result<(), Fault> {
    let bytes = text.len().saturating_mul(count);
    if bytes <= limits::PAIR_BYTES {
        return Ok(());
    }
    let message = format!(
        "{param} has {} bytes and is paired with {count} texts, {bytes} bytes in all; at most {} are allowed",
        text.len(),
        limits::PAIR_BYTES
    );
    Err(Fault::field(param, message))
}
