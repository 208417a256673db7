//! Answers of `/v1/messages`.

use serde_json::{Value, json};
use wire::Fault;

use super::blocks;
use crate::answers::AnswerOptions;
use crate::fields::Fields;
use crate::neutral::{AnswerChoice, NeutralAnswer, Part, Warnings};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Reads a whole answer.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralAnswer, Fault> {
    let body = Fields::of_body(body)?;
    let mut blocks = body.objects("content")?;
    // What the provider's own tools did is of no dialect but its own; the texts say what came of it.
    blocks.retain(|block| {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        let known = matches!(kind, "text" | "thinking" | "redacted_thinking" | "tool_use");
        if !known {
            warnings.add(format!("a content block of type {} is left out", wire::error::quote(kind)));
        }
        known
    });
    let choice = AnswerChoice {
        parts: blocks::read_all(&blocks, warnings)?,
        finish: body.text("stop_reason")?.map(|word| FinishReason::read(Dialect::Anthropic, word)),
        stop_sequence: body.owned("stop_sequence")?,
        logprobs: Vec::new(),
    };
    Ok(NeutralAnswer {
        id: body.owned("id")?,
        model: body.owned("model")?,
        created: None,
        choices: vec![choice],
        usage: body.get("usage").and_then(|usage| TokenUsage::read(Dialect::Anthropic, usage)),
    })
}

/// Writes a whole answer: of its first choice.
pub(crate) fn write(answer: &NeutralAnswer, options: &AnswerOptions<'_>, warnings: &mut Warnings) -> Value {
    if answer.choices.len() > 1 {
        warnings.add("all choices but the first are left out");
    }
    if answer.choices.iter().any(|choice| !choice.logprobs.is_empty()) {
        warnings.left_out("logprobs", Dialect::Anthropic);
    }
    let first = answer.choices.first();
    let parts = first.map(|choice| choice.parts.as_slice()).unwrap_or_default();
    let content: Vec<Value> = parts.iter().filter_map(block).collect();
    let reason = first.map_or(FinishReason::Stop, AnswerChoice::reason);
    let refused = parts.iter().any(|part| matches!(part, Part::Refusal(_)));
    let reason = if refused && reason == FinishReason::Stop { FinishReason::Refusal } else { reason };
    json!({
        "id": options.id(answer.id.as_deref()),
        "type": "message",
        "role": "assistant",
        "model": options.model(answer.model.as_deref()),
        "content": content,
        "stop_reason": reason.write(Dialect::Anthropic),
        "stop_sequence": first.and_then(|choice| choice.stop_sequence.as_deref()),
        "usage": answer.usage.unwrap_or_default().write(Dialect::Anthropic),
    })
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(json!({"type": "text", "text": text})),
        Part::Thought(thought) => Some(blocks::write_thought(thought)),
        Part::ToolCall(call) => Some(json!({
            "type": "tool_use", "id": call.signed_id(), "name": call.name, "input": call.object(),
        })),
        Part::Media(_) | Part::ToolResult(_) => None,
    }
}
