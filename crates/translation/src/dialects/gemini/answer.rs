//! Answers of `generateContent`, which are also the chunks of its streams.

use serde_json::{Map, Value, json};
use wire::Fault;

use super::parts::{self, CallIds};
use crate::answers::AnswerOptions;
use crate::fields::{Fields, put};
use crate::neutral::{AnswerChoice, NeutralAnswer, Part, TokenLogprob, Warnings};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason};

/// Reads a whole answer.
pub(crate) fn read(body: &Value, warnings: &mut Warnings) -> Result<NeutralAnswer, Fault> {
    let body = Fields::of_body(body)?;
    let mut answer = NeutralAnswer {
        id: body.owned("responseId")?,
        model: body.owned("modelVersion")?,
        created: None,
        choices: Vec::new(),
        usage: body.get("usageMetadata").and_then(|usage| TokenUsage::read(Dialect::Gemini, usage)),
    };
    for candidate in body.objects("candidates")? {
        let parts = match candidate.object("content")? {
            Some(content) => parts::read_all(&content, &mut CallIds::default(), warnings)?,
            None => Vec::new(),
        };
        let finish = candidate.text("finishReason")?;
        answer.choices.push(AnswerChoice {
            parts: without_bare_signatures(parts),
            finish: finish.map(|word| FinishReason::read(Dialect::Gemini, word)),
            stop_sequence: None,
            logprobs: candidate.get("logprobsResult").map(read_logprobs).unwrap_or_default(),
        });
    }
    if answer.choices.is_empty() && body.get("promptFeedback").is_some() {
        // The prompt was refused.
        let finish = Some(FinishReason::ContentFilter);
        answer.choices.push(AnswerChoice { finish, ..AnswerChoice::default() });
    }
    Ok(answer)
}

/// Leaves out signatures that stand on text parts: they are a hint that Gemini does not ask for.
fn without_bare_signatures(parts: Vec<Part>) -> Vec<Part> {
    let bare =
        |part: &Part| matches!(part, Part::Thought(thought) if thought.text.is_empty() && !thought.redacted);
    parts.into_iter().filter(|part| !bare(part)).collect()
}

/// The tokens of a `logprobsResult`.
pub(crate) fn read_logprobs(result: &Value) -> Vec<TokenLogprob> {
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let pair = |value: &Value| -> Option<(String, f64)> {
        Some((value.get("token")?.as_str()?.to_owned(), value.get("logProbability")?.as_f64()?))
    };
    let tops = list(result, "topCandidates");
    let chosen = list(result, "chosenCandidates");
    let token = |(at, value): (usize, &Value)| {
        let (token, logprob) = pair(value)?;
        let top = tops.get(at).map(|top| list(top, "candidates")).unwrap_or_default();
        Some(TokenLogprob { token, logprob, top: top.iter().filter_map(pair).collect() })
    };
    chosen.iter().enumerate().filter_map(token).collect()
}

/// A `logprobsResult` of tokens.
pub(crate) fn write_logprobs(tokens: &[TokenLogprob]) -> Value {
    let one = |token: &str, logprob: f64| json!({"token": token, "logProbability": logprob});
    let chosen: Vec<Value> = tokens.iter().map(|token| one(&token.token, token.logprob)).collect();
    let top = |token: &TokenLogprob| {
        let candidates: Vec<Value> = token.top.iter().map(|(token, logprob)| one(token, *logprob)).collect();
        json!({"candidates": candidates})
    };
    let tops: Vec<Value> = tokens.iter().map(top).collect();
    json!({"chosenCandidates": chosen, "topCandidates": tops})
}

/// Writes a whole answer.
pub(crate) fn write(answer: &NeutralAnswer, options: &AnswerOptions<'_>) -> Value {
    let candidates = answer.choices.iter().enumerate().map(|(index, choice)| {
        let parts: Vec<Value> = choice.parts.iter().filter_map(write_part).collect();
        // Gemini ends calls of tools as any turn.
        let mut candidate = json!({
            "content": {"parts": parts, "role": "model"},
            "finishReason": choice.reason().write(Dialect::Gemini),
            "index": index,
        });
        if !choice.logprobs.is_empty() {
            candidate["logprobsResult"] = write_logprobs(&choice.logprobs);
        }
        candidate
    });
    let mut body = Map::new();
    body.insert("candidates".into(), candidates.collect());
    put(&mut body, "usageMetadata", answer.usage.map(|usage| usage.write(Dialect::Gemini)));
    body.insert("modelVersion".into(), options.model(answer.model.as_deref()).into());
    body.insert("responseId".into(), options.id(answer.id.as_deref()).into());
    Value::Object(body)
}

/// A part of an answer.
pub(crate) fn write_part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(json!({"text": text})),
        Part::Thought(thought) => {
            let mut part = json!({"text": thought.text, "thought": true});
            if let Some(signature) = &thought.signature {
                part["thoughtSignature"] = signature.write(Dialect::Gemini).into();
            }
            Some(part)
        }
        Part::ToolCall(call) => Some(parts::write_call(call, true)),
        Part::Media(_) | Part::ToolResult(_) => None,
    }
}
