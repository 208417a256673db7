//! `<start_function_call>call:name{key:value,…}<end_function_call>`: FunctionGemma; with other marks, Gemma 4. Values are
//! like JSON, but keys have no quotes and strings are between `<escape>` marks; a JSON object as in other styles is read
//! too.

use super::json::{Call, escape, quote};
use super::marked::{Marked, Marks};
use super::reader::{Body, CallForm, Frame, FramePart, Progress, Row};
use crate::parts::{PartSink, Seeker};

const MARKS: Marks =
    Marks { opens: &["<start_function_call>"], closes: &["<end_function_call>"], drops: &[] };
/// FunctionGemma. Calls of constrained answers have JSON arguments instead of Gemma's syntax, because schemas describe
/// JSON.
pub(super) const GEMMA: Row = Row {
    marks: &["<start_function_call>", "<end_function_call>", "<escape>"],
    frame: Frame {
        first: &[FramePart::Mark("<start_function_call>")],
        between: Some(&[FramePart::Mark("<end_function_call>"), FramePart::Mark("<start_function_call>")]),
        last: &[FramePart::Mark("<end_function_call>")],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&MARKS, Box::new(|_| Box::new(Gemma::new("<escape>"))))),
};

const MARKS_4: Marks = Marks { opens: &["<|tool_call>"], closes: &["<tool_call|>"], drops: &[] };
/// Gemma 4.
pub(super) const GEMMA_4: Row = Row {
    marks: &["<|tool_call>", "<tool_call|>", "<|\"|>"],
    frame: Frame {
        first: &[FramePart::Mark("<|tool_call>")],
        between: Some(&[FramePart::Mark("<tool_call|>"), FramePart::Mark("<|tool_call>")]),
        last: &[FramePart::Mark("<tool_call|>")],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&MARKS_4, Box::new(|_| Box::new(Gemma::new("<|\"|>"))))),
};

const CALL: &str = "call:";
/// The longest name of a tool, in bytes.
const NAME_BYTES: usize = 256;

/// The parser of one call.
struct Gemma {
    /// The mark around strings.
    escape: &'static str,
    state: State,
}

enum State {
    /// In `call:` and the name.
    Named(String),
    Json(Box<Call>),
    Values(Values),
}

impl Gemma {
    fn new(escape: &'static str) -> Gemma {
        Gemma { escape, state: State::Named(String::new()) }
    }

    fn named(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let State::Named(read) = &mut self.state else { return Progress::Broken };
        let start = read.trim_start();
        match letter {
            '{' if start.is_empty() => {
                let mut call = Box::new(Call::new(None));
                let progress = call.put(letter, out);
                self.state = State::Json(call);
                progress
            }
            '{' if start.len() > CALL.len() => {
                let name = start.trim_start_matches(CALL).trim().to_owned();
                out.call(&name);
                out.arguments("{");
                self.state = State::Values(Values::new(self.escape));
                Progress::More
            }
            _ => {
                read.push(letter);
                let start = read.trim_start();
                let fits = CALL.starts_with(start) || start.starts_with(CALL);
                let broken = !fits || read.len() > NAME_BYTES || (letter == '\n' && !start.is_empty());
                if broken { Progress::Broken } else { Progress::More }
            }
        }
    }
}

impl Body for Gemma {
    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        match &mut self.state {
            State::Named(_) => self.named(letter, out),
            State::Json(call) => call.put(letter, out),
            State::Values(values) => {
                let mut json = String::new();
                let ended = values.put(letter, &mut json);
                out.arguments(&json);
                if ended { Progress::Done } else { Progress::More }
            }
        }
    }

    fn unemitted(&mut self) -> Option<String> {
        match &mut self.state {
            State::Named(read) => Some(std::mem::take(read)),
            State::Json(call) => call.unemitted(),
            State::Values(_) => None,
        }
    }
}

/// Translates Gemma's values to JSON text, from the first brace on.
struct Values {
    /// The mark around strings.
    escape: &'static str,
    /// Open brackets inside the first brace; true for an object.
    open: Vec<bool>,
    /// Whether the next word is a key.
    in_key: bool,
    /// Whether the key has marks, so that it is written already.
    has_key: bool,
    /// A word without quotes: a key, a number, `true`.
    word: String,
    /// The search for the closing mark, inside a string.
    text: Option<Seeker>,
    /// A possible beginning of an opening mark.
    mark: String,
}

impl Values {
    fn new(escape: &'static str) -> Values {
        Values {
            escape,
            open: Vec::new(),
            in_key: true,
            has_key: false,
            word: String::new(),
            text: None,
            mark: String::new(),
        }
    }

    fn put(&mut self, letter: char, json: &mut String) -> bool {
        if let Some(text) = &mut self.text {
            let mut said = String::new();
            let ended = text.put(letter, &mut said).is_some();
            said.chars().for_each(|letter| escape(letter, json));
            if ended {
                json.push('"');
                self.text = None;
                self.has_key = self.in_key;
            }
            return false;
        }
        if !self.mark.is_empty() || letter == '<' {
            self.mark.push(letter);
            if self.mark == self.escape {
                self.mark.clear();
                json.push('"');
                self.text = Some(Seeker::exact(self.escape));
            } else if !self.escape.starts_with(self.mark.as_str()) {
                let mark = std::mem::take(&mut self.mark);
                self.word.push_str(&mark);
            }
            return false;
        }
        self.plain(letter, json)
    }

    fn plain(&mut self, letter: char, json: &mut String) -> bool {
        match letter {
            ':' if self.in_key => {
                let key = std::mem::take(&mut self.word);
                if !std::mem::take(&mut self.has_key) {
                    quote(key.trim(), json);
                }
                json.push(':');
                self.in_key = false;
            }
            '{' | '[' => {
                self.open.push(letter == '{');
                self.in_key = letter == '{';
                json.push(letter);
            }
            ',' | '}' | ']' => {
                self.end_word(json);
                json.push(letter);
                if letter != ',' && self.open.pop().is_none() {
                    return true;
                }
                self.in_key = letter == ',' && self.open.last().copied().unwrap_or(true);
            }
            _ => self.word.push(letter),
        }
        false
    }

    /// Writes a number or literal as it is, and any other word as a string.
    fn end_word(&mut self, json: &mut String) {
        let word = std::mem::take(&mut self.word);
        let word = word.trim();
        if word.is_empty() {
            return;
        }
        match serde_json::from_str::<serde_json::Value>(word) {
            Ok(_) => json.push_str(word),
            Err(_) => quote(word, json),
        }
    }
}
