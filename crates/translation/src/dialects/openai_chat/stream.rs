//! Streams of `/v1/chat/completions`.

use serde_json::{Map, Value, json};

use super::answer::{read_logprobs, write_tokens};
use crate::answers::AnswerOptions;
use crate::fields::put;
use crate::neutral::{Piece, Signature, ToolCall, split_id};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason, StreamError};

/// Most calls of one choice that are told apart.
const MAX_CALLS: u64 = 1 << 16;

/// Reads chunks.
#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    started: bool,
    /// The index of the call that came last, for each choice that has one.
    calls: Vec<(u64, u64)>,
}

impl ChatReader {
    pub(crate) fn read(&mut self, event: &Value, out: &mut Vec<Piece>) {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            out.push(Piece::Error(StreamError::read(error)));
            return;
        }
        if !self.started {
            self.started = true;
            let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
            let created = event.get("created").and_then(Value::as_u64);
            out.push(Piece::Start { id: text("id"), model: text("model"), created });
        }
        for (at, choice) in event.get("choices").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
            self.choice(index, choice, out);
        }
        if let Some(usage) = event.get("usage").and_then(|usage| TokenUsage::read(Dialect::OpenAiChat, usage))
        {
            out.push(Piece::Usage(usage));
        }
    }

    fn choice(&mut self, choice: u64, value: &Value, out: &mut Vec<Piece>) {
        let delta = value.get("delta").unwrap_or(&Value::Null);
        let text = |name: &str| delta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(text) = text("reasoning_content").or_else(|| text("reasoning")) {
            out.push(Piece::Thought { choice, text: text.to_owned() });
        }
        if let Some(text) = text("reasoning_signature") {
            let redacted = text.strip_prefix("redacted:");
            let signature = Signature::read(Dialect::OpenAiChat, redacted.unwrap_or(text));
            out.push(Piece::ThoughtSignature { choice, signature, redacted: redacted.is_some() });
        }
        if let Some(text) = text("content") {
            out.push(Piece::Text { choice, text: text.to_owned() });
        }
        if let Some(text) = text("refusal") {
            out.push(Piece::Refusal { choice, text: text.to_owned() });
        }
        for (at, call) in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            self.call(choice, at as u64, call, out);
        }
        if let Some(logprobs) = value.get("logprobs").filter(|logprobs| !logprobs.is_null()) {
            out.push(Piece::Logprobs { choice, tokens: read_logprobs(logprobs) });
        }
        if let Some(word) = value.get("finish_reason").and_then(Value::as_str) {
            let stop_sequence = value.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
            let reason = FinishReason::read(Dialect::OpenAiChat, word);
            out.push(Piece::Finish { choice, reason, stop_sequence });
        }
    }

    fn call(&mut self, choice: u64, at: u64, call: &Value, out: &mut Vec<Piece>) {
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(at).min(MAX_CALLS);
        let function = call.get("function").unwrap_or(&Value::Null);
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let last = self.calls.iter().position(|(of, _)| *of == choice);
        // Some servers repeat the id or name in later chunks.
        let begins = last.and_then(|at| self.calls.get(at)).is_none_or(|(_, last)| *last != index);
        if begins {
            match last {
                Some(at) => self.calls[at].1 = index,
                None if self.calls.len() < 128 => self.calls.push((choice, index)),
                None => return,
            }
            let (id, signature) = split_id(&text(call, "id").unwrap_or_default());
            let id = if id.is_empty() { format!("call_{choice}_{index}") } else { id };
            out.push(Piece::Call { choice, id, name: text(function, "name").unwrap_or_default(), signature });
        }
        if let Some(text) = text(function, "arguments").filter(|text| !text.is_empty()) {
            out.push(Piece::Arguments { choice, text });
        }
    }
}

/// Writes chunks.
#[derive(Debug)]
pub(crate) struct ChatWriter {
    id: String,
    model: String,
    created: u64,
    include_usage: bool,
    usage: Option<TokenUsage>,
    /// The choices that have begun, and the calls of each.
    choices: Vec<(u64, u64)>,
}

impl ChatWriter {
    pub(crate) fn new(options: &AnswerOptions<'_>) -> ChatWriter {
        ChatWriter {
            id: options.id(None),
            model: options.model(None),
            created: options.created_s,
            include_usage: options.include_usage,
            usage: None,
            choices: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        match piece {
            Piece::Start { id, model, created } => {
                self.id = options.id(id.as_deref());
                self.model = options.model(model.as_deref());
                self.created = created.unwrap_or(self.created);
            }
            Piece::Text { choice, text } => self.delta(choice, json!({"content": text}), out),
            Piece::Refusal { choice, text } => self.delta(choice, json!({"refusal": text}), out),
            Piece::Thought { choice, text } => self.delta(choice, json!({"reasoning_content": text}), out),
            Piece::ThoughtSignature { choice, signature, redacted } => {
                let mark = if redacted { "redacted:" } else { "" };
                let text = format!("{mark}{}", signature.write(Dialect::OpenAiChat));
                self.delta(choice, json!({"reasoning_signature": text}), out);
            }
            Piece::Call { choice, id, name, signature } => {
                let id =
                    ToolCall { id, name: String::new(), arguments: String::new(), signature }.signed_id();
                self.begin(choice, out);
                let index = self.next_call(choice);
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": id, "type": "function", "function": function});
                self.delta(choice, json!({"tool_calls": [call]}), out);
            }
            Piece::Arguments { choice, text } => {
                let index = self.place(choice).1.saturating_sub(1);
                let call = json!({"index": index, "function": {"arguments": text}});
                self.delta(choice, json!({"tool_calls": [call]}), out);
            }
            Piece::Logprobs { choice, tokens } => {
                let logprobs = json!({"content": write_tokens(&tokens), "refusal": null});
                self.chunk(choice, json!({}), Some(logprobs), None, out);
            }
            Piece::Finish { choice, reason, .. } => {
                let reason = match (reason, self.place(choice).1) {
                    (FinishReason::Stop, 1..) => FinishReason::ToolCalls,
                    (reason, _) => reason,
                };
                self.begin(choice, out);
                self.chunk(choice, json!({}), None, Some(reason.write(Dialect::OpenAiChat)), out);
            }
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().merge(usage)),
            Piece::Error(_) => {}
            Piece::Done => self.done(out),
        }
    }

    fn done(&mut self, out: &mut Vec<u8>) {
        if self.include_usage {
            let mut chunk = self.head();
            chunk.insert("choices".into(), json!([]));
            chunk.insert("usage".into(), self.usage.unwrap_or_default().write(Dialect::OpenAiChat));
            out.extend_from_slice(wire::sse::data(&chunk).as_bytes());
        }
        out.extend_from_slice(wire::sse::DONE.as_bytes());
    }

    /// The number of calls of a choice.
    fn place(&self, choice: u64) -> (u64, u64) {
        self.choices.iter().find(|(of, _)| *of == choice).copied().unwrap_or((choice, 0))
    }

    fn next_call(&mut self, choice: u64) -> u64 {
        match self.choices.iter_mut().find(|(of, _)| *of == choice) {
            Some((_, calls)) => {
                *calls += 1;
                *calls - 1
            }
            None => {
                self.choices.push((choice, 1));
                0
            }
        }
    }

    fn head(&self) -> Map<String, Value> {
        let mut chunk = Map::new();
        put(&mut chunk, "id", Some(self.id.as_str()));
        put(&mut chunk, "object", Some("chat.completion.chunk"));
        put(&mut chunk, "created", Some(self.created));
        put(&mut chunk, "model", Some(self.model.as_str()));
        chunk
    }

    /// The first chunk of a choice names the role.
    fn begin(&mut self, choice: u64, out: &mut Vec<u8>) {
        if self.choices.iter().all(|(of, _)| *of != choice) {
            self.choices.push((choice, 0));
            self.chunk(choice, json!({"role": "assistant", "content": ""}), None, None, out);
        }
    }

    fn delta(&mut self, choice: u64, delta: Value, out: &mut Vec<u8>) {
        self.begin(choice, out);
        self.chunk(choice, delta, None, None, out);
    }

    fn chunk(
        &self,
        choice: u64,
        delta: Value,
        logprobs: Option<Value>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let mut chunk = self.head();
        let choice = json!({"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        chunk.insert("choices".into(), json!([choice]));
        out.extend_from_slice(wire::sse::data(&chunk).as_bytes());
    }
}
