//! Parses a JSON list of tool calls, character by character.

use super::json::{Call, Progress};
use crate::parts::PartSink;

/// The parser of `[{"name": …, "arguments": …}, …]`.
pub(super) struct CallList {
    state: State,
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
    pub(super) fn new() -> CallList {
        CallList { state: State::Open, raw: String::new(), emitted: false }
    }

    /// The text that was read, if no call was emitted.
    pub(super) fn unemitted(&mut self) -> Option<String> {
        if let State::Call(call) = &mut self.state {
            self.raw.push_str(&call.unemitted().unwrap_or_default());
        }
        (!self.emitted).then(|| std::mem::take(&mut self.raw))
    }

    pub(super) fn put(&mut self, letter: char, out: &mut PartSink) -> Progress {
        if let State::Call(call) = &mut self.state {
            return match call.put(letter, out) {
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
            };
        }
        if letter == '{' && matches!(self.state, State::Next) {
            self.state = State::Call(Box::new(Call::new(None)));
            return self.put(letter, out);
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
