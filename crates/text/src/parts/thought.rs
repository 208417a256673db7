//! Reasoning: text between two tags at the start of an answer.

use super::channels::{ChannelSplitter, Channels};
use super::{PartSink, Seeker};
use crate::tools::ToolCallStyle;

/// The tags around reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningTags {
    /// The opening tag.
    pub open: &'static str,
    /// The closing tag.
    pub close: &'static str,
}

const THINK: ReasoningTags = ReasoningTags { open: "<think>", close: "</think>" };
const HARMONY: ReasoningTags = ReasoningTags { open: "<|channel|>analysis<|message|>", close: "<|end|>" };
const SOLAR: ReasoningTags = ReasoningTags { open: "<|think|>", close: "<|end|>" };
const MUSE: ReasoningTags = ReasoningTags { open: " to=self<|message|>", close: "<|eom|>" };
const GEMMA: ReasoningTags = ReasoningTags { open: "<|channel>thought", close: "<channel|>" };

/// The known tags, each with a text that only templates of such models contain; the most specific first.
const KNOWN: [(&str, ReasoningTags); 14] = [
    (HARMONY.open, HARMONY),
    ("assistant<|think|>", SOLAR),
    (MUSE.open, MUSE),
    (GEMMA.open, GEMMA),
    ("<|START_THINKING|>", ReasoningTags { open: "<|START_THINKING|>", close: "<|END_THINKING|>" }),
    ("<mm:think>", ReasoningTags { open: "<mm:think>", close: "</mm:think>" }),
    ("<think{}>", ReasoningTags { open: "<think:opensource>", close: "</think:opensource>" }),
    (
        "Here are my reasoning steps:",
        ReasoningTags { open: "Here are my reasoning steps:", close: "[BEGIN FINAL RESPONSE]" },
    ),
    ("<seed:think>", ReasoningTags { open: "<seed:think>", close: "</seed:think>" }),
    ("</seed:think>", ReasoningTags { open: "<seed:think>", close: "</seed:think>" }),
    ("[THINK]", ReasoningTags { open: "[THINK]", close: "[/THINK]" }),
    ("[/THINK]", ReasoningTags { open: "[THINK]", close: "[/THINK]" }),
    (THINK.open, THINK),
    (THINK.close, THINK),
];

impl ReasoningTags {
    /// The tags that occur in a chat template, if any.
    pub fn of_template(source: &str) -> Option<ReasoningTags> {
        KNOWN.into_iter().find(|(sign, _)| source.contains(sign)).map(|(_, tags)| tags)
    }

    /// Whether a prompt ends with the opening tag, so that the answer begins inside reasoning.
    pub fn opened_by(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }

    /// Marks that are control tokens in some vocabularies; the detokenizer must show them to the parser.
    pub fn marks(&self) -> Vec<&'static str> {
        match self.channels() {
            Some(channels) => channels.shown().to_vec(),
            // The name of the channel is no part of the control token.
            None if *self == GEMMA => vec!["<|channel>", self.close],
            None => vec![self.open, self.close],
        }
    }

    /// The format of messages, if answers consist of messages on channels.
    pub(crate) fn channels(&self) -> Option<Channels> {
        let known = [(HARMONY, Channels::Harmony), (SOLAR, Channels::Solar), (MUSE, Channels::Muse)];
        known.into_iter().find(|(tags, _)| tags == self).map(|(_, channels)| channels)
    }

    /// Whether there may be reasoning later in an answer too, which models with control tokens for it write.
    fn recur(&self) -> bool {
        *self == GEMMA
    }
}

/// The reasoning format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningFormat {
    /// The reasoning tags.
    pub tags: ReasoningTags,
    /// Whether the prompt has opened the reasoning, so that the answer begins inside.
    pub begun: bool,
}

/// The splitter of an answer.
pub(crate) enum Splitter {
    Tags(ReasoningSplitter),
    Channels(ChannelSplitter),
}

impl Splitter {
    /// A splitter for a model with this style of calls, if tools are offered.
    pub(crate) fn new(thought: &ReasoningFormat, style: Option<ToolCallStyle>) -> Splitter {
        match thought.tags.channels() {
            Some(channels) => {
                Splitter::Channels(ChannelSplitter::new(channels, thought.begun, style.is_some()))
            }
            None => Splitter::Tags(ReasoningSplitter::new(thought, style)),
        }
    }

    /// Processes a character; content is appended to `said`, reasoning to `out`.
    pub(crate) fn put(&mut self, letter: char, said: &mut String, out: &mut PartSink) {
        match self {
            Splitter::Tags(splitter) => splitter.put(letter, said, out),
            Splitter::Channels(splitter) => splitter.put(letter, said, out),
        }
    }

    pub(crate) fn finish(&mut self, said: &mut String, out: &mut PartSink) {
        match self {
            Splitter::Tags(splitter) => splitter.finish(said, out),
            Splitter::Channels(splitter) => splitter.finish(said, out),
        }
    }
}

/// Separates reasoning between tags from the rest of an answer.
pub(crate) struct ReasoningSplitter {
    tags: ReasoningTags,
    /// The beginning of a call, which ends reasoning too.
    call: Option<&'static str>,
    state: State,
}

enum State {
    /// Only white space so far, and perhaps the beginning of the opening tag.
    Before(String),
    /// Inside, before the first character of reasoning, with what may be a repeated opening tag.
    Opened(String),
    Inside(Seeker),
    /// After the closing tag, before the first character of content, with what may be [`RESPONSE`].
    Closed(String),
    Said,
    /// In content after which reasoning may come again.
    SaidSoFar(Seeker),
    /// In content between tags of its own; whether there was a character that is no white space.
    Response(Seeker, bool),
}

/// The tags that Granite 3.3 and ERNIE 4.5 put around content after reasoning.
const RESPONSE: &str = "<response>";
const RESPONSE_END: &str = "</response>";

impl ReasoningSplitter {
    fn new(thought: &ReasoningFormat, style: Option<ToolCallStyle>) -> ReasoningSplitter {
        let state = if thought.begun { State::Opened(String::new()) } else { State::Before(String::new()) };
        let call = style.and_then(ToolCallStyle::ends_reasoning);
        ReasoningSplitter { tags: thought.tags, call, state }
    }

    fn put(&mut self, letter: char, said: &mut String, out: &mut PartSink) {
        match &mut self.state {
            State::Before(held) => {
                held.push(letter);
                let start = held.trim_start();
                if start == self.tags.open {
                    self.state = State::Opened(String::new());
                } else if !self.tags.open.starts_with(start) {
                    let held = std::mem::take(held);
                    self.state = self.saying();
                    held.chars().for_each(|letter| self.put(letter, said, out));
                }
            }
            State::Opened(held) if letter.is_whitespace() && held.is_empty() => {}
            State::Opened(held) => {
                held.push(letter);
                if held == self.tags.open {
                    held.clear();
                } else if !self.tags.open.starts_with(held.as_str()) {
                    let held = std::mem::take(held);
                    self.state = self.thinking();
                    held.chars().for_each(|letter| self.put(letter, said, out));
                }
            }
            State::Inside(seeker) => {
                let mut thought = String::new();
                let found = seeker.put(letter, &mut thought);
                out.reasoning(&thought);
                if let Some(mark) = found {
                    self.close(mark == 0, said);
                }
            }
            State::Closed(held) if letter.is_whitespace() && held.is_empty() => {}
            State::Closed(held) => {
                held.push(letter);
                if held == RESPONSE {
                    self.state = State::Response(Seeker::new(&[RESPONSE_END]), false);
                } else if !RESPONSE.starts_with(held.as_str()) {
                    let held = std::mem::take(held);
                    self.state = self.saying();
                    held.chars().for_each(|letter| self.put(letter, said, out));
                }
            }
            State::Response(_, begun) if letter.is_whitespace() && !*begun => {}
            State::Response(seeker, begun) => {
                *begun = true;
                seeker.put(letter, said);
            }
            State::Said => said.push(letter),
            State::SaidSoFar(seeker) => {
                let found = seeker.put(letter, said);
                if found == Some(0) {
                    self.state = State::Opened(String::new());
                }
            }
        }
    }

    /// The state in reasoning.
    fn thinking(&self) -> State {
        let marks: Vec<&str> = [self.tags.close].into_iter().chain(self.call).collect();
        State::Inside(Seeker::new(&marks))
    }

    /// Ends reasoning: by its closing tag, or by the beginning of a call.
    fn close(&mut self, by_tag: bool, said: &mut String) {
        if by_tag {
            self.state = State::Closed(String::new());
        } else {
            self.state = self.saying();
            said.push_str(self.call.unwrap_or_default());
        }
    }

    /// The state in content.
    fn saying(&self) -> State {
        match self.tags.recur() {
            true => State::SaidSoFar(Seeker::exact_any(&[self.tags.open, self.tags.close])),
            false => State::Said,
        }
    }

    fn finish(&mut self, said: &mut String, out: &mut PartSink) {
        match &mut self.state {
            State::Before(held) => said.push_str(held),
            State::Opened(held) => out.reasoning(held),
            State::Inside(seeker) => {
                let mut thought = String::new();
                seeker.finish(true, &mut thought);
                out.reasoning(&thought);
            }
            State::SaidSoFar(seeker) => seeker.finish(false, said),
            State::Response(seeker, _) => seeker.finish(true, said),
            State::Closed(held) => said.push_str(held),
            State::Said => {}
        }
        self.state = State::Said;
    }
}
