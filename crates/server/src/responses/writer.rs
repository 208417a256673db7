//! A response as it comes together: its object, and the events of a stream.

use serde_json::{Map, Value, json};
use wire::responses::usage_json;
use wire::{Fault, sse};

use super::kept::Draft;
use crate::generation::{Generation, Told};
use crate::items::{Change, Item, Items};
use crate::stream::Dialect;

/// The object of a response.
pub(crate) struct Object {
    id: String,
    created: u64,
    model: String,
    background: bool,
    store: bool,
    repeated: Map<String, Value>,
}

impl Object {
    pub(crate) fn new(id: String, created: u64, model: String, request: &wire::ResponsesRequest) -> Object {
        let wire::ResponsesRequest { background, store, repeated, .. } = request;
        Object { id, created, model, background: *background, store: *store, repeated: repeated.clone() }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// With this status, nothing said yet.
    pub(crate) fn json(&self, status: &str) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": self.background,
            "error": null,
            "incomplete_details": null,
            "model": self.model,
            "output": [],
            "store": self.store,
            "usage": null,
        });
        for (name, value) in &self.repeated {
            object[name] = value.clone();
        }
        object
    }

    /// Failed, for this reason.
    pub(crate) fn failed(&self, fault: &Fault) -> Value {
        let mut object = self.json("failed");
        let code = if fault.status == 429 { "rate_limit_exceeded" } else { "server_error" };
        object["error"] = json!({"code": code, "message": fault.message});
        object
    }
}

/// Gathers a response, and writes its events if it is streamed.
pub(crate) struct Writer {
    object: Object,
    items: Items,
    /// A number for each event.
    sequence: u64,
    begun: bool,
    finish_reason: &'static str,
    thought_tokens: usize,
    /// Where the whole response goes, if it is kept.
    draft: Option<Draft>,
}

impl Writer {
    pub(crate) fn new(object: Object, draft: Option<Draft>) -> Writer {
        Writer {
            object,
            items: Items::default(),
            sequence: 0,
            begun: false,
            finish_reason: "stop",
            thought_tokens: 0,
            draft,
        }
    }

    /// Reads a generation to its end; what comes back is the response.
    pub(crate) async fn whole(mut self, mut generation: Generation) -> Result<Value, Fault> {
        let mut unsent = String::new();
        while !generation.is_over() {
            let (choice, told) = match generation.next().await {
                Ok(next) => next,
                Err(fault) => {
                    self.keep_failure(&fault);
                    return Err(fault);
                }
            };
            self.write(&generation, choice, told, &mut unsent);
            unsent.clear();
        }
        Ok(self.finished(&generation))
    }

    /// The response at its end; kept, if it is to be.
    fn finished(&mut self, generation: &Generation) -> Value {
        let cut = self.finish_reason == "length";
        let status = if cut { "incomplete" } else { "completed" };
        let mut object = self.object.json(status);
        if cut {
            object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let last = self.items.all.len().saturating_sub(1);
        let output = self.items.all.iter().enumerate();
        // Only the last item can have been cut.
        object["output"] =
            output.map(|(i, _)| self.item(i, if cut && i == last { status } else { "completed" })).collect();
        object["usage"] = usage_json(&generation.usage(), self.thought_tokens);
        if let Some(draft) = self.draft.take() {
            draft.keep(&object, &self.items.all);
        }
        object
    }

    fn keep_failure(&mut self, fault: &Fault) {
        if let Some(draft) = self.draft.take() {
            draft.keep(&self.object.failed(fault), &[]);
        }
    }

    fn item_id(&self, index: usize) -> String {
        let kind = match &self.items.all[index] {
            Item::Said(_) => "msg",
            Item::Thought(_) => "rs",
            Item::Called { .. } => "fc",
        };
        let own = self.object.id.trim_start_matches("resp_");
        format!("{kind}_{own}{index:02}")
    }

    /// The item as it is so far.
    fn item(&self, index: usize, status: &str) -> Value {
        let id = self.item_id(index);
        match &self.items.all[index] {
            Item::Said(text) => {
                let begun = status != "in_progress";
                let content = if begun { json!([said(text)]) } else { json!([]) };
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
            Item::Thought(text) => {
                let begun = status != "in_progress";
                let content = if begun { json!([thought(text)]) } else { json!([]) };
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": content})
            }
            Item::Called { id: call, name, arguments } => json!({
                "id": id, "type": "function_call", "status": status,
                "call_id": call, "name": name, "arguments": arguments,
            }),
        }
    }

    fn event(&mut self, kind: &str, mut value: Value, out: &mut String) {
        value["type"] = kind.into();
        value["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push_str(&sse::named(kind, &value));
    }

    /// An event about an item.
    fn about(&mut self, index: usize, kind: &str, mut value: Value, out: &mut String) {
        value["item_id"] = self.item_id(index).into();
        value["output_index"] = index.into();
        if !matches!(self.items.all[index], Item::Called { .. }) {
            value["content_index"] = 0.into();
        }
        self.event(kind, value, out);
    }

    fn opened(&mut self, index: usize, out: &mut String) {
        let item = self.item(index, "in_progress");
        self.event("response.output_item.added", json!({"output_index": index, "item": item}), out);
        let part = match &self.items.all[index] {
            Item::Said(_) => said(""),
            Item::Thought(_) => thought(""),
            Item::Called { .. } => return,
        };
        self.about(index, "response.content_part.added", json!({"part": part}), out);
    }

    fn grown(&mut self, index: usize, text: String, out: &mut String) {
        let (kind, delta) = match &self.items.all[index] {
            Item::Said(_) => ("response.output_text.delta", json!({"delta": text, "logprobs": []})),
            Item::Thought(_) => ("response.reasoning_text.delta", json!({"delta": text})),
            Item::Called { .. } => ("response.function_call_arguments.delta", json!({"delta": text})),
        };
        self.about(index, kind, delta, out);
    }

    fn closed(&mut self, index: usize, out: &mut String) {
        let (kind, done, part) = match &self.items.all[index] {
            Item::Said(text) => {
                ("response.output_text.done", json!({"text": text, "logprobs": []}), Some(said(text)))
            }
            Item::Thought(text) => {
                ("response.reasoning_text.done", json!({"text": text}), Some(thought(text)))
            }
            Item::Called { name, arguments, .. } => {
                let done = json!({"name": name, "arguments": arguments});
                ("response.function_call_arguments.done", done, None)
            }
        };
        self.about(index, kind, done, out);
        if let Some(part) = part {
            self.about(index, "response.content_part.done", json!({"part": part}), out);
        }
        let item = self.item(index, "completed");
        self.event("response.output_item.done", json!({"output_index": index, "item": item}), out);
    }

    fn change(&mut self, change: Change, out: &mut String) {
        if let Some(index) = change.closed {
            self.closed(index, out);
        }
        if let Some(index) = change.opened {
            self.opened(index, out);
        }
        if let Some((index, text)) = change.grown {
            self.grown(index, text, out);
        }
    }
}

impl Dialect for Writer {
    fn write(&mut self, generation: &Generation, _choice: usize, told: Told, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            for kind in ["response.created", "response.in_progress"] {
                let object = self.object.json("in_progress");
                self.event(kind, json!({"response": object}), out);
            }
        }
        let (parts, end) = told.split();
        if matches!(parts.first(), Some(text::Part::Reasoning(_))) && end.is_none() {
            self.thought_tokens += 1;
        }
        for part in parts {
            let change = self.items.add(part, &generation.call_ids);
            self.change(change, out);
        }
        if let Some(end) = end {
            self.finish_reason = end.reason;
            for change in self.items.finish() {
                self.change(change, out);
            }
        }
    }

    fn end(&mut self, generation: &Generation, out: &mut String) {
        let object = self.finished(generation);
        let kind =
            if object["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        self.event(kind, json!({"response": object}), out);
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        self.keep_failure(fault);
        let object = self.object.failed(fault);
        self.event("response.failed", json!({"response": object}), out);
    }
}

fn said(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn thought(text: &str) -> Value {
    json!({"type": "reasoning_text", "text": text})
}
