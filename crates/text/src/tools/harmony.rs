//! The frame of calls in gpt-oss's harmony format, whose answers are messages on channels (`parts::channels`): calls,
//! too, are read there, so that the reader here has nothing to do.

use super::reader::{CallForm, Frame, FramePart, Reader, Row};
use crate::parts::PartSink;

/// Begins a message after another; the first one of an answer is begun by the prompt.
const NEXT: &[FramePart] = &[FramePart::Mark("<|start|>"), FramePart::Text("assistant")];

pub(super) const HARMONY: Row = Row {
    marks: &["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"],
    frame: Frame {
        first: &[FramePart::Maybe(NEXT), FramePart::Mark("<|channel|>")],
        between: None,
        last: &[],
        form: CallForm::NameFirst {
            before: "commentary to=functions.",
            after: &[
                FramePart::Text(" "),
                FramePart::Mark("<|constrain|>"),
                FramePart::Text("json"),
                FramePart::Mark("<|message|>"),
            ],
            last: &[],
        },
    },
    reader: |_| Box::new(Passed),
};

/// All text is content.
struct Passed;

impl Reader for Passed {
    fn put(&mut self, letter: char, out: &mut PartSink) {
        out.content(letter.encode_utf8(&mut [0; 4]));
    }

    fn finish(&mut self, _cut: bool, _out: &mut PartSink) {}
}
