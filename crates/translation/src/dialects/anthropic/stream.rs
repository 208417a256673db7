//! Streams of `/v1/messages`.

use serde_json::{Value, json};

use crate::answers::AnswerOptions;
use crate::neutral::{Piece, Signature, ToolCall, split_id};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason, StreamError};

/// Reads events.
#[derive(Debug, Default)]
pub(crate) struct AnthropicReader {
    /// Whether the block that is open is of a kind that is translated.
    known: bool,
}

impl AnthropicReader {
    pub(crate) fn read(&mut self, event: &Value, out: &mut Vec<Piece>) {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let field = |name: &str| event.get(name).unwrap_or(&Value::Null);
        let usage = |value: &Value| TokenUsage::read(Dialect::Anthropic, value.get("usage")?);
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => {
                let message = field("message");
                out.push(Piece::Start {
                    id: text(message, "id"),
                    model: text(message, "model"),
                    created: None,
                });
                out.extend(usage(message).map(Piece::Usage));
            }
            "content_block_start" => self.begin(field("content_block"), out),
            "content_block_delta" if self.known => delta(field("delta"), out),
            "message_delta" => {
                out.extend(usage(event).map(Piece::Usage));
                let delta = field("delta");
                if let Some(word) = delta.get("stop_reason").and_then(Value::as_str) {
                    let reason = FinishReason::read(Dialect::Anthropic, word);
                    let stop_sequence = text(delta, "stop_sequence");
                    out.push(Piece::Finish { choice: 0, reason, stop_sequence });
                }
            }
            "message_stop" => out.push(Piece::Done),
            "content_block_delta" | "content_block_stop" | "ping" => {}
            _ => {
                if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
                    out.push(Piece::Error(StreamError::read(error)));
                }
            }
        }
    }

    fn begin(&mut self, block: &Value, out: &mut Vec<Piece>) {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.known = true;
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" if !text("text").is_empty() => out.push(Piece::Text { choice: 0, text: text("text") }),
            "text" | "thinking" => {}
            "redacted_thinking" => {
                let signature = Signature::read(Dialect::Anthropic, &text("data"));
                out.push(Piece::ThoughtSignature { choice: 0, signature, redacted: true });
            }
            "tool_use" => {
                let (id, signature) = split_id(&text("id"));
                out.push(Piece::Call { choice: 0, id, name: text("name"), signature });
                // Nearly always empty here: the input follows.
                if let Some(input) =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()))
                {
                    out.push(Piece::Arguments { choice: 0, text: input.to_string() });
                }
            }
            _ => self.known = false,
        }
    }
}

fn delta(delta: &Value, out: &mut Vec<Piece>) {
    let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match delta.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text_delta" => out.push(Piece::Text { choice: 0, text: text("text") }),
        "thinking_delta" => out.push(Piece::Thought { choice: 0, text: text("thinking") }),
        "signature_delta" => {
            let signature = Signature::read(Dialect::Anthropic, &text("signature"));
            out.push(Piece::ThoughtSignature { choice: 0, signature, redacted: false });
        }
        "input_json_delta" if !text("partial_json").is_empty() => {
            out.push(Piece::Arguments { choice: 0, text: text("partial_json") });
        }
        _ => {}
    }
}

/// The kind of the block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
    ToolUse,
}

/// Writes events: of the first choice.
#[derive(Debug)]
pub(crate) struct AnthropicWriter {
    started: bool,
    open: Option<Block>,
    /// Blocks that have ended.
    ended: u64,
    calls: bool,
    refused: bool,
    finish: Option<(FinishReason, Option<String>)>,
    usage: TokenUsage,
}

impl AnthropicWriter {
    pub(crate) fn new() -> AnthropicWriter {
        AnthropicWriter {
            started: false,
            open: None,
            ended: 0,
            calls: false,
            refused: false,
            finish: None,
            usage: TokenUsage::default(),
        }
    }

    pub(crate) fn write(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        match piece {
            Piece::Start { id, model, .. } => self.start(id.as_deref(), model.as_deref(), options, out),
            Piece::Text { choice: 0, text } => {
                self.enter(Block::Text, options, out);
                self.delta(json!({"type": "text_delta", "text": text}), out);
            }
            Piece::Refusal { choice: 0, text } => {
                self.refused = true;
                self.enter(Block::Text, options, out);
                self.delta(json!({"type": "text_delta", "text": text}), out);
            }
            Piece::Thought { choice: 0, text } => {
                self.enter(Block::Thinking, options, out);
                self.delta(json!({"type": "thinking_delta", "thinking": text}), out);
            }
            Piece::ThoughtSignature { choice: 0, signature, redacted } => {
                let signature = signature.write(Dialect::Anthropic);
                if redacted {
                    self.begin(json!({"type": "redacted_thinking", "data": signature}), options, out);
                } else {
                    self.enter(Block::Thinking, options, out);
                    self.delta(json!({"type": "signature_delta", "signature": signature}), out);
                }
                self.leave(out);
            }
            Piece::Call { choice: 0, id, name, signature } => {
                self.calls = true;
                let call = ToolCall { id, name, arguments: String::new(), signature };
                let block =
                    json!({"type": "tool_use", "id": call.signed_id(), "name": call.name, "input": {}});
                self.begin(block, options, out);
                self.open = Some(Block::ToolUse);
            }
            Piece::Arguments { choice: 0, text } if self.open == Some(Block::ToolUse) => {
                self.delta(json!({"type": "input_json_delta", "partial_json": text}), out);
            }
            Piece::Finish { choice: 0, reason, stop_sequence } => self.finish = Some((reason, stop_sequence)),
            Piece::Usage(usage) => self.usage = self.usage.merge(usage),
            Piece::Done => self.done(options, out),
            _ => {}
        }
    }

    fn start(
        &mut self,
        id: Option<&str>,
        model: Option<&str>,
        options: &AnswerOptions<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.started {
            return;
        }
        self.started = true;
        let mut message = json!({
            "id": options.id(id), "type": "message", "role": "assistant", "model": options.model(model),
            "content": [], "stop_reason": null, "stop_sequence": null,
        });
        message["usage"] = self.usage.write(Dialect::Anthropic);
        emit("message_start", &json!({"type": "message_start", "message": message}), out);
    }

    fn begin(&mut self, block: Value, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        self.start(None, None, options, out);
        self.leave(out);
        let event = json!({"type": "content_block_start", "index": self.ended, "content_block": block});
        emit("content_block_start", &event, out);
        // Of a kind without deltas, until the caller says otherwise.
        self.open = Some(Block::Thinking);
    }

    /// Opens a block of the kind, unless one is open.
    fn enter(&mut self, kind: Block, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if self.open == Some(kind) {
            return;
        }
        let block = match kind {
            Block::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Block::Text | Block::ToolUse => json!({"type": "text", "text": ""}),
        };
        self.begin(block, options, out);
        self.open = Some(kind);
    }

    fn leave(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            emit("content_block_stop", &json!({"type": "content_block_stop", "index": self.ended}), out);
            self.ended += 1;
        }
    }

    fn delta(&self, delta: Value, out: &mut Vec<u8>) {
        let event = json!({"type": "content_block_delta", "index": self.ended, "delta": delta});
        emit("content_block_delta", &event, out);
    }

    fn done(&mut self, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        self.start(None, None, options, out);
        self.leave(out);
        let (reason, stop_sequence) = self.finish.take().unwrap_or((FinishReason::Stop, None));
        let reason = match reason {
            FinishReason::Stop if self.calls => FinishReason::ToolCalls,
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            reason => reason,
        };
        let event = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason.write(Dialect::Anthropic), "stop_sequence": stop_sequence},
            "usage": self.usage.write(Dialect::Anthropic),
        });
        emit("message_delta", &event, out);
        emit("message_stop", &json!({"type": "message_stop"}), out);
    }
}

fn emit(name: &str, event: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(wire::sse::named(name, event).as_bytes());
}
