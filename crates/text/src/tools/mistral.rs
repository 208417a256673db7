//! `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, and from tokenizer version 11 on, once a call,
//! `[TOOL_CALLS]name[ARGS]{…}`, perhaps with `[CALL_ID]id` before the arguments.

use super::call_list::CallList;
use super::json::{NameKey, Nested};
use super::reader::{Body, CallForm, Frame, FramePart, Progress, Reader, Row};
use crate::parts::{PartSink, Seeker};

const OPEN: &str = "[TOOL_CALLS]";
const ARGUMENTS: &str = "[ARGS]";
const ID: &str = "[CALL_ID]";
/// Up to tokenizer version 7: a list.
pub(super) const MISTRAL: Row = Row {
    marks: &[OPEN, ARGUMENTS, ID],
    frame: Frame {
        first: &[FramePart::Mark(OPEN), FramePart::Text("[")],
        between: Some(&[FramePart::Text(", ")]),
        last: &[FramePart::Text("]")],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Mistral::new()),
};
/// From version 11 on: the name first.
pub(super) const NAMED: Row = Row {
    frame: Frame {
        first: &[FramePart::Mark(OPEN)],
        between: Some(&[FramePart::Mark(OPEN)]),
        last: &[],
        form: CallForm::NameFirst { before: "", after: &[FramePart::Mark(ARGUMENTS)], last: &[] },
    },
    ..MISTRAL
};

/// The longest name of a tool, in bytes.
const NAME_BYTES: usize = 256;

pub(super) struct Mistral {
    state: State,
    called: bool,
    /// The mark that opened the call, with the white space before it.
    open: String,
}

enum State {
    Text(Seeker),
    /// After the mark, with the white space since.
    Opened(String),
    Calls(CallList),
    /// In the name and the text after it, up to the arguments.
    Named(String),
    Arguments(Nested),
}

impl Mistral {
    pub(super) fn new() -> Mistral {
        Mistral { state: State::Text(Seeker::new(&[OPEN])), called: false, open: String::new() }
    }

    fn give_back(&mut self, text: &str, out: &mut PartSink) {
        out.content(&self.open);
        self.state = State::Text(Seeker::new(&[OPEN]));
        text.chars().for_each(|letter| self.put(letter, out));
    }

    fn named(&mut self, letter: char, out: &mut PartSink) {
        let State::Named(read) = &mut self.state else { return };
        if letter != '{' {
            read.push(letter);
            let name_or_id = read.rsplit('[').next().unwrap_or_default();
            let broken = matches!(letter, '\n' | '"' | '}') || name_or_id.len() > NAME_BYTES;
            if broken || read.len() > 4 * NAME_BYTES {
                let text = std::mem::take(read);
                self.give_back(&text, out);
            }
            return;
        }
        let name = read.split('[').next().unwrap_or_default().trim().to_owned();
        if name.is_empty() {
            let text = format!("{read}{letter}");
            return self.give_back(&text, out);
        }
        out.call(&name);
        out.arguments("{");
        self.called = true;
        self.state = State::Arguments(Nested::of(letter));
    }
}

impl Reader for Mistral {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut text = String::new();
                if seeker.put(letter, &mut text).is_some() {
                    self.open = seeker.found();
                    self.state = State::Opened(String::new());
                }
                out.content(&text);
            }
            State::Opened(space) if letter.is_whitespace() => space.push(letter),
            State::Opened(_) if letter == '[' => {
                self.state = State::Calls(CallList::new(NameKey::Name));
                self.put(letter, out);
            }
            State::Opened(space) => {
                self.state = State::Named(std::mem::take(space));
                self.named(letter, out);
            }
            State::Calls(list) => match list.put(letter, out) {
                Progress::More => {}
                progress => match list.unemitted().filter(|_| progress == Progress::Broken) {
                    Some(unemitted) => self.give_back(&unemitted, out),
                    None => {
                        self.called = true;
                        self.state = State::Text(Seeker::new(&[OPEN]));
                    }
                },
            },
            State::Named(_) => self.named(letter, out),
            State::Arguments(nested) => {
                let ended = nested.put(letter);
                out.arguments(letter.encode_utf8(&mut [0; 4]));
                if ended {
                    self.state = State::Text(Seeker::new(&[OPEN]));
                }
            }
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut text = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut text),
            State::Opened(_) | State::Named(_) if cut => {}
            State::Opened(rest) | State::Named(rest) => text = format!("{}{rest}", self.open),
            State::Calls(list) => {
                if let Some(unemitted) = list.unemitted().filter(|_| !cut) {
                    text = format!("{}{unemitted}", self.open);
                }
            }
            State::Arguments(_) => {}
        }
        out.content(&text);
    }
}
