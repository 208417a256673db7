//! The texts of a model that has a tokenizer and perhaps a chat template.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use text::{
    ChatTemplate, ConstraintCompiler, EncodeError, Infill, InfillTokens, Prompt, ReasoningTags, Special,
    TokenLimit, Tokenizer, ToolCallStyle,
};

use crate::model::{Guided, TextPipeline, Wanted};

/// The texts of a model with a tokenizer.
pub struct ModelText {
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    style: Option<ToolCallStyle>,
    calls_from_json: bool,
    /// Made when the first request needs it: most never do.
    grammars: OnceLock<Result<ConstraintCompiler, String>>,
}

impl ModelText {
    /// A tokenizer, and a template if the model has one.
    pub fn new(tokenizer: Arc<Tokenizer>, template: Option<ChatTemplate>) -> ModelText {
        let style = template.as_ref().and_then(ChatTemplate::style);
        // A model that was trained on a style writes its calls in it.
        ModelText { tokenizer, template, style, calls_from_json: style.is_none(), grammars: OnceLock::new() }
    }

    /// Reads tool calls in this style rather than the template's.
    #[must_use]
    pub fn with_style(mut self, style: ToolCallStyle) -> ModelText {
        self.style = Some(style);
        self
    }
}

impl ModelText {
    /// Takes an answer that is wholly a call in JSON for one, or does not.
    #[must_use]
    pub fn with_calls_from_json(mut self, yes: bool) -> ModelText {
        self.calls_from_json = yes;
        self
    }
}

impl TextPipeline for ModelText {
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

    fn encode_within(
        &self,
        text: &str,
        wrapped: bool,
        limit: &TokenLimit<'_>,
    ) -> Result<Vec<u32>, EncodeError> {
        self.tokenizer.encode_within(text, Special::Parse, wrapped, limit)
    }

    fn encode_prompt_within(&self, prompt: &Prompt, limit: &TokenLimit<'_>) -> Result<Vec<u32>, EncodeError> {
        self.tokenizer.encode_prompt_within(prompt, limit)
    }

    fn encode_infill(
        &self,
        infill: &Infill,
        reserved: usize,
        limit: &TokenLimit<'_>,
    ) -> Result<InfillTokens, EncodeError> {
        self.tokenizer.encode_infill(infill, reserved, limit)
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

    fn tags(&self) -> Option<ReasoningTags> {
        self.template.as_ref().and_then(ChatTemplate::tags)
    }

    fn style(&self) -> Option<ToolCallStyle> {
        self.style
    }

    fn knows_tools(&self) -> bool {
        self.template.as_ref().is_some_and(ChatTemplate::knows_tools)
    }

    fn template(&self) -> Option<&str> {
        self.template.as_ref().map(ChatTemplate::source)
    }

    fn facts(&self) -> Map<String, Value> {
        let tokenizer = &self.tokenizer;
        let text = |id: Option<u32>| Value::from(id.and_then(|id| tokenizer.token_text(id)));
        let ends: Vec<&str> = tokenizer.ends().iter().filter_map(|id| tokenizer.token_text(*id)).collect();
        let facts = [
            ("tokenizer_class", "PreTrainedTokenizerFast".into()),
            ("vocab_size", tokenizer.vocab_size().into()),
            ("bos_token", text(tokenizer.bos())),
            ("eos_token", text(tokenizer.eos())),
            ("eos_tokens", ends.into()),
            ("add_bos_token", tokenizer.adds_bos().into()),
            ("has_chat_template", self.template.is_some().into()),
        ];
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn calls_from_json(&self) -> bool {
        self.calls_from_json
    }

    fn control(&self, name: &str) -> Option<u32> {
        self.tokenizer.token_id(name).filter(|id| self.tokenizer.is_special(*id))
    }

    fn guidance(&self, wanted: &Wanted<'_>) -> Result<Guided, String> {
        let grammars = self.grammars.get_or_init(|| ConstraintCompiler::new(self.tokenizer.clone())).as_ref();
        let grammars = grammars.map_err(Clone::clone)?;
        let guidance = grammars.guidance(wanted.form, wanted.thought, wanted.budget)?;
        let warnings = guidance.warnings().to_vec();
        Ok(Guided { constrain: Arc::new(guidance), warnings })
    }
}
