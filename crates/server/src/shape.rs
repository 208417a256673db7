//! What an answer must be like, and how its text is read.

use std::sync::Arc;

use engine::Constrain;
use serde_json::{Value, json};
use text::{Calls, Form, Reading, Schema, Space, Style, Thought};
use wire::guided::{self, Form as Asked};
use wire::message::{self, ToolChoice};
use wire::{ChatRequest, Fault};

use crate::served::{Guided, Language, Wanted};

/// Where in the answer its thought and its tool calls are.
pub(crate) fn reading(
    language: &dyn Language,
    request: &ChatRequest,
    tools: Option<&[Value]>,
    prompt: &str,
) -> Reading {
    // A prompt that does not begin an answer is continued as plain text.
    let answers = request.add_generation_prompt || request.continue_final_message;
    let thinks = language.tags().filter(|_| answers);
    Reading {
        thought: thinks.map(|tags| Thought { tags, begun: tags.opened_by(prompt) }),
        style: tools.map(|_| language.style().unwrap_or(Style::Hermes)),
        tools: tools.map_or_else(Vec::new, |tools| message::tool_names(tools).map(str::to_owned).collect()),
        one_call: !request.parallel_tool_calls,
        hide_thought: !request.include_reasoning,
    }
}

/// What the request wants its answers to be like, if it wants anything. What of it is not held to is added to `warnings`.
pub(crate) fn constrain(
    language: &dyn Language,
    request: &ChatRequest,
    reading: &Reading,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<dyn Constrain>>, Fault> {
    let mut take = |guided: Guided| {
        warnings.extend(guided.warnings);
        Some(guided.constrain)
    };
    let thought = reading.thought.as_ref();
    let budget = request.thinking_budget.filter(|_| thought.is_some());
    if let Some(guided) = &request.guided {
        return guide(language, guided, thought, budget).map(take);
    }
    let calls = must_call(request, reading);
    if calls.is_none() && budget.is_none() {
        return Ok(None);
    }
    let wanted = Wanted { form: calls.as_ref(), thought, budget };
    let field = if calls.is_some() { "tools" } else { "thinking_token_budget" };
    let unable = |why| Fault::unsupported(field, format!("{field} cannot be honoured: {why}"));
    language.guidance(&wanted).map_err(unable).map(&mut take)
}

/// The form of an answer that must be a call.
fn must_call(request: &ChatRequest, reading: &Reading) -> Option<Form> {
    let wanted = match &request.tool_choice {
        ToolChoice::None | ToolChoice::Auto => return None,
        ToolChoice::Required => None,
        ToolChoice::Named(name) => Some(name.as_str()),
    };
    let function = |(at, tool): (usize, &Value)| {
        let function = tool.get("function")?;
        let name =
            function.get("name")?.as_str().filter(|name| wanted.is_none_or(|wanted| wanted == *name))?;
        let any = || json!({"type": "object"});
        let value = function.get("parameters").filter(|schema| !schema.is_null()).cloned();
        let schema = Schema {
            value: value.unwrap_or_else(any),
            exact: guided::numbers_within(&request.exact, &format!("/tools/{at}/function/parameters")),
            closed: function.get("strict") == Some(&Value::Bool(true)),
            space: Space::One,
        };
        Some((name.to_owned(), schema))
    };
    let tools = request.tools.iter().flatten().enumerate().filter_map(function).collect();
    let several = request.parallel_tool_calls && wanted.is_none();
    Some(Form::Calls(Calls { style: reading.style?, tools, several }))
}

/// What a form asked for means for the engine.
pub(crate) fn guide(
    language: &dyn Language,
    guided: &wire::Guided,
    thought: Option<&Thought>,
    budget: Option<usize>,
) -> Result<Guided, Fault> {
    let space = match &guided.space {
        guided::Space::One => Space::One,
        guided::Space::Compact => Space::Compact,
        guided::Space::Pattern(pattern) => Space::Pattern(pattern.clone()),
    };
    let form = match &guided.form {
        Asked::Object => Form::Json(Schema { space, ..json!({"type": "object"}).into() }),
        Asked::Schema(schema) => Form::Json(Schema {
            value: schema.value.clone(),
            exact: schema.exact.clone(),
            closed: schema.closed,
            space,
        }),
        Asked::Regex(regex) => Form::Regex(regex.clone()),
        Asked::Choice(texts) => Form::Choice(texts.clone()),
        Asked::Grammar(grammar) => Form::grammar(grammar.clone()),
    };
    let wanted = Wanted { form: Some(&form), thought, budget };
    let unable = |why| Fault::field(&guided.field, format!("{} cannot be honoured: {why}", guided.field));
    language.guidance(&wanted).map_err(unable)
}

/// Marks that the vocabulary has as control tokens, which are not part of an answer's text unless asked for.
pub(crate) fn shown(language: &dyn Language, reading: &Reading) -> Vec<u32> {
    let tags = reading.thought.iter().flat_map(|thought| [thought.tags.open, thought.tags.close]);
    let marks = reading.style.iter().flat_map(|style| style.marks()).copied();
    tags.chain(marks).filter_map(|name| language.control(name)).collect()
}
