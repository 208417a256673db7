//! Reasoning: text between two tags at the start of an answer.

use super::{PartSink, Seeker};

/// The tags around reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningTags {
    /// The opening tag.
    pub open: &'static str,
    /// The closing tag.
    pub close: &'static str,
}

/// The known tags: of DeepSeek R1, Qwen3 and most others; Mistral's Magistral; ByteDance's Seed.
const KNOWN: [ReasoningTags; 3] = [
    ReasoningTags { open: "<think>", close: "</think>" },
    ReasoningTags { open: "[THINK]", close: "[/THINK]" },
    ReasoningTags { open: "<seed:think>", close: "</seed:think>" },
];

impl ReasoningTags {
    /// The tags that occur in a chat template, if any.
    pub fn of_template(source: &str) -> Option<ReasoningTags> {
        KNOWN.into_iter().find(|tags| source.contains(tags.open) || source.contains(tags.close))
    }

    /// Whether a prompt ends with the opening tag, so that the answer begins inside reasoning.
    pub fn opened_by(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
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

/// Separates reasoning from the rest of an answer.
pub(crate) struct ReasoningSplitter {
    tags: ReasoningTags,
    state: State,
}

enum State {
    /// Only white space so far, and perhaps the beginning of the opening tag.
    Before(String),
    /// Inside, before the first character of reasoning.
    Opened,
    Inside(Seeker),
    /// After the closing tag, before the first character of content.
    Closed,
    Said,
}

impl ReasoningSplitter {
    pub(crate) fn new(thought: &ReasoningFormat) -> ReasoningSplitter {
        let state = if thought.begun { State::Opened } else { State::Before(String::new()) };
        ReasoningSplitter { tags: thought.tags, state }
    }

    /// Processes a character; content is appended to `said`, reasoning to `out`.
    pub(crate) fn put(&mut self, letter: char, said: &mut String, out: &mut PartSink) {
        match &mut self.state {
            State::Before(held) => {
                held.push(letter);
                let start = held.trim_start();
                if start == self.tags.open {
                    self.state = State::Opened;
                } else if !self.tags.open.starts_with(start) {
                    said.push_str(held);
                    self.state = State::Said;
                }
            }
            State::Opened if letter.is_whitespace() => {}
            State::Opened => {
                self.state = State::Inside(Seeker::new(&[self.tags.close]));
                self.put(letter, said, out);
            }
            State::Inside(seeker) => {
                let mut thought = String::new();
                let found = seeker.put(letter, &mut thought);
                out.reasoning(&thought);
                if found.is_some() {
                    self.state = State::Closed;
                }
            }
            State::Closed if letter.is_whitespace() => {}
            State::Closed | State::Said => {
                said.push(letter);
                self.state = State::Said;
            }
        }
    }

    pub(crate) fn finish(&mut self, said: &mut String, out: &mut PartSink) {
        match &mut self.state {
            State::Before(held) => said.push_str(held),
            State::Inside(seeker) => {
                let mut thought = String::new();
                seeker.finish(true, &mut thought);
                out.reasoning(&thought);
            }
            State::Opened | State::Closed | State::Said => {}
        }
        self.state = State::Said;
    }
}
