//! Chat templates: render messages to the prompt format that a model was trained on.
//!
//! A template is Jinja2 as in Hugging Face transformers (`apply_chat_template`), run by minijinja. It comes with the
//! model file and is untrusted: its steps and output are limited, and it can access only its variables. Python's
//! differences from minijinja are in `python` and `methods`.

mod conversation;
mod coverage;
mod environment;
mod error;
mod expressions;
mod limits;
mod meter;
mod methods;
mod named;
mod operations;
mod prepare;
mod probe;
mod python;
mod rewrite;
mod source;
mod strftime;
mod switches;
mod templates;
mod turns;
mod writer;

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};

pub use error::TemplateError;
pub use probe::ContentFormat;
pub(crate) use templates::Templates;

use crate::parts::ReasoningTags;
use crate::tools::ToolCallStyle;
use error::raised;
use limits::{FUEL, MAX_OUTPUT};
use probe::Traits;

/// The most steps of a probing run, with a few short messages.
const PROBE_FUEL: u64 = FUEL / PROBE_SHARE;
/// The divisor of the limits for a probing run.
const PROBE_SHARE: u64 = 8;
/// Stack for the interpreter, as address space. It recurses where a template nests: `1+1+1…` while compiling, one level
/// every two bytes; `{% set ns.x = [ns.x] %}` in a loop when the value is dropped, one level every few steps. No limit
/// of its own holds that, so the stack is deep enough for what `MAX_SOURCE` and `FUEL` allow.
const STACK: usize = 1 << 30;
const NAME: &str = "chat";
const TOOL_NAME: &str = "tool_use";

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// The names of control tokens, as template variables (`bos_token`, …).
    tokens: Map<String, Value>,
    for_tools: bool,
    style: Option<ToolCallStyle>,
    tags: Option<ReasoningTags>,
    knows_tools: bool,
    /// The source of the template (of the one for tools, if there is one).
    source: String,
    /// The traits of the template and of the one for tools, probed on first use.
    traits: [Mutex<Option<Traits>>; 2],
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// A syntax error with its line; a source that is too long.
    pub fn compile(source: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::assemble(&Templates { default: source.to_owned(), tool_use: None }, Map::new())
    }

    /// One of the well-known formats by name, for models without a template.
    pub fn named(name: &str) -> Option<ChatTemplate> {
        ChatTemplate::by_name(name, None).ok()
    }

    /// As [`named`](ChatTemplate::named), for a file that has a name instead of a template. `begins`: whether the
    /// template must write BOS; `None` for the format's default.
    ///
    /// # Errors
    /// An unknown name; the error lists the known ones.
    pub(crate) fn by_name(name: &str, begins: Option<bool>) -> Result<ChatTemplate, TemplateError> {
        let Some((tokens, source)) = named::find(name, begins) else {
            let known: Vec<_> = named::names().collect();
            return Err(TemplateError::new(format!(
                "is the name {name:?} and no template; names known: {}",
                known.join(", ")
            )));
        };
        let tokens = tokens.iter().map(|(name, token)| ((*name).to_owned(), Value::from(*token))).collect();
        ChatTemplate::assemble(&Templates { default: source, tool_use: None }, tokens)
    }

    /// The names that [`named`](ChatTemplate::named) accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        named::names()
    }

    /// Sets the names of control tokens (`bos_token`, `eos_token`, …).
    #[must_use]
    pub fn with_tokens(mut self, tokens: Map<String, Value>) -> ChatTemplate {
        self.tokens.extend(tokens);
        self.traits = Default::default();
        self
    }

    /// Replaces the system clock, in seconds since 1970 (dates are in UTC).
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> ChatTemplate {
        environment::install_clock(&mut self.environment, Arc::new(clock));
        self
    }

    pub(crate) fn assemble(
        templates: &Templates,
        tokens: Map<String, Value>,
    ) -> Result<ChatTemplate, TemplateError> {
        let mut environment = Environment::empty();
        environment.set_debug(false);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(100);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment::install(&mut environment);
        environment::install_clock(&mut environment, Arc::new(system_clock));
        deep(|| {
            let metered =
                |source: &str| Ok::<_, TemplateError>(rewrite::metered(&prepare::prepare(source)?)?);
            environment.add_template_owned(NAME, metered(&templates.default)?)?;
            if let Some(source) = &templates.tool_use {
                environment.add_template_owned(TOOL_NAME, metered(source)?)?;
            }
            Ok(())
        })?;
        let source = templates.tool_use.as_deref().unwrap_or(&templates.default);
        Ok(ChatTemplate {
            environment,
            tokens,
            for_tools: templates.tool_use.is_some(),
            style: ToolCallStyle::of_template(source),
            tags: ReasoningTags::of_template(&templates.default),
            knows_tools: source.contains("tools"),
            source: source.to_owned(),
            traits: Default::default(),
        })
    }

    /// The model's tool-call style, if the template shows it.
    pub fn style(&self) -> Option<ToolCallStyle> {
        self.style
    }

    /// The model's reasoning tags, if the template shows them.
    pub fn tags(&self) -> Option<ReasoningTags> {
        self.tags
    }

    /// Whether the template supports tools.
    pub fn knows_tools(&self) -> bool {
        self.knows_tools
    }

    /// The Jinja source of the template; of two, the one for conversations with tools.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation, with control tokens by name. `add_generation_prompt` begins the assistant's turn;
    /// `extra` are further template variables. As in transformers, message keys with value null are removed, and
    /// reasoning is available under each of its usual names.
    ///
    /// # Errors
    /// The template raised an exception or failed, with the line; or it exceeded its limits.
    pub fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
    ) -> Result<String, TemplateError> {
        let traits = self.traits(tools.is_some())?;
        let variables = self.variables(messages, tools, add_generation_prompt, extra, Some(&traits));
        deep(|| self.run(&self.environment, self.name(tools.is_some()), &variables))
    }

    /// The template for conversations with tools or without.
    fn name(&self, with_tools: bool) -> &'static str {
        if self.for_tools && with_tools { TOOL_NAME } else { NAME }
    }

    /// The variables of the template. Message texts get the format of `traits`.
    fn variables(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
        traits: Option<&Traits>,
    ) -> Map<String, Value> {
        let shaped = |given: &Value| traits.map_or_else(|| message(given), |t| message(&t.shape(given)));
        let mut variables = self.tokens.clone();
        variables.insert("documents".into(), Value::Null);
        variables.extend(extra.iter().map(|(name, value)| (name.clone(), switch(name, value))));
        variables.insert("messages".into(), messages.iter().map(shaped).collect());
        variables.insert("tools".into(), tools.map_or(Value::Null, Into::into));
        variables.insert("add_generation_prompt".into(), add_generation_prompt.into());
        variables
    }

    fn run(
        &self,
        environment: &Environment<'static>,
        name: &str,
        variables: &Map<String, Value>,
    ) -> Result<String, TemplateError> {
        let template = environment.get_template(name)?;
        let short = environment.fuel().is_some_and(|fuel| fuel < FUEL);
        meter::start(variables.values().map(weight).sum(), if short { PROBE_SHARE } else { 1 });
        let mut out = Limited(Vec::new());
        // Template and interpreter are third-party code: a panic must not take the server down.
        let run = AssertUnwindSafe(|| template.render_captured_to(variables, &mut out).map(|_| ()));
        match std::panic::catch_unwind(run) {
            Ok(Ok(())) => String::from_utf8(out.0).map_err(|e| TemplateError::new(e.to_string())),
            Ok(Err(error)) => Err(raised(&error).unwrap_or(error.into())),
            Err(_) => Err(TemplateError::new("the interpreter failed on this template")),
        }
    }
}

/// Runs `body` on a stack that no template can exhaust.
fn deep<T: Send>(body: impl FnOnce() -> Result<T, TemplateError> + Send) -> Result<T, TemplateError> {
    cpu::thread::with_stack(STACK, body)
        .map_err(|error| TemplateError::new(format!("no thread to run it on: {error}")))?
}

/// Converts "true" and "false" to booleans for known switches. The string "false" is true in Jinja2, but clients
/// without booleans send it.
fn switch(name: &str, value: &Value) -> Value {
    const SWITCHES: [&str; 5] =
        ["enable_thinking", "thinking", "enable_reasoning", "preserve_thinking", "clear_thinking"];
    match value.as_str().filter(|_| SWITCHES.contains(&name)) {
        Some(text) if text.eq_ignore_ascii_case("true") => true.into(),
        Some(text) if text.eq_ignore_ascii_case("false") => false.into(),
        _ => value.clone(),
    }
}

/// The size of a value: bytes of its texts, plus a constant for each inner value.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 + 16,
        Value::Array(items) => items.iter().map(weight).sum::<u64>() + 16,
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| key.len() as u64 + weight(field)).sum::<u64>() + 16
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
    }
}

/// A message in the form that templates expect.
fn message(message: &Value) -> Value {
    const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
    let Value::Object(given) = message else { return message.clone() };
    let mut known: Map<String, Value> = Map::new();
    let set = given.iter().filter(|(_, value)| !value.is_null());
    let reasoning = REASONING.iter().find_map(|name| given.get(*name).filter(|value| !value.is_null()));
    if let Some(reasoning) = reasoning {
        known.insert("thinking".into(), reasoning.clone());
    }
    known.extend(set.map(|(key, value)| (key.clone(), value.clone())));
    if let Some(reasoning) = reasoning {
        known.insert("reasoning_content".into(), reasoning.clone());
    }
    Value::Object(known)
}

fn system_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A writer with a size limit.
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("for_tools", &self.for_tools).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::ChatTemplate;
    use super::limits::MAX_SOURCE;
    use serde_json::{Map, json};

    /// Found by fuzzing: each of these overflowed the stack, which no `catch_unwind` catches.
    #[test]
    fn nesting_ends_in_an_answer() {
        let fill = |head: &str, unit: &str, tail: &str| {
            let count = (MAX_SOURCE - head.len() - tail.len()) / unit.len();
            format!("{head}{}{tail}", unit.repeat(count))
        };
        let hostile = [
            "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}".to_owned(),
            "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x | tojson }}"
                .to_owned(),
            fill("{{ 1", "+1", " }}"),
            fill("{{ ", "-", "1 }}"),
            fill("{{ ", "not ", "1 }}"),
            fill("{{ a", ".a", " }}"),
            fill("{% if 0 %}", "{%elif 0%}", "{% endif %}"),
            fill("{{ 1", "**1", " }}"),
            fill("{{ ", "1 if 1 else ", "1 }}"),
        ];
        for source in hostile {
            let start: String = source.chars().take(60).collect();
            // Whether it is refused or rendered does not matter; that there is an answer does.
            match ChatTemplate::compile(&source) {
                Ok(template) => {
                    let said = template.render(&[json!({"role": "user"})], None, true, &Map::new());
                    assert!(said.unwrap_or_else(|e| e.to_string()).len() < (1 << 26), "{start}");
                }
                Err(error) => assert!(!error.message.is_empty(), "{start}"),
            }
        }
    }
}
