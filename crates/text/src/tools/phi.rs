//! `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`: Phi 4 mini, which writes `functools[…]` too.

use super::json::Progress;
use super::listed::List;
use super::{Bit, Frame, Reader};
use crate::parts::{Seeker, Sink};

const OPENS: [&str; 2] = ["<|tool_call|>", "functools"];
const CLOSE: &str = "<|/tool_call|>";
pub(super) const MARKS: &[&str] = &[OPENS[0], CLOSE];
pub(super) const FRAME: Frame = Frame {
    first: &[Bit::Mark(OPENS[0]), Bit::Text("[")],
    between: &[Bit::Text(", ")],
    last: &[Bit::Text("]"), Bit::Mark(CLOSE)],
    key: "arguments",
};

pub(super) struct Phi {
    state: State,
    called: bool,
}

enum State {
    /// Before a call, or after one; a closing mark there is dropped.
    Text(Seeker),
    /// With the mark that opened them and the space before it.
    Calls(String, List),
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
    fn put(&mut self, letter: char, out: &mut Sink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut said = String::new();
                let found = seeker.put(letter, &mut said);
                out.content(&said);
                if found.is_some_and(|found| found < OPENS.len()) {
                    let open = seeker.found();
                    self.state = State::Calls(open, List::new());
                }
            }
            State::Calls(open, list) => {
                let progress = list.put(letter, out);
                if progress == Progress::More {
                    return;
                }
                let untold = list.untold().filter(|_| progress == Progress::Broken);
                let open = std::mem::take(open);
                self.called |= untold.is_none();
                self.state = State::Text(text());
                if let Some(untold) = untold {
                    out.content(&open);
                    untold.chars().for_each(|letter| self.put(letter, out));
                }
            }
        }
    }

    fn finish(&mut self, cut: bool, out: &mut Sink) {
        let mut said = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut said),
            State::Calls(open, list) => {
                if let Some(untold) = list.untold().filter(|_| !cut) {
                    said = format!("{open}{untold}");
                }
            }
        }
        out.content(&said);
    }
}
