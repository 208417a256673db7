//! Parses a tool call as a JSON object with name and arguments, character by character.
//!
//! A call is emitted when its name is known and its arguments begin. After that it cannot be retracted, so the
//! arguments are no longer validated: they end where their brackets do.

use super::reader::{Body, Progress};
use crate::parts::PartSink;

/// The key of an object that has the tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKey {
    /// `name`, or `tool_name`.
    Name,
    /// The key is the name, and its value the arguments.
    Itself,
}

/// The parser of one call.
pub(crate) struct Call {
    state: State,
    /// The names of tools that count; `None` for all names.
    known: Option<Vec<String>>,
    name_key: NameKey,
    /// The text so far, until the call is emitted.
    raw: String,
    key: String,
    name: Option<String>,
    /// Arguments that preceded the name.
    early: String,
    has_arguments: bool,
    emitted: bool,
}

enum State {
    Open,
    KeyOrEnd,
    Key(Quoted),
    Colon,
    Value,
    Name(Quoted, String),
    Arguments(Nested),
    /// Arguments as JSON text inside a JSON string.
    Spelt(Quoted),
    /// The value of an unknown key.
    Other(Nested),
    Scalar,
    After,
}

impl Call {
    pub(crate) fn new(known: Option<Vec<String>>) -> Call {
        Call {
            state: State::Open,
            known,
            name_key: NameKey::Name,
            raw: String::new(),
            key: String::new(),
            name: None,
            early: String::new(),
            has_arguments: false,
            emitted: false,
        }
    }

    /// The same call with its name elsewhere.
    pub(crate) fn named_by(mut self, name_key: NameKey) -> Call {
        self.name_key = name_key;
        self
    }

    /// Processes a character; see [`Body::put`].
    fn advanced(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if !self.emitted {
            self.raw.push(letter);
        }
        match &mut self.state {
            State::Open | State::KeyOrEnd | State::Colon | State::Value | State::After
                if letter.is_whitespace() =>
            {
                Progress::More
            }
            State::Open => self.advance(letter == '{', State::KeyOrEnd),
            State::KeyOrEnd => match letter {
                '"' => {
                    self.key.clear();
                    self.advance(true, State::Key(Quoted::default()))
                }
                '}' => self.close(out),
                _ => Progress::Broken,
            },
            State::Key(quoted) => match quoted.put(letter, &mut self.key) {
                Progress::Done => self.advance(true, State::Colon),
                other => other,
            },
            State::Colon => self.advance(letter == ':', State::Value),
            State::Value => self.begin(letter, out),
            State::Name(quoted, name) => match quoted.put(letter, name) {
                Progress::Done => {
                    let name = std::mem::take(name);
                    self.named(name, out)
                }
                other => other,
            },
            State::Arguments(nested) => {
                let ended = nested.put(letter);
                self.argue(letter.encode_utf8(&mut [0; 4]), out);
                self.advance(true, if ended { State::After } else { return Progress::More })
            }
            State::Spelt(quoted) => {
                let mut text = String::new();
                let progress = quoted.put(letter, &mut text);
                self.argue(&text, out);
                if progress == Progress::Done { self.advance(true, State::After) } else { progress }
            }
            State::Other(nested) => {
                if nested.put(letter) {
                    self.state = State::After;
                }
                Progress::More
            }
            State::Scalar | State::After => match letter {
                ',' => self.advance(true, State::KeyOrEnd),
                '}' => self.close(out),
                _ if letter.is_whitespace() => self.advance(true, State::After),
                _ if matches!(self.state, State::Scalar) => Progress::More,
                _ => Progress::Broken,
            },
        }
    }

    fn advance(&mut self, well: bool, state: State) -> Progress {
        self.state = state;
        if well { Progress::More } else { Progress::Broken }
    }

    fn begin(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let by_key = self.name_key == NameKey::Itself && self.name.is_none();
        if by_key {
            if letter != '{' || self.key.is_empty() {
                return Progress::Broken;
            }
            self.name = Some(self.key.clone());
        }
        let names = matches!(self.key.as_str(), "name" | "tool_name") && self.name.is_none();
        let argues = by_key || matches!(self.key.as_str(), "arguments" | "parameters");
        let is_arguments = argues && !self.has_arguments;
        let state = match letter {
            '"' if names => State::Name(Quoted::default(), String::new()),
            _ if names => return Progress::Broken,
            '{' | '"' if is_arguments => {
                self.has_arguments = true;
                self.emit(out);
                if letter == '"' {
                    State::Spelt(Quoted::default())
                } else {
                    self.argue("{", out);
                    State::Arguments(Nested::of(letter))
                }
            }
            '{' | '[' | '"' if !is_arguments => State::Other(Nested::of(letter)),
            '{' | '[' | '"' | '}' | ']' | ',' | ':' => return Progress::Broken,
            _ => State::Scalar,
        };
        self.advance(true, state)
    }

    fn named(&mut self, name: String, out: &mut PartSink) -> Progress {
        let counts = !name.is_empty() && self.known.as_ref().is_none_or(|known| known.contains(&name));
        self.name = Some(name);
        if counts && self.has_arguments {
            self.emit(out);
        }
        self.advance(counts, State::After)
    }

    fn argue(&mut self, text: &str, out: &mut PartSink) {
        if self.emitted {
            out.arguments(text);
        } else {
            self.early.push_str(text);
        }
    }

    /// Emits the call, if its name is known.
    fn emit(&mut self, out: &mut PartSink) {
        let Some(name) = self.name.as_ref().filter(|_| !self.emitted) else { return };
        out.call(name);
        out.arguments(&std::mem::take(&mut self.early));
        self.emitted = true;
        self.raw = String::new();
    }

    fn close(&mut self, out: &mut PartSink) -> Progress {
        self.emit(out);
        if !self.emitted {
            return Progress::Broken;
        }
        if !self.has_arguments {
            out.arguments("{}");
        }
        Progress::Done
    }
}

impl Body for Call {
    fn unemitted(&mut self) -> Option<String> {
        (!self.emitted).then(|| std::mem::take(&mut self.raw))
    }

    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        self.advanced(letter, out)
    }
}

/// Finds the end of an object, array or string.
pub(crate) struct Nested {
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl Nested {
    /// A value whose first character is `first`, which is consumed.
    pub(crate) fn of(first: char) -> Nested {
        Nested { depth: usize::from(first != '"'), quoted: first == '"', escaped: false }
    }

    /// The number of open brackets, and whether a string is open.
    pub(crate) fn open(&self) -> (usize, bool) {
        (self.depth, self.quoted)
    }

    /// Processes a character; returns whether it is the last one of the value.
    pub(crate) fn put(&mut self, letter: char) -> bool {
        match letter {
            _ if std::mem::take(&mut self.escaped) => {}
            '\\' if self.quoted => self.escaped = true,
            '"' => self.quoted = !self.quoted,
            '{' | '[' if !self.quoted => self.depth += 1,
            '}' | ']' if !self.quoted => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0 && !self.quoted
    }
}

/// Decodes a JSON string after its first quote. An unpaired surrogate becomes U+FFFD.
#[derive(Default)]
pub(crate) struct Quoted {
    /// The text after a backslash.
    escape: Option<String>,
    high: Option<u32>,
}

impl Quoted {
    /// Processes a character; appends the decoded one to `out`.
    pub(crate) fn put(&mut self, letter: char, out: &mut String) -> Progress {
        let Some(escape) = &mut self.escape else {
            return match letter {
                '"' => {
                    self.unpaired(out);
                    Progress::Done
                }
                '\\' => {
                    self.escape = Some(String::new());
                    Progress::More
                }
                _ => {
                    self.unpaired(out);
                    out.push(letter);
                    Progress::More
                }
            };
        };
        escape.push(letter);
        let plain = match escape.as_str() {
            "\"" | "\\" | "/" => letter,
            "n" => '\n',
            "t" => '\t',
            "r" => '\r',
            "b" => '\u{8}',
            "f" => '\u{c}',
            other if !other.starts_with('u') || !other.chars().skip(1).all(|c| c.is_ascii_hexdigit()) => {
                return Progress::Broken;
            }
            other if other.len() < 5 => return Progress::More,
            other => {
                let code = u32::from_str_radix(other.trim_start_matches('u'), 16).unwrap_or(0xfffd);
                self.escape = None;
                self.unit(code, out);
                return Progress::More;
            }
        };
        self.escape = None;
        self.unpaired(out);
        out.push(plain);
        Progress::More
    }

    /// A UTF-16 code unit.
    fn unit(&mut self, code: u32, out: &mut String) {
        match (self.high.take(), code) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                out.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (before, _) => {
                if before.is_some() {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                if (0xd800..=0xdbff).contains(&code) {
                    self.high = Some(code);
                } else {
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
        }
    }

    fn unpaired(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends a text as a JSON string.
pub(crate) fn quote(text: &str, json: &mut String) {
    json.push('"');
    text.chars().for_each(|letter| escape(letter, json));
    json.push('"');
}

/// Appends a character of a JSON string.
pub(crate) fn escape(letter: char, json: &mut String) {
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
