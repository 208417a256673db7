//! Calls with parameters in tags of their own, `<function=name><parameter=key>value</parameter></function>`.
//!
//! Values have no quotes: whether one is a text or JSON follows from the schema of the tool. Texts arrive as they come,
//! other values when they are complete.

use std::sync::Arc;

use serde_json::Value;

use super::json::{Call, escape, quote};
use super::marked::{Marked, Marks};
use super::reader::{Body, Progress, Reader, Tags};
use super::value_kind::{ValueKind, value_kind};
use crate::parts::{PartSink, Seeker};

const CDATA: &str = "<![CDATA[";
/// The longest name of a tool or a parameter, in bytes.
const NAME_BYTES: usize = 256;
/// The longest value that is held back because it is no text, in bytes.
const VALUE_BYTES: usize = 1 << 20;

/// The reader of a style with these tags. A mark that is the beginning of a call itself (`name_open`) begins one, too.
pub(super) fn reader(
    marks: &'static Marks,
    tags: &'static Tags,
    schemas: &Arc<[(String, Value)]>,
) -> Box<dyn Reader> {
    let schemas = schemas.clone();
    let body = move |mark: usize| -> Box<dyn Body> {
        let begun = !tags.name_open.is_empty() && marks.opens.get(mark) == Some(&tags.name_open);
        let state = if begun { State::Name(String::new()) } else { State::Open(String::new()) };
        Box::new(Tagged {
            tags,
            schemas: schemas.clone(),
            state,
            raw: String::new(),
            name: String::new(),
            key: String::new(),
            arguments: 0,
        })
    };
    Box::new(Marked::new(marks, Box::new(body)))
}

/// The parser of one call.
struct Tagged {
    tags: &'static Tags,
    schemas: Arc<[(String, Value)]>,
    state: State,
    /// The text so far, until the call is emitted.
    raw: String,
    name: String,
    key: String,
    /// The number of arguments so far.
    arguments: usize,
}

enum State {
    /// Before the name.
    Open(String),
    Name(String),
    /// The call is an object in JSON instead.
    Json(Box<Call>),
    /// Before a parameter or the end.
    Next(Seeker),
    Key(String),
    /// Before the value.
    Value(Seeker),
    Inside(Held),
}

/// A value that is being read.
struct Held {
    kind: ValueKind,
    on_lines: bool,
    seeker: Seeker,
    /// The beginning of the value, while it may be [`CDATA`].
    start: Option<String>,
    cdata_close: &'static str,
    /// The value so far; of a text, only a line break that may be the last one.
    text: String,
    /// Whether nothing of the value was read.
    fresh: bool,
}

impl Body for Tagged {
    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if self.name.is_empty() && !matches!(self.state, State::Json(_)) {
            self.raw.push(letter);
        }
        match &mut self.state {
            State::Open(_) => self.open(letter, out),
            State::Name(_) => self.named(letter, out),
            State::Json(call) => call.put(letter, out),
            State::Next(seeker) => match seeker.put(letter, &mut String::new()) {
                None => Progress::More,
                Some(0) => self.step(State::Key(String::new())),
                Some(_) => {
                    out.arguments("}");
                    Progress::Done
                }
            },
            State::Key(_) => self.key(letter, out),
            State::Value(seeker) => match seeker.put(letter, &mut String::new()) {
                None => Progress::More,
                Some(_) => self.value(None, out),
            },
            State::Inside(held) => {
                if held.put(letter, out) {
                    self.next()
                } else {
                    Progress::More
                }
            }
        }
    }

    fn unemitted(&mut self) -> Option<String> {
        match &mut self.state {
            State::Json(call) => call.unemitted(),
            _ => self.name.is_empty().then(|| std::mem::take(&mut self.raw)),
        }
    }
}

impl Tagged {
    fn step(&mut self, state: State) -> Progress {
        self.state = state;
        Progress::More
    }

    fn next(&mut self) -> Progress {
        self.step(State::Next(Seeker::new(&[self.tags.key_open, self.tags.end])))
    }

    fn open(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let State::Open(read) = &mut self.state else { return Progress::Broken };
        if letter.is_whitespace() && read.is_empty() {
            return Progress::More;
        }
        if letter == '{' && read.is_empty() {
            let mut call = Box::new(Call::new(None));
            let mut progress = Progress::More;
            for letter in std::mem::take(&mut self.raw).chars() {
                progress = call.put(letter, out);
            }
            self.state = State::Json(call);
            return progress;
        }
        if self.tags.name_open.is_empty() {
            self.state = State::Name(String::new());
            return self.named(letter, out);
        }
        read.push(letter);
        if read == self.tags.name_open {
            return self.step(State::Name(String::new()));
        }
        if self.tags.name_open.starts_with(read.as_str()) { Progress::More } else { Progress::Broken }
    }

    fn named(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let State::Name(name) = &mut self.state else { return Progress::Broken };
        name.push(letter);
        let Tags { name_close, key_open, end, .. } = *self.tags;
        let ends: &[&str] = if name_close.is_empty() { &["\n", key_open, end] } else { &[name_close] };
        let Some(found) = ends.iter().find(|end| name.ends_with(**end)) else {
            return if name.len() > NAME_BYTES { Progress::Broken } else { Progress::More };
        };
        let read = name[..name.len() - found.len()].trim().to_owned();
        let is_key = name_close.is_empty() && *found == key_open;
        let is_end = name_close.is_empty() && *found == end;
        if read.is_empty() || read.contains(['<', '>', '"', '{', '\n']) {
            return Progress::Broken;
        }
        out.call(&read);
        out.arguments("{");
        self.name = read;
        self.raw.clear();
        if is_end {
            out.arguments("}");
            return Progress::Done;
        }
        if is_key { self.step(State::Key(String::new())) } else { self.next() }
    }

    fn key(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let State::Key(key) = &mut self.state else { return Progress::Broken };
        key.push(letter);
        let Some(read) = key.strip_suffix(self.tags.key_close) else {
            return if key.len() > NAME_BYTES { Progress::Broken } else { Progress::More };
        };
        // Some tags say of their value whether it is a text: `name="key" string="true">`.
        let (read, attribute) = read.split_once("\" ").unwrap_or((read, ""));
        self.key = read.trim().to_owned();
        let says = |yes: &str| attribute.contains(&format!("string=\"{yes}"));
        let kind =
            if says("true") { Some(ValueKind::Text) } else { says("false").then_some(ValueKind::Json) };
        if self.tags.value_open.is_empty() {
            return self.value(kind, out);
        }
        self.step(State::Value(Seeker::new(&[self.tags.value_open])))
    }

    /// Begins a value.
    fn value(&mut self, kind: Option<ValueKind>, out: &mut PartSink) -> Progress {
        let mut json = if self.arguments > 0 { ", ".to_owned() } else { String::new() };
        self.arguments += 1;
        quote(&self.key, &mut json);
        json.push_str(": ");
        let schema = self.schemas.iter().find(|(name, _)| *name == self.name).map(|(_, schema)| schema);
        let kind = kind.unwrap_or_else(|| value_kind(schema, &self.key));
        if kind == ValueKind::Text {
            json.push('"');
        }
        out.arguments(&json);
        let seeker = Seeker::exact(self.tags.value_close);
        let Tags { on_lines, cdata_close, .. } = *self.tags;
        let start = (!cdata_close.is_empty()).then(String::new);
        let text = String::new();
        self.step(State::Inside(Held { kind, on_lines, seeker, start, cdata_close, text, fresh: true }))
    }
}

impl Held {
    /// Processes a character of a value; returns whether it was the last one of the closing tag.
    fn put(&mut self, letter: char, out: &mut PartSink) -> bool {
        let Some(start) = &mut self.start else { return self.inside(letter, out) };
        start.push(letter);
        if start == CDATA {
            self.start = None;
            self.seeker = Seeker::exact(self.cdata_close);
            return false;
        }
        if CDATA.starts_with(start.as_str()) {
            return false;
        }
        let start = self.start.take().unwrap_or_default();
        start.chars().any(|letter| self.inside(letter, out))
    }

    fn inside(&mut self, letter: char, out: &mut PartSink) -> bool {
        let mut read = String::new();
        let ended = self.seeker.put(letter, &mut read).is_some();
        read.chars().for_each(|letter| self.read(letter, out));
        if ended {
            self.end(out);
        }
        ended
    }

    fn read(&mut self, letter: char, out: &mut PartSink) {
        if std::mem::take(&mut self.fresh) && self.on_lines && letter == '\n' {
            return;
        }
        if self.kind != ValueKind::Text {
            self.text.push(letter);
            if self.text.len() > VALUE_BYTES {
                self.kind = ValueKind::Text;
                out.arguments("\"");
                self.flush(out);
            }
            return;
        }
        self.flush(out);
        self.text.push(letter);
        if !(self.on_lines && letter == '\n') {
            self.flush(out);
        }
    }

    /// Writes what is held of a text.
    fn flush(&mut self, out: &mut PartSink) {
        let mut json = String::new();
        self.text.chars().for_each(|letter| escape(letter, &mut json));
        self.text.clear();
        out.arguments(&json);
    }

    fn end(&mut self, out: &mut PartSink) {
        if self.kind == ValueKind::Text {
            // A line break that is still held belongs to the closing tag.
            return out.arguments("\"");
        }
        let inner = self.text.strip_suffix('\n').filter(|_| self.on_lines).unwrap_or(&self.text);
        let mut json = String::new();
        match (inner.trim(), serde_json::from_str::<Value>(inner.trim())) {
            (_, Ok(Value::String(_))) if self.kind == ValueKind::Either => quote(inner, &mut json),
            (value, Ok(_)) => json.push_str(value),
            ("True", _) => json.push_str("true"),
            ("False", _) => json.push_str("false"),
            ("None", _) => json.push_str("null"),
            _ => quote(inner, &mut json),
        }
        out.arguments(&json);
    }
}
