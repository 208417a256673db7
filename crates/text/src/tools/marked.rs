//! The reader of calls that begin with a mark, whatever is between the marks.

use super::reader::{Body, Progress, Reader};
use crate::parts::{PartSink, Seeker};

/// The marks around calls.
pub(super) struct Marks {
    /// Marks that open a call, or a list of calls.
    pub(super) opens: &'static [&'static str],
    /// Marks that close it; empty if the call itself shows its end.
    pub(super) closes: &'static [&'static str],
    /// Marks around groups of calls, which are dropped.
    pub(super) drops: &'static [&'static str],
}

/// Makes the parser for a call that the mark of this index opened.
pub(super) type NewBody = Box<dyn Fn(usize) -> Box<dyn Body> + Send>;

pub(super) struct Marked {
    marks: &'static Marks,
    body: NewBody,
    state: State,
    called: bool,
    /// The mark that opened the call, with the white space before it.
    open: String,
}

enum State {
    Text(Seeker),
    Call(Box<dyn Body>),
    /// After a call, up to its closing mark or the next opening one.
    Closing(Seeker),
}

impl Marked {
    pub(super) fn new(marks: &'static Marks, body: NewBody) -> Marked {
        Marked { marks, body, state: State::Text(text(marks)), called: false, open: String::new() }
    }

    /// Reads on inside the call that the last mark of `seeker` opened.
    fn opened(&mut self, mark: usize, open: String) {
        self.open = open;
        self.state = State::Call((self.body)(mark));
    }

    /// Reads on after a call.
    fn close(&mut self) {
        self.called = true;
        self.state = match self.marks.closes {
            [] => State::Text(text(self.marks)),
            _ => State::Closing(closing(self.marks)),
        };
    }

    fn broken(&mut self, letter: char, unemitted: Option<String>, out: &mut PartSink) {
        match unemitted {
            Some(text_so_far) => {
                out.content(&self.open);
                self.state = State::Text(text(self.marks));
                text_so_far.chars().for_each(|letter| self.put(letter, out));
            }
            None => {
                // The letter that is no part of the call may begin its closing mark.
                self.close();
                self.put(letter, out);
            }
        }
    }
}

fn text(marks: &Marks) -> Seeker {
    Seeker::new(&[marks.opens, marks.drops].concat())
}

fn closing(marks: &Marks) -> Seeker {
    Seeker::new(&[marks.opens, marks.closes].concat())
}

impl Reader for Marked {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        match &mut self.state {
            State::Text(seeker) => {
                let mut said = String::new();
                let found = seeker.put(letter, &mut said);
                out.content(&said);
                if let Some(mark) = found.filter(|mark| *mark < self.marks.opens.len()) {
                    let open = seeker.found();
                    self.opened(mark, open);
                }
            }
            State::Call(body) => match body.put(letter, out) {
                Progress::More => {}
                Progress::Done => self.close(),
                Progress::Broken => {
                    let unemitted = body.unemitted();
                    self.broken(letter, unemitted, out);
                }
            },
            State::Closing(seeker) => match seeker.put(letter, &mut String::new()) {
                None => {}
                Some(mark) if mark < self.marks.opens.len() => {
                    let open = seeker.found();
                    self.opened(mark, open);
                }
                Some(_) => self.state = State::Text(text(self.marks)),
            },
        }
    }

    fn finish(&mut self, cut: bool, out: &mut PartSink) {
        let mut said = String::new();
        match &mut self.state {
            State::Text(seeker) => seeker.finish(self.called, &mut said),
            State::Call(body) => {
                if let Some(unemitted) = body.unemitted().filter(|_| !cut) {
                    said = format!("{}{unemitted}", self.open);
                }
            }
            State::Closing(_) => {}
        }
        out.content(&said);
    }
}
