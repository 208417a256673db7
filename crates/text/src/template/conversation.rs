//! Renders a client's conversation to a prompt, and checks that the template leaves out no user text.

use std::sync::PoisonError;

use serde_json::{Map, Value};

use super::coverage::PromptSearch;
use super::probe::{ContentFormat, Role, Traits};
use super::{ChatTemplate, TemplateError, deep, switches, turns};
use crate::Tokenizer;
use crate::prompt::{MarkedInput, Prompt, unmarked};
use crate::tools;

impl ChatTemplate {
    /// Renders a conversation of untrusted users, as a server's all are: names of control tokens in their messages stay
    /// text ([`Tokenizer::encode_prompt`]). If the template does not support tools, they are described in the system
    /// message, and calls and results become text. System messages and turns that the template refuses are merged into
    /// ones that it accepts, with [`Prompt::warnings`]. No user text is left out.
    ///
    /// # Errors
    /// As [`render`](ChatTemplate::render); or the template leaves out a user's text.
    pub fn prompt(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Value],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
    ) -> Result<Prompt, TemplateError> {
        let rewritten;
        let (messages, tools) = match tools {
            Some(tools) if !self.knows_tools => {
                rewritten = tools::tools_in_system_message(messages, tools);
                (rewritten.as_slice(), None)
            }
            None if !self.knows_tools && messages.iter().any(is_of_tools) => {
                rewritten = tools::calls_as_text(messages);
                (rewritten.as_slice(), None)
            }
            _ => (messages, tools),
        };
        let traits = self.traits(tools.is_some())?;
        let extra = &*switches::named(&self.source, extra);
        let attempt = |messages: &[Value]| {
            let written = MarkedInput::marked(tokenizer.names(), messages, tools, extra);
            let (messages, tools) = (&written.messages, written.tools.as_deref());
            let prompt = unmarked(self.render(messages, tools, add_generation_prompt, &written.extra)?);
            Ok::<_, TemplateError>(prompt)
        };
        let whole = |messages: &[Value]| {
            let prompt = attempt(messages)?;
            says_users(&prompt.text, messages).map(|()| prompt)
        };
        let (conversation, done) = turns::needed(&traits, messages);
        let refused = match whole(&conversation) {
            Ok(prompt) => return Ok(with_warnings(prompt, &traits, &conversation, &done)),
            Err(error) => error,
        };
        // A template that exceeds its limits would exceed them for each alternative.
        let others = if refused.limit { Vec::new() } else { turns::others(&conversation, &done) };
        for (conversation, done) in others {
            if let Ok(prompt) = whole(&conversation) {
                return Ok(with_warnings(prompt, &traits, &conversation, &done));
            }
        }
        Err(refused)
    }

    /// The format in which the template takes the texts of a role when no tools are offered.
    ///
    /// # Errors
    /// No thread could be started to probe the template.
    pub fn content_format(&self, role: &str) -> Result<ContentFormat, TemplateError> {
        Ok(self.traits(false)?.form(Role::of(&serde_json::json!({"role": role}))))
    }

    /// Warnings about the template, to be logged when its model is loaded, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let traits = match self.traits(false) {
            Ok(traits) => traits,
            Err(error) => return vec![error.to_string()],
        };
        let mut remarks = Vec::new();
        if !traits.keeps(Role::User) {
            let why = self.refusal(false).map(|why| format!(" ({})", why.message)).unwrap_or_default();
            remarks.push(format!(
                "the chat template leaves out what users say, as a string and as parts{why}: chat requests will be refused, completions work"
            ));
        }
        remarks
    }

    /// The traits of the template for conversations with or without tools, probed once.
    pub(super) fn traits(&self, with_tools: bool) -> Result<Traits, TemplateError> {
        let at = usize::from(self.for_tools && with_tools);
        let mut known = self.traits[at].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(traits) = *known {
            return Ok(traits);
        }
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(super::PROBE_FUEL));
        let traits = deep(|| {
            let mut render = |messages: &[Value], tools: Option<&[Value]>| {
                let variables = self.variables(messages, tools, true, &Map::new(), None);
                match self.run(&environment, self.name(with_tools), &variables) {
                    Ok(said) => Ok(Some(said)),
                    Err(error) if error.limit => Err(error),
                    Err(_) => Ok(None),
                }
            };
            Ok(Traits::find(&mut render))
        })?;
        *known = Some(traits);
        Ok(traits)
    }

    /// The error of the template for the simplest conversation.
    fn refusal(&self, with_tools: bool) -> Option<TemplateError> {
        let messages = [serde_json::json!({"role": "user", "content": "Hello."})];
        let variables = self.variables(&messages, None, true, &Map::new(), None);
        deep(|| self.run(&self.environment, self.name(with_tools), &variables)).err()
    }
}

/// Whether a message is a tool call or a tool result.
fn is_of_tools(message: &Value) -> bool {
    Role::of(message) == Role::Tool || message.get("tool_calls").is_some()
}

/// Fails if the prompt does not contain the text of every user message.
fn says_users(prompt: &str, messages: &[Value]) -> Result<(), TemplateError> {
    let mut search = PromptSearch::new(prompt);
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| Role::of(message) == Role::User) {
        if !search.says(turns::text(message)) {
            let message =
                format!("leaves out the text of message {} of {}, a user's", at + 1, messages.len());
            return Err(TemplateError { line: None, message, limit: false });
        }
    }
    Ok(())
}

fn with_warnings(mut prompt: Prompt, traits: &Traits, messages: &[Value], done: &[turns::Change]) -> Prompt {
    prompt.warnings.extend(done.iter().filter_map(|change| change.warning()).map(str::to_owned));
    for (role, name) in [(Role::Assistant, "assistant"), (Role::Tool, "tool")] {
        let said = |message: &&Value| Role::of(message) == role && !turns::text(message).trim().is_empty();
        if !traits.keeps(role) && messages.iter().any(|message| said(&message)) {
            prompt.warnings.push(format!(
                "messages: this model's chat template leaves out the text of messages of the role {name}"
            ));
        }
    }
    prompt
}
