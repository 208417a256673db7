//! Chat templates: messages to the text that a model was trained to continue.

mod named;

use std::fmt;

use minijinja::Environment;
use serde_json::{Map, Value};

/// A chat template, compiled.
pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// Why a template does not compile or does not render these messages.
#[derive(Debug, thiserror::Error)]
#[error("chat template{}: {message}", Line(*line))]
pub struct TemplateError {
    /// The line of the template, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> TemplateError {
        TemplateError { line: error.line(), message: error.to_string() }
    }
}

const NAME: &str = "chat";
const FUEL: u64 = 20_000_000;

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// A syntax error with its line.
    pub fn compile(source: &str) -> Result<ChatTemplate, TemplateError> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(ChatTemplate { environment })
    }

    /// One of the well-known formats by name, for models without a template.
    pub fn named(name: &str) -> Option<ChatTemplate> {
        named::source(name).and_then(|source| ChatTemplate::compile(source).ok())
    }

    /// The names that [`named`](ChatTemplate::named) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        named::TEMPLATES.iter().map(|(name, _)| *name)
    }

    /// The text of a conversation, control tokens included by name; `add_generation_prompt` begins the
    /// assistant's turn. `extra` are further variables of the template.
    ///
    /// # Errors
    /// What the template refuses or where it fails, with the line; running out of fuel.
    pub fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
    ) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME)?;
        let mut variables = extra.clone();
        variables.insert("messages".into(), messages.into());
        if let Some(tools) = tools {
            variables.insert("tools".into(), tools.into());
        }
        variables.insert("add_generation_prompt".into(), add_generation_prompt.into());
        Ok(template.render(variables)?)
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").finish_non_exhaustive()
    }
}
