//! The answer parser: splits a generated text into reasoning, content and tool calls.
//!
//! [`AnswerParser`] is a single pass over the characters of an answer. The result does not depend on how the text is
//! split into pieces. No text is lost except tags, white space around them, and text between calls. Text that only
//! looks like a tool call is content; a call that is cut off before its name is complete is dropped.

mod channels;
mod part;
mod seek;
mod sink;
mod thought;

pub(crate) use channels::Channels;
pub use part::AnswerPart;
pub(crate) use seek::Seeker;
pub(crate) use sink::PartSink;
pub use thought::{ReasoningFormat, ReasoningTags};

use std::sync::Arc;

use serde_json::Value;

use crate::tools::{self, ToolCallStyle};

/// Options of the answer parser.
#[derive(Debug, Clone, Default)]
pub struct AnswerParserOptions {
    /// The reasoning tags of the model; `None` if it does not reason.
    pub thought: Option<ReasoningFormat>,
    /// The tool-call syntax of the model; `None` if no tools are offered.
    pub style: Option<ToolCallStyle>,
    /// Names of the offered tools: a call without a mark counts only if it names one of them.
    pub tools: Vec<String>,
    /// Offered tools with the schemas of their arguments: where a style writes values without quotes, these say what is
    /// a text.
    pub schemas: Arc<[(String, Value)]>,
    /// Offered tools with the schemas of their arguments, if an answer that is nothing but a JSON object naming a tool
    /// is a call. Small models write calls this way, whatever their style.
    pub json_calls: Option<Arc<[(String, Value)]>>,
    /// Whether the answer must consist of calls, so that an incomplete one is not content.
    pub must_call: bool,
    /// Whether only the first call counts.
    pub one_call: bool,
    /// Whether reasoning is dropped.
    pub hide_thought: bool,
}

impl AnswerParserOptions {
    /// Whether all text is content, so that no parsing is needed.
    pub fn is_plain(&self) -> bool {
        self.thought.is_none() && self.style.is_none()
    }
}

/// The parser of one answer.
pub struct AnswerParser {
    thought: Option<thought::Splitter>,
    tools: Option<Box<dyn tools::Reader>>,
    out: PartSink,
}

impl AnswerParser {
    /// A parser with these options.
    pub fn new(reading: &AnswerParserOptions) -> AnswerParser {
        let mut tools = reading.style.map(|style| style.reader(&reading.tools, &reading.schemas));
        if let Some(known) = &reading.json_calls {
            tools = Some(Box::new(tools::Bare::new(known.clone(), tools)));
        }
        let AnswerParserOptions { one_call, hide_thought, must_call, .. } = *reading;
        AnswerParser {
            thought: reading.thought.as_ref().map(|thought| thought::Splitter::new(thought, reading.style)),
            tools,
            out: PartSink { one_call, hide_thought, hide_content: must_call, ..PartSink::default() },
        }
    }

    /// Parses more of the text; returns the parts that are certain now, in order.
    pub fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        for letter in text.chars() {
            self.put(letter);
        }
        std::mem::take(&mut self.out.parts)
    }

    /// Ends the answer; returns the text that was held back. If the answer was `cut` off (by the token limit), an
    /// incomplete call is dropped.
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

    /// The number of tool calls so far.
    pub fn calls(&self) -> usize {
        if self.out.one_call { self.out.calls.min(1) } else { self.out.calls }
    }

    fn put(&mut self, letter: char) {
        let AnswerParser { thought, tools, out } = self;
        let Some(thought) = thought else { return say(tools, letter, out) };
        // Text is held back only around the opening tag, and there it is short.
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
