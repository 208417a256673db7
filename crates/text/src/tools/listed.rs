//! A JSON list of calls after a mark, read letter by letter.

use super::json::{Call, Progress};
use crate::parts::Sink;

/// `[{"name": …, "arguments": …}, …]`
pub(super) struct List {
    state: State,
    /// What was read before the first call was told, to be given back if it is none.
    raw: String,
    told: bool,
}

enum State {
    Open,
    /// Before a call, or the end.
    Next,
    Call(Box<Call>),
    After,
}

impl List {
    pub(super) fn new() -> List {
        List { state: State::Open, raw: String::new(), told: false }
    }

    /// What was read, if no call of it was told.
    pub(super) fn untold(&mut self) -> Option<String> {
        if let State::Call(call) = &mut self.state {
            self.raw.push_str(&call.untold().unwrap_or_default());
        }
        (!self.told).then(|| std::mem::take(&mut self.raw))
    }

    pub(super) fn put(&mut self, letter: char, out: &mut Sink) -> Progress {
        if let State::Call(call) = &mut self.state {
            return match call.put(letter, out) {
                Progress::More => Progress::More,
                Progress::Done => {
                    self.told = true;
                    self.state = State::After;
                    Progress::More
                }
                Progress::Broken => {
                    // A call that was told is not taken back, but for the list it is over.
                    let untold = call.untold();
                    self.told |= untold.is_none();
                    self.raw.push_str(&untold.unwrap_or_default());
                    self.state = State::After;
                    Progress::Broken
                }
            };
        }
        if letter == '{' && matches!(self.state, State::Next) {
            self.state = State::Call(Box::new(Call::new(None)));
            return self.put(letter, out);
        }
        if !self.told {
            self.raw.push(letter);
        }
        match (&self.state, letter) {
            (_, letter) if letter.is_whitespace() => {}
            (State::Open, '[') | (State::After, ',') => self.state = State::Next,
            // An empty list calls nothing: it is text like any other.
            (State::Next | State::After, ']') if self.told => return Progress::Done,
            _ => return Progress::Broken,
        }
        Progress::More
    }
}
