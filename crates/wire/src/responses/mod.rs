//! `POST /v1/responses`: OpenAI's Responses API, translated to chat completions.
//!
//! A request becomes the equivalent chat request, so that both APIs share validation, limits and execution.

mod input;
mod tools;

pub use tools::Tools;

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said, wrong};
use crate::request_fields::{self, Route};
use crate::warnings::Warnings;
use crate::{ChatRequest, Usage, limits};

/// Fields copied unchanged to the chat request, in addition to the sampling fields of all generating endpoints.
const SAME: [&str; 10] = [
    "model",
    "stream",
    "stop",
    "parallel_tool_calls",
    "service_tier",
    "priority",
    "timeout",
    "include_cost",
    "cache_salt",
    "chat_template_kwargs",
];

/// A validated request: the fields of the chat request, and those that only this API has.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponsesRequest {
    /// Fields of the chat request, without `messages`.
    pub chat: Map<String, Value>,
    /// The system message.
    pub instructions: Option<String>,
    /// New messages of the conversation.
    pub messages: Vec<Value>,
    /// Id of the response that this one continues (`previous_response_id`).
    pub previous: Option<String>,
    /// Whether the response is stored for later retrieval.
    pub store: bool,
    /// Whether the response is computed in the background, after this request was answered.
    pub background: bool,
    /// Whether the response is sent as server-sent events.
    pub stream: bool,
    /// The request's tools, by the functions that the model may call.
    pub tools: Tools,
    /// Fields that the response repeats unchanged.
    pub repeated: Map<String, Value>,
    /// Warnings about ignored fields, as sentences for the client.
    pub warnings: Vec<String>,
}

impl ResponsesRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// An invalid or unsupported field, with its name in this API.
    pub fn parse(body: &[u8]) -> Result<ResponsesRequest, Fault> {
        let value: Value = crate::json::read(body)?;
        crate::numbers::refuse_in_schemas(body)?;
        let fields = Fields::body(&value)?;
        let mut warnings = Warnings::default();
        request_fields::check(&fields, Route::Responses)?
            .into_iter()
            .for_each(|warning| warnings.add(warning));
        refuse(&fields)?;
        leave_out(&fields, &mut warnings)?;
        let mut chat = Map::new();
        for name in SAME.into_iter().chain(request_fields::shared()) {
            if let Some(value) = fields.get(name) {
                chat.insert(name.into(), value.clone());
            }
        }
        if let Some(most) = fields.count("max_output_tokens", 1..=limits::TOKENS)? {
            chat.insert("max_completion_tokens".into(), most.into());
        }
        add_reasoning(&fields, &mut chat)?;
        add_format(&fields, &mut chat, &mut warnings)?;
        let tools = tools::add(&fields, &mut chat, &mut warnings)?;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let background = fields.boolean("background")?.unwrap_or(false);
        let store = fields.boolean("store")?.unwrap_or(true);
        if background && (stream || !store) {
            let message = "background is true: the response is kept to be asked for, so store must be true and \
                           stream false";
            return Err(Fault::field("background", message));
        }
        Ok(ResponsesRequest {
            chat,
            instructions: fields.text("instructions", usize::MAX)?.map(str::to_owned),
            messages: input::messages(&fields, &tools, &mut warnings)?,
            previous: fields.text("previous_response_id", limits::NAME_BYTES)?.map(str::to_owned),
            store,
            background,
            stream,
            tools,
            repeated: repeated(&fields)?,
            warnings: warnings.into_vec(),
        })
    }

    /// The chat request: the instructions, the messages `before` of the previous response, and the new messages.
    ///
    /// # Errors
    /// Those of [`ChatRequest::read`].
    pub fn chat_request(&self, before: &[Value]) -> Result<ChatRequest, Fault> {
        let renamed = |fault: Fault| fault.renamed("response_format.json_schema", "text.format");
        let mut request = ChatRequest::read(&self.chat(before)).map_err(renamed)?;
        request.warnings.splice(0..0, self.warnings.iter().cloned());
        Ok(request)
    }

    /// The body of the chat request.
    fn chat(&self, before: &[Value]) -> Value {
        let mut chat = self.chat.clone();
        let system = self.instructions.iter().map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<Value> =
            system.chain(before.iter().cloned()).chain(self.messages.clone()).collect();
        chat.insert("messages".into(), messages.into());
        Value::Object(chat)
    }
}

/// Rejects unsupported fields that would change the answer.
fn refuse(fields: &Fields<'_>) -> Result<(), Fault> {
    for (name, why) in [
        ("conversation", "conversations are not kept here; use previous_response_id or input"),
        ("prompt", "prompt templates are not kept here; use instructions and input"),
    ] {
        if fields.get(name).is_some() {
            return Err(Fault::unsupported(name, format!("{name} is given: {why}")));
        }
    }
    match fields.text("truncation", limits::NAME_BYTES)? {
        None | Some("disabled" | "auto") => Ok(()),
        Some(other) => {
            let shown = said(Some(other));
            let message = format!("truncation is {shown}; it must be \"auto\" or \"disabled\"");
            Err(Fault::field("truncation", message))
        }
    }
}

/// Warns about ignored fields that do not change the answer's text.
fn leave_out(fields: &Fields<'_>, warnings: &mut Warnings) -> Result<(), Fault> {
    let never_cut = "a conversation is never cut here, and refused when it is too long";
    if fields.text("truncation", limits::NAME_BYTES)? == Some("auto") {
        warnings.add(format!("truncation is left out: {never_cut}"));
    }
    if fields.get("context_management").is_some_and(|value| value.as_array().is_none_or(|a| !a.is_empty())) {
        warnings.add(format!("context_management is left out: {never_cut}"));
    }
    let scored = |value: &Value| {
        value.as_array().is_some_and(|a| a.iter().any(|v| v == "message.output_text.logprobs"))
    };
    let top = fields.count("top_logprobs", 0..=limits::LOGPROBS)?.is_some_and(|top| top > 0);
    if top || fields.get("include").is_some_and(scored) {
        warnings.add("log-probabilities are left out: /v1/chat/completions has them".into());
    }
    Ok(())
}

fn add_reasoning(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(reasoning) = fields.get("reasoning") else { return Ok(()) };
    let reasoning = Fields::at(reasoning, "reasoning".into())?;
    if let Some(effort) = reasoning.text("effort", limits::NAME_BYTES)? {
        chat.insert("reasoning_effort".into(), effort.into());
    }
    Ok(())
}

/// Translates `text.format` to `response_format`, which has one level more.
fn add_format(
    fields: &Fields<'_>,
    chat: &mut Map<String, Value>,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    let Some(text) = fields.get("text") else { return Ok(()) };
    let text = Fields::at(text, "text".into())?;
    if text.text("verbosity", limits::NAME_BYTES)?.is_some_and(|verbosity| verbosity != "medium") {
        warnings.add("text.verbosity is left out: models here have no switch for it".into());
    }
    let Some(format) = text.get("format") else { return Ok(()) };
    let format = Fields::at(format, "text.format".into())?;
    let said = match format.text("type", limits::NAME_BYTES)? {
        Some("json_schema") => {
            let schema = format.get("schema").ok_or_else(|| Fault::missing("text.format.schema"))?;
            let name = format.text("name", limits::NAME_BYTES)?.unwrap_or("response");
            let strict = format.boolean("strict")?.unwrap_or(false);
            json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}})
        }
        Some(kind @ ("text" | "json_object")) => json!({"type": kind}),
        None => return Err(Fault::missing("text.format.type")),
        Some(other) => {
            let shown = said(Some(other));
            let message = format!(
                "text.format.type is {shown}; it must be \"text\", \"json_object\" or \"json_schema\""
            );
            return Err(Fault::field("text.format.type", message));
        }
    };
    chat.insert("response_format".into(), said);
    Ok(())
}

/// The fields of the request that the response repeats, with the API's defaults.
fn repeated(fields: &Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let mut repeated = Map::new();
    for (name, default) in [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", Value::Bool(true)),
        ("previous_response_id", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("service_tier", "default".into()),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_p", Value::Null),
        ("user", Value::Null),
    ] {
        repeated.insert(name.into(), fields.get(name).cloned().unwrap_or(default));
    }
    repeated.insert("truncation".into(), "disabled".into());
    if let Some(metadata) = fields.object("metadata", limits::METADATA)?
        && let Some((name, value)) = metadata.iter().find(|(_, v)| v.as_str().is_none_or(|s| s.len() > 512))
    {
        return Err(wrong(&format!("metadata.{name}"), value, "a string of at most 512 bytes"));
    }
    Ok(repeated)
}

/// Token counts in the format of the Responses API.
pub fn usage_json(usage: &Usage, reasoning_tokens: usize) -> Value {
    let mut object = json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.prompt_tokens_details.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": usage.total_tokens,
    });
    if let Some(cost) = usage.cost {
        object["cost"] = json!(cost);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: Value) -> Result<ResponsesRequest, Fault> {
        ResponsesRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn items_become_messages() {
        let request = parse(json!({
            "instructions": "Be brief.", "max_output_tokens": 9, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}},
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "function", "name": "look"},
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Where "}, {"type": "input_text", "text": "now?"}]},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "there"}],
        }))
        .unwrap();
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
        let chat = request.chat(&[json!({"role": "user", "content": "before"})]);
        assert_eq!(
            chat["messages"],
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "before"},
                {"role": "user", "content": "Where now?"},
                {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call("c1"), call("c2")]},
                {"role": "tool", "tool_call_id": "c1", "content": "there"},
            ])
        );
        assert_eq!((&chat["max_completion_tokens"], &chat["reasoning_effort"]), (&json!(9), &json!("low")));
        assert_eq!(chat["response_format"]["json_schema"]["schema"], json!({"type": "object"}));
        assert_eq!(chat["tools"][0]["function"]["strict"], true);
        assert_eq!(chat["tool_choice"]["function"]["name"], "look");
    }

    #[test]
    fn what_cannot_be_said_is_named() {
        let of = |body: Value| parse(body).unwrap_err().param.unwrap();
        assert_eq!(of(json!({})), "input");
        assert_eq!(of(json!({"input": 1})), "input");
        assert_eq!(of(json!({"input": "x", "truncation": "half"})), "truncation");
        assert_eq!(of(json!({"input": "x", "background": true, "stream": true})), "background");
        let searches =
            json!({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}});
        assert_eq!(of(searches), "tool_choice.type");
        assert_eq!(of(json!({"input": [{"type": "item_reference", "id": "x"}]})), "input[0].type");
        let image = json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]});
        assert_eq!(of(image), "input[0].content[0].type");
        assert_eq!(of(json!({"input": "x", "metadata": {"a": 1}})), "metadata.a");
    }
}
