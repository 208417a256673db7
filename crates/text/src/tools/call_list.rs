//! Parses a JSON list of tool calls, or calls one after the other, character by character.

use super::json::{Call, NameKey};
use super::reader::{Body, Progress};
use crate::parts::PartSink;

/// The parser of `[{"name": …, "arguments": …}, …]`, and of the same without brackets and commas.
pub(super) struct CallList {
    name_key: NameKey,
    state: State,
    /// Whether there are no brackets.
    bare: bool,
    /// The text before the first emitted call, which is content if no call follows.
    raw: String,
    emitted: bool,
}

enum State {
    Open,
    /// Before a call or the end of the list.
    Next,
    Call(Box<Call>),
    After,
}

impl CallList {
    pub(super) fn new(name_key: NameKey) -> CallList {
        CallList { name_key, state: State::Open, bare: false, raw: String::new(), emitted: false }
    }

    fn in_call(&mut self, letter: char, out: &mut PartSink) -> Progress {
        let State::Call(call) = &mut self.state else { return Progress::Broken };
        match call.put(letter, out) {
            Progress::More => Progress::More,
            Progress::Done => {
                self.emitted = true;
                self.state = State::After;
                Progress::More
            }
            Progress::Broken => {
                // An emitted call cannot be retracted, but the list ends here.
                let unemitted = call.unemitted();
                self.emitted |= unemitted.is_none();
                self.raw.push_str(&unemitted.unwrap_or_default());
                self.state = State::After;
                Progress::Broken
            }
        }
    }
}

impl Body for CallList {
    fn unemitted(&mut self) -> Option<String> {
        if let State::Call(call) = &mut self.state {
            self.raw.push_str(&call.unemitted().unwrap_or_default());
        }
        (!self.emitted).then(|| std::mem::take(&mut self.raw))
    }

    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if matches!(self.state, State::Call(_)) {
            return self.in_call(letter, out);
        }
        let begins = match self.state {
            State::Open => {
                self.bare = letter == '{';
                self.bare
            }
            State::After => letter == '{' && self.bare,
            _ => letter == '{',
        };
        if begins {
            self.state = State::Call(Box::new(Call::new(None).named_by(self.name_key)));
            return self.in_call(letter, out);
        }
        if !self.emitted {
            self.raw.push(letter);
        }
        match (&self.state, letter) {
            (_, letter) if letter.is_whitespace() => {}
            (State::Open, '[') | (State::After, ',') => self.state = State::Next,
            // An empty list is plain text.
            (State::Next | State::After, ']') if self.emitted => return Progress::Done,
            _ => return Progress::Broken,
        }
        Progress::More
    }
}
