//! An answer's text as the parts that a client sees: what was thought, what was said, which tools were called.
//!
//! [`AnswerParser`] is one pass over the characters of an answer, in whatever pieces they come: how the text is cut
//! never changes what comes out, and no text is lost but the tags, the space around them and, between calls, what
//! belongs to no call. A call that turns out not to be one is content; one that was cut off before its name was known
//! is left out.

mod part;
mod seek;
mod sink;
mod thought;

pub use part::AnswerPart;
pub(crate) use seek::Seeker;
pub(crate) use sink::PartSink;
pub use thought::{ReasoningFormat, ReasoningTags};

use std::sync::Arc;

use serde_json::Value;

use crate::tools::{self, ToolCallStyle};

/// How an answer is to be read.
#[derive(Debug, Clone, Default)]
pub struct AnswerParserOptions {
    /// How the model marks its thoughts; none is that all is said aloud.
    pub thought: Option<ReasoningFormat>,
    /// How the model calls tools; none is that it has none.
    pub style: Option<ToolCallStyle>,
    /// Names of the tools there are: a call without any mark counts only if it names one.
    pub tools: Vec<String>,
    /// Tools and the schemas of their arguments, if an answer that is wholly a JSON object which names one is a call of
    /// it: how small models write calls that were not trained on a style.
    pub json_calls: Option<Arc<[(String, Value)]>>,
    /// There is nothing but calls: what is cut off of one is no content.
    pub must_call: bool,
    /// Only the first call counts.
    pub one_call: bool,
    /// Thoughts are left out.
    pub hide_thought: bool,
}

impl AnswerParserOptions {
    /// Whether all text is content: nothing to look for.
    pub fn is_plain(&self) -> bool {
        self.thought.is_none() && self.style.is_none()
    }
}

/// Reads one answer.
pub struct AnswerParser {
    thought: Option<thought::ReasoningSplitter>,
    tools: Option<Box<dyn tools::Reader>>,
    out: PartSink,
}

impl AnswerParser {
    /// For an answer that is read this way.
    pub fn new(reading: &AnswerParserOptions) -> AnswerParser {
        let mut tools = reading.style.map(|style| style.reader(&reading.tools));
        if let Some(known) = &reading.json_calls {
            tools = Some(Box::new(tools::Bare::new(known.clone(), tools)));
        }
        let AnswerParserOptions { one_call, hide_thought, must_call, .. } = *reading;
        AnswerParser {
            thought: reading.thought.as_ref().map(thought::ReasoningSplitter::new),
            tools,
            out: PartSink { one_call, hide_thought, hide_content: must_call, ..PartSink::default() },
        }
    }

    /// Takes more of the text; returns the parts that are certain now, in order.
    pub fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        for letter in text.chars() {
            self.put(letter);
        }
        std::mem::take(&mut self.out.parts)
    }

    /// The end of the answer: what was held back. Where it was `cut` off rather than ended, the beginning of a call is
    /// left out.
    pub fn finish(&mut self, cut: bool) -> Vec<AnswerPart> {
        let mut said = String::new();
        if let Some(thought) = &mut self.thought {
            thought.finish(&mut said, &mut self.out);
        }
        said.chars().for_each(|letter| say(&mut self.tools, letter, &mut self.out));
        if let Some(tools) = &mut self.tools {
            tools.finish(cut, &mut self.out);
        }
        std::mem::take(&mut self.out.parts)
    }

    /// How many tools were called so far.
    pub fn calls(&self) -> usize {
        if self.out.one_call { self.out.calls.min(1) } else { self.out.calls }
    }

    fn put(&mut self, letter: char) {
        let AnswerParser { thought, tools, out } = self;
        let Some(thought) = thought else { return say(tools, letter, out) };
        // All is certain after the thought, and short before it.
        let mut said = String::new();
        thought.put(letter, &mut said, out);
        said.chars().for_each(|letter| say(tools, letter, out));
    }
}

fn say(tools: &mut Option<Box<dyn tools::Reader>>, letter: char, out: &mut PartSink) {
    match tools {
        Some(tools) => tools.put(letter, out),
        None => out.content(letter.encode_utf8(&mut [0; 4])),
    }
}

#[cfg(test)]
mod tests;
