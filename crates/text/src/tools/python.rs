//! `<|tool_call_start|>[name(key='value'), other()]<|tool_call_end|>`: LFM2. Calls and values are written as in Python;
//! `true`, `false` and `null` are read too.

use super::call_list::CallList;
use super::json::{NameKey, escape, quote};
use super::marked::{Marked, Marks};
use super::reader::{Body, CallForm, Frame, FramePart, Progress, Row};
use crate::parts::PartSink;

const OPEN: &str = "<|tool_call_start|>";
const CLOSE: &str = "<|tool_call_end|>";
const MARKS: Marks = Marks { opens: &[OPEN], closes: &[CLOSE], drops: &[] };
/// The longest name of a tool or an argument, in bytes.
const NAME_BYTES: usize = 256;

/// Calls of constrained answers are JSON objects in the list, because schemas describe JSON.
pub(super) const LFM: Row = Row {
    marks: &[OPEN, CLOSE],
    frame: Frame {
        first: &[FramePart::Mark(OPEN), FramePart::Text("[")],
        between: Some(&[FramePart::Text(", ")]),
        last: &[FramePart::Text("]"), FramePart::Mark(CLOSE)],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&MARKS, Box::new(|_| Box::new(Calls::default())))),
};

/// The parser of a list of calls.
#[derive(Default)]
struct Calls {
    stage: Stage,
    /// The text before the first call.
    raw: String,
    called: bool,
    /// Whether the call has arguments already.
    argued: bool,
    /// The list in JSON, if it is one.
    json: Option<Box<CallList>>,
}

#[derive(Default)]
enum Stage {
    /// Before the bracket of the list.
    #[default]
    Open,
    Name(String),
    Key(String),
    Value(Values),
    /// After a call.
    After,
}

impl Body for Calls {
    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if let Some(json) = &mut self.json {
            return json.put(letter, out);
        }
        if !self.called {
            self.raw.push(letter);
        }
        match &mut self.stage {
            Stage::Open | Stage::After if letter.is_whitespace() => Progress::More,
            Stage::Open => self.step(letter == '[', Stage::Name(String::new())),
            Stage::After => match letter {
                ',' | ';' => self.step(true, Stage::Name(String::new())),
                ']' => Progress::Done,
                _ => Progress::Broken,
            },
            Stage::Name(_) => self.name(letter, out),
            Stage::Key(_) => self.key(letter, out),
            Stage::Value(values) => {
                let mut json = String::new();
                let end = values.put(letter, &mut json);
                out.arguments(&json);
                match end {
                    None => Progress::More,
                    Some(',') => self.step(true, Stage::Key(String::new())),
                    Some(_) => self.end_call(out),
                }
            }
        }
    }

    fn unemitted(&mut self) -> Option<String> {
        match &mut self.json {
            Some(json) => json.unemitted(),
            None => (!self.called).then(|| std::mem::take(&mut self.raw)),
        }
    }
}

impl Calls {
    fn step(&mut self, well: bool, stage: Stage) -> Progress {
        self.stage = stage;
        if well { Progress::More } else { Progress::Broken }
    }

    fn end_call(&mut self, out: &mut PartSink) -> Progress {
        out.arguments("}");
        self.step(true, Stage::After)
    }

    fn name(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let Stage::Name(name) = &mut self.stage else { return Progress::Broken };
        match letter {
            '(' if !name.trim().is_empty() => {
                out.call(name.trim());
                out.arguments("{");
                (self.called, self.argued) = (true, false);
                self.step(true, Stage::Key(String::new()))
            }
            '{' if name.trim().is_empty() && !self.called => {
                let mut json = Box::new(CallList::new(NameKey::Name));
                let mut progress = Progress::More;
                for letter in std::mem::take(&mut self.raw).chars() {
                    progress = json.put(letter, out);
                }
                self.json = Some(json);
                progress
            }
            ']' if name.trim().is_empty() && self.called => Progress::Done,
            _ => {
                name.push(letter);
                let is_name = letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-' | ':' | '/');
                let fits = (is_name || letter.is_whitespace()) && name.len() <= NAME_BYTES;
                if fits { Progress::More } else { Progress::Broken }
            }
        }
    }

    fn key(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let Stage::Key(key) = &mut self.stage else { return Progress::Broken };
        match letter {
            '=' => {
                let mut json = if self.argued { ", ".to_owned() } else { String::new() };
                quote(key.trim(), &mut json);
                json.push_str(": ");
                out.arguments(&json);
                self.argued = true;
                self.step(true, Stage::Value(Values::default()))
            }
            ')' if key.trim().is_empty() => self.end_call(out),
            _ if key.len() >= NAME_BYTES => Progress::Broken,
            _ => {
                key.push(letter);
                Progress::More
            }
        }
    }
}

/// Translates a value of Python to JSON text.
#[derive(Default)]
struct Values {
    /// The closing brackets of what is open, in JSON.
    open: Vec<char>,
    word: String,
    /// The quote of the open string, and whether a backslash came before.
    string: Option<(char, bool)>,
    /// The digits after `\u`.
    code: Option<String>,
}

/// How deep values may be nested; what is deeper is flattened.
const MOST_DEPTH: usize = 128;

impl Values {
    /// Processes a character; returns the one that ends the value: `,` or `)`.
    fn put(&mut self, letter: char, json: &mut String) -> Option<char> {
        if let Some((mark, escaped)) = self.string {
            self.in_string(letter, mark, escaped, json);
            return None;
        }
        match letter {
            '\'' | '"' => {
                // A prefix as in `r"…"` says nothing in JSON.
                self.word.clear();
                self.string = Some((letter, false));
                json.push('"');
            }
            '[' | '{' | '(' if self.open.len() < MOST_DEPTH => {
                let (open, close) = if letter == '{' { ('{', '}') } else { ('[', ']') };
                self.open.push(close);
                json.push(open);
            }
            ')' | ']' | '}' => {
                self.end_word(json);
                match self.open.pop() {
                    Some(close) => json.push(close),
                    None => return Some(')'),
                }
            }
            ',' => {
                self.end_word(json);
                if self.open.is_empty() {
                    return Some(',');
                }
                json.push_str(", ");
            }
            ':' if !self.open.is_empty() => {
                self.end_word(json);
                json.push_str(": ");
            }
            _ => self.word.push(letter),
        }
        None
    }

    fn in_string(&mut self, letter: char, mark: char, escaped: bool, json: &mut String) {
        if let Some(code) = &mut self.code {
            if letter.is_ascii_hexdigit() && code.len() < 4 {
                code.push(letter);
            }
            let read = code.len();
            if read == 4 || !letter.is_ascii_hexdigit() {
                self.end_code(json);
            }
            if letter.is_ascii_hexdigit() {
                return;
            }
        }
        let mut plain = String::new();
        self.string = Some((mark, !escaped && letter == '\\'));
        match letter {
            _ if escaped => match letter {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                'r' => plain.push('\r'),
                '\'' | '"' | '\\' => plain.push(letter),
                'u' => self.code = Some(String::new()),
                // Such as `\d` of a pattern, whose backslash Python keeps.
                _ => plain.extend(['\\', letter]),
            },
            '\\' => {}
            _ if letter == mark => {
                json.push('"');
                self.string = None;
            }
            _ => plain.push(letter),
        }
        plain.chars().for_each(|letter| escape(letter, json));
    }

    /// Writes the character of a `\u`, or what was there instead of four digits.
    fn end_code(&mut self, json: &mut String) {
        let Some(code) = self.code.take() else { return };
        let number = Some(code.as_str()).filter(|code| code.len() == 4);
        let letter = number.and_then(|code| u32::from_str_radix(code, 16).ok()).map(char::from_u32);
        match letter {
            Some(letter) => escape(letter.unwrap_or(char::REPLACEMENT_CHARACTER), json),
            None => json.push_str(&format!("\\\\u{code}")),
        }
    }

    /// Writes a number or a constant, and any other word as a string.
    fn end_word(&mut self, json: &mut String) {
        let word = std::mem::take(&mut self.word);
        match word.trim() {
            "" => {}
            "True" => json.push_str("true"),
            "False" => json.push_str("false"),
            "None" => json.push_str("null"),
            word if serde_json::from_str::<serde_json::Value>(word).is_ok() => json.push_str(word),
            word => quote(word, json),
        }
    }
}
