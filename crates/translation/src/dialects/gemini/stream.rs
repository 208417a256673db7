//! Streams of `streamGenerateContent?alt=sse`: each event is an answer with further parts.

use serde_json::{Map, Value, json};

use super::answer::{read_logprobs, write_logprobs, write_part};
use crate::answers::AnswerOptions;
use crate::fields::put;
use crate::neutral::{Part, Piece, Signature, Thought, ToolCall};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason, StreamError};

/// Reads chunks.
#[derive(Debug, Default)]
pub(crate) struct GeminiReader {
    started: bool,
    calls: u64,
}

impl GeminiReader {
    pub(crate) fn read(&mut self, event: &Value, out: &mut Vec<Piece>) {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            out.push(Piece::Error(StreamError::read(error)));
            return;
        }
        if !self.started {
            self.started = true;
            let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
            out.push(Piece::Start { id: text("responseId"), model: text("modelVersion"), created: None });
        }
        let candidates = event.get("candidates").and_then(Value::as_array);
        for (at, candidate) in candidates.into_iter().flatten().enumerate() {
            let choice = candidate.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
            self.candidate(choice, candidate, out);
        }
        let blocked = event.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
        if blocked.is_some_and(Value::is_string) {
            let reason = FinishReason::ContentFilter;
            out.push(Piece::Finish { choice: 0, reason, stop_sequence: None });
        }
        let usage = event.get("usageMetadata").and_then(|usage| TokenUsage::read(Dialect::Gemini, usage));
        out.extend(usage.map(Piece::Usage));
    }

    fn candidate(&mut self, choice: u64, candidate: &Value, out: &mut Vec<Piece>) {
        let parts =
            candidate.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.part(choice, part, out);
        }
        if let Some(logprobs) = candidate.get("logprobsResult") {
            out.push(Piece::Logprobs { choice, tokens: read_logprobs(logprobs) });
        }
        let word = candidate.get("finishReason").and_then(Value::as_str);
        if let Some(word) = word.filter(|word| *word != "FINISH_REASON_UNSPECIFIED") {
            let reason = FinishReason::read(Dialect::Gemini, word);
            out.push(Piece::Finish { choice, reason, stop_sequence: None });
        }
    }

    fn part(&mut self, choice: u64, part: &Value, out: &mut Vec<Piece>) {
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        let signature = part.get("thoughtSignature").and_then(Value::as_str);
        let signature = signature.map(|text| Signature::read(Dialect::Gemini, text));
        if let Some(call) = part.get("functionCall") {
            let name = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            self.calls += 1;
            let id = id.map_or_else(|| format!("call_{}", self.calls), str::to_owned);
            out.push(Piece::Call { choice, id, name, signature });
            let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            out.push(Piece::Arguments { choice, text: arguments });
        } else if part.get("thought").and_then(Value::as_bool).unwrap_or(false) {
            if !text.is_empty() {
                out.push(Piece::Thought { choice, text: text.to_owned() });
            }
            out.extend(signature.map(|signature| Piece::ThoughtSignature {
                choice,
                signature,
                redacted: false,
            }));
        } else if !text.is_empty() {
            out.push(Piece::Text { choice, text: text.to_owned() });
        }
    }
}

/// A call whose arguments are not complete: Gemini sends calls whole.
#[derive(Debug)]
struct OpenCall {
    choice: u64,
    call: ToolCall,
}

/// Writes chunks.
#[derive(Debug)]
pub(crate) struct GeminiWriter {
    id: String,
    model: String,
    call: Option<OpenCall>,
    /// Reasons to end that are held until the last chunk, which has the usage.
    finished: Vec<(u64, FinishReason)>,
    usage: Option<TokenUsage>,
}

impl GeminiWriter {
    pub(crate) fn new(options: &AnswerOptions<'_>) -> GeminiWriter {
        let (id, model) = (options.id(None), options.model(None));
        GeminiWriter { id, model, call: None, finished: Vec::new(), usage: None }
    }

    pub(crate) fn write(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if !matches!(piece, Piece::Arguments { .. } | Piece::Usage(_) | Piece::Error(_)) {
            self.close_call(out);
        }
        match piece {
            Piece::Start { id, model, .. } => {
                self.id = options.id(id.as_deref());
                self.model = options.model(model.as_deref());
            }
            Piece::Text { choice, text } | Piece::Refusal { choice, text } => {
                self.part(choice, &Part::Text(text), out);
            }
            Piece::Thought { choice, text } => {
                self.part(choice, &Part::Thought(Thought { text, ..Thought::default() }), out);
            }
            Piece::ThoughtSignature { choice, signature, redacted } => {
                let signature = Some(signature);
                self.part(choice, &Part::Thought(Thought { text: String::new(), signature, redacted }), out);
            }
            Piece::Call { choice, id, name, signature } => {
                let call = ToolCall { id, name, arguments: String::new(), signature };
                self.call = Some(OpenCall { choice, call });
            }
            Piece::Arguments { text, .. } => {
                if let Some(open) = &mut self.call {
                    open.call.arguments.push_str(&text);
                }
            }
            Piece::Logprobs { choice, tokens } => {
                let mut candidate = json!({"index": choice});
                candidate["logprobsResult"] = write_logprobs(&tokens);
                self.chunk(vec![candidate], out);
            }
            Piece::Finish { choice, reason, .. } => {
                if self.finished.len() < 128 {
                    self.finished.push((choice, reason));
                }
            }
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().merge(usage)),
            Piece::Error(_) => {}
            Piece::Done => {
                if self.finished.is_empty() {
                    self.finished.push((0, FinishReason::Stop));
                }
                let candidate = |(choice, reason): &(u64, FinishReason)| {
                    let content = json!({"parts": [{"text": ""}], "role": "model"});
                    json!({"content": content, "finishReason": reason.write(Dialect::Gemini), "index": choice})
                };
                let candidates = self.finished.iter().map(candidate).collect();
                self.chunk(candidates, out);
            }
        }
    }

    fn close_call(&mut self, out: &mut Vec<u8>) {
        if let Some(open) = self.call.take() {
            self.part(open.choice, &Part::ToolCall(open.call), out);
        }
    }

    fn part(&self, choice: u64, part: &Part, out: &mut Vec<u8>) {
        if let Some(part) = write_part(part) {
            let content = json!({"parts": [part], "role": "model"});
            self.chunk(vec![json!({"content": content, "index": choice})], out);
        }
    }

    fn chunk(&self, candidates: Vec<Value>, out: &mut Vec<u8>) {
        let mut chunk = Map::new();
        let last = candidates.iter().any(|candidate| candidate.get("finishReason").is_some());
        chunk.insert("candidates".into(), Value::Array(candidates));
        let usage = self.usage.filter(|_| last).map(|usage| usage.write(Dialect::Gemini));
        put(&mut chunk, "usageMetadata", usage);
        chunk.insert("modelVersion".into(), self.model.as_str().into());
        chunk.insert("responseId".into(), self.id.as_str().into());
        out.extend_from_slice(wire::sse::data(&chunk).as_bytes());
    }
}
