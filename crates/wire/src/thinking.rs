//! Reasoning options of a chat request, under the field names of several servers.

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::{Fields, said, show, shown_name, wrong};
use crate::limits;

const SWITCH: &str = "enable_thinking";
const EFFORT: &str = "reasoning_effort";
const BUDGET: &str = "thinking_budget";

/// Whether the response includes the reasoning: `include_reasoning`, or OpenRouter's `reasoning.exclude`.
pub(crate) fn included(body: &Fields<'_>) -> Result<bool, Fault> {
    if let Some(included) = body.boolean("include_reasoning")? {
        return Ok(included);
    }
    let excluded = match reasoning(body)? {
        Some(reasoning) => reasoning.boolean("exclude")?,
        None => None,
    };
    Ok(!excluded.unwrap_or(false))
}

/// Most reasoning tokens: vLLM's and llama.cpp's fields (-1 is no budget), or OpenRouter's `reasoning.max_tokens`.
pub(crate) fn budget(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    for name in
        ["thinking_token_budget", "reasoning_budget", "reasoning_budget_tokens", "thinking_budget_tokens"]
    {
        if let Some(budget) = body.integer(name, -1..=limits::TOKENS)? {
            return Ok(usize::try_from(budget).ok());
        }
    }
    match reasoning(body)? {
        Some(reasoning) => reasoning.count("max_tokens", 0..=limits::TOKENS),
        None => Ok(None),
    }
}

fn reasoning<'a>(body: &Fields<'a>) -> Result<Option<Fields<'a>>, Fault> {
    const KNOWN: [&str; 5] = ["effort", "enabled", "exclude", "max_tokens", "summary"];
    let Some(value) = body.get("reasoning") else { return Ok(None) };
    let reasoning = Fields::at(value, body.param("reasoning"))?;
    match reasoning.entries().find(|(name, value)| !KNOWN.contains(name) && !value.is_null()) {
        Some((name, value)) => {
            let at = reasoning.param(name);
            let message = format!("{at} is {}; the fields there are {}", show(value), KNOWN.join(", "));
            Err(Fault::unsupported(at, message))
        }
        None => Ok(Some(reasoning)),
    }
}

/// Variables of the chat template: those of `chat_template_kwargs`, and those that other fields set.
pub(crate) fn template_arguments(body: &Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let name = "chat_template_kwargs";
    let mut arguments = body.object(name, limits::TEMPLATE_ARGUMENTS)?.cloned().unwrap_or_default();
    for (key, value) in &arguments {
        let at = format!("{name}.{}", shown_name(key));
        if ["messages", "tools", "add_generation_prompt"].contains(&key.as_str()) {
            return Err(Fault::field(at, format!("{name} has \"{key}\"; give it as a field of the request")));
        }
        // Templates treat any non-empty text as true.
        if value.as_str().is_some_and(|text| ["true", "false"].contains(&text.to_ascii_lowercase().as_str()))
        {
            return Err(wrong(&at, value, "true or false without quotes"));
        }
        if key == SWITCH && !value.is_boolean() && !value.is_null() {
            return Err(wrong(&at, value, "true or false"));
        }
    }
    let mut set = |key: &str, value: Value| _ = arguments.entry(key).or_insert(value);
    if let Some(on) = switch(body)? {
        set(SWITCH, on.into());
    }
    // Templates that know a budget tell the model of it.
    if let Some(budget) = budget(body)? {
        set(BUDGET, budget.into());
    }
    if let Some(effort) = effort(body)? {
        // Templates have either a switch for reasoning or a variable for its effort: `none` sets both.
        if effort == "none" {
            set(SWITCH, false.into());
        }
        arguments.insert(EFFORT.into(), effort.into());
    }
    Ok(arguments)
}

/// Whether reasoning is switched on: `enable_thinking`, `think`, `thinking.type` or `reasoning.enabled`.
fn switch(body: &Fields<'_>) -> Result<Option<bool>, Fault> {
    if let Some(on) = body.boolean(SWITCH)? {
        return Ok(Some(on));
    }
    match body.get("think") {
        None | Some(Value::String(_)) => {}
        Some(Value::Bool(on)) => return Ok(Some(*on)),
        Some(other) => return Err(wrong("think", other, "true, false, or an effort")),
    }
    if let Some(value) = body.get("thinking") {
        let thinking = Fields::at(value, body.param("thinking"))?;
        return match thinking.text("type", limits::NAME_BYTES)? {
            Some("enabled" | "adaptive" | "auto") => Ok(Some(true)),
            Some("disabled") => Ok(Some(false)),
            other => {
                let at = thinking.param("type");
                let message = format!("{at} is {}; it must be \"enabled\" or \"disabled\"", said(other));
                Err(Fault::field(at, message))
            }
        };
    }
    match reasoning(body)? {
        Some(reasoning) => reasoning.boolean("enabled"),
        None => Ok(None),
    }
}

fn effort<'a>(body: &Fields<'a>) -> Result<Option<&'a str>, Fault> {
    if let Some(effort) = body.text(EFFORT, limits::NAME_BYTES)? {
        return Ok(Some(effort));
    }
    if let Some(Value::String(_)) = body.get("think") {
        return body.text("think", limits::NAME_BYTES);
    }
    match reasoning(body)? {
        Some(reasoning) => reasoning.text("effort", limits::NAME_BYTES),
        None => Ok(None),
    }
}
