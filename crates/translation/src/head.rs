//! What a gateway decides by, read from a request's body in one pass that builds no values.

use std::ops::Range;

use wire::Fault;
use wire::error::quote;

use crate::Dialect;
use crate::object::{Field, Object};
use crate::skim::{NotJson, Skim};
use crate::turns;

pub use crate::object::MAX_FIELDS;

/// Most messages of a body.
pub const MAX_MESSAGES: usize = 65_536;

/// The head of a request: what routing, budgets and labels need. Ranges are places in the body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The dialect it was read as.
    pub dialect: Dialect,
    /// The model. Gemini has it in the path ([`crate::GeminiPath`]), so that the caller sets it.
    pub model: Option<String>,
    /// Whether the answer is to be a stream. Gemini has that in the path, too.
    pub stream: bool,
    /// The most tokens of the answer that the client allows.
    pub max_tokens: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The seed of the sampling.
    pub seed: Option<i64>,
    /// Number of answers asked for: `n`, Gemini's `candidateCount`.
    pub n: u64,
    /// Whether the request defines tools.
    pub has_tools: bool,
    /// Whether the last message is a tool's result: the request is a step of a loop that a model has begun.
    pub tool_turn: bool,
    /// Whether a message has an image, a sound or a file.
    pub has_media: bool,
    /// The end user: `user`, `safety_identifier`, Anthropic's `metadata.user_id`.
    pub user: Option<String>,
    /// `service_tier`, as sent.
    pub service_tier: Option<String>,
    /// vLLM's `priority`, as sent: a number or a name.
    pub priority: Option<String>,
    /// vLLM's `cache_salt`.
    pub cache_salt: Option<String>,
    /// Whether a chat client asked for usage at the end of a stream (`stream_options.include_usage`). The other
    /// dialects' streams always have it.
    pub include_usage: bool,
    /// Whether the client asked for log-probabilities.
    pub logprobs: bool,
    /// Whether the request needs a state that its upstream keeps: `previous_response_id`, `conversation`, `store: true`,
    /// `background: true`, Gemini's `cachedContent`.
    pub stateful: bool,
    /// Places of the messages, the system prompt first, in order. Completions have the prompt here, embeddings the input.
    pub messages: Vec<Range<usize>>,
    /// Place of the tools' definitions.
    pub tools: Option<Range<usize>>,
    pub(crate) fields: Vec<Field>,
}

impl Head {
    /// Reads a body. Only what [`Head`] holds is looked at; the rest is checked to be JSON.
    ///
    /// # Errors
    /// 400 if the body is not a JSON object in UTF-8, has a field twice, has more than [`MAX_FIELDS`] fields or
    /// [`MAX_MESSAGES`] messages, or a field of the head has a value of the wrong type.
    pub fn read(dialect: Dialect, body: &[u8]) -> Result<Head, Fault> {
        if let Err(error) = std::str::from_utf8(body) {
            return Err(Fault::not_json(format!("it is not UTF-8 at byte {}", error.valid_up_to())));
        }
        let mut reader = Reader::new(dialect);
        let mut skim = Skim::new(body);
        let walked = skim.object(|skim, key| reader.field(skim, key)).and_then(|()| skim.end());
        if let Err(error) = walked {
            return Err(Fault::not_json(error));
        }
        reader.finish(body)
    }

    /// The messages as raw JSON, the system prompt first, for hashes of prefixes.
    pub fn raw_messages<'b>(&self, body: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.messages.iter().map(|range| body.get(range.clone()).unwrap_or_default())
    }

    /// The raw JSON value of a field of the outermost object.
    pub fn raw_field<'b>(&self, body: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.place(name).and_then(|range| body.get(range.clone()))
    }

    /// Bytes of messages and tools: an upper bound of the prompt's length for estimates.
    pub fn prompt_bytes(&self) -> usize {
        self.messages.iter().chain(&self.tools).map(Range::len).sum()
    }

    /// Names of the fields of the outermost object, in order.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    pub(crate) fn place(&self, name: &str) -> Option<&Range<usize>> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

/// The parts of a head as they are found, in the order of the body.
struct Reader {
    dialect: Dialect,
    fields: Vec<Field>,
    messages: Vec<Range<usize>>,
    system: Option<Range<usize>>,
    /// What the body has too many of, or twice: reported after the walk, which only knows of JSON.
    refused: Option<Fault>,
}

/// Fields that hold the conversation, in the order of preference; `prompt`, `input` and `query` are those of OpenAI's
/// completions, embeddings and rerank.
fn message_fields(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::OpenAiChat => &["messages", "prompt", "input", "query", "documents"],
        Dialect::OpenAiResponses => &["input"],
        Dialect::Anthropic => &["messages"],
        Dialect::Gemini => &["contents"],
    }
}

fn system_fields(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::OpenAiChat => &[],
        Dialect::OpenAiResponses => &["instructions"],
        Dialect::Anthropic => &["system"],
        Dialect::Gemini => &["systemInstruction", "system_instruction"],
    }
}

impl Reader {
    fn new(dialect: Dialect) -> Reader {
        Reader { dialect, fields: Vec::with_capacity(16), messages: Vec::new(), system: None, refused: None }
    }

    fn field(&mut self, skim: &mut Skim<'_>, key: &Range<usize>) -> Result<(), NotJson> {
        let name = skim.text(key);
        if self.fields.len() >= MAX_FIELDS {
            let message = format!("the body has more than {MAX_FIELDS} fields");
            self.refused.get_or_insert_with(|| Fault::body(message));
            return skim.skip();
        }
        if self.fields.iter().any(|field| field.name == name) {
            let message = format!("the key {} is there twice", quote(&name));
            self.refused.get_or_insert_with(|| Fault::not_json(message));
        }
        let split = message_fields(self.dialect).contains(&name.as_ref()) && skim.next_byte() == Some(b'[');
        let value = if split { self.elements(skim)? } else { skim.value()? };
        if !split && message_fields(self.dialect).contains(&name.as_ref()) {
            self.messages.push(value.clone());
        }
        if system_fields(self.dialect).contains(&name.as_ref()) && skim.slice(&value) != b"null" {
            self.system = Some(value.clone());
        }
        self.fields.push(Field { name: name.into_owned(), key: key.clone(), value });
        Ok(())
    }

    /// Notes each element of an array as a message. Arrays of numbers are prompts of token ids: one message.
    fn elements(&mut self, skim: &mut Skim<'_>) -> Result<Range<usize>, NotJson> {
        let from = skim.at();
        let first = self.messages.len();
        let mut numbers = false;
        skim.array(|skim, _| {
            numbers |= matches!(skim.next_byte(), Some(b'0'..=b'9' | b'-'));
            let element = skim.value()?;
            if numbers {
                return Ok(());
            }
            if self.messages.len() < MAX_MESSAGES {
                self.messages.push(element);
            } else {
                let message = format!("the body has more than {MAX_MESSAGES} messages");
                self.refused.get_or_insert_with(|| Fault::body(message));
            }
            Ok(())
        })?;
        if numbers {
            self.messages.truncate(first);
            self.messages.push(from..skim.at());
        }
        Ok(from..skim.at())
    }

    fn finish(mut self, body: &[u8]) -> Result<Head, Fault> {
        if let Some(fault) = self.refused {
            return Err(fault);
        }
        let tool_turn = self.messages.last().and_then(|last| body.get(last.clone()));
        let tool_turn = tool_turn.is_some_and(|last| turns::is_tool_result(self.dialect, last));
        if let Some(system) = self.system {
            self.messages.insert(0, system);
        }
        let mut head = Head {
            dialect: self.dialect,
            model: None,
            stream: false,
            max_tokens: None,
            temperature: None,
            seed: None,
            n: 1,
            has_tools: false,
            tool_turn,
            has_media: turns::has_media(self.dialect, body, &self.messages),
            user: None,
            service_tier: None,
            priority: None,
            cache_salt: None,
            include_usage: false,
            logprobs: false,
            stateful: false,
            messages: self.messages,
            tools: None,
            fields: self.fields,
        };
        match self.dialect {
            Dialect::OpenAiChat => head.chat(body)?,
            Dialect::OpenAiResponses => head.responses(body)?,
            Dialect::Anthropic => head.anthropic(body)?,
            Dialect::Gemini => head.gemini(body)?,
        }
        Ok(head)
    }
}

impl Head {
    fn chat(&mut self, body: &[u8]) -> Result<(), Fault> {
        let from = Object::new(&self.fields, body);
        self.model = from.text("model")?;
        self.stream = from.flag("stream")?;
        self.max_tokens = match from.count("max_completion_tokens")? {
            None => from.count("max_tokens")?,
            some => some,
        };
        self.temperature = from.number("temperature")?;
        self.seed = from.integer("seed")?;
        self.n = from.count("n")?.unwrap_or(1);
        self.user = match from.text("user")? {
            None => from.text("safety_identifier")?,
            some => some,
        };
        self.service_tier = from.text("service_tier")?;
        self.priority = from.scalar("priority");
        self.cache_salt = from.text("cache_salt")?;
        // Completions have a number here.
        self.logprobs = from.raw("logprobs").is_some_and(|raw| !matches!(raw, b"null" | b"false"));
        self.stateful = from.flag("store")?;
        self.tools = from.list("tools");
        self.has_tools = self.tools.is_some() || from.list("functions").is_some();
        self.include_usage = match from.object("stream_options", "stream_options.")? {
            Some(options) => options.flag("include_usage")?,
            None => false,
        };
        Ok(())
    }

    fn responses(&mut self, body: &[u8]) -> Result<(), Fault> {
        let from = Object::new(&self.fields, body);
        self.model = from.text("model")?;
        self.stream = from.flag("stream")?;
        self.max_tokens = from.count("max_output_tokens")?;
        self.temperature = from.number("temperature")?;
        self.seed = from.integer("seed")?;
        self.user = match from.text("user")? {
            None => from.text("safety_identifier")?,
            some => some,
        };
        self.service_tier = from.text("service_tier")?;
        self.priority = from.scalar("priority");
        self.cache_salt = from.text("cache_salt")?;
        let included = from.raw("include").unwrap_or_default();
        self.logprobs = memchr::memmem::find(included, b"\"message.output_text.logprobs\"").is_some();
        let given = |name| from.raw(name).is_some_and(|raw| raw != b"null");
        self.stateful = from.flag("store")?
            || from.flag("background")?
            || given("previous_response_id")
            || given("conversation");
        self.tools = from.list("tools");
        self.has_tools = self.tools.is_some();
        self.include_usage = true;
        Ok(())
    }

    fn anthropic(&mut self, body: &[u8]) -> Result<(), Fault> {
        let from = Object::new(&self.fields, body);
        self.model = from.text("model")?;
        self.stream = from.flag("stream")?;
        self.max_tokens = from.count("max_tokens")?;
        self.temperature = from.number("temperature")?;
        self.user = match from.object("metadata", "metadata.")? {
            Some(metadata) => metadata.text("user_id")?,
            None => None,
        };
        self.service_tier = from.text("service_tier")?;
        self.priority = from.scalar("priority");
        self.cache_salt = from.text("cache_salt")?;
        self.tools = from.list("tools");
        self.has_tools = self.tools.is_some();
        self.include_usage = true;
        Ok(())
    }

    fn gemini(&mut self, body: &[u8]) -> Result<(), Fault> {
        let from = Object::new(&self.fields, body);
        let config = match from.object("generationConfig", "generationConfig.")? {
            None => from.object("generation_config", "generation_config.")?,
            some => some,
        };
        if let Some(config) = &config {
            let either = |camel: &'static str, snake: &'static str| {
                if config.raw(camel).is_some() { camel } else { snake }
            };
            self.max_tokens = config.count(either("maxOutputTokens", "max_output_tokens"))?;
            self.temperature = config.number("temperature")?;
            self.seed = config.integer("seed")?;
            self.n = config.count(either("candidateCount", "candidate_count"))?.unwrap_or(1);
            self.logprobs = config.flag(either("responseLogprobs", "response_logprobs"))?;
        }
        self.service_tier = from.text("serviceTier")?;
        let given = |name| from.raw(name).is_some_and(|raw| raw != b"null");
        self.stateful = given("cachedContent") || given("cached_content");
        self.tools = from.list("tools");
        self.has_tools = self.tools.is_some();
        self.include_usage = true;
        Ok(())
    }
}
