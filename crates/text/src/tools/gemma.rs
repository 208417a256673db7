//! `<start_function_call>call:name{key:value,…}<end_function_call>`: Gemma. Values are like JSON, but keys have no
//! quotes and strings are between `<escape>` marks; a JSON object as in other styles is read too.

use super::json::{Call, Progress};
use super::{Frame, FramePart, Reader};
use crate::parts::{PartSink, Seeker};

const OPEN: &str = "<start_function_call>";
const CLOSE: &str = "<end_function_call>";
const ESCAPE: &str = "<escape>";
pub(super) const MARKS: &[&str] = &[OPEN, CLOSE, ESCAPE];
/// Calls of constrained answers have JSON arguments instead of Gemma's syntax, because schemas describe JSON.
pub(super) const FRAME: Frame = Frame {
    first: &[FramePart::Mark(OPEN)],
    between: &[FramePart::Mark(CLOSE), FramePart::Mark(OPEN)],
    last: &[FramePart::Mark(CLOSE)],
    key: "arguments",
};
const CALL: &str = "call:";
/// The longest name of a tool, in bytes.
const NAME_BYTES: usize = 256;

pub(super) struct Gemma {
    state: State,
    called: bool,
    /// The mark that opened the call, with the white space before it.
    open: String,
}

enum State {
    Text(Seeker),
    /// In `call:` and the name.
    Named(String),
    Json(Box<Call>),
    Values(Values),
    /// After a call, up to its closing mark or the next opening one.
    Closing(Seeker),
}

impl Gemma {
    pub(super) fn new() -> Gemma {
        Gemma { state: State::Text(Seeker::new(&[OPEN])), called: false, open: String::new() }
    }

    fn give_back(&mut self, text: &str, out: &mut PartSink) {
        out.content(&self.open);
        self.state = State::Text(Seeker::new(&[OPEN]));
        text.chars().for_each(|letter| self.put(letter, out));
    }

    fn close(&mut self) {
        self.called = true;
        self.state = State::Closing(Seeker::new(&[CLOSE, OPEN]));
    }

    fn named(&mut self, letter: char, out: &mut PartSink) {
        let State::Named(read) = &mut self.state else { return };
        let start = read.trim_start();
        match letter {
            '{' if start.is_empty() => {
                let mut call = Box::new(Call::new(None));
                call.put(letter, out);
                self.state = State::Json(call);
            }
            '{' if start.len() > CALL.len() => {
                let name = start.trim_start_matches(CALL).trim().to_owned();
                out.call(&name);
                out.arguments("{");
                self.state = State::Values(Values::default());
            }
            _ => {
                read.push(letter);
                let start = read.trim_start();
                let fits = CALL.starts_with(start) || start.starts_with(CALL);
                if !fits || read.len() > NAME_BYTES || (letter == '\n' && !start.is_empty()) {
                    let text = std::mem::take(read);
                    self.give_back(&text, out);
                }
            }
        }
    }
}

impl Reader for Gemma {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut text = String::new();
                if seeker.put(letter, &mut text).is_some() {
                    self.open = seeker.found();
                    self.state = State::Named(String::new());
                }
                out.content(&text);
            }
            State::Named(_) => self.named(letter, out),
            State::Json(call) => match call.put(letter, out) {
                Progress::More => {}
                progress => match call.unemitted().filter(|_| progress == Progress::Broken) {
                    Some(unemitted) => self.give_back(&unemitted, out),
                    None => self.close(),
                },
            },
            State::Values(values) => {
                let mut json = String::new();
                let ended = values.put(letter, &mut json);
                out.arguments(&json);
                if ended {
                    self.close();
                }
            }
            State::Closing(seeker) => match seeker.put(letter, &mut String::new()) {
                None => {}
                Some(0) => self.state = State::Text(Seeker::new(&[OPEN])),
                Some(_) => {
                    self.open = seeker.found();
                    self.state = State::Named(String::new());
                }
            },
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut text = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut text),
            State::Named(_) if cut => {}
            State::Named(rest) => text = format!("{}{rest}", self.open),
            State::Json(call) => {
                if let Some(unemitted) = call.unemitted().filter(|_| !cut) {
                    text = format!("{}{unemitted}", self.open);
                }
            }
            State::Values(_) | State::Closing(_) => {}
        }
        out.content(&text);
    }
}

/// Translates Gemma's values to JSON text, from the first brace on.
#[derive(Default)]
struct Values {
    /// Open brackets inside the first brace; true for an object.
    open: Vec<bool>,
    /// Whether the next word is a key.
    in_key: bool,
    started: bool,
    /// A word without quotes: a key, a number, `true`.
    word: String,
    /// The search for the closing mark, inside `<escape>` marks.
    text: Option<Seeker>,
    /// A possible beginning of an opening mark.
    mark: String,
}

impl Values {
    fn put(&mut self, letter: char, json: &mut String) -> bool {
        if !self.started {
            self.started = true;
            self.in_key = true;
        }
        if let Some(text) = &mut self.text {
            let mut said = String::new();
            let ended = text.put(letter, &mut said).is_some();
            said.chars().for_each(|letter| escape(letter, json));
            if ended {
                json.push('"');
                self.text = None;
            }
            return false;
        }
        if !self.mark.is_empty() || letter == '<' {
            self.mark.push(letter);
            if self.mark == ESCAPE {
                self.mark.clear();
                json.push('"');
                self.text = Some(Seeker::exact(ESCAPE));
            } else if !ESCAPE.starts_with(self.mark.as_str()) {
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
                quote(key.trim(), json);
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

fn quote(text: &str, json: &mut String) {
    json.push('"');
    text.chars().for_each(|letter| escape(letter, json));
    json.push('"');
}

fn escape(letter: char, json: &mut String) {
    match letter {
        '"' | '\\' => {
            json.push('\\');
            json.push(letter);
        }
        '\n' => json.push_str("\\n"),
        '\t' => json.push_str("\\t"),
        '\r' => json.push_str("\\r"),
        control if u32::from(control) < 0x20 => json.push_str(&format!("\\u{:04x}", u32::from(control))),
        plain => json.push(plain),
    }
}
