//! Tool calls without marks: the whole answer is a JSON object that names a tool, or a list of such objects, bare or in
//! a Markdown code fence.
//!
//! Small models write calls this way, whatever format they were asked for. The answer is held back as long as it can
//! still be such a call, which is decided at the first character for most texts. Other text goes to the reader of the
//! model's style, or is content.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::json::Nested;
use super::reader::Reader;
use crate::parts::PartSink;

/// The longest text that is treated as a call, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// The longest first line of a code fence, in bytes.
const FENCE_BYTES: usize = 24;
/// The first keys of an object that is a call, besides a tool's own name.
const FIRST_KEYS: [&str; 12] = [
    "name",
    "tool",
    "tool_name",
    "function",
    "function_name",
    "type",
    "id",
    "arguments",
    "parameters",
    "tool_calls",
    "action",
    "function_call",
];
const NAMES: [&str; 6] = ["name", "tool", "tool_name", "function_name", "function", "action"];
const ARGUMENTS: [&str; 7] =
    ["arguments", "parameters", "args", "input", "tool_input", "action_input", "params"];

/// A reader of answers that may be such a call.
pub(crate) struct Bare {
    tools: Arc<[(String, Value)]>,
    /// The reader of answers that are not such a call.
    inner: Option<Box<dyn Reader>>,
    /// The held text; `None` once it cannot be a call.
    held: Option<Held>,
}

/// The text that was read so far, and its state.
#[derive(Default)]
struct Held {
    text: String,
    /// Byte ranges of the complete values in `text`.
    values: Vec<std::ops::Range<usize>>,
    fenced: bool,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    /// Before a value.
    #[default]
    Before,
    /// In the first line of a code fence, which starts at this byte.
    Fence(usize),
    Value {
        from: usize,
        nested: Nested,
        /// Whether the first key was read and may belong to a call.
        keyed: bool,
    },
    /// In a possible end of a code fence, which starts at this byte.
    Closing(usize),
}

impl Bare {
    pub(crate) fn new(tools: Arc<[(String, Value)]>, inner: Option<Box<dyn Reader>>) -> Bare {
        Bare { tools, inner, held: Some(Held::default()) }
    }

    fn pass(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.inner {
            Some(inner) => inner.put(letter, out),
            None => out.content(letter.encode_utf8(&mut [0; 4])),
        }
    }

    /// The calls, if the text consists of calls of offered tools only.
    fn calls(&self) -> Option<Vec<(String, String)>> {
        let held =
            self.held.as_ref().filter(|held| matches!(held.stage, Stage::Before | Stage::Closing(_)))?;
        let mut calls = Vec::new();
        for range in &held.values {
            match serde_json::from_str(&held.text[range.clone()]).ok()? {
                Value::Array(list) => {
                    for entry in &list {
                        calls.push(call(entry, &self.tools)?);
                    }
                }
                Value::Object(object) if object.contains_key("tool_calls") => {
                    for entry in object["tool_calls"].as_array()? {
                        calls.push(call(entry, &self.tools)?);
                    }
                }
                value => calls.push(call(&value, &self.tools)?),
            }
        }
        Some(calls).filter(|calls| !calls.is_empty())
    }
}

impl Reader for Bare {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        let Some(held) = &mut self.held else { return self.pass(letter, out) };
        held.text.push(letter);
        if held.may_still_be_call(letter, &self.tools) && held.text.len() < MOST_BYTES {
            return;
        }
        let text = std::mem::take(&mut held.text);
        self.held = None;
        text.chars().for_each(|letter| self.pass(letter, out));
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let calls = self.calls();
        let held = self.held.take();
        if let Some(calls) = calls {
            for (name, arguments) in calls {
                out.call(&name);
                out.arguments(&arguments);
            }
            return;
        }
        held.unwrap_or_default().text.chars().for_each(|letter| self.pass(letter, out));
        if let Some(inner) = &mut self.inner {
            inner.finish(cut, out);
        }
    }
}

impl Held {
    /// Processes a character, which is already appended to `text`; returns whether the text can still be calls.
    fn may_still_be_call(&mut self, letter: char, tools: &[(String, Value)]) -> bool {
        let at = self.text.len() - letter.len_utf8();
        match &mut self.stage {
            Stage::Before => match letter {
                _ if letter.is_whitespace() => {}
                // Between values.
                ',' | ';' if !self.values.is_empty() => {}
                '`' if self.fenced => self.stage = Stage::Closing(at),
                '`' => self.stage = Stage::Fence(at),
                '{' | '[' => {
                    self.stage = Stage::Value { from: at, nested: Nested::of(letter), keyed: false };
                }
                _ => return false,
            },
            Stage::Fence(from) => {
                let line = &self.text[*from..];
                let (ticks, word) = line.split_at(line.len().min(3));
                if !"```".starts_with(ticks) || line.len() > FENCE_BYTES {
                    return false;
                }
                if letter == '\n' && ticks.len() == 3 {
                    (self.fenced, self.stage) = (true, Stage::Before);
                } else if !word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '\r'))
                {
                    return false;
                }
            }
            Stage::Closing(from) => {
                let ticks = &self.text[*from..];
                if ticks == "```" {
                    (self.fenced, self.stage) = (false, Stage::Before);
                }
                return "```".starts_with(ticks);
            }
            Stage::Value { from, nested, keyed } => {
                let ended = nested.put(letter);
                if letter == ':' && !*keyed && !nested.open().1 {
                    *keyed = true;
                    return first_key(&self.text[*from..at], tools);
                }
                if ended {
                    self.values.push(*from..self.text.len());
                    self.stage = Stage::Before;
                }
            }
        }
        true
    }
}

/// Whether an object with this beginning, up to the first colon, may be a call.
fn first_key(text: &str, tools: &[(String, Value)]) -> bool {
    let key = text.trim_start_matches(['{', '[', ' ', '\n', '\r', '\t']).trim_end();
    let Ok(key) = serde_json::from_str::<String>(key) else { return false };
    FIRST_KEYS.contains(&key.as_str()) || tools.iter().any(|(name, _)| *name == key)
}

/// The call in a JSON value, if it names a tool and its arguments fit: name, and JSON text of the arguments.
fn call(value: &Value, tools: &[(String, Value)]) -> Option<(String, String)> {
    let object = value.as_object()?;
    for wrapper in ["function", "function_call"] {
        if let Some(inner) = object.get(wrapper).filter(|inner| inner.is_object()) {
            return call(inner, tools);
        }
    }
    let schema = |name: &str| tools.iter().find(|(known, _)| known == name).map(|(_, schema)| schema);
    let named = NAMES.iter().find_map(|key| object.get(*key)?.as_str());
    let (name, arguments) = match named {
        Some(name) => (name, ARGUMENTS.iter().find_map(|key| object.get(*key))),
        // `{"look": {"at": 1}}`
        None => object
            .iter()
            .next()
            .filter(|_| object.len() == 1)
            .map(|(name, value)| (name.as_str(), Some(value)))?,
    };
    let schema = schema(name)?;
    let arguments = match arguments {
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(Value::String(text)) => serde_json::from_str::<Map<String, Value>>(text).ok()?,
        Some(Value::Null) | None => Map::new(),
        Some(_) => return None,
    };
    fits(&arguments, schema).then(|| (name.to_owned(), Value::Object(arguments).to_string()))
}

/// Whether arguments have all properties that a schema requires, and none that it does not define.
fn fits(arguments: &Map<String, Value>, schema: &Value) -> bool {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if !required.into_iter().all(|name| arguments.contains_key(name)) {
        return false;
    }
    let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    match schema["properties"].as_object() {
        Some(known) if !open => arguments.keys().all(|name| known.contains_key(name)),
        _ => true,
    }
}
