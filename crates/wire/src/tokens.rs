//! `POST /tokenize`, `/detokenize` and `/apply-template`: between text and tokens, with vLLM's names and llama.cpp's.

use serde::Serialize;
use serde_json::Value;

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::request_fields::{self, Route};
use crate::{ChatRequest, json, limits};

/// What is to be turned into tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum Tokenize {
    /// A text.
    Text {
        /// The model asked for.
        model: Option<String>,
        /// It.
        text: String,
        /// With the tokens that the model wants around a text.
        wrapped: bool,
        /// Whether the tokens' own texts are wanted.
        pieces: bool,
    },
    /// A conversation, through the chat template.
    Chat(Box<ChatRequest>, bool),
}

impl Tokenize {
    /// Reads a body: vLLM's `prompt` or `messages`, or llama.cpp's `content`.
    ///
    /// # Errors
    /// When a field has a wrong value, or none of the three is there.
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

/// Tokens of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tokenized {
    /// How many.
    pub count: usize,
    /// Most tokens of prompt and answer together.
    pub max_model_len: usize,
    /// They.
    pub tokens: Vec<u32>,
    /// Their texts, if asked for; bytes that are no text are shown as U+FFFD.
    pub token_strs: Option<Vec<String>>,
}

/// Reads the tokens of a body for `/detokenize`.
///
/// # Errors
/// When `tokens` is missing, too long or not a list of token ids.
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

/// The text of tokens, or of a conversation, under both servers' names for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// vLLM's.
    pub prompt: String,
    /// llama.cpp's.
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
