//! Answers of `/v1/chat/completions`.

use serde_json::{Map, Value, json};
use wire::Fault;

use super::messages::{read_call, write_message};
use crate::answers::AnswerOptions;
use crate::fields::{Fields, put};
use crate::neutral::{AnswerChoice, NeutralAnswer, Part, Signature, Thought, TokenLogprob, Warnings};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Reads a whole answer.
pub(crate) fn read(body: &Value) -> Result<NeutralAnswer, Fault> {
    let body = Fields::of_body(body)?;
    let mut answer = NeutralAnswer {
        id: body.owned("id")?,
        model: body.owned("model")?,
        created: body.count("created")?,
        choices: Vec::new(),
        usage: body.get("usage").and_then(|usage| TokenUsage::read(Dialect::OpenAiChat, usage)),
    };
    for choice in body.objects("choices")? {
        let finish = choice.text("finish_reason")?;
        answer.choices.push(AnswerChoice {
            // Gemini's server of this dialect leaves the message out where there is none.
            parts: match choice.object("message")? {
                Some(message) => read_message(&message)?,
                None => Vec::new(),
            },
            finish: finish.map(|word| FinishReason::read(Dialect::OpenAiChat, word)),
            stop_sequence: choice.get("stop_reason").and_then(Value::as_str).map(str::to_owned),
            logprobs: choice.get("logprobs").map(read_logprobs).unwrap_or_default(),
        });
    }
    Ok(answer)
}

fn read_message(message: &Fields<'_>) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    let thought = message.text(message.either(["reasoning_content", "reasoning"]))?.unwrap_or_default();
    let signature = message.text("reasoning_signature")?;
    if !thought.is_empty() || signature.is_some() {
        parts.push(Part::Thought(Thought {
            text: thought.to_owned(),
            signature: signature.map(|text| Signature::read(Dialect::OpenAiChat, text)),
            redacted: false,
        }));
    }
    if let Some(text) = message.text("content")?.filter(|text| !text.is_empty()) {
        parts.push(Part::Text(text.to_owned()));
    }
    if let Some(refusal) = message.text("refusal")?.filter(|text| !text.is_empty()) {
        parts.push(Part::Refusal(refusal.to_owned()));
    }
    for call in message.objects("tool_calls")? {
        parts.push(Part::ToolCall(read_call(&call)?));
    }
    Ok(parts)
}

/// The tokens of a `logprobs` object.
pub(crate) fn read_logprobs(logprobs: &Value) -> Vec<TokenLogprob> {
    logprobs.get("content").and_then(Value::as_array).map(|list| read_tokens(list)).unwrap_or_default()
}

/// Tokens with `token`, `logprob` and `top_logprobs`.
pub(crate) fn read_tokens(list: &[Value]) -> Vec<TokenLogprob> {
    let pair = |value: &Value| -> Option<(String, f64)> {
        Some((value.get("token")?.as_str()?.to_owned(), value.get("logprob")?.as_f64()?))
    };
    let token = |value: &Value| {
        let (token, logprob) = pair(value)?;
        let top = value.get("top_logprobs").and_then(Value::as_array);
        Some(TokenLogprob { token, logprob, top: top.into_iter().flatten().filter_map(pair).collect() })
    };
    list.iter().filter_map(token).collect()
}

/// Tokens with `token`, `bytes`, `logprob` and `top_logprobs`.
pub(crate) fn write_tokens(tokens: &[TokenLogprob]) -> Value {
    let one =
        |token: &str, logprob: f64| json!({"token": token, "bytes": token.as_bytes(), "logprob": logprob});
    let token = |token: &TokenLogprob| {
        let mut value = one(&token.token, token.logprob);
        value["top_logprobs"] = token.top.iter().map(|(token, logprob)| one(token, *logprob)).collect();
        value
    };
    tokens.iter().map(token).collect()
}

/// Writes a whole answer.
pub(crate) fn write(answer: &NeutralAnswer, options: &AnswerOptions<'_>, warnings: &mut Warnings) -> Value {
    let choices = answer.choices.iter().enumerate().map(|(index, choice)| {
        let message = write_message(&choice.parts, false, warnings);
        let logprobs = (!choice.logprobs.is_empty())
            .then(|| json!({"content": write_tokens(&choice.logprobs), "refusal": null}));
        json!({
            "index": index,
            "message": with_refusal(message),
            "logprobs": logprobs,
            "finish_reason": choice.reason().write(Dialect::OpenAiChat),
        })
    });
    let mut body = json!({
        "id": options.id(answer.id.as_deref()),
        "object": "chat.completion",
        "created": answer.created.unwrap_or(options.created_s),
        "model": options.model(answer.model.as_deref()),
        "choices": choices.collect::<Vec<Value>>(),
    });
    if let Some(usage) = &answer.usage {
        body["usage"] = usage.write(Dialect::OpenAiChat);
    }
    body
}

/// OpenAI's answers have the field even where there is no refusal.
fn with_refusal(mut message: Map<String, Value>) -> Value {
    if !message.contains_key("refusal") {
        put(&mut message, "refusal", Some(Value::Null));
    }
    Value::Object(message)
}
