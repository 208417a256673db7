//! Requests and answers between the dialects: what at least two of them can say.

use serde_json::{Map, Value};

use crate::base64;
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Joins a tool call's id and its signature where a dialect has no place for the latter. Clients send ids back as they
/// were, so that the signature returns to the provider that needs it.
const SIGNATURE_IN_ID: &str = "__thought__";

/// A request to generate text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NeutralRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// System prompt: the messages that come before all others.
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) format: Option<Format>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<u64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) seed: Option<i64>,
    pub(crate) stop: Vec<String>,
    /// Number of answers, if not one.
    pub(crate) n: Option<u64>,
    /// Log-probabilities are asked for, with so many alternatives for each token.
    pub(crate) logprobs: Option<u64>,
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) verbosity: Option<String>,
    /// An identifier of the end user.
    pub(crate) user: Option<String>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) service_tier: Option<Tier>,
}

/// The price and speed of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// The provider chooses.
    Auto,
    Standard,
    Flex,
    Priority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Instructions within a conversation.
    System,
    User,
    Assistant,
}

/// A message. Results of tools are parts of the user's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Refusal(String),
    Media(Media),
    Thought(Thought),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Thought {
    pub(crate) text: String,
    pub(crate) signature: Option<Signature>,
    /// Whether the signature is the whole thought, encrypted.
    pub(crate) redacted: bool,
}

/// An opaque proof of a provider that a thought is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) origin: Dialect,
    pub(crate) value: String,
}

impl Signature {
    /// Reads what stands in a body of `dialect`: its own signature, or another's with the origin before it, for Gemini in
    /// base64, as its signatures are bytes.
    pub(crate) fn read(dialect: Dialect, text: &str) -> Signature {
        let decoded = if dialect == Dialect::Gemini { base64::decode(text) } else { None };
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let foreign = decoded.as_deref().unwrap_or(text);
        Signature::with_origin(foreign)
            .unwrap_or_else(|| Signature { origin: dialect, value: text.to_owned() })
    }

    fn with_origin(text: &str) -> Option<Signature> {
        for origin in Dialect::ALL {
            if let Some(value) = text.strip_prefix(origin.name()).and_then(|rest| rest.strip_prefix('/')) {
                return Some(Signature { origin, value: value.to_owned() });
            }
        }
        None
    }

    /// What stands in a body of `dialect`.
    pub(crate) fn write(&self, dialect: Dialect) -> String {
        let tagged = || format!("{}/{}", self.origin, self.value);
        match dialect {
            _ if self.origin == dialect => self.value.clone(),
            Dialect::Gemini => base64::encode(tagged().as_bytes()),
            _ => tagged(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaKind {
    Image,
    Audio,
    Document,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Media {
    pub(crate) kind: MediaKind,
    pub(crate) source: Source,
    /// OpenAI's `detail`: `low`, `high`, `auto`.
    pub(crate) detail: Option<String>,
    pub(crate) filename: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Base64 of the bytes.
    Data {
        media_type: String,
        data: String,
    },
    Url {
        url: String,
        media_type: Option<String>,
    },
    /// A document as plain text.
    Text(String),
}

impl Source {
    /// A URL, of which `data:` URLs in base64 are taken apart.
    pub(crate) fn of_url(url: &str) -> Source {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
        if let Some((head, data)) = data
            && let Some(media_type) = head.strip_suffix(";base64")
        {
            let media_type = media_type.split(';').next().unwrap_or_default();
            return Source::Data { media_type: media_type.to_ascii_lowercase(), data: data.to_owned() };
        }
        Source::Url { url: url.to_owned(), media_type: None }
    }

    /// The URL, `data:` for bytes. Nothing for plain text.
    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Source::Data { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
            Source::Url { url, .. } => Some(url.clone()),
            Source::Text(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text of an object, as the model wrote it.
    pub(crate) arguments: String,
    /// Gemini's signature of the thought that led to the call.
    pub(crate) signature: Option<Signature>,
}

impl ToolCall {
    /// The id for dialects without a place for the signature.
    pub(crate) fn signed_id(&self) -> String {
        match &self.signature {
            None => self.id.clone(),
            Some(signature) => {
                format!("{}{SIGNATURE_IN_ID}{}/{}", self.id, signature.origin, signature.value)
            }
        }
    }

    /// The arguments as an object. What is no JSON object becomes one that holds the text.
    pub(crate) fn object(&self) -> Map<String, Value> {
        if self.arguments.trim().is_empty() {
            return Map::new();
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(object)) => object,
            _ => {
                let mut object = Map::new();
                object.insert("raw_arguments".into(), Value::from(self.arguments.as_str()));
                object
            }
        }
    }
}

/// Takes an id apart that [`ToolCall::signed_id`] has made.
pub(crate) fn split_id(id: &str) -> (String, Option<Signature>) {
    match id.split_once(SIGNATURE_IN_ID) {
        None => (id.to_owned(), None),
        Some((id, signature)) => (id.to_owned(), Signature::with_origin(signature)),
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolResult {
    pub(crate) id: String,
    /// The tool's name, where the dialect has it.
    pub(crate) name: Option<String>,
    /// Texts and media.
    pub(crate) content: Vec<Part>,
    pub(crate) is_error: bool,
}

impl ToolResult {
    /// The texts, joined by newlines.
    pub(crate) fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The media.
    pub(crate) fn media(&self) -> impl Iterator<Item = &Media> {
        self.content.iter().filter_map(|part| match part {
            Part::Media(media) => Some(media),
            _ => None,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// JSON Schema of the arguments.
    pub(crate) parameters: Option<Value>,
    pub(crate) strict: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Auto,
    None,
    /// At least one call.
    Required,
    Named(String),
    /// Only these tools; whether one must be called.
    Allowed(Vec<String>, bool),
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    /// Any JSON object.
    Json,
    Schema {
        name: Option<String>,
        description: Option<String>,
        schema: Value,
        strict: Option<bool>,
    },
}

/// How much a model thinks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reasoning {
    /// OpenAI's words: `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    pub(crate) effort: Option<String>,
    /// Most tokens of thought.
    pub(crate) budget: Option<u64>,
    /// Whether thought is switched off.
    pub(crate) off: bool,
    /// Whether the client wants to see the thoughts, or a summary.
    pub(crate) show: Option<bool>,
}

impl Reasoning {
    /// The effort; a budget stands for the effort whose usual budget it is.
    pub(crate) fn as_effort(&self) -> Option<&str> {
        match (self.effort.as_deref(), self.budget) {
            (Some(effort), _) => Some(effort),
            (None, Some(0..=2_048)) => Some("low"),
            (None, Some(2_049..=8_192)) => Some("medium"),
            (None, Some(_)) => Some("high"),
            (None, None) => None,
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NeutralAnswer {
    pub(crate) id: Option<String>,
    pub(crate) model: Option<String>,
    /// Unix time in seconds.
    pub(crate) created: Option<u64>,
    pub(crate) choices: Vec<AnswerChoice>,
    pub(crate) usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AnswerChoice {
    pub(crate) parts: Vec<Part>,
    pub(crate) finish: Option<FinishReason>,
    /// The stop sequence that ended the answer, where the dialect says it.
    pub(crate) stop_sequence: Option<String>,
    pub(crate) logprobs: Vec<TokenLogprob>,
}

impl AnswerChoice {
    /// The reason to end: one that calls tools says so, whatever the dialect's word was.
    pub(crate) fn reason(&self) -> FinishReason {
        let calls = self.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        match self.finish {
            None | Some(FinishReason::Stop) if calls => FinishReason::ToolCalls,
            None => FinishReason::Stop,
            Some(reason) => reason,
        }
    }
}

/// A token's log-probability.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenLogprob {
    pub(crate) token: String,
    pub(crate) logprob: f64,
    pub(crate) top: Vec<(String, f64)>,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// The answer begins.
    Start {
        id: Option<String>,
        model: Option<String>,
        created: Option<u64>,
    },
    Text {
        choice: u64,
        text: String,
    },
    Refusal {
        choice: u64,
        text: String,
    },
    Thought {
        choice: u64,
        text: String,
    },
    /// Ends a thought.
    ThoughtSignature {
        choice: u64,
        signature: Signature,
        redacted: bool,
    },
    /// A tool's call begins; its arguments follow.
    Call {
        choice: u64,
        id: String,
        name: String,
        signature: Option<Signature>,
    },
    /// Text to append to the arguments of the call that began last.
    Arguments {
        choice: u64,
        text: String,
    },
    Logprobs {
        choice: u64,
        tokens: Vec<TokenLogprob>,
    },
    Finish {
        choice: u64,
        reason: FinishReason,
        stop_sequence: Option<String>,
    },
    Usage(TokenUsage),
    Error(crate::StreamError),
    /// The stream's last event.
    Done,
}

/// Things that a translation leaves out, each told once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

/// Most warnings of one translation.
const MAX_WARNINGS: usize = 32;

impl Warnings {
    pub(crate) fn add(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if self.0.len() < MAX_WARNINGS && !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }

    /// Notes that a field has no counterpart in the other dialect.
    pub(crate) fn left_out(&mut self, field: &str, to: Dialect) {
        self.add(format!("{field} is left out: {to} has no counterpart"));
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
