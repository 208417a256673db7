//! `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`: Phi 4 mini, which writes `functools[…]` too.

use super::call_list::CallList;
use super::json::Progress;
use super::{Frame, FramePart, Reader};
use crate::parts::{PartSink, Seeker};

const OPENS: [&str; 2] = ["<|tool_call|>", "functools"];
const CLOSE: &str = "<|/tool_call|>";
pub(super) const MARKS: &[&str] = &[OPENS[0], CLOSE];
pub(super) const FRAME: Frame = Frame {
    first: &[FramePart::Mark(OPENS[0]), FramePart::Text("[")],
    between: &[FramePart::Text(", ")],
    last: &[FramePart::Text("]"), FramePart::Mark(CLOSE)],
    key: "arguments",
};

pub(super) struct Phi {
    state: State,
    called: bool,
}

enum State {
    /// Before or after calls; a closing mark there is dropped.
    Text(Seeker),
    /// In a list of calls; with the mark that opened it, and the white space before.
    Calls(String, CallList),
}

impl Phi {
    pub(super) fn new() -> Phi {
        Phi { state: State::Text(text()), called: false }
    }
}

fn text() -> Seeker {
    Seeker::new(&[OPENS[0], OPENS[1], CLOSE])
}

impl Reader for Phi {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut said = String::new();
                let found = seeker.put(letter, &mut said);
                out.content(&said);
                if found.is_some_and(|found| found < OPENS.len()) {
                    let open = seeker.found();
                    self.state = State::Calls(open, CallList::new());
                }
            }
            State::Calls(open, list) => {
                let progress = list.put(letter, out);
                if progress == Progress::More {
                    return;
                }
                let unemitted = list.unemitted().filter(|_| progress == Progress::Broken);
                let open = std::mem::take(open);
                self.called |= unemitted.is_none();
                self.state = State::Text(text());
                if let Some(unemitted) = unemitted {
                    out.content(&open);
                    unemitted.chars().for_each(|letter| self.put(letter, out));
                }
            }
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut said = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut said),
            State::Calls(open, list) => {
                if let Some(unemitted) = list.unemitted().filter(|_| !cut) {
                    said = format!("{open}{unemitted}");
                }
            }
        }
        out.content(&said);
    }
}
