//! What an answer must be like, and how its text is read.

use std::sync::Arc;

use engine::Constrain;
use serde_json::{Value, json};
use text::{
    AnswerConstraint, AnswerParserOptions, JsonSpacing, ReasoningFormat, RequiredToolCalls, Schema,
    ToolCallStyle,
};
use wire::guided::{self, Form as Asked};
use wire::message::{self, ToolChoice};
use wire::{ChatRequest, Fault};

use crate::model::{Guided, TextPipeline, Wanted};

/// Where in the answer its thought and its tool calls are.
pub(crate) fn reading(
    language: &dyn TextPipeline,
    request: &ChatRequest,
    tools: Option<&[Value]>,
    prompt: &str,
) -> AnswerParserOptions {
    // A prompt that does not begin an answer is continued as plain text.
    let answers = request.add_generation_prompt || request.continue_final_message;
    let thinks = language.tags().filter(|_| answers);
    let must_call = tools.is_some() && !matches!(request.tool_choice, ToolChoice::Auto | ToolChoice::None);
    let from_json = language.calls_from_json() && !must_call && request.guided.is_none();
    let schemas: Arc<[_]> = tools
        .into_iter()
        .flat_map(|tools| functions(request, tools, None))
        .map(|(name, schema)| (name, schema.value))
        .collect();
    AnswerParserOptions {
        thought: thinks.map(|tags| ReasoningFormat { tags, begun: tags.opened_by(prompt) }),
        style: tools.map(|_| language.style().unwrap_or(ToolCallStyle::Hermes)),
        schemas: schemas.clone(),
        tools: tools.map_or_else(Vec::new, |tools| message::tool_names(tools).map(str::to_owned).collect()),
        json_calls: tools.filter(|_| from_json).map(|_| schemas),
        must_call,
        one_call: !request.parallel_tool_calls,
        hide_thought: !request.include_reasoning,
    }
}

/// What the request wants its answers to be like, if it wants anything. What of it is not held to is added to `warnings`.
/// Where a call must come, it comes, whatever form an answer in words would have; where one may come, the answer is calls or has
/// the form.
pub(crate) fn constrain(
    language: &dyn TextPipeline,
    request: &ChatRequest,
    reading: &AnswerParserOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<dyn Constrain>>, Fault> {
    let mut take = |guided: Guided| {
        warnings.extend(guided.warnings);
        Some(guided.constrain)
    };
    let thought = reading.thought.as_ref();
    let budget = request.thinking_budget.filter(|_| thought.is_some());
    let calls = calls(request, reading);
    if let (Some(guided), false) = (&request.guided, reading.must_call) {
        if let Some(calls) = calls {
            let form = AnswerConstraint::ToolCallsOr(calls, Box::new(form(guided)));
            if let Ok(either) = language.guidance(&Wanted { form: Some(&form), thought, budget }) {
                return Ok(take(either));
            }
        }
        let guided = guide(language, guided, thought, budget).map(&mut take)?;
        if reading.style.is_some() {
            warnings
                .push("tools cannot be called: they do not go together with the form of the answer".into());
        }
        return Ok(guided);
    }
    let must_call = calls.filter(|_| reading.must_call).map(AnswerConstraint::ToolCalls);
    if must_call.is_none() && budget.is_none() {
        return Ok(None);
    }
    let wanted = Wanted { form: must_call.as_ref(), thought, budget };
    let field = if must_call.is_some() { "tools" } else { "thinking_token_budget" };
    let unable = |why| Fault::unsupported(field, format!("{field} cannot be honoured: {why}"));
    language.guidance(&wanted).map_err(unable).map(&mut take)
}

/// The form of calls, if there may be any.
fn calls(request: &ChatRequest, reading: &AnswerParserOptions) -> Option<RequiredToolCalls> {
    let wanted = match &request.tool_choice {
        ToolChoice::None => return None,
        ToolChoice::Auto | ToolChoice::Required => None,
        ToolChoice::Named(name) => Some(name.as_str()),
    };
    let tools = functions(request, request.tools.as_deref()?, wanted);
    let several = request.parallel_tool_calls && wanted.is_none();
    Some(RequiredToolCalls { style: reading.style?, tools, several })
}

/// Names of tools and the schemas of their arguments: of all, or of the one that is wanted.
fn functions(request: &ChatRequest, tools: &[Value], wanted: Option<&str>) -> Vec<(String, Schema)> {
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
            space: JsonSpacing::One,
        };
        Some((name.to_owned(), schema))
    };
    tools.iter().enumerate().filter_map(function).collect()
}

/// What a form asked for means for the engine.
pub(crate) fn guide(
    language: &dyn TextPipeline,
    guided: &wire::Guided,
    thought: Option<&ReasoningFormat>,
    budget: Option<usize>,
) -> Result<Guided, Fault> {
    let wanted = Wanted { form: Some(&form(guided)), thought, budget };
    let unable = |why| Fault::field(&guided.field, format!("{} cannot be honoured: {why}", guided.field));
    language.guidance(&wanted).map_err(unable)
}

fn form(guided: &wire::Guided) -> AnswerConstraint {
    let space = match &guided.space {
        guided::Space::One => JsonSpacing::One,
        guided::Space::Compact => JsonSpacing::Compact,
        guided::Space::Pattern(pattern) => JsonSpacing::Pattern(pattern.clone()),
    };
    match &guided.form {
        Asked::Object => AnswerConstraint::Json(Schema { space, ..json!({"type": "object"}).into() }),
        Asked::Schema(schema) => AnswerConstraint::Json(Schema {
            value: schema.value.clone(),
            exact: schema.exact.clone(),
            closed: schema.closed,
            space,
        }),
        Asked::Regex(regex) => AnswerConstraint::Regex(regex.clone()),
        Asked::Choice(texts) => AnswerConstraint::Choice(texts.clone()),
        Asked::Grammar(grammar) => AnswerConstraint::grammar(grammar.clone()),
    }
}

/// Marks that the vocabulary has as control tokens, which are not part of an answer's text unless asked for.
pub(crate) fn shown(language: &dyn TextPipeline, reading: &AnswerParserOptions) -> Vec<u32> {
    let tags = reading.thought.iter().flat_map(|thought| thought.tags.marks());
    let marks = reading.style.iter().flat_map(|style| style.marks()).copied();
    tags.chain(marks).filter_map(|name| language.control(name)).collect()
}
