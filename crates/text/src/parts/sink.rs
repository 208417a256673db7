//! Collects the parts of an answer.

use super::part::AnswerPart;

/// A collector of parts, which merges consecutive pieces of the same part.
#[derive(Debug, Default)]
pub(crate) struct PartSink {
    pub(super) parts: Vec<AnswerPart>,
    pub(super) calls: usize,
    pub(super) one_call: bool,
    pub(super) hide_thought: bool,
    pub(super) hide_content: bool,
}

impl PartSink {
    pub(crate) fn content(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() || self.hide_content => {}
            Some(AnswerPart::Content(last)) => last.push_str(text),
            _ => self.parts.push(AnswerPart::Content(text.to_owned())),
        }
    }

    pub(crate) fn reasoning(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() || self.hide_thought => {}
            Some(AnswerPart::Reasoning(last)) => last.push_str(text),
            _ => self.parts.push(AnswerPart::Reasoning(text.to_owned())),
        }
    }

    pub(crate) fn call(&mut self, name: &str) {
        let index = self.calls;
        self.calls += 1;
        if index == 0 || !self.one_call {
            self.parts.push(AnswerPart::Call { index, name: name.to_owned() });
        }
    }

    /// Appends arguments of the last call.
    pub(crate) fn arguments(&mut self, text: &str) {
        let index = self.calls.saturating_sub(1);
        match self.parts.last_mut() {
            _ if text.is_empty() || (index > 0 && self.one_call) => {}
            Some(AnswerPart::Arguments { text: last, .. }) => last.push_str(text),
            _ => self.parts.push(AnswerPart::Arguments { index, text: text.to_owned() }),
        }
    }
}
