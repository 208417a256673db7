//! One model as the HTTP side sees it: names, a language, and a way to the engine.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use text::{ChatTemplate, Prompt, Special, Tokenizer};

/// A model that answers.
pub struct Served {
    /// The names it goes by; the first is the one that answers carry.
    pub names: Vec<String>,
    /// When it was loaded, Unix seconds.
    pub created: u64,
    /// The way to the engine.
    pub engine: engine::Handle,
    /// Its tokens and its chat format.
    pub language: Arc<dyn Language>,
}

impl Served {
    /// A model under some names (at least one), loaded now.
    pub fn new(names: Vec<String>, engine: engine::Handle, language: Arc<dyn Language>) -> Served {
        Served { names, created: unix_seconds(), engine, language }
    }

    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("model", String::as_str)
    }
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Text to tokens and back, for one model. A trait so that the server is tested without a tokenizer's file.
pub trait Language: Send + Sync {
    /// A conversation as the text that the model continues.
    ///
    /// # Errors
    /// In words, with the template's line where known.
    fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        arguments: &Map<String, Value>,
    ) -> Result<Prompt, String>;

    /// Tokens of a conversation; only what the template wrote becomes control tokens.
    ///
    /// # Errors
    /// In words.
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, String>;

    /// Tokens of a text; control tokens that it spells are taken as such. `wrapped` adds those that the model expects
    /// around a text.
    ///
    /// # Errors
    /// In words.
    fn encode(&self, text: &str, wrapped: bool) -> Result<Vec<u32>, String>;

    /// Text of tokens.
    fn decode(&self, tokens: &[u32]) -> String;

    /// The bytes of a token; may be part of a character.
    fn bytes(&self, token: u32) -> Vec<u8>;

    /// Whether a token ends an answer.
    fn is_end(&self, token: u32) -> bool;
}

/// The real thing.
pub struct Spoken {
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
}

impl Spoken {
    /// A tokenizer, and a template if the model has one.
    pub fn new(tokenizer: Arc<Tokenizer>, template: Option<ChatTemplate>) -> Spoken {
        Spoken { tokenizer, template }
    }
}

impl Language for Spoken {
    fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        arguments: &Map<String, Value>,
    ) -> Result<Prompt, String> {
        let Some(template) = &self.template else {
            return Err("this model has no chat template; use /v1/completions".into());
        };
        let prompt = template.prompt(&self.tokenizer, messages, tools, add_generation_prompt, arguments);
        prompt.map_err(|e| e.to_string())
    }

    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        self.tokenizer.encode_prompt(prompt).map_err(|e| e.to_string())
    }

    fn encode(&self, text: &str, wrapped: bool) -> Result<Vec<u32>, String> {
        self.tokenizer.encode(text, Special::Parse, wrapped).map_err(|e| e.to_string())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode(tokens, true)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        self.tokenizer.token_bytes(token).map(<[u8]>::to_vec).unwrap_or_default()
    }

    fn is_end(&self, token: u32) -> bool {
        self.tokenizer.is_end(token)
    }
}
