//! Answers of `/v1/responses`.

use serde_json::{Map, Value, json};
use wire::Fault;

use super::items::read_thought;
use crate::answers::AnswerOptions;
use crate::dialects::openai_chat::answer::{read_tokens, write_tokens};
use crate::fields::Fields;
use crate::neutral::{
    AnswerChoice, NeutralAnswer, Part, Thought, TokenLogprob, ToolCall, Warnings, split_id,
};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Reads a whole answer.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralAnswer, Fault> {
    let body = Fields::of_body(body)?;
    let mut choice = AnswerChoice::default();
    for item in body.objects("output")? {
        match item.required("type")? {
            "message" => read_message(&item, &mut choice)?,
            "reasoning" => choice.parts.push(Part::Thought(read_thought(&item)?)),
            "function_call" => {
                let (id, signature) = split_id(item.required("call_id")?);
                choice.parts.push(Part::ToolCall(ToolCall {
                    id,
                    name: item.required("name")?.to_owned(),
                    arguments: item.text("arguments")?.unwrap_or_default().to_owned(),
                    signature,
                }));
            }
            other => {
                warnings.add(format!("an output item of type {} is left out", wire::error::quote(other)))
            }
        }
    }
    choice.finish = Some(finish(&body)?);
    Ok(NeutralAnswer {
        id: body.owned("id")?,
        model: body.owned("model")?,
        created: body.number("created_at")?.map(|created| created.max(0.0) as u64),
        choices: vec![choice],
        usage: body.get("usage").and_then(|usage| TokenUsage::read(Dialect::OpenAiResponses, usage)),
    })
}

/// The reason to end of a response object.
pub(crate) fn finish(body: &Fields<'_>) -> Result<FinishReason, Fault> {
    let reason = match body.object("incomplete_details")? {
        Some(details) => details.text("reason")?,
        None => None,
    };
    let word = reason.or(body.text("status")?).unwrap_or("completed");
    Ok(FinishReason::read(Dialect::OpenAiResponses, word))
}

fn read_message(item: &Fields<'_>, choice: &mut AnswerChoice) -> Result<(), Fault> {
    for part in item.objects("content")? {
        match part.required("type")? {
            "output_text" => {
                choice.parts.push(Part::Text(part.required("text")?.to_owned()));
                if let Some(Value::Array(tokens)) = part.get("logprobs") {
                    choice.logprobs.extend(read_tokens(tokens));
                }
            }
            "refusal" => choice.parts.push(Part::Refusal(part.required("refusal")?.to_owned())),
            other => return Err(part.unknown("type", other, "output_text, refusal")),
        }
    }
    Ok(())
}

/// Settings of the request that a response repeats.
const REPEATED: [&str; 16] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// A response object without output: `status` is `in_progress`, `completed`, `incomplete` or `failed`.
pub(crate) fn shell(
    id: &str,
    model: &str,
    created: u64,
    status: &str,
    request: Option<&Value>,
) -> Map<String, Value> {
    let shell = json!({
        "id": id, "object": "response", "created_at": created, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "model": model, "output": [],
        "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
        "usage": null, "metadata": {},
    });
    let Value::Object(mut shell) = shell else { return Map::new() };
    for name in REPEATED {
        let asked = request.and_then(|request| request.get(name));
        if let Some(asked) = asked.filter(|asked| !asked.is_null()) {
            shell.insert(name.to_owned(), asked.clone());
        }
    }
    shell
}

/// Sets what a response says of its end; its status.
pub(crate) fn end(response: &mut Map<String, Value>, reason: FinishReason) -> &'static str {
    let word = reason.write(Dialect::OpenAiResponses);
    let status = if word == "completed" { "completed" } else { "incomplete" };
    response.insert("status".into(), status.into());
    if status == "incomplete" {
        response.insert("incomplete_details".into(), json!({"reason": word}));
    }
    status
}

/// Writes a whole answer: of its first choice.
pub(crate) fn write(answer: &NeutralAnswer, options: &AnswerOptions<'_>, warnings: &mut Warnings) -> Value {
    if answer.choices.len() > 1 {
        warnings.add("all choices but the first are left out");
    }
    let (id, model) = (options.id(answer.id.as_deref()), options.model(answer.model.as_deref()));
    let created = answer.created.unwrap_or(options.created_s);
    let mut response = shell(&id, &model, created, "completed", options.request);
    let mut output: Vec<Value> = Vec::new();
    if let Some(choice) = answer.choices.first() {
        let status = end(&mut response, choice.reason());
        let mut content: Vec<Value> = Vec::new();
        let mut logprobs = choice.logprobs.as_slice();
        for part in &choice.parts {
            match part {
                Part::Text(text) => content.push(text_part(text, std::mem::take(&mut logprobs))),
                Part::Refusal(text) => content.push(json!({"type": "refusal", "refusal": text})),
                Part::Thought(thought) => {
                    flush(&mut content, &mut output, &id, status);
                    output.push(reasoning_item(&format!("rs_{}_{id}", output.len()), thought));
                }
                Part::ToolCall(call) => {
                    flush(&mut content, &mut output, &id, status);
                    output.push(call_item(&format!("fc_{}_{id}", output.len()), call, status));
                }
                Part::Media(_) | Part::ToolResult(_) => {}
            }
        }
        flush(&mut content, &mut output, &id, status);
    }
    response.insert("output".into(), Value::Array(output));
    if let Some(usage) = &answer.usage {
        response.insert("usage".into(), usage.write(Dialect::OpenAiResponses));
    }
    Value::Object(response)
}

fn flush(content: &mut Vec<Value>, output: &mut Vec<Value>, id: &str, status: &str) {
    if !content.is_empty() {
        let item_id = format!("msg_{}_{id}", output.len());
        output.push(message_item(&item_id, std::mem::take(content), status));
    }
}

/// A part of text.
pub(crate) fn text_part(text: &str, logprobs: &[TokenLogprob]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": write_tokens(logprobs)})
}

/// An item of the model's message.
pub(crate) fn message_item(id: &str, content: Vec<Value>, status: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content})
}

/// An item of the model's thought; what is encrypted comes back in the next request.
pub(crate) fn reasoning_item(id: &str, thought: &Thought) -> Value {
    let mut item = json!({"type": "reasoning", "id": id, "summary": []});
    if !thought.text.is_empty() {
        item["summary"] = json!([{"type": "summary_text", "text": thought.text}]);
    }
    if let Some(signature) = &thought.signature {
        item["encrypted_content"] = signature.write(Dialect::OpenAiResponses).into();
    }
    item
}

/// An item of a tool's call.
pub(crate) fn call_item(id: &str, call: &ToolCall, status: &str) -> Value {
    json!({
        "type": "function_call", "id": id, "call_id": call.signed_id(), "name": call.name,
        "arguments": call.arguments, "status": status,
    })
}
