//! `POST /tokenize`, `/detokenize` and `/apply-template`, with vLLM's and llama.cpp's field names.

use serde::Serialize;
use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::request_fields::{self, Route};
use crate::{ChatRequest, json, limits};

/// A request of `/tokenize`.
#[derive(Debug, Clone, PartialEq)]
pub enum Tokenize {
    /// A text.
    Text {
        /// Name of the requested model; none is the default model.
        model: Option<String>,
        /// The text.
        text: String,
        /// Whether to add the model's special tokens (BOS, EOS) around the text.
        wrapped: bool,
        /// Whether the response includes the text of each token.
        pieces: bool,
    },
    /// A conversation, through the chat template, and whether the response includes the text of each token.
    Chat(Box<ChatRequest>, bool),
}

impl Tokenize {
    /// Parses a body: vLLM's `prompt` or `messages`, or llama.cpp's `content`.
    ///
    /// # Errors
    /// A field with an invalid value, or none of the three.
    pub fn parse(body: &[u8]) -> Result<Tokenize, Fault> {
        let value = json::read(body)?;
        let fields = Fields::body(&value)?;
        let pieces = fields.boolean("return_token_strs")?.or(fields.boolean("with_pieces")?).unwrap_or(false);
        if fields.get("messages").is_some() {
            return Ok(Tokenize::Chat(Box::new(ChatRequest::read(&value)?), pieces));
        }
        request_fields::check(&fields, Route::Tokenize)?;
        let (text, wrapped) = match (fields.text("prompt", usize::MAX)?, fields.text("content", usize::MAX)?)
        {
            (Some(prompt), _) => (prompt, fields.boolean("add_special_tokens")?.unwrap_or(true)),
            (None, Some(content)) => (content, fields.boolean("add_special")?.unwrap_or(false)),
            (None, None) => return Err(Fault::missing("prompt")),
        };
        Ok(Tokenize::Text {
            model: fields.text("model", usize::MAX)?.map(str::to_owned),
            text: text.to_owned(),
            wrapped,
            pieces,
        })
    }
}

/// The response of `/tokenize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tokenized {
    /// Number of tokens.
    pub count: usize,
    /// Context length: most tokens of prompt and answer together.
    pub max_model_len: usize,
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Text of each token, if requested; incomplete UTF-8 characters are shown as U+FFFD.
    pub token_strs: Option<Vec<String>>,
}

/// Parses a body of `/detokenize`: the requested model, and the token ids.
///
/// # Errors
/// `tokens` is missing, too long or not a list of token ids.
pub fn detokenize(body: &[u8]) -> Result<(Option<String>, Vec<u32>), Fault> {
    let value = json::read(body)?;
    let fields = Fields::body(&value)?;
    let list = fields.list("tokens", limits::TOKENS as usize)?.ok_or_else(|| Fault::missing("tokens"))?;
    let id = |(i, value): (usize, &Value)| {
        let id = fields::integer(&format!("tokens[{i}]"), value, 0..=i64::from(u32::MAX))?;
        Ok(u32::try_from(id).unwrap_or(u32::MAX))
    };
    let ids: Result<Vec<u32>, Fault> = list.iter().enumerate().map(id).collect();
    Ok((fields.text("model", usize::MAX)?.map(str::to_owned), ids?))
}

/// The response of `/detokenize` and `/apply-template`, with vLLM's and llama.cpp's field names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The text (vLLM's name).
    pub prompt: String,
    /// The text again (llama.cpp's name).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_names() {
        let text = |body: &str| match Tokenize::parse(body.as_bytes()).unwrap() {
            Tokenize::Text { text, wrapped, pieces, .. } => (text, wrapped, pieces),
            Tokenize::Chat(..) => panic!("{body}"),
        };
        assert_eq!(text(r#"{"prompt": "a", "return_token_strs": true}"#), ("a".into(), true, true));
        assert_eq!(text(r#"{"content": "a", "with_pieces": true}"#), ("a".into(), false, true));
        assert_eq!(text(r#"{"content": "a", "add_special": true}"#), ("a".into(), true, false));
        assert!(matches!(
            Tokenize::parse(br#"{"messages": [{"role": "user", "content": "a"}]}"#),
            Ok(Tokenize::Chat(_, false))
        ));
        assert_eq!(Tokenize::parse(b"{}").unwrap_err().param.as_deref(), Some("prompt"));
        assert_eq!(detokenize(br#"{"tokens": [1, 2]}"#).unwrap().1, [1, 2]);
        assert_eq!(detokenize(br#"{"tokens": [1, -2]}"#).unwrap_err().param.as_deref(), Some("tokens[1]"));
    }
}
