//! One loaded model: its names, what it can do, and the ways to its engines.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Constrain;
use inference::Operation;
use serde_json::{Map, Value};
use text::{
    AnswerConstraint, EncodeError, Infill, InfillTokens, Prompt, ReasoningFormat, ReasoningTags, TokenLimit,
    ToolCallStyle,
};
use wire::Fault;
use wire::oip::{ModelConfig, Signature, VERSION};

use crate::encoding::Encoding;
use crate::model_details::ModelDetails;
use crate::pipelines::Pipeline;
use crate::signature;
use crate::tensor_model::TensorModel;

/// A model that answers: it generates text, encodes texts, or both; or it makes tensors of tensors.
pub struct LoadedModel {
    /// The names it goes by; the first is the one that answers carry.
    pub names: Vec<String>,
    /// When it was loaded, Unix seconds.
    pub created: u64,
    /// The version of the model.
    pub version: Arc<str>,
    /// Everything that generated text depends on: weights, tier, storage of the KV cache. Models of equal fingerprints
    /// continue each other's answers; none if it is not known.
    pub fingerprint: Option<Arc<str>>,
    /// What its file is.
    pub details: ModelDetails,
    /// The configuration that it was given.
    pub config: Option<Arc<ModelConfig>>,
    /// At least one of these is there.
    generating: Option<Generating>,
    encoding: Option<Encoding>,
    tensors: Option<Arc<dyn TensorModel>>,
    pipeline: Option<Arc<Pipeline>>,
}

/// A model's way of generating text.
#[derive(Clone)]
pub struct Generating {
    /// The way to the engine.
    pub engine: engine::Handle,
    /// The tokenizer and the chat format.
    pub text: Arc<dyn TextPipeline>,
}

impl LoadedModel {
    /// A model that generates, under some names (at least one), loaded now.
    pub fn new(names: Vec<String>, engine: engine::Handle, text: Arc<dyn TextPipeline>) -> LoadedModel {
        LoadedModel::with(names, Some(Generating { engine, text }), None)
    }

    /// A model that encodes, under some names (at least one), loaded now.
    pub fn encoder(names: Vec<String>, encoding: Encoding) -> LoadedModel {
        LoadedModel::with(names, None, Some(encoding))
    }

    /// A model of tensors, under some names (at least one), loaded now.
    pub fn tensor_model(names: Vec<String>, tensors: Arc<dyn TensorModel>) -> LoadedModel {
        LoadedModel { tensors: Some(tensors), ..LoadedModel::with(names, None, None) }
    }

    /// A pipeline, under some names (at least one), loaded now.
    pub fn pipeline_of(names: Vec<String>, pipeline: Pipeline) -> LoadedModel {
        LoadedModel { pipeline: Some(Arc::new(pipeline)), ..LoadedModel::with(names, None, None) }
    }

    fn with(names: Vec<String>, generating: Option<Generating>, encoding: Option<Encoding>) -> LoadedModel {
        let details = ModelDetails::default();
        let created = unix_seconds();
        let version = Arc::from(VERSION);
        LoadedModel {
            names,
            created,
            version,
            fingerprint: None,
            details,
            config: None,
            generating,
            encoding,
            tensors: None,
            pipeline: None,
        }
    }

    /// The same, which encodes too.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> LoadedModel {
        self.encoding = Some(encoding);
        self
    }

    /// The same, with what its file is.
    #[must_use]
    pub fn with_details(mut self, details: ModelDetails) -> LoadedModel {
        self.details = details;
        self
    }

    /// The same, with the configuration that it was given.
    #[must_use]
    pub fn with_config(mut self, config: Option<Arc<ModelConfig>>) -> LoadedModel {
        self.config = config;
        self
    }

    /// The name that answers carry.
    pub fn name(&self) -> &str {
        self.names.first().map_or("model", String::as_str)
    }

    /// How it generates text, if it does.
    pub fn generating(&self) -> Option<&Generating> {
        self.generating.as_ref()
    }

    /// How it encodes texts, if it does.
    pub fn encoding(&self) -> Option<&Encoding> {
        self.encoding.as_ref()
    }

    /// How it makes tensors of tensors, if that is what it is.
    pub fn tensors(&self) -> Option<&Arc<dyn TensorModel>> {
        self.tensors.as_ref()
    }

    /// How it answers by other models, if that is what it is.
    pub fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        self.pipeline.as_ref()
    }

    /// The tensors that it takes and gives.
    pub fn signature(&self) -> Arc<Signature> {
        match (&self.tensors, &self.pipeline) {
            (Some(tensors), _) => tensors.signature(),
            (None, Some(pipeline)) => pipeline.signature(),
            (None, None) => {
                let heads = self.encoding.as_ref().map(|encoding| encoding.heads.as_ref());
                Arc::new(signature::of_texts(heads, self.generating.is_some()))
            }
        }
    }

    /// How it generates text.
    ///
    /// # Errors
    /// It does not; the fault names what it does.
    pub fn generation(&self) -> Result<&Generating, Fault> {
        self.generating.as_ref().ok_or_else(|| self.unable("generate text"))
    }

    /// Whether its encoder answers an operation; what it does not, the generating model may.
    pub(crate) fn encodes(&self, operation: &Operation) -> bool {
        let name = operation.name();
        let encoder = self.encoding.as_ref();
        let can = encoder.is_some_and(|encoding| encoding.heads.operations().contains(&name));
        can || self.generating.is_none() || !JUDGED.contains(&name)
    }

    /// The fault of a request for something that the model cannot do.
    pub(crate) fn unable(&self, what: &str) -> Fault {
        let able = self.operations().join(", ");
        let message = format!("the model {} does not {what}; what it can do: {able}", self.name());
        Fault::unsupported("model", message)
    }

    /// Names of the operations that the model supports (`inference::Operation::name`).
    pub fn operations(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        if self.generating.is_some() {
            all.extend(["generate", "tokenize"]);
            all.extend(JUDGED);
        }
        if self.tensors.is_some() || self.pipeline.is_some() {
            all.push("infer");
        }
        for operation in self.encoding.iter().flat_map(|encoding| encoding.heads.operations()) {
            if !all.contains(&operation) {
                all.push(operation);
            }
        }
        all
    }

    /// Most tokens of a prompt and its answer together, or of an encoder's input.
    pub fn context(&self) -> usize {
        let generating = self.generating.as_ref().map(|generating| generating.engine.context());
        generating.or(self.encoding.as_ref().map(|encoding| encoding.engine.context())).unwrap_or_default()
    }

    /// Whether its engines take requests.
    pub(crate) fn is_open(&self) -> bool {
        self.generating.as_ref().is_none_or(|generating| generating.engine.is_open())
            && self.encoding.as_ref().is_none_or(|encoding| encoding.engine.is_open())
    }

    /// Closes its engines to new requests; accepted ones continue.
    pub(crate) fn close(&self) {
        if let Some(generating) = &self.generating {
            generating.engine.close();
        }
        if let Some(encoding) = &self.encoding {
            encoding.engine.close();
        }
    }

    /// Takes no more requests, and has the engines finish what they have within the deadline. It blocks for as long.
    pub(crate) fn drain(&self, deadline: Duration) {
        self.close();
        let began = Instant::now();
        if let Some(generating) = &self.generating {
            generating.engine.drain(deadline);
        }
        if let Some(encoding) = &self.encoding {
            encoding.engine.drain(deadline.saturating_sub(began.elapsed()));
        }
    }
}

/// Operations that a generating model answers by how likely it finds each answer.
const JUDGED: [&str; 3] = ["rerank", "classify", "score"];

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Text to tokens and back, for one model. A trait so that the server is tested without a tokenizer's file.
pub trait TextPipeline: Send + Sync {
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

    /// As [`TextPipeline::encode`], up to a limit.
    ///
    /// # Errors
    /// Too many tokens, the work was stopped, or it failed, in words.
    fn encode_within(
        &self,
        text: &str,
        wrapped: bool,
        limit: &TokenLimit<'_>,
    ) -> Result<Vec<u32>, EncodeError> {
        limit.check(self.encode(text, wrapped).map_err(EncodeError::Failed)?)
    }

    /// As [`TextPipeline::encode_prompt`], up to a limit.
    ///
    /// # Errors
    /// As [`TextPipeline::encode_within`].
    fn encode_prompt_within(&self, prompt: &Prompt, limit: &TokenLimit<'_>) -> Result<Vec<u32>, EncodeError> {
        limit.check(self.encode_prompt(prompt).map_err(EncodeError::Failed)?)
    }

    /// Tokens of a text with a gap, as [`text::Tokenizer::encode_infill`].
    ///
    /// # Errors
    /// As [`TextPipeline::encode_within`]; the model cannot fill in.
    fn encode_infill(
        &self,
        _infill: &Infill,
        _reserved: usize,
        _limit: &TokenLimit<'_>,
    ) -> Result<InfillTokens, EncodeError> {
        Err(EncodeError::Failed("this model cannot fill in".into()))
    }

    /// Text of tokens.
    fn decode(&self, tokens: &[u32]) -> String;

    /// The bytes of a token; may be part of a character.
    fn bytes(&self, token: u32) -> Vec<u8>;

    /// Whether a token is a control token: one without a place in a text.
    fn is_silent(&self, token: u32) -> bool {
        self.decode(&[token]).is_empty() && !self.bytes(token).is_empty()
    }

    /// Whether a token ends an answer.
    fn is_end(&self, token: u32) -> bool;

    /// How the model marks its thoughts, if it thinks.
    fn tags(&self) -> Option<ReasoningTags> {
        None
    }

    /// How the model calls tools.
    fn style(&self) -> Option<ToolCallStyle> {
        None
    }

    /// Whether the chat template does anything with tools.
    fn knows_tools(&self) -> bool {
        false
    }

    /// The chat template, in Jinja's language.
    fn template(&self) -> Option<&str> {
        None
    }

    /// What is known of the tokenizer, in the words of `tokenizer_config.json`.
    fn facts(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Whether an answer that is wholly a call in JSON, without any mark, counts as a call.
    fn calls_from_json(&self) -> bool {
        false
    }

    /// The control token of this name, if there is one.
    fn control(&self, _name: &str) -> Option<u32> {
        None
    }

    /// What answers must be like: of a form, with a thought of at most so many tokens.
    ///
    /// # Errors
    /// In words, why that cannot be held.
    fn guidance(&self, _wanted: &Wanted<'_>) -> Result<Guided, String> {
        Err("this model's answers cannot be constrained".into())
    }
}

/// What leads answers.
#[derive(Clone)]
pub struct Guided {
    /// For the engine.
    pub constrain: Arc<dyn Constrain>,
    /// What of the form is not held to, each a sentence for the client.
    pub warnings: Vec<String>,
}

/// What answers must be like.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Their form.
    pub form: Option<&'a AnswerConstraint>,
    /// The thought before it.
    pub thought: Option<&'a ReasoningFormat>,
    /// Most tokens of the thought.
    pub budget: Option<usize>,
}
