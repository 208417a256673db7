//! A whole JSON answer, looked through as it arrives: only the values of a few paths are held, so that an answer of any
//! length (embeddings have tens of megabytes) takes constant memory.

use serde_json::Value;

use super::state::{ScannerState, StreamError, clip};
use crate::Dialect;
use crate::skim::{self, MAX_DEPTH};
use crate::usage::TokenUsage;

/// Most bytes of a value that is held, of those that are not text to collect.
const MAX_HELD: usize = 64 << 10;
/// Most bytes of a key that is compared.
const MAX_KEY: usize = 32;

/// Names that stand in a path that is looked at; `""` is any other name, and the elements of arrays.
const NAMES: [&str; 26] = [
    "candidates",
    "choices",
    "content",
    "error",
    "finishReason",
    "finish_reason",
    "id",
    "incomplete_details",
    "message",
    "model",
    "modelVersion",
    "output",
    "parts",
    "promptFeedback",
    "reason",
    "responseId",
    "status",
    "stop_reason",
    "text",
    "tool_calls",
    "type",
    "usage",
    "usageMetadata",
    "blockReason",
    "functionCall",
    "thought",
];

/// What a held value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Id,
    Model,
    Usage,
    Error,
    Finish,
    Status,
    Block,
    Calls,
    /// The type of an output item or content block.
    Kind,
    /// Whether a part of Gemini's is a thought.
    Thought,
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a value; the flag is whether the array may end instead.
    Value(bool),
    /// Before a key; the flag is whether the object may end instead.
    Key(bool),
    Colon,
    AfterValue,
    /// In a string; whether it is a key.
    String(bool),
    /// After a backslash in a string.
    Escape(bool),
    /// In a number or a word.
    Scalar,
    End,
    Broken,
}

/// The place in a whole answer.
#[derive(Debug, Clone)]
pub(crate) struct WholeAnswer {
    at: At,
    /// For each open container: whether it is an object, the name of the present key, the present index.
    open: Vec<(bool, &'static str, u64)>,
    key: Vec<u8>,
    held: Vec<u8>,
    /// What the held value is for, and the depth at which it ends.
    slot: Option<(Slot, usize)>,
    max_depth: usize,
    /// The text of Gemini's part that is open, and whether it is a thought.
    part: (Option<String>, bool),
}

/// Open containers around a part of Gemini's: answer, candidates, candidate, content, parts.
const AROUND_PART: usize = 5;

impl WholeAnswer {
    pub(crate) fn new() -> WholeAnswer {
        WholeAnswer {
            at: At::Value(false),
            open: Vec::new(),
            key: Vec::new(),
            held: Vec::new(),
            slot: None,
            max_depth: MAX_DEPTH as usize,
            part: (None, false),
        }
    }

    /// Whether the outermost value has ended, and nothing but white space came after it.
    pub(crate) fn ended(&self) -> bool {
        self.at == At::End
    }

    /// Whether the bytes are not JSON.
    pub(crate) fn broken(&self) -> bool {
        self.at == At::Broken
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], state: &mut ScannerState) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            at += match self.at {
                At::String(key) => self.in_string(bytes.get(at..).unwrap_or_default(), key, state),
                At::Broken => return,
                _ => self.step(byte, state),
            };
        }
    }

    /// Takes one byte outside a string's plain part; returns 0 to see the same byte again, else 1.
    fn step(&mut self, byte: u8, state: &mut ScannerState) -> usize {
        let space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.at {
            At::Escape(key) => {
                self.hold(&[byte], state);
                self.at = At::String(key);
            }
            At::Scalar => {
                if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') {
                    self.hold(&[byte], state);
                } else {
                    self.value_ends(state);
                    return 0;
                }
            }
            _ if space => self.hold(&[byte], state),
            At::Value(may_end) => self.value_begins(byte, may_end, state),
            At::Key(may_end) => match byte {
                b'"' => {
                    self.key.clear();
                    self.hold(&[byte], state);
                    self.at = At::String(true);
                }
                b'}' if may_end => self.close(byte, state),
                _ => self.at = At::Broken,
            },
            At::Colon => {
                self.hold(&[byte], state);
                self.at = if byte == b':' { At::Value(false) } else { At::Broken };
            }
            At::AfterValue => self.after_value(byte, state),
            At::String(_) | At::End | At::Broken => self.at = At::Broken,
        }
        1
    }

    fn value_begins(&mut self, byte: u8, may_end: bool, state: &mut ScannerState) {
        if byte == b']' && may_end {
            self.close(byte, state);
            return;
        }
        if self.slot.is_none()
            && let Some(slot) = self.wanted(state)
        {
            self.slot = Some((slot, self.open.len()));
            self.held.clear();
        }
        self.hold(&[byte], state);
        match byte {
            b'{' | b'[' if self.open.len() >= self.max_depth => self.at = At::Broken,
            b'{' => {
                self.open.push((true, "", 0));
                self.at = At::Key(true);
            }
            b'[' => {
                self.open.push((false, "", 0));
                self.at = At::Value(true);
            }
            b'"' => self.at = At::String(false),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.at = At::Scalar,
            _ => self.at = At::Broken,
        }
    }

    fn after_value(&mut self, byte: u8, state: &mut ScannerState) {
        match (self.open.last_mut(), byte) {
            (Some((true, ..)), b',') => {
                self.hold(&[byte], state);
                self.at = At::Key(false);
            }
            (Some((false, _, index)), b',') => {
                *index += 1;
                self.hold(&[byte], state);
                self.at = At::Value(false);
            }
            (Some((true, ..)), b'}') | (Some((false, ..)), b']') => self.close(byte, state),
            _ => self.at = At::Broken,
        }
    }

    fn close(&mut self, byte: u8, state: &mut ScannerState) {
        self.open.pop();
        self.hold(&[byte], state);
        if self.open.len() == AROUND_PART
            && let (Some(text), false) = std::mem::take(&mut self.part)
        {
            state.collect(&text);
        }
        self.value_ends(state);
    }

    fn value_ends(&mut self, state: &mut ScannerState) {
        self.at = if self.open.is_empty() { At::End } else { At::AfterValue };
        if let Some((slot, _)) = self.slot.take_if(|(_, depth)| *depth == self.open.len()) {
            self.deliver(slot, state);
        }
    }

    /// Takes the plain part of a string; the number of bytes taken.
    fn in_string(&mut self, rest: &[u8], key: bool, state: &mut ScannerState) -> usize {
        let end = memchr::memchr2(b'"', b'\\', rest);
        let plain = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if key {
            let space = MAX_KEY.saturating_sub(self.key.len());
            self.key.extend_from_slice(plain.get(..plain.len().min(space)).unwrap_or_default());
        }
        self.hold(plain, state);
        let Some(end) = end else { return rest.len() };
        let byte = rest.get(end).copied().unwrap_or_default();
        self.hold(&[byte], state);
        if byte == b'\\' {
            self.at = At::Escape(key);
        } else if key {
            let name = NAMES.iter().find(|name| name.as_bytes() == self.key).copied();
            if let Some((_, key, _)) = self.open.last_mut() {
                *key = name.unwrap_or("");
            }
            self.at = At::Colon;
        } else {
            self.value_ends(state);
        }
        end + 1
    }

    /// Holds bytes of a value that is looked at. One that is longer than the limit is given up.
    fn hold(&mut self, bytes: &[u8], state: &mut ScannerState) {
        let Some((slot, _)) = self.slot else { return };
        let limit =
            if slot == Slot::Text { state.collect_bytes.saturating_mul(6).max(MAX_HELD) } else { MAX_HELD };
        if self.held.len() + bytes.len() > limit {
            self.slot = None;
            self.held = Vec::new();
            state.collect_full |= slot == Slot::Text;
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    /// The index in the outermost array of the path: the choice.
    fn choice(&self) -> u64 {
        self.open.get(1).map_or(0, |(_, _, index)| *index)
    }

    fn wanted(&self, state: &ScannerState) -> Option<Slot> {
        if self.open.len() > 6 {
            return None;
        }
        let mut path = [""; 6];
        for (place, (_, name, _)) in path.iter_mut().zip(&self.open) {
            *place = name;
        }
        let path = path.get(..self.open.len())?;
        let collects = state.collect_bytes > 0 && self.choice() == 0;
        match (state.dialect, path) {
            (Dialect::Gemini, ["responseId"]) => Some(Slot::Id),
            (Dialect::Gemini, ["modelVersion"]) => Some(Slot::Model),
            (_, ["id"]) => Some(Slot::Id),
            (_, ["model"]) => Some(Slot::Model),
            (_, ["usage" | "usageMetadata"]) => Some(Slot::Usage),
            (_, ["error"]) => Some(Slot::Error),
            (Dialect::OpenAiChat, ["choices", "", "finish_reason"]) => Some(Slot::Finish),
            (Dialect::OpenAiChat, ["choices", "", "message", "tool_calls"]) => Some(Slot::Calls),
            (Dialect::OpenAiChat, ["choices", "", "message", "content"] | ["choices", "", "text"]) => {
                collects.then_some(Slot::Text)
            }
            (Dialect::OpenAiResponses, ["status"]) => Some(Slot::Status),
            (Dialect::OpenAiResponses, ["incomplete_details", "reason"]) => Some(Slot::Finish),
            (Dialect::OpenAiResponses, ["output", "", "type"]) => Some(Slot::Kind),
            (Dialect::OpenAiResponses, ["output", "", "content", "", "text"]) => {
                (state.collect_bytes > 0).then_some(Slot::Text)
            }
            (Dialect::Anthropic, ["stop_reason"]) => Some(Slot::Finish),
            (Dialect::Anthropic, ["content", "", "type"]) => Some(Slot::Kind),
            (Dialect::Anthropic, ["content", "", "text"]) => (state.collect_bytes > 0).then_some(Slot::Text),
            (Dialect::Gemini, ["candidates", "", "finishReason"]) => Some(Slot::Finish),
            (Dialect::Gemini, ["promptFeedback", "blockReason"]) => Some(Slot::Block),
            (Dialect::Gemini, ["candidates", "", "content", "parts", "", "functionCall"]) => {
                Some(Slot::Calls)
            }
            (Dialect::Gemini, ["candidates", "", "content", "parts", "", "text"]) => {
                collects.then_some(Slot::Text)
            }
            (Dialect::Gemini, ["candidates", "", "content", "parts", "", "thought"]) => {
                collects.then_some(Slot::Thought)
            }
            _ => None,
        }
    }

    fn deliver(&mut self, slot: Slot, state: &mut ScannerState) {
        let held = std::mem::take(&mut self.held);
        let raw = held.trim_ascii();
        let string = (raw.first() == Some(&b'"')).then(|| skim::text(raw));
        let value = || serde_json::from_slice::<Value>(raw).ok().filter(|value| !value.is_null());
        match slot {
            Slot::Id => state.id = string.map(|id| clip(&id)),
            Slot::Model => state.model = string.map(|model| clip(&model)),
            Slot::Usage => state.count(value().and_then(|usage| TokenUsage::read(state.dialect, &usage))),
            Slot::Error => {
                if let Some(error) = value() {
                    state.fail(StreamError::read(&error));
                }
            }
            Slot::Finish => {
                if let Some(word) = string {
                    state.finish(
                        if state.dialect == Dialect::OpenAiResponses { 0 } else { self.choice() },
                        &word,
                    );
                }
            }
            Slot::Status => match string.as_deref() {
                Some("completed") if state.finish.is_none() => state.finish(0, "completed"),
                Some("failed") => state.fail(StreamError {
                    message: "the upstream says that the response failed".into(),
                    ..StreamError::default()
                }),
                _ => {}
            },
            Slot::Block => {
                if string.is_some() {
                    state.finish(0, "SAFETY");
                }
            }
            Slot::Calls => state.tool_calls |= !matches!(raw, b"null" | b"[]"),
            Slot::Kind => {
                let kinds = ["function_call", "custom_tool_call", "tool_use"];
                let called = string.is_some_and(|kind| kinds.contains(&kind.as_ref()));
                state.tool_calls |= called;
            }
            Slot::Thought => self.part.1 = raw == b"true",
            Slot::Text if state.dialect == Dialect::Gemini => {
                self.part.0 = string.map(std::borrow::Cow::into_owned);
            }
            Slot::Text => {
                if let Some(text) = string {
                    state.collect(&text);
                }
            }
        }
    }
}
