//! Answers, streams and errors as each dialect writes them.
//!
//! Shapes are those of the providers' published references; fields that no client needs are left out.

pub(crate) mod anthropic;
pub(crate) mod errors;
pub(crate) mod gemini;
pub(crate) mod openai;
pub(crate) mod responses;

use crate::Dialect;
use crate::answer::Answer;
use bytes::Bytes;
use serde_json::Value;

/// A stream before it is sent: what comes before the first token, one event a token, and what comes after the last.
pub(crate) struct Events {
    pub(crate) before: Vec<Bytes>,
    pub(crate) tokens: Vec<Bytes>,
    pub(crate) after: Vec<Bytes>,
    /// The last events without which a stream is not whole, already part of `after`: their number.
    pub(crate) closing: usize,
}

/// An event with data alone.
pub(crate) fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// An event with a name, which is its data's `type`.
pub(crate) fn named(value: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or("message")))
}

/// The whole answer.
pub(crate) fn whole(answer: &Answer) -> Value {
    match answer.dialect {
        Dialect::Chat => openai::chat(answer),
        Dialect::Completions => openai::completion(answer),
        Dialect::Embeddings => openai::embeddings(answer),
        Dialect::Responses => responses::whole(answer),
        Dialect::Messages => anthropic::whole(answer),
        Dialect::Gemini => gemini::whole(answer),
    }
}

/// The stream; `array` is Gemini's form without events.
pub(crate) fn events(answer: &Answer, array: bool) -> Events {
    match answer.dialect {
        Dialect::Chat | Dialect::Completions | Dialect::Embeddings => openai::events(answer),
        Dialect::Responses => responses::events(answer),
        Dialect::Messages => anthropic::events(answer),
        Dialect::Gemini => gemini::events(answer, array),
    }
}
