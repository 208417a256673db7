//! Streams of `/v1/responses`.

use serde_json::{Map, Value, json};

use super::answer::{call_item, end, finish, message_item, reasoning_item, shell, text_part};
use crate::answers::AnswerOptions;
use crate::dialects::openai_chat::answer::{read_tokens, write_tokens};
use crate::fields::Fields;
use crate::neutral::{Piece, Signature, Thought, TokenLogprob, ToolCall, split_id};
use crate::usage::TokenUsage;
use crate::{Dialect, FinishReason, StreamError};

/// Reads events.
#[derive(Debug, Default)]
pub(crate) struct ResponsesReader {
    /// Whether deltas of the open thought have come: if not, its end has the text.
    thought: bool,
    /// Whether the call's arguments have come in deltas.
    arguments: bool,
    /// Whether the message's texts have come in deltas.
    text: bool,
}

impl ResponsesReader {
    pub(crate) fn read(&mut self, event: &Value, out: &mut Vec<Piece>) {
        let field = |name: &str| event.get(name).unwrap_or(&Value::Null);
        let text = |name: &str| field(name).as_str().unwrap_or_default().to_owned();
        match field("type").as_str().unwrap_or_default() {
            "response.created" => {
                let response = field("response");
                let of = |name: &str| response.get(name).and_then(Value::as_str).map(str::to_owned);
                let created = response.get("created_at").and_then(Value::as_f64);
                let created = created.map(|created| created.max(0.0) as u64);
                out.push(Piece::Start { id: of("id"), model: of("model"), created });
            }
            "response.output_text.delta" => {
                self.text = true;
                out.push(Piece::Text { choice: 0, text: text("delta") });
                if let Some(tokens) = field("logprobs").as_array().filter(|tokens| !tokens.is_empty()) {
                    out.push(Piece::Logprobs { choice: 0, tokens: read_tokens(tokens) });
                }
            }
            "response.refusal.delta" => {
                self.text = true;
                out.push(Piece::Refusal { choice: 0, text: text("delta") });
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.thought = true;
                out.push(Piece::Thought { choice: 0, text: text("delta") });
            }
            "response.output_item.added" => self.begin(field("item"), out),
            "response.function_call_arguments.delta" => {
                self.arguments = true;
                out.push(Piece::Arguments { choice: 0, text: text("delta") });
            }
            "response.output_item.done" => self.end_item(field("item"), out),
            "response.completed" | "response.incomplete" => end_response(field("response"), out),
            "response.failed" => {
                let error = field("response").get("error").unwrap_or(&Value::Null);
                out.push(Piece::Error(StreamError::read(error)));
            }
            "error" => {
                let error = event.get("error").filter(|error| error.is_object()).unwrap_or(event);
                out.push(Piece::Error(StreamError::read(error)));
            }
            "" => {
                if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
                    out.push(Piece::Error(StreamError::read(error)));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, item: &Value, out: &mut Vec<Piece>) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match item.get("type").and_then(Value::as_str) {
            Some("function_call") => {
                self.arguments = false;
                let (id, signature) = split_id(&text("call_id"));
                out.push(Piece::Call { choice: 0, id, name: text("name"), signature });
            }
            Some("reasoning") => self.thought = false,
            Some("message") => self.text = false,
            _ => {}
        }
    }

    fn end_item(&mut self, item: &Value, out: &mut Vec<Piece>) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match item.get("type").and_then(Value::as_str) {
            Some("function_call") if !self.arguments && !text("arguments").is_empty() => {
                out.push(Piece::Arguments { choice: 0, text: text("arguments") });
            }
            // Some servers send a refusal at the end only.
            Some("message") if !self.text => {
                for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                    let text = |name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
                    let refusal = text("refusal").map(|text| Piece::Refusal { choice: 0, text });
                    let text = text("text").filter(|text| !text.is_empty());
                    out.extend(refusal.or(text.map(|text| Piece::Text { choice: 0, text })));
                }
            }
            Some("reasoning") => {
                let Ok(fields) = Fields::of(item, "item".into()) else { return };
                let Ok(thought) = super::items::read_thought(&fields) else { return };
                if !self.thought && !thought.text.is_empty() {
                    out.push(Piece::Thought { choice: 0, text: thought.text });
                }
                if let Some(signature) = thought.signature {
                    out.push(Piece::ThoughtSignature {
                        choice: 0,
                        signature,
                        redacted: thought.redacted && !self.thought,
                    });
                }
            }
            _ => {}
        }
    }
}

fn end_response(response: &Value, out: &mut Vec<Piece>) {
    let usage = response.get("usage").and_then(|usage| TokenUsage::read(Dialect::OpenAiResponses, usage));
    let reason = Fields::of(response, "response".into()).and_then(|response| finish(&response));
    let reason = reason.unwrap_or(FinishReason::Other);
    out.push(Piece::Finish { choice: 0, reason, stop_sequence: None });
    out.extend(usage.map(Piece::Usage));
    out.push(Piece::Done);
}

/// The item that is open, with what it has so far: its end repeats it.
#[derive(Debug)]
enum Open {
    Text { text: String, logprobs: Vec<TokenLogprob> },
    Refusal { text: String },
    Thought(Thought),
    Call(ToolCall),
}

/// Writes events: of the first choice.
#[derive(Debug)]
pub(crate) struct ResponsesWriter {
    id: String,
    model: String,
    created: u64,
    sequence: u64,
    started: bool,
    open: Option<(String, Open)>,
    output: Vec<Value>,
    finish: Option<FinishReason>,
    usage: Option<TokenUsage>,
}

impl ResponsesWriter {
    pub(crate) fn new(options: &AnswerOptions<'_>) -> ResponsesWriter {
        ResponsesWriter {
            id: options.id(None),
            model: options.model(None),
            created: options.created_s,
            sequence: 0,
            started: false,
            open: None,
            output: Vec::new(),
            finish: None,
            usage: None,
        }
    }

    /// The number of the event that follows.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn write(&mut self, piece: Piece, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        match piece {
            Piece::Start { id, model, created } if !self.started => {
                self.id = options.id(id.as_deref());
                self.model = options.model(model.as_deref());
                self.created = created.unwrap_or(self.created);
                self.start(options, out);
            }
            Piece::Text { choice: 0, text } => self.text(text, options, out),
            Piece::Refusal { choice: 0, text } => self.refusal(text, options, out),
            Piece::Thought { choice: 0, text } => self.thought(text, options, out),
            Piece::ThoughtSignature { choice: 0, signature, .. } => self.sign(signature, options, out),
            Piece::Call { choice: 0, id, name, signature } => {
                let call = ToolCall { id, name, arguments: String::new(), signature };
                let item = |id: &str| call_item(id, &call, "in_progress");
                let id = self.begin("fc", item, options, out);
                self.open = Some((id, Open::Call(call)));
            }
            Piece::Arguments { choice: 0, text } => {
                if let Some((_, Open::Call(call))) = &mut self.open {
                    call.arguments.push_str(&text);
                    self.event("response.function_call_arguments.delta", json!({"delta": text}), out);
                }
            }
            Piece::Logprobs { choice: 0, tokens } => {
                if let Some((_, Open::Text { logprobs, .. })) = &mut self.open {
                    logprobs.extend(tokens);
                }
            }
            Piece::Finish { choice: 0, reason, .. } => self.finish = Some(reason),
            Piece::Usage(usage) => self.usage = Some(self.usage.unwrap_or_default().merge(usage)),
            Piece::Done => self.done(options, out),
            _ => {}
        }
    }

    fn start(&mut self, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if self.started {
            return;
        }
        self.started = true;
        let response = shell(&self.id, &self.model, self.created, "in_progress", options.request);
        self.emit("response.created", json!({"response": response}), out);
        self.emit("response.in_progress", json!({"response": response}), out);
    }

    /// Writes an event with a sequence number.
    fn emit(&mut self, kind: &str, fields: Value, out: &mut Vec<u8>) {
        let mut event = Map::new();
        event.insert("type".into(), kind.into());
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        event.insert("sequence_number".into(), self.sequence.into());
        self.sequence += 1;
        out.extend_from_slice(wire::sse::named(kind, &event).as_bytes());
    }

    /// Writes an event of the open item.
    fn event(&mut self, kind: &str, mut fields: Value, out: &mut Vec<u8>) {
        if let Some((id, _)) = &self.open {
            fields["item_id"] = id.as_str().into();
        }
        fields["output_index"] = self.output.len().into();
        self.emit(kind, fields, out);
    }

    /// Ends the open item and begins another; its id.
    fn begin(
        &mut self,
        prefix: &str,
        item: impl Fn(&str) -> Value,
        options: &AnswerOptions<'_>,
        out: &mut Vec<u8>,
    ) -> String {
        self.start(options, out);
        self.leave("completed", out);
        let index = self.output.len();
        let id = format!("{prefix}_{index}_{}", self.id);
        self.emit("response.output_item.added", json!({"output_index": index, "item": item(&id)}), out);
        id
    }

    fn text(&mut self, text: String, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if !matches!(self.open, Some((_, Open::Text { .. }))) {
            let id = self.begin("msg", |id| message_item(id, Vec::new(), "in_progress"), options, out);
            self.open = Some((id, Open::Text { text: String::new(), logprobs: Vec::new() }));
            self.event(
                "response.content_part.added",
                json!({"content_index": 0, "part": text_part("", &[])}),
                out,
            );
        }
        self.event(
            "response.output_text.delta",
            json!({"content_index": 0, "delta": text, "logprobs": []}),
            out,
        );
        if let Some((_, Open::Text { text: whole, .. })) = &mut self.open {
            whole.push_str(&text);
        }
    }

    fn refusal(&mut self, text: String, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if !matches!(self.open, Some((_, Open::Refusal { .. }))) {
            let id = self.begin("msg", |id| message_item(id, Vec::new(), "in_progress"), options, out);
            self.open = Some((id, Open::Refusal { text: String::new() }));
            let part = json!({"type": "refusal", "refusal": ""});
            self.event("response.content_part.added", json!({"content_index": 0, "part": part}), out);
        }
        self.event("response.refusal.delta", json!({"content_index": 0, "delta": text}), out);
        if let Some((_, Open::Refusal { text: whole })) = &mut self.open {
            whole.push_str(&text);
        }
    }

    fn begin_thought(&mut self, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        if !matches!(self.open, Some((_, Open::Thought(_)))) {
            let id = self.begin("rs", |id| reasoning_item(id, &Thought::default()), options, out);
            self.open = Some((id, Open::Thought(Thought::default())));
        }
    }

    fn thought(&mut self, text: String, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        self.begin_thought(options, out);
        let first = matches!(&self.open, Some((_, Open::Thought(thought))) if thought.text.is_empty());
        if first {
            let part = json!({"type": "summary_text", "text": ""});
            self.event(
                "response.reasoning_summary_part.added",
                json!({"summary_index": 0, "part": part}),
                out,
            );
        }
        self.event("response.reasoning_summary_text.delta", json!({"summary_index": 0, "delta": text}), out);
        if let Some((_, Open::Thought(thought))) = &mut self.open {
            thought.text.push_str(&text);
        }
    }

    fn sign(&mut self, signature: Signature, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        self.begin_thought(options, out);
        if let Some((_, Open::Thought(thought))) = &mut self.open {
            thought.signature = Some(signature);
        }
        self.leave("completed", out);
    }

    /// Ends the open item.
    fn leave(&mut self, status: &str, out: &mut Vec<u8>) {
        let Some((id, open)) = &self.open else { return };
        let (id, index) = (id.clone(), json!({"content_index": 0}));
        let with = |mut fields: Value, name: &str, value: Value| {
            fields[name] = value;
            fields
        };
        let item = match open {
            Open::Text { text, logprobs } => {
                let (text, logprobs) = (text.clone(), logprobs.clone());
                let part = text_part(&text, &logprobs);
                let done =
                    with(with(index.clone(), "text", text.into()), "logprobs", write_tokens(&logprobs));
                self.event("response.output_text.done", done, out);
                self.event("response.content_part.done", with(index, "part", part.clone()), out);
                message_item(&id, vec![part], status)
            }
            Open::Refusal { text } => {
                let part = json!({"type": "refusal", "refusal": text});
                let done = with(index.clone(), "refusal", text.as_str().into());
                self.event("response.refusal.done", done, out);
                self.event("response.content_part.done", with(index, "part", part.clone()), out);
                message_item(&id, vec![part], status)
            }
            Open::Thought(thought) => {
                let thought = thought.clone();
                if !thought.text.is_empty() {
                    let index = json!({"summary_index": 0});
                    let done = with(index.clone(), "text", thought.text.as_str().into());
                    self.event("response.reasoning_summary_text.done", done, out);
                    let part = json!({"type": "summary_text", "text": thought.text});
                    self.event("response.reasoning_summary_part.done", with(index, "part", part), out);
                }
                reasoning_item(&id, &thought)
            }
            Open::Call(call) => {
                let call = call.clone();
                let done = json!({"arguments": call.arguments, "name": call.name});
                self.event("response.function_call_arguments.done", done, out);
                call_item(&id, &call, status)
            }
        };
        let done = json!({"output_index": self.output.len(), "item": item});
        self.emit("response.output_item.done", done, out);
        self.output.push(item);
        self.open = None;
    }

    fn done(&mut self, options: &AnswerOptions<'_>, out: &mut Vec<u8>) {
        self.start(options, out);
        let mut response = shell(&self.id, &self.model, self.created, "completed", options.request);
        let status = end(&mut response, self.finish.unwrap_or(FinishReason::Stop));
        self.leave(status, out);
        response.insert("output".into(), Value::Array(std::mem::take(&mut self.output)));
        let usage = self.usage.unwrap_or_default().write(Dialect::OpenAiResponses);
        response.insert("usage".into(), usage);
        self.emit(&format!("response.{status}"), json!({"response": response}), out);
    }
}
