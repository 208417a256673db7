//! `POST /v1/entities`: token classification, with places in bytes and in characters.

use serde::Serialize;

use crate::error::Fault;
use crate::fields::Fields;
use crate::huggingface::ignore_labels;
use crate::inputs::{self, Aggregation, EncoderOptions, Length, texts};
use crate::request_fields::Route;
use crate::{json, limits};

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct EntitiesRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The texts.
    pub texts: Vec<String>,
    /// How labels become entities.
    pub aggregation: Aggregation,
    /// Labels that are left out.
    pub ignore_labels: Vec<String>,
    /// The limit of length.
    pub length: Length,
}

impl EntitiesRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<EntitiesRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::Entities)?;
        Ok(EntitiesRequest {
            options,
            texts: texts(&body, "input", limits::INPUTS)?.0,
            aggregation: Aggregation::read(&body, "aggregation")?,
            ignore_labels: ignore_labels(&body)?,
            length: Length::of_model(inputs::truncate(&body, false)?.unwrap_or_default()),
        })
    }
}

/// The entities of a text.
#[derive(Debug, Clone, Serialize)]
pub struct TextEntities<'a> {
    /// Index of the text.
    pub index: usize,
    /// Always `entities`.
    pub object: &'static str,
    /// The entities, in the order of the text.
    pub entities: Vec<EntityAnswer<'a>>,
}

/// An entity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntityAnswer<'a> {
    /// The label.
    pub label: &'a str,
    /// The score.
    pub score: f32,
    /// The part of the text.
    pub text: &'a str,
    /// Its place in bytes of UTF-8.
    pub bytes: Span,
    /// Its place in Unicode characters.
    pub chars: Span,
}

/// A part of a text: from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The first one.
    pub start: usize,
    /// The one after the last.
    pub end: usize,
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Span {
        Span { start: range.start, end: range.end }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_read() {
        let read = |body: serde_json::Value| EntitiesRequest::parse(body.to_string().as_bytes());
        let request = read(json!({"input": "a", "aggregation": "first", "truncate": true})).unwrap();
        assert_eq!((request.aggregation, request.texts.len()), (Aggregation::First, 1));
        assert_eq!(read(json!({"input": ["a", "b"]})).unwrap().length, Length::default());
        for (name, value) in
            [("input", json!([1])), ("aggregation", json!("some")), ("truncate", json!("CHUNK"))]
        {
            let mut body = json!({"input": "a"});
            body[name] = value;
            assert!(read(body).unwrap_err().param.unwrap().starts_with(name));
        }
    }
}
