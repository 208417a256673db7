//! A response as it comes together: its object, and the events of a stream.

use inference::{Event, Generation, Part};
use serde_json::{Map, Value, json};
use service::ResponseText;
use wire::responses::{Tools, usage_json};
use wire::{Fault, sse};

use super::draft::Draft;
use crate::items::{Change, Item, Items};
use crate::stream::Dialect;

/// The object of a response, without what changes while it is computed.
pub(crate) struct Object {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) background: bool,
    pub(crate) store: bool,
    /// From [`fields_text`].
    pub(crate) repeated: String,
    /// What the functions that are called are in this API.
    pub(crate) tools: Tools,
}

/// What a response has to say in a certain state.
#[derive(Default)]
pub(crate) struct Facts {
    error: Value,
    incomplete_details: Value,
    output: Vec<Value>,
    usage: Value,
}

impl Facts {
    /// Nothing but an error.
    pub(crate) fn with_error(error: Value) -> Facts {
        Facts { error, ..Facts::default() }
    }
}

/// The fields of an object as JSON, without the braces around it.
pub(crate) fn fields_text(fields: &Map<String, Value>) -> String {
    let fields = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name)));
    fields.collect::<Vec<_>>().join(",")
}

impl Object {
    /// With this status. The status comes before anything that a client wrote.
    pub(crate) fn text(&self, status: &'static str, facts: &Facts) -> ResponseText {
        let object = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": self.background,
            "error": facts.error,
            "incomplete_details": facts.incomplete_details,
            "model": self.model,
            "output": facts.output,
            "store": self.store,
            "usage": facts.usage,
        });
        let mut json = object.to_string();
        if !self.repeated.is_empty() && json.pop().is_some() {
            json = format!("{json},{}}}", self.repeated);
        }
        ResponseText { status, json }
    }

    /// Failed, for this reason.
    pub(crate) fn failed(&self, fault: &Fault) -> ResponseText {
        let code = if fault.status == 429 { "rate_limit_exceeded" } else { "server_error" };
        let error = json!({"code": code, "message": fault.message});
        self.text("failed", &Facts::with_error(error))
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
    pub(crate) async fn whole(mut self, mut generation: Generation) -> Result<String, Fault> {
        let mut unsent = String::new();
        while !generation.is_over() {
            let (choice, event) = match generation.next().await {
                Ok(next) => next,
                Err(fault) => {
                    self.keep_failure(&fault);
                    return Err(fault);
                }
            };
            self.write(&generation, choice, event, &mut unsent);
            unsent.clear();
        }
        Ok(self.finished(&generation).json)
    }

    /// The response at its end; kept, if it is to be.
    fn finished(&mut self, generation: &Generation) -> ResponseText {
        let cut = self.finish_reason == "length";
        let status = if cut { "incomplete" } else { "completed" };
        let last = self.items.all.len().saturating_sub(1);
        // Only the last item can have been cut.
        let item = |i: usize| self.item(i, if cut && i == last { status } else { "completed" });
        let facts = Facts {
            error: Value::Null,
            incomplete_details: if cut { json!({"reason": "max_output_tokens"}) } else { Value::Null },
            output: (0..self.items.all.len()).map(item).collect(),
            usage: usage_json(&generation.usage(), self.thought_tokens),
        };
        let object = self.object.text(status, &facts);
        if let Some(draft) = self.draft.take() {
            draft.keep(ResponseText { status, json: object.json.clone() }, &self.items.all);
        }
        object
    }

    fn keep_failure(&mut self, fault: &Fault) {
        if let Some(draft) = self.draft.take() {
            draft.keep(self.object.failed(fault), &[]);
        }
    }

    fn item_id(&self, index: usize) -> String {
        let kind = match &self.items.all[index] {
            Item::Said(_) => "msg",
            Item::Thought(_) => "rs",
            Item::Called { name, .. } => self.object.tools.item_type(name).1,
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
            Item::Called { id: call, name, arguments } => {
                let mut item = self.object.tools.item(name, call, arguments);
                (item["id"], item["status"]) = (id.into(), status.into());
                item
            }
        }
    }

    fn event(&mut self, kind: &str, mut value: Value, out: &mut String) {
        value["type"] = kind.into();
        value["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push_str(&sse::named(kind, &value));
    }

    /// An event about the whole response.
    fn event_of(&mut self, kind: &str, object: &ResponseText, out: &mut String) {
        let (json, number) = (&object.json, self.sequence);
        self.sequence += 1;
        // JSON has no raw newline, so one `data:` line holds it.
        out.push_str(&format!(
            "event: {kind}\ndata: {{\"response\":{json},\"type\":\"{kind}\",\"sequence_number\":{number}}}\n\n"
        ));
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
        // The text of a custom tool stands in its arguments: it is told when they are whole.
        if self.is_no_function(index) {
            return;
        }
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
            Item::Called { .. } if self.is_no_function(index) => return self.closed_tool(index, out),
            Item::Called { arguments, .. } => {
                let done = json!({"name": self.item(index, "completed")["name"], "arguments": arguments});
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

    fn is_no_function(&self, index: usize) -> bool {
        let item = &self.items.all[index];
        matches!(item, Item::Called { name, .. } if self.object.tools.item_type(name).0 != "function_call")
    }

    /// The end of a call of a tool that is no function: its input, if it has one, in one piece.
    fn closed_tool(&mut self, index: usize, out: &mut String) {
        let item = self.item(index, "completed");
        if let Some(input) = item.get("input") {
            let kind = "response.custom_tool_call_input";
            self.about(index, &format!("{kind}.delta"), json!({"delta": input}), out);
            self.about(index, &format!("{kind}.done"), json!({"input": input}), out);
        }
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
    fn write(&mut self, _generation: &Generation, _choice: usize, event: Event, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            for kind in ["response.created", "response.in_progress"] {
                let object = self.object.text("in_progress", &Facts::default());
                self.event_of(kind, &object, out);
            }
        }
        let (parts, end) = event.split();
        if matches!(parts.first(), Some(Part::Reasoning(_))) && end.is_none() {
            self.thought_tokens += 1;
        }
        for part in parts {
            let change = self.items.add(part);
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
        let kind = if object.status == "incomplete" { "response.incomplete" } else { "response.completed" };
        self.event_of(kind, &object, out);
    }

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        self.keep_failure(fault);
        let object = self.object.failed(fault);
        self.event_of("response.failed", &object, out);
    }
}

fn said(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn thought(text: &str) -> Value {
    json!({"type": "reasoning_text", "text": text})
}
