//! `POST /v1/chunk`: a long text in parts that fit a model.

use serde::Serialize;

use crate::entities::Span;
use crate::error::Fault;
use crate::fields::Fields;
use crate::inputs::{EncoderOptions, choice};
use crate::request_fields::Route;
use crate::{json, limits};

/// Default of `size`, in tokens, for a model that takes as many.
pub const SIZE: usize = 256;

/// Where a text may be cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChunkBy {
    /// Between any two tokens.
    Tokens,
    /// Between sentences; within one that is longer than a chunk, between tokens.
    #[default]
    Sentences,
    /// Before each heading of Markdown; a section that is longer than a chunk is cut as by sentences.
    Headings,
}

/// A validated request.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkRequest {
    /// What every request of an encoder has.
    pub options: EncoderOptions,
    /// The text.
    pub text: String,
    /// Where it may be cut.
    pub by: ChunkBy,
    /// Most tokens of a chunk, without special tokens; none is as many as the model takes, but not more than [`SIZE`].
    pub size: Option<usize>,
    /// Tokens that a chunk has in common with the one before it, at most; at most half of `size`.
    pub overlap: usize,
}

impl ChunkRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<ChunkRequest, Fault> {
        let value = json::read(body)?;
        let body = Fields::body(&value)?;
        let options = EncoderOptions::read(&body, Route::Chunk)?;
        let words =
            [("tokens", ChunkBy::Tokens), ("sentences", ChunkBy::Sentences), ("headings", ChunkBy::Headings)];
        let text = body.text("input", usize::MAX)?.ok_or_else(|| Fault::missing("input"))?.to_owned();
        let size = body.count("size", 8..=limits::CHUNK_TOKENS)?;
        let overlap = body.count("overlap", 0..=limits::CHUNK_TOKENS)?.unwrap_or(0);
        // With half a chunk at most, the chunks together have at most twice the text's tokens.
        let half = size.unwrap_or(SIZE) / 2;
        if overlap > half {
            let message = format!("overlap is {overlap}; it must be at most half of size, {half}");
            return Err(Fault::field("overlap", message));
        }
        Ok(ChunkRequest {
            options,
            text,
            by: choice(&body, "by", &words)?.unwrap_or_default(),
            size,
            overlap,
        })
    }
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct ChunkAnswer<'a> {
    /// Always `list`.
    pub object: &'static str,
    /// Name of the model whose tokens were counted.
    pub model: &'a str,
    /// The chunks, in the order of the text.
    pub data: Vec<ChunkEntry<'a>>,
}

/// A chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChunkEntry<'a> {
    /// Index of the chunk.
    pub index: usize,
    /// Always `chunk`.
    pub object: &'static str,
    /// The part of the text.
    pub text: &'a str,
    /// Its place in bytes of UTF-8.
    pub bytes: Span,
    /// Its place in Unicode characters.
    pub chars: Span,
    /// Its tokens, without special tokens.
    pub tokens: usize,
    /// The headings above it, the outermost first.
    pub headings: &'a [String],
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_read() {
        let read = |body: serde_json::Value| ChunkRequest::parse(body.to_string().as_bytes());
        let request = read(json!({"input": "a", "by": "headings", "size": 64, "overlap": 32})).unwrap();
        assert_eq!((request.by, request.size, request.overlap), (ChunkBy::Headings, Some(64), 32));
        let request = read(json!({"input": "a"})).unwrap();
        assert_eq!((request.by, request.size, request.overlap), (ChunkBy::Sentences, None, 0));
        for (name, value) in [
            ("input", json!(["a"])),
            ("by", json!("pages")),
            ("size", json!(7)),
            ("size", json!(1e9)),
            ("overlap", json!(-1)),
            ("overlap", json!(129)),
        ] {
            let mut body = json!({"input": "a"});
            body[name] = value;
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(name));
        }
    }
}
