//! `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`, once a call: Nous Hermes 2 Pro, Qwen 2.5 and 3, Granite 4,
//! EXAONE 4, SmolLM3, ERNIE 4.5.

use super::json::Call;
use super::marked::{Marked, Marks};
use super::reader::{CallForm, Frame, FramePart, Row};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const MARKS: Marks = Marks { opens: &[OPEN], closes: &[CLOSE], drops: &[] };

pub(super) const HERMES: Row = Row {
    marks: &[OPEN, CLOSE],
    frame: Frame {
        first: &[FramePart::Mark(OPEN), FramePart::Text("\n")],
        between: Some(&[
            FramePart::Text("\n"),
            FramePart::Mark(CLOSE),
            FramePart::Text("\n"),
            FramePart::Mark(OPEN),
            FramePart::Text("\n"),
        ]),
        last: &[FramePart::Text("\n"), FramePart::Mark(CLOSE)],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&MARKS, Box::new(|_| Box::new(Call::new(None))))),
};
