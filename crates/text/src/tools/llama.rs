//! `{"name": …, "parameters": {…}}` as the whole answer, several with `;` between them; after `<|python_tag|>` too:
//! Llama 3.1 and later. An object without that mark is a call only if it names a tool there is.

use super::json::Call;
use super::reader::{Body, CallForm, Frame, FramePart, Progress, Reader, Row};
use crate::parts::{PartSink, Seeker};

const TAG: &str = "<|python_tag|>";
pub(super) const LLAMA: Row = Row {
    marks: &[TAG],
    frame: Frame {
        first: &[],
        between: Some(&[FramePart::Text("; ")]),
        last: &[],
        form: CallForm::Object("name", "parameters"),
    },
    reader: |offered| Box::new(Llama::new(offered.names)),
};

pub(super) struct Llama {
    tools: Vec<String>,
    state: State,
    called: bool,
}

enum State {
    /// Before the first character of the answer, or after a tag or a `;`; with the text to emit if no call follows.
    Begin(String),
    Call {
        before: String,
        call: Box<Call>,
    },
    /// After a call, with the white space since.
    After(String),
    Text(Seeker),
}

impl Llama {
    pub(super) fn new(tools: &[String]) -> Llama {
        Llama { tools: tools.to_vec(), state: State::Begin(String::new()), called: false }
    }

    fn text(&mut self, text: &str, out: &mut PartSink) {
        self.state = State::Text(Seeker::new(&[TAG]));
        text.chars().for_each(|letter| self.put(letter, out));
    }

    /// Emits text as content, without parsing it again.
    fn give_back(&mut self, text: &str, out: &mut PartSink) {
        out.content(text);
        self.state = State::Text(Seeker::new(&[TAG]));
    }
}

impl Reader for Llama {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Begin(before) if letter.is_whitespace() => before.push(letter),
            State::Begin(before) if letter == '{' => {
                let before = std::mem::take(before);
                let tagged = before.contains(TAG);
                let call = Box::new(Call::new((!tagged).then(|| self.tools.clone())));
                self.state = State::Call { before, call };
                self.put(letter, out);
            }
            State::Begin(before) => {
                let before = std::mem::take(before);
                if before.contains(TAG) {
                    self.give_back(&before, out);
                    self.put(letter, out);
                } else {
                    self.text(&format!("{before}{letter}"), out);
                }
            }
            State::Call { before, call } => match call.put(letter, out) {
                Progress::More => {}
                progress => match call.unemitted().filter(|_| progress == Progress::Broken) {
                    Some(text) => {
                        let text = format!("{before}{text}");
                        self.give_back(&text, out);
                    }
                    None => {
                        self.called = true;
                        self.state = State::After(String::new());
                    }
                },
            },
            State::After(space) if letter.is_whitespace() => space.push(letter),
            State::After(_) if letter == ';' => self.state = State::Begin(";".to_owned()),
            State::After(space) => {
                let text = format!("{space}{letter}");
                self.text(&text, out);
            }
            State::Text(seeker) => {
                let mut said = String::new();
                let found = seeker.put(letter, &mut said);
                out.content(&said);
                if found.is_some() {
                    self.state = State::Begin(seeker.found());
                }
            }
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut said = String::new();
        match &mut self.state {
            State::Begin(before) if !(self.called || (cut && before.contains(TAG))) => {
                said = std::mem::take(before)
            }
            State::Begin(_) | State::After(_) => {}
            State::Call { before, call } => {
                if let Some(unemitted) = call.unemitted().filter(|_| !(cut && before.contains(TAG))) {
                    said = format!("{before}{unemitted}");
                }
            }
            State::Text(seeker) => seeker.finish(self.called, &mut said),
        }
        out.content(&said);
    }
}
