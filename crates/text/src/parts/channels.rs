//! Answers that consist of messages on channels: reasoning, content and calls each have messages of their own.
//!
//! A message is a head, a mark, a body and a mark. The prompt ends within the head of the first message.

use super::{PartSink, Seeker};
use crate::tools::FramePart;

/// The format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    /// `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`: gpt-oss.
    Harmony,
    /// `<|think|>…<|end|><|begin|>assistant<|content|>…`: Solar Open.
    Solar,
    /// ` to=self<|message|>…<|eom|><|start|>assistant<|message|>…`: Muse Glimmer.
    Muse,
}

/// The marks of a format.
struct Marks {
    /// Begins the head of a message.
    start: &'static str,
    /// Ends the head.
    body: &'static [&'static str],
    /// Ends the body, unless the answer ends.
    end: &'static [&'static str],
    /// How the rest of the head may begin after a prompt.
    heads: &'static [&'static str],
}

/// The longest head, in bytes.
const HEAD_BYTES: usize = 512;

impl Channels {
    fn marks(self) -> &'static Marks {
        match self {
            Channels::Harmony => &Marks {
                start: "<|start|>",
                body: &["<|message|>"],
                end: &["<|end|>", "<|return|>", "<|call|>"],
                heads: &["<|channel|>", "to=", "<|start|>", "<|message|>"],
            },
            Channels::Solar => &Marks {
                start: "<|begin|>",
                body: &["<|think|>", "<|content|>", "<|tool_calls|>"],
                end: &["<|end|>", "<|calls|>", "<|flush|>"],
                heads: &["<|think|>", "<|content|>", "<|tool_calls|>", "<|begin|>"],
            },
            Channels::Muse => &Marks {
                start: "<|start|>",
                body: &["<|message|>"],
                end: &["<|eom|>", "<|eot|>"],
                heads: &["to=", "<|message|>", "<|start|>"],
            },
        }
    }

    /// The head of a message of content, which a prompt may have begun.
    pub(crate) fn answer_head(self) -> &'static [FramePart] {
        use FramePart::{Mark, Maybe, Text};
        match self {
            Channels::Harmony => &[
                Maybe(&[Mark("<|start|>"), Text("assistant")]),
                Mark("<|channel|>"),
                Text("final"),
                Mark("<|message|>"),
            ],
            Channels::Solar => &[Maybe(&[Mark("<|begin|>"), Text("assistant")]), Mark("<|content|>")],
            Channels::Muse => &[Maybe(&[Mark("<|start|>"), Text("assistant")]), Mark("<|message|>")],
        }
    }

    /// All marks that may be control tokens.
    pub(crate) fn shown(self) -> &'static [&'static str] {
        match self {
            Channels::Harmony => &["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"],
            Channels::Solar => &["<|begin|>", "<|think|>", "<|content|>", "<|tool_calls|>", "<|end|>"],
            Channels::Muse => &["<|start|>", "<|message|>", "<|eom|>"],
        }
    }

    /// Where the body after a head belongs; `mark` is the index of the mark that ended the head.
    fn route(self, head: &str, mark: usize) -> Route {
        let to = head.split_once("to=").map(|(_, to)| to);
        let to = to.map(|to| to.split([' ', '<']).next().unwrap_or_default());
        match self {
            Channels::Harmony => match to {
                Some(to) if to.starts_with("functions.") => Route::Call(to["functions.".len()..].to_owned()),
                Some("assistant") | None => {
                    let channel = head.rsplit("<|channel|>").next().unwrap_or_default().trim_start();
                    if channel.starts_with("analysis") { Route::Reasoning } else { Route::Content }
                }
                // A built-in tool that is not there.
                Some(_) => Route::Reasoning,
            },
            Channels::Solar if mark == 0 => Route::Reasoning,
            Channels::Muse if to == Some("self") => Route::Reasoning,
            Channels::Solar | Channels::Muse => Route::Content,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    Reasoning,
    Content,
    Call(String),
}

/// Separates the messages of an answer.
pub(crate) struct ChannelSplitter {
    channels: Channels,
    /// Whether calls are calls.
    calls: bool,
    state: State,
    /// Whether there was reasoning already.
    reasoned: bool,
}

enum State {
    /// In a head; `first`: the head that the prompt began.
    Head {
        seeker: Seeker,
        text: String,
        first: bool,
    },
    Body {
        seeker: Seeker,
        route: Route,
        empty: bool,
    },
    /// After a body, before the next head.
    Between(Seeker),
}

impl ChannelSplitter {
    /// `begun`: whether the answer begins inside reasoning.
    pub(crate) fn new(channels: Channels, begun: bool, calls: bool) -> ChannelSplitter {
        let mut splitter = ChannelSplitter { channels, calls, state: head(channels, true), reasoned: false };
        if begun {
            splitter.state = splitter.body(Route::Reasoning);
        }
        splitter
    }

    fn body(&self, route: Route) -> State {
        let marks = self.channels.marks();
        let ends = [marks.end, &[marks.start]].concat();
        State::Body { seeker: Seeker::exact_any(&ends), route, empty: true }
    }

    /// Processes a character; content is appended to `said`, the rest to `out`.
    pub(crate) fn put(&mut self, letter: char, said: &mut String, out: &mut PartSink) {
        let marks = self.channels.marks();
        match &mut self.state {
            State::Head { seeker, text, first } => {
                let found = seeker.put(letter, text);
                if let Some(mark) = found {
                    let route = self.channels.route(text, mark);
                    self.begin(route, mark, said, out);
                    return;
                }
                let read = seeker.held_after(text);
                let fits = !*first || fits(read.trim_start(), marks.heads);
                if !fits || read.len() > HEAD_BYTES {
                    // The prompt began a message of content, or the model does not write messages.
                    self.state = self.body(Route::Content);
                    read.chars().for_each(|letter| self.put(letter, said, out));
                }
            }
            State::Body { seeker, route, empty } => {
                let mut text = String::new();
                let found = seeker.put(letter, &mut text);
                match route {
                    Route::Reasoning if !text.is_empty() => {
                        if std::mem::take(empty) && std::mem::replace(&mut self.reasoned, true) {
                            out.reasoning("\n");
                        }
                        out.reasoning(&text);
                    }
                    Route::Reasoning => {}
                    Route::Content => said.push_str(&text),
                    Route::Call(_) => out.arguments(&text),
                }
                match found {
                    None => {}
                    Some(mark) if mark < marks.end.len() => {
                        let heads: &[&str] = match self.channels {
                            Channels::Harmony => &["<|start|>", "<|channel|>"],
                            _ => &[marks.start],
                        };
                        self.state = State::Between(Seeker::exact_any(heads));
                    }
                    Some(_) => self.state = head(self.channels, false),
                }
            }
            State::Between(seeker) => {
                let found = seeker.put(letter, &mut String::new());
                if let Some(mark) = found {
                    self.state = head(self.channels, false);
                    // A head may begin with its channel.
                    if mark == 1 {
                        "<|channel|>".chars().for_each(|letter| self.put(letter, said, out));
                    }
                }
            }
        }
    }

    fn begin(&mut self, route: Route, mark: usize, said: &mut String, out: &mut PartSink) {
        let route = match route {
            Route::Call(name) if self.calls => {
                out.call(&name);
                Route::Call(name)
            }
            Route::Call(_) => Route::Reasoning,
            other => other,
        };
        // The reader of calls needs to see the mark of their section.
        if self.channels == Channels::Solar && mark == 2 {
            said.push_str("<|tool_calls|>");
        }
        self.state = self.body(route);
    }

    pub(crate) fn finish(&mut self, said: &mut String, out: &mut PartSink) {
        if let State::Body { seeker, route, .. } = &mut self.state {
            let mut text = String::new();
            seeker.finish(false, &mut text);
            match route {
                Route::Reasoning => out.reasoning(&text),
                Route::Content => said.push_str(&text),
                Route::Call(_) => out.arguments(&text),
            }
        }
        self.state = head(self.channels, false);
    }
}

fn head(channels: Channels, first: bool) -> State {
    State::Head { seeker: Seeker::exact_any(channels.marks().body), text: String::new(), first }
}

/// Whether a text may be the beginning of a head.
fn fits(text: &str, heads: &[&str]) -> bool {
    heads.iter().any(|head| head.starts_with(text) || text.starts_with(head))
}
