//! Answers, streams and errors as each dialect writes them.
//!
//! Shapes are those of the providers' published references; fields that no client needs are left out.

pub(crate) mod anthropic;
pub(crate) mod errors;
pub(crate) mod gemini;
pub(crate) mod openai;
pub(crate) mod responses;
pub(crate) mod stream;

use crate::Dialect;
use crate::answer::Answer;
use serde_json::Value;
use stream::Events;

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
pub(crate) fn events<'a>(answer: &'a Answer, array: bool) -> Box<dyn Events + 'a> {
    match answer.dialect {
        Dialect::Chat | Dialect::Completions | Dialect::Embeddings => Box::new(openai::Chunks(answer)),
        Dialect::Responses => Box::new(responses::ResponseEvents(answer)),
        Dialect::Messages => Box::new(anthropic::MessageEvents(answer)),
        Dialect::Gemini => Box::new(gemini::Responses { answer, array }),
    }
}
