//! Calls as a JSON list between two marks, and as JSON objects one after the other.

use super::call_list::CallList;
use super::json::{Call, NameKey};
use super::marked::{Marked, Marks};
use super::reader::{CallForm, Frame, FramePart, Row};

const LIST_BETWEEN: Option<&[FramePart]> = Some(&[FramePart::Text(", ")]);

const PHI_OPENS: [&str; 2] = ["<|tool_call|>", "functools"];
const PHI_CLOSE: &str = "<|/tool_call|>";
const PHI_MARKS: Marks = Marks { opens: &PHI_OPENS, closes: &[], drops: &[PHI_CLOSE] };
/// `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`: Phi 4 mini, which writes `functools[…]` too; Granite 3
/// without the closing mark.
pub(super) const PHI: Row = Row {
    marks: &[PHI_OPENS[0], PHI_CLOSE],
    frame: Frame {
        first: &[FramePart::Mark(PHI_OPENS[0]), FramePart::Text("[")],
        between: LIST_BETWEEN,
        last: &[FramePart::Text("]"), FramePart::Mark(PHI_CLOSE)],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&PHI_MARKS, Box::new(|_| Box::new(CallList::new(NameKey::Name))))),
};
/// Granite 3: as Phi, without the closing mark.
pub(super) const GRANITE: Row = Row {
    frame: Frame {
        first: &[FramePart::Mark(PHI_OPENS[0]), FramePart::Text("[")],
        between: LIST_BETWEEN,
        last: &[FramePart::Text("]")],
        form: CallForm::Object("name", "arguments"),
    },
    ..PHI
};

const NEMOTRON_MARKS: Marks = Marks { opens: &["<TOOLCALL>"], closes: &["</TOOLCALL>"], drops: &[] };
/// `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`: Nemotron Nano 2.
pub(super) const NEMOTRON: Row = Row {
    marks: &["<TOOLCALL>", "</TOOLCALL>"],
    frame: Frame {
        first: &[FramePart::Mark("<TOOLCALL>"), FramePart::Text("[")],
        between: LIST_BETWEEN,
        last: &[FramePart::Text("]"), FramePart::Mark("</TOOLCALL>")],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&NEMOTRON_MARKS, Box::new(|_| Box::new(CallList::new(NameKey::Name))))),
};

const TOOL_CALLS_MARKS: Marks = Marks { opens: &["<tool_calls>"], closes: &["</tool_calls>"], drops: &[] };
/// `<tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>`: Apriel, Hunyuan A13B; MiniMax M1 writes objects on lines
/// of their own.
pub(super) const TOOL_CALLS: Row = Row {
    marks: &["<tool_calls>", "</tool_calls>"],
    frame: Frame {
        first: &[FramePart::Mark("<tool_calls>"), FramePart::Text("[")],
        between: LIST_BETWEEN,
        last: &[FramePart::Text("]"), FramePart::Mark("</tool_calls>")],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| {
        Box::new(Marked::new(&TOOL_CALLS_MARKS, Box::new(|_| Box::new(CallList::new(NameKey::Name)))))
    },
};

const COHERE_MARKS: Marks = Marks { opens: &["<|START_ACTION|>"], closes: &["<|END_ACTION|>"], drops: &[] };
/// `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}]<|END_ACTION|>`: Command R7B and later.
pub(super) const COHERE: Row = Row {
    marks: &["<|START_ACTION|>", "<|END_ACTION|>"],
    frame: Frame {
        first: &[FramePart::Mark("<|START_ACTION|>"), FramePart::Text("[\n    ")],
        between: Some(&[FramePart::Text(",\n    ")]),
        last: &[FramePart::Text("\n]"), FramePart::Mark("<|END_ACTION|>")],
        form: CallForm::Object("tool_name", "parameters"),
    },
    reader: |_| Box::new(Marked::new(&COHERE_MARKS, Box::new(|_| Box::new(CallList::new(NameKey::Name))))),
};

const APERTUS_MARKS: Marks =
    Marks { opens: &["<|tools_prefix|>"], closes: &["<|tools_suffix|>"], drops: &[] };
/// `<|tools_prefix|>[{"tool": {…}}]<|tools_suffix|>`: Apertus.
pub(super) const APERTUS: Row = Row {
    marks: &["<|tools_prefix|>", "<|tools_suffix|>"],
    frame: Frame {
        first: &[FramePart::Mark("<|tools_prefix|>"), FramePart::Text("[")],
        between: LIST_BETWEEN,
        last: &[FramePart::Text("]"), FramePart::Mark("<|tools_suffix|>")],
        form: CallForm::NameIsKey,
    },
    reader: |_| Box::new(Marked::new(&APERTUS_MARKS, Box::new(|_| Box::new(CallList::new(NameKey::Itself))))),
};

const GIGACHAT_OPENS: [&str; 2] = ["<|function_call|>", "function call<|role_sep|>"];
const GIGACHAT_MARKS: Marks = Marks { opens: &GIGACHAT_OPENS, closes: &[], drops: &["<|message_sep|>"] };
/// `<|function_call|>{"name": …, "arguments": {…}}`: GigaChat 3.1; GigaChat 3 has a message of its own for the call.
pub(super) const GIGACHAT: Row = Row {
    marks: &[GIGACHAT_OPENS[0], "<|role_sep|>", "<|message_sep|>"],
    frame: Frame {
        first: &[FramePart::Mark(GIGACHAT_OPENS[0])],
        between: None,
        last: &[],
        form: CallForm::Object("name", "arguments"),
    },
    reader: |_| Box::new(Marked::new(&GIGACHAT_MARKS, Box::new(|_| Box::new(Call::new(None))))),
};
