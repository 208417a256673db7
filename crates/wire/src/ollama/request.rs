//! `POST /api/chat` and `/api/generate`.

use serde_json::{Map, Value, json};

use super::messages;
use super::options::Options;
use super::time::KeepAlive;
use crate::chat::{self, Stream};
use crate::completion::{CompletionRequest, Prompt};
use crate::error::Fault;
use crate::fields::{Fields, show, wrong};
use crate::guided::{self, Form, Space, numbers_within};
use crate::message::{self, ToolChoice};
use crate::numbers::{self, Exact};
use crate::request_fields::{self, Route};
use crate::{ChatRequest, Guided, Handling, Ids, json, thinking};

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct OllamaRequest {
    /// The model asked for, as the client calls it; none is the default one.
    pub model: Option<String>,
    /// What is asked of it.
    pub ask: Ask,
    /// How long the model stays loaded after it.
    pub keep_alive: Option<KeepAlive>,
    /// Tokens of context that the client counts on (`num_ctx`).
    pub num_ctx: Option<usize>,
    /// Whether the model is told to think.
    pub thinks: bool,
    /// Whether the answer is sent as it comes.
    pub streamed: bool,
    /// Log-probabilities wanted, with so many alternatives.
    pub logprobs: Option<usize>,
}

/// What is asked of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// To be loaded, or with a `keep_alive` of 0 to be unloaded: nothing is to be answered.
    Load,
    /// An answer in a conversation.
    Chat(Box<ChatRequest>),
    /// A text that goes on, without a template (`raw`).
    Text(Box<CompletionRequest>),
}

/// What both endpoints have.
struct Common {
    request: OllamaRequest,
    options: Options,
    handling: Handling,
    guided: Option<Guided>,
    arguments: Map<String, Value>,
    exact: Vec<Exact>,
}

impl OllamaRequest {
    /// Reads a body of `/api/chat`. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// When a field has a wrong value or asks for what is not built here.
    pub fn parse_chat(body: &[u8]) -> Result<OllamaRequest, Fault> {
        let value = json::read(body)?;
        let fields = Fields::body(&value)?;
        let common = Common::read(&fields, Route::OllamaChat, numbers::exact(body))?;
        let messages = messages::read_all(&fields)?;
        let tools = message::tools(&fields)?;
        if messages.is_empty() {
            return Ok(common.request);
        }
        Ok(common.chat(messages, tools))
    }

    /// Reads a body of `/api/generate`. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// As [`OllamaRequest::parse_chat`].
    pub fn parse_generate(body: &[u8]) -> Result<OllamaRequest, Fault> {
        let value = json::read(body)?;
        let fields = Fields::body(&value)?;
        let common = Common::read(&fields, Route::OllamaGenerate, numbers::exact(body))?;
        let prompt = fields.text("prompt", usize::MAX)?.unwrap_or_default();
        let system = fields.text("system", usize::MAX)?.filter(|text| !text.is_empty());
        let raw = fields.boolean("raw")?.unwrap_or(false);
        if raw && system.is_some() {
            let message = "raw is true: a text that no template writes has no system; put it into prompt";
            return Err(Fault::field("system", message));
        }
        if raw && common.request.thinks {
            let message = "raw is true: a text that is continued has no thought of its own; leave think out";
            return Err(Fault::field("think", message));
        }
        if prompt.is_empty() {
            return Ok(common.request);
        }
        if raw {
            return common.text(prompt);
        }
        let system = system.map(|system| json!({"role": "system", "content": system}));
        let user = json!({"role": "user", "content": prompt});
        Ok(common.chat(system.into_iter().chain([user]).collect(), None))
    }
}

impl Common {
    fn read(body: &Fields<'_>, route: Route, exact: Vec<Exact>) -> Result<Common, Fault> {
        let mut warnings = request_fields::check(body, route)?;
        let options = Options::read(body)?;
        warnings.extend(options.warnings.iter().cloned());
        let request = OllamaRequest {
            model: body.text("model", usize::MAX)?.filter(|name| !name.is_empty()).map(str::to_owned),
            ask: Ask::Load,
            keep_alive: KeepAlive::read(body)?,
            num_ctx: options.num_ctx,
            thinks: thinks(body)?,
            streamed: body.boolean("stream")?.unwrap_or(true),
            logprobs: chat::logprobs_wanted(body)?,
        };
        Ok(Common {
            request,
            handling: Handling::read(body)?,
            guided: format(body, &exact)?,
            arguments: thinking::template_arguments(body)?,
            options: Options { warnings, ..options },
            exact,
        })
    }

    /// A conversation to go on with; one that ends in the assistant's words goes on where they end.
    fn chat(self, messages: Vec<Value>, tools: Option<Vec<Value>>) -> OllamaRequest {
        let Common { request, options, handling, guided, arguments, exact } = self;
        let begun = messages.last().is_some_and(|last| {
            let text = last["content"].as_str().is_some_and(|text| !text.trim().is_empty());
            last["role"] == "assistant" && text && last.get("tool_calls").is_none()
        });
        let chat = ChatRequest {
            model: request.model.clone(),
            messages,
            tools,
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            include_reasoning: true,
            template_arguments: arguments,
            add_generation_prompt: !begun,
            continue_final_message: begun,
            max_tokens: options.max_tokens,
            n: 1,
            sampling: options.sampling,
            handling,
            ids: Ids::default(),
            resume: None,
            logprobs: request.logprobs,
            prompt_logprobs: None,
            guided,
            thinking_budget: None,
            stream: Stream { on: request.streamed, usage: false },
            warnings: options.warnings,
            exact,
        };
        OllamaRequest { ask: Ask::Chat(Box::new(chat)), ..request }
    }

    /// A text to go on with as it is.
    fn text(self, prompt: &str) -> Result<OllamaRequest, Fault> {
        let Common { request, options, handling, guided, .. } = self;
        let completion = CompletionRequest {
            model: request.model.clone(),
            prompts: vec![Prompt::Text(prompt.to_owned())],
            add_special_tokens: true,
            max_tokens: options.max_tokens,
            n: 1,
            best_of: 1,
            echo: false,
            sampling: options.sampling,
            handling,
            ids: Ids::default(),
            resume: None,
            logprobs: request.logprobs,
            prompt_logprobs: None,
            guided,
            stream: Stream { on: request.streamed, usage: false },
            warnings: options.warnings,
        };
        completion.check()?;
        Ok(OllamaRequest { ask: Ask::Text(Box::new(completion)), ..request })
    }
}

/// Whether `think` is true or an effort.
fn thinks(body: &Fields<'_>) -> Result<bool, Fault> {
    const EFFORTS: [&str; 4] = ["low", "medium", "high", "max"];
    match body.get("think") {
        None => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(Value::String(effort)) if EFFORTS.contains(&effort.as_str()) => Ok(true),
        Some(value @ Value::String(_)) => {
            let efforts = EFFORTS.join(", ");
            let message = format!("think is {}; it must be true, false or one of {efforts}", show(value));
            Err(Fault::field("think", message))
        }
        Some(other) => Err(wrong("think", other, "true, false, or an effort")),
    }
}

/// `format`: `"json"` is any object, an object is a schema.
fn format(body: &Fields<'_>, exact: &[Exact]) -> Result<Option<Guided>, Fault> {
    let name = "format";
    let form = match body.get(name) {
        None => return Ok(None),
        Some(Value::String(word)) if word.is_empty() => return Ok(None),
        Some(Value::String(word)) if word == "json" => Form::Object,
        Some(value @ Value::String(_)) => {
            let message = format!("{name} is {}; it must be \"json\" or a JSON schema", show(value));
            return Err(Fault::field(name, message));
        }
        Some(_) => match guided::schema(body, name)? {
            Some(Form::Schema(mut schema)) => {
                schema.exact.extend(numbers_within(exact, "/format"));
                Form::Schema(schema)
            }
            _ => return Ok(None),
        },
    };
    Ok(Some(Guided { field: name.into(), form, space: Space::One }))
}
