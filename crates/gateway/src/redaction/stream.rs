//! A stream in the client's dialect with its values put back.
//!
//! A placeholder may be cut over several events, so that each text of the answer has a restorer of its own, which holds
//! back what may become one. What is held when a text ends is sent before its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use privacy::{Escape, Redaction, Restorer};
use serde_json::{Value, json};
use translation::Dialect;

use super::json::restore;

/// Texts of one answer that are told apart; further ones share the last.
const TEXTS: usize = 1_024;
/// Most bytes of an event that is read; the relay allows no longer ones.
const EVENT_BYTES: usize = 2 << 20;

/// A text of the answer: which one, and what it is in its dialect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Choice, content block or output item.
    index: u64,
    /// A tool call of a choice, a part of an item.
    part: u64,
    /// Its field or kind of event.
    field: String,
}

/// Puts values back into a stream.
pub(crate) struct RestoredStream {
    redaction: Arc<Redaction>,
    dialect: Dialect,
    texts: BTreeMap<Place, Restorer>,
    /// Bytes of an event that has not ended.
    rest: Vec<u8>,
    /// How far `rest` was searched for an end.
    searched: usize,
}

impl RestoredStream {
    /// A stream from its beginning.
    pub(crate) fn new(redaction: Arc<Redaction>, dialect: Dialect) -> RestoredStream {
        RestoredStream { redaction, dialect, texts: BTreeMap::new(), rest: Vec::new(), searched: 0 }
    }

    /// Takes bytes of the stream and adds to `out` what the client gets.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.rest.extend_from_slice(bytes);
        let mut begun = 0;
        let mut at = self.searched;
        while let Some(found) = event_end(&self.rest, at) {
            let event = self.rest.get(begun..found).unwrap_or_default().to_vec();
            self.event(&event, out);
            begun = found;
            at = found;
        }
        self.rest.drain(..begun);
        self.searched = self.rest.len().saturating_sub(3);
        if self.rest.len() > EVENT_BYTES {
            // Cannot come from the relay; passed on rather than kept without bound.
            out.append(&mut self.rest);
            self.searched = 0;
        }
    }

    /// What is left at the end.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.rest);
        self.searched = 0;
        if !rest.is_empty() {
            self.event(&rest, out);
        }
    }

    fn event(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(raw);
        let (mut name, mut data) = (None, String::new());
        for line in text.lines() {
            if let Some(line) = line.strip_prefix("data:") {
                data.push_str(line.strip_prefix(' ').unwrap_or(line));
            } else if let Some(line) = line.strip_prefix("event:") {
                name = Some(line.trim().to_owned());
            }
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&data) else {
            out.extend_from_slice(raw);
            return;
        };
        let before = match self.dialect {
            Dialect::OpenAiChat => self.chat(&mut value),
            Dialect::Anthropic => self.anthropic(&mut value),
            Dialect::OpenAiResponses => self.responses(&mut value),
            Dialect::Gemini => self.gemini(&mut value),
        };
        if let Some(before) = before {
            let name = before["type"].as_str().map(str::to_owned);
            write(name.filter(|_| self.dialect != Dialect::OpenAiChat).as_deref(), &before, out);
        }
        write(name.as_deref(), &value, out);
    }

    /// A piece of a text with its values, as far as it can go on.
    fn push(&mut self, place: Place, text: &str) -> String {
        let json = place.field.ends_with("arguments") || place.field.ends_with("partial_json");
        let last = self.texts.keys().next_back().cloned();
        let place = match last {
            Some(last) if self.texts.len() >= TEXTS && !self.texts.contains_key(&place) => last,
            _ => place,
        };
        let redaction = &self.redaction;
        let escape = if json { Escape::Json } else { Escape::None };
        self.texts.entry(place).or_insert_with(|| redaction.restorer(escape)).push(text)
    }

    /// What is held of the texts that `is_it` chooses, which have ended.
    fn end(&mut self, is_it: impl Fn(&Place) -> bool) -> Vec<(Place, String)> {
        let ended: Vec<Place> = self.texts.keys().filter(|place| is_it(place)).cloned().collect();
        let finished = ended.into_iter().filter_map(|place| {
            let text = self.texts.remove(&place)?.finish();
            (!text.is_empty()).then_some((place, text))
        });
        finished.collect()
    }

    /// Chat and completions: pieces in `choices`, which end with a reason.
    fn chat(&mut self, chunk: &mut Value) -> Option<Value> {
        for choice in items(chunk, "/choices") {
            let index = choice["index"].as_u64().unwrap_or(0);
            let place = |part: u64, field: &str| Place { index, part, field: field.to_owned() };
            if let Some(Value::String(text)) = choice.get_mut("text") {
                *text = self.push(place(0, "text"), text);
            }
            for (name, value) in fields(choice, "/delta") {
                if let Value::String(text) = value
                    && name != "role"
                {
                    *text = self.push(place(0, name), text);
                }
            }
            for call in items(choice, "/delta/tool_calls") {
                let part = call["index"].as_u64().unwrap_or(0) + 1;
                if let Some(Value::String(text)) = call.pointer_mut("/function/arguments") {
                    *text = self.push(place(part, "arguments"), text);
                }
            }
            if choice["finish_reason"].is_null() {
                continue;
            }
            for (place, text) in self.end(|place| place.index == index) {
                add_to_choice(choice, &place, &text);
            }
        }
        None
    }

    /// Anthropic: blocks, whose stop is an event of its own.
    fn anthropic(&mut self, event: &mut Value) -> Option<Value> {
        let index = event["index"].as_u64().unwrap_or(0);
        match event["type"].as_str().unwrap_or_default() {
            "content_block_delta" => {
                for (name, value) in fields(event, "/delta") {
                    if let Value::String(text) = value
                        && ["text", "thinking", "partial_json"].contains(&name.as_str())
                    {
                        *text = self.push(Place { index, part: 0, field: name.clone() }, text);
                    }
                }
                None
            }
            "content_block_stop" => {
                let (place, text) = self.end(|place| place.index == index).into_iter().next()?;
                let kind = match place.field.as_str() {
                    "thinking" => "thinking_delta",
                    "partial_json" => "input_json_delta",
                    _ => "text_delta",
                };
                let mut delta = json!({"type": kind});
                delta[place.field] = Value::from(text);
                Some(json!({"type": "content_block_delta", "index": index, "delta": delta}))
            }
            _ => None,
        }
    }

    /// Responses: pieces in events `….delta`, each text again in its `….done`, and all of it at the end.
    fn responses(&mut self, event: &mut Value) -> Option<Value> {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| event[name].as_u64().unwrap_or(0);
        let (index, part) = (number("output_index"), number("content_index") + number("summary_index"));
        if let Some(field) = kind.strip_suffix(".delta") {
            if let Some(Value::String(text)) = event.get_mut("delta") {
                *text = self.push(Place { index, part, field: field.to_owned() }, text);
            }
            return None;
        }
        let field = kind.strip_suffix(".done").unwrap_or_default();
        let ended = self.end(|place| (place.index, place.part, place.field.as_str()) == (index, part, field));
        let before = ended.into_iter().next().map(|(place, text)| {
            let mut before = event.clone();
            if let Some(fields) = before.as_object_mut() {
                fields.retain(|name, _| {
                    !["text", "arguments", "refusal", "name", "logprobs"].contains(&name.as_str())
                });
            }
            before["type"] = Value::from(format!("{}.delta", place.field));
            before["delta"] = Value::from(text);
            before
        });
        restore(&self.redaction, None, event);
        before
    }

    /// Gemini: pieces in the parts of candidates, which end with a reason.
    fn gemini(&mut self, event: &mut Value) -> Option<Value> {
        for (at, candidate) in items(event, "/candidates").enumerate() {
            let index = candidate["index"].as_u64().unwrap_or(at as u64);
            for part in items(candidate, "/content/parts") {
                let thought = part["thought"] == true;
                let field = if thought { "thought" } else { "text" };
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = self.push(Place { index, part: 0, field: field.to_owned() }, text);
                }
                if let Some(call) = part.get_mut("functionCall") {
                    restore(&self.redaction, None, call);
                }
            }
            if candidate["finishReason"].is_null() {
                continue;
            }
            for (place, text) in self.end(|place| place.index == index) {
                let part = match place.field.as_str() {
                    "thought" => json!({"text": text, "thought": true}),
                    _ => json!({"text": text}),
                };
                match candidate.pointer_mut("/content/parts").and_then(Value::as_array_mut) {
                    Some(parts) => parts.push(part),
                    None => candidate["content"] = json!({"role": "model", "parts": [part]}),
                }
            }
        }
        None
    }
}

/// The items of a list; none where there is no list. (An index would add what is not there.)
fn items<'v>(value: &'v mut Value, pointer: &str) -> impl Iterator<Item = &'v mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The fields of an object; none where there is no object.
fn fields<'v>(value: &'v mut Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v mut Value)> {
    value.pointer_mut(pointer).and_then(Value::as_object_mut).into_iter().flatten()
}

/// Adds the end of a text to the choice that ends.
fn add_to_choice(choice: &mut Value, place: &Place, text: &str) {
    let is_completion = choice.get("delta").is_none() && place.field == "text";
    if !is_completion && !choice["delta"].is_object() {
        choice["delta"] = json!({});
    }
    let with = |before: &Value| Value::from(before.as_str().unwrap_or_default().to_owned() + text);
    if is_completion {
        choice["text"] = with(&choice["text"]);
    } else if place.part == 0 {
        choice["delta"][&place.field] = with(&choice["delta"][&place.field]);
    } else {
        let index = place.part - 1;
        let call = items(choice, "/delta/tool_calls").find(|call| call["index"] == index);
        match call.and_then(|call| call.pointer_mut("/function/arguments")) {
            Some(arguments) => *arguments = with(arguments),
            None => {
                let call = json!({"index": index, "function": {"arguments": text}});
                match choice.pointer_mut("/delta/tool_calls").and_then(Value::as_array_mut) {
                    Some(calls) => calls.push(call),
                    None => choice["delta"]["tool_calls"] = json!([call]),
                }
            }
        }
    }
}

/// Where the first event that ends behind `from` ends.
fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = bytes.get(at..)?.iter().position(|byte| *byte == b'\n')?;
        let line = at + found + 1;
        match bytes.get(line..) {
            Some([b'\n', ..]) => return Some(line + 1),
            Some([b'\r', b'\n', ..]) => return Some(line + 2),
            _ => at = line,
        }
    }
}

fn write(name: Option<&str>, value: &Value, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use privacy::Rules;

    use super::*;

    /// The request's values are an address and a card.
    fn redaction() -> Arc<Redaction> {
        let mut redaction = Redaction::new(Arc::new(Rules::default()));
        let sent = redaction.redact("Write to bob@example.com, card 4111 1111 1111 1111.").unwrap();
        assert_eq!(sent, "Write to <EMAIL_1>, card <CREDIT_CARD_1>.");
        Arc::new(redaction)
    }

    fn restored(dialect: Dialect, stream: &str, size: usize) -> String {
        let mut restored = RestoredStream::new(redaction(), dialect);
        let mut out = Vec::new();
        for bytes in stream.as_bytes().chunks(size) {
            restored.feed(bytes, &mut out);
        }
        restored.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn placeholders_come_back_however_texts_and_bytes_are_cut() {
        let chunk = |delta: Value, finish: Value| {
            format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            )
        };
        let pieces = ["To <EM", "AIL_", "1", "> or <CREDIT_CARD_1>", " or EMAIL_1", "<EMAIL_"];
        let mut stream: String =
            pieces.iter().map(|piece| chunk(json!({"content": piece}), Value::Null)).collect();
        stream += &chunk(json!({}), json!("stop"));
        stream += ": a comment\n\ndata: [DONE]\n\n";
        let expected = restored(Dialect::OpenAiChat, &stream, 1 << 20);
        let said: String = expected
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
            .filter_map(|event| event.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned))
            .collect();
        assert_eq!(said, "To bob@example.com or 4111 1111 1111 1111 or bob@example.com<EMAIL_");
        assert!(expected.ends_with(": a comment\n\ndata: [DONE]\n\n"), "{expected}");
        for size in 1..60 {
            assert_eq!(restored(Dialect::OpenAiChat, &stream, size), expected, "{size}");
            let crlf = restored(Dialect::OpenAiChat, &stream.replace('\n', "\r\n"), size);
            assert_eq!(crlf.replace("\r\n", "\n"), expected, "{size}");
        }
    }

    #[test]
    fn what_is_held_is_sent_before_its_text_ends() {
        let events = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "<EMAIL_1"}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        let stream: String = events
            .iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
            .collect();
        let out = restored(Dialect::Anthropic, &stream, 7);
        let kinds: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(
            kinds,
            ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
        );
        // At its end a name counts without its second bracket.
        assert!(out.contains(r#""delta":{"type":"text_delta","text":"<bob@example.com"}"#), "{out}");
    }

    #[test]
    fn hostile_streams_are_bounded() {
        let mut restored = RestoredStream::new(redaction(), Dialect::OpenAiChat);
        let mut out = Vec::new();
        for _ in 0..64 {
            restored.feed(&[b'x'; 64 << 10], &mut out);
            assert!(restored.rest.len() <= EVENT_BYTES);
        }
        assert!(out.len() >= EVENT_BYTES);
        for n in 0..3_000_u64 {
            let event = json!({"choices": [{"index": n, "delta": {"content": "<"}}]});
            restored.feed(format!("\n\ndata: {event}\n\n").as_bytes(), &mut out);
        }
        assert!(restored.texts.len() <= TEXTS);
        for odd in [
            "data: 7\n\n",
            "data: {\"choices\":7}\n\n",
            "data: {\"choices\":[7,null,{\"delta\":[]}]}\n\n",
            "data: {\n\n",
        ] {
            restored.feed(odd.as_bytes(), &mut out);
        }
    }
}
