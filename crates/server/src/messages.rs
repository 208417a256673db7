//! Answers of `/v1/messages`, whole and streamed.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use inference::{End, Event, Generate, Generation};
use serde_json::{Value, json};
use wire::anthropic::{Block, Message, Usage, fault_json, stop_reason};
use wire::{Fault, sse};

use crate::items::{Change, Item, Items};
use crate::requests::{Begun, begin};
use crate::state::State;
use crate::stream::{self, Dialect};

/// One request, from body to answer.
pub(crate) async fn answer(state: &State, request: Request) -> Result<Response, Fault> {
    let read = |body: &[u8]| {
        let value = wire::json::read(body)?;
        wire::numbers::refuse_in_schemas(body)?;
        let request = wire::anthropic::read(&value, false)?;
        let streamed = request.stream.on;
        Ok((Generate::chat(request), streamed))
    };
    let Begun { generation, asked: streamed, id } = begin(state, request, read).await?;
    let id = format!("msg_{id}");
    if streamed {
        return Ok(stream::response(generation, Box::new(Writer::new(id)), state.ping));
    }
    whole(generation, id).await
}

/// The whole answer.
async fn whole(mut generation: Generation, id: String) -> Result<Response, Fault> {
    let (mut items, mut end) = (Items::default(), End::default());
    while !generation.is_over() {
        let (parts, last) = generation.next().await?.1.split();
        for part in parts {
            items.add(part);
        }
        end = last.unwrap_or(end);
    }
    items.finish();
    let message = Message {
        id: &id,
        r#type: "message",
        role: "assistant",
        model: &generation.model,
        content: items.all.into_iter().map(block).collect(),
        stop_reason: Some(stop_reason(end.reason, end.sequence())),
        stop_sequence: end.sequence(),
        usage: Usage::of(&generation.usage()),
    };
    let json = serde_json::to_string(&message).expect("messages have string keys, which serialize");
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn block(item: Item) -> Block {
    match item {
        Item::Said(text) => Block::Text { text },
        Item::Thought(thinking) => Block::Thinking { thinking, signature: String::new() },
        Item::Called { id, name, arguments } => {
            // A call that was cut has no arguments that are JSON.
            let input = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
            Block::ToolUse { id, name, input }
        }
    }
}

/// Writes a stream of this API's events.
pub(crate) struct Writer {
    id: String,
    items: Items,
    begun: bool,
}

impl Writer {
    pub(crate) fn new(id: String) -> Writer {
        Writer { id, items: Items::default(), begun: false }
    }

    fn begin(&mut self, generation: &Generation, out: &mut String) {
        let message = Message {
            id: &self.id,
            r#type: "message",
            role: "assistant",
            model: &generation.model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::of(&generation.usage()),
        };
        write_event(json!({"type": "message_start", "message": message}), out);
    }

    fn change(&self, change: Change, out: &mut String) {
        if let Some(index) = change.closed {
            write_event(json!({"type": "content_block_stop", "index": index}), out);
        }
        if let Some(index) = change.opened {
            let block = match &self.items.all[index] {
                Item::Said(_) => Block::Text { text: String::new() },
                Item::Thought(_) => Block::Thinking { thinking: String::new(), signature: String::new() },
                Item::Called { id, name, .. } => {
                    Block::ToolUse { id: id.clone(), name: name.clone(), input: json!({}) }
                }
            };
            write_event(json!({"type": "content_block_start", "index": index, "content_block": block}), out);
        }
        if let Some((index, text)) = change.grown {
            let delta = match &self.items.all[index] {
                Item::Said(_) => json!({"type": "text_delta", "text": text}),
                Item::Thought(_) => json!({"type": "thinking_delta", "thinking": text}),
                Item::Called { .. } => json!({"type": "input_json_delta", "partial_json": text}),
            };
            write_event(json!({"type": "content_block_delta", "index": index, "delta": delta}), out);
        }
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, _choice: usize, event: Event, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(generation, out);
        }
        let (parts, end) = event.split();
        for part in parts {
            let change = self.items.add(part);
            self.change(change, out);
        }
        let Some(end) = end else { return };
        for change in self.items.finish() {
            self.change(change, out);
        }
        let usage = Usage::of(&generation.usage());
        let reason = stop_reason(end.reason, end.sequence());
        let delta = json!({"stop_reason": reason, "stop_sequence": end.sequence()});
        write_event(json!({"type": "message_delta", "delta": delta, "usage": usage}), out);
    }

    fn end(&mut self, _generation: &Generation, out: &mut String) {
        write_event(json!({"type": "message_stop"}), out);
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        write_event(fault_json(fault), out);
    }

    fn ping(&self) -> Cow<'static, str> {
        "event: ping\ndata: {\"type\":\"ping\"}\n\n".into()
    }
}

/// Appends an event under the name that its `type` is.
fn write_event(value: Value, out: &mut String) {
    out.push_str(&sse::named(value["type"].as_str().unwrap_or_default(), &value));
}
