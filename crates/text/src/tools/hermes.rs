//! `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`, once a call: Nous Hermes 2 Pro, Qwen 2.5 and 3.

use super::json::{Call, Progress};
use super::{Frame, FramePart, Reader};
use crate::parts::{PartSink, Seeker};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
pub(super) const MARKS: &[&str] = &[OPEN, CLOSE];
pub(super) const FRAME: Frame = Frame {
    first: &[FramePart::Mark(OPEN), FramePart::Text("\n")],
    between: &[
        FramePart::Text("\n"),
        FramePart::Mark(CLOSE),
        FramePart::Text("\n"),
        FramePart::Mark(OPEN),
        FramePart::Text("\n"),
    ],
    last: &[FramePart::Text("\n"), FramePart::Mark(CLOSE)],
    key: "arguments",
};

pub(super) struct Hermes {
    state: State,
    called: bool,
    /// The tag that opened the call, with the white space before it.
    open: String,
}

enum State {
    Text(Seeker),
    Call(Call),
    /// After a call, up to its closing tag or the next opening one.
    Closing(Seeker),
}

impl Hermes {
    pub(super) fn new() -> Hermes {
        Hermes { state: State::Text(Seeker::new(&[OPEN])), called: false, open: String::new() }
    }
}

impl Reader for Hermes {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut text = String::new();
                if seeker.put(letter, &mut text).is_some() {
                    self.open = seeker.found();
                    self.state = State::Call(Call::new(None));
                }
                out.content(&text);
            }
            State::Call(call) => match call.put(letter, out) {
                Progress::More => {}
                Progress::Done => {
                    self.called = true;
                    self.state = State::Closing(Seeker::new(&[CLOSE, OPEN]));
                }
                Progress::Broken => match call.unemitted() {
                    Some(text) => {
                        out.content(&self.open);
                        self.state = State::Text(Seeker::new(&[OPEN]));
                        text.chars().for_each(|letter| self.put(letter, out));
                    }
                    None => self.state = State::Closing(Seeker::new(&[CLOSE, OPEN])),
                },
            },
            State::Closing(seeker) => match seeker.put(letter, &mut String::new()) {
                None => {}
                Some(0) => self.state = State::Text(Seeker::new(&[OPEN])),
                Some(_) => {
                    self.open = seeker.found();
                    self.state = State::Call(Call::new(None));
                }
            },
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut text = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut text),
            State::Call(call) => {
                if let Some(unemitted) = call.unemitted().filter(|_| !cut) {
                    text = format!("{}{unemitted}", self.open);
                }
            }
            State::Closing(_) => {}
        }
        out.content(&text);
    }
}
