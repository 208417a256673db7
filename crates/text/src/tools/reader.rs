//! The row of a style, the frame of its calls, and the trait of its readers.

use std::sync::Arc;

use serde_json::Value;

use crate::parts::PartSink;

/// What is known of a style.
pub(crate) struct Row {
    /// Marks that are control tokens in some vocabularies.
    pub(crate) marks: &'static [&'static str],
    pub(crate) frame: Frame,
    pub(crate) reader: fn(&Offered<'_>) -> Box<dyn Reader>,
}

/// The tools that a request offers.
pub(crate) struct Offered<'a> {
    pub(crate) names: &'a [String],
    /// Names, and schemas of the arguments.
    pub(crate) schemas: &'a Arc<[(String, Value)]>,
}

/// The frame of tool calls, for the grammar of required calls: `first call (between call)* last`.
pub(crate) struct Frame {
    pub(crate) first: &'static [FramePart],
    /// `None` if an answer has one call only.
    pub(crate) between: Option<&'static [FramePart]>,
    pub(crate) last: &'static [FramePart],
    pub(crate) form: CallForm,
}

/// How a call is written in its frame.
pub(crate) enum CallForm {
    /// `{"name": …, key: …}`: the keys of the name and of the arguments.
    Object(&'static str, &'static str),
    /// `[{"tool": …}]`: an object whose key is the tool's name.
    NameIsKey,
    /// The name between two texts, then the arguments in JSON.
    NameFirst { before: &'static str, after: &'static [FramePart], last: &'static [FramePart] },
    /// Parameters in tags of their own.
    Tagged(&'static Tags),
}

/// A part of a frame.
pub(crate) enum FramePart {
    /// A mark of the style, which may be a control token.
    Mark(&'static str),
    Text(&'static str),
    /// Parts that may be left out.
    Maybe(&'static [FramePart]),
}

/// A reader of the tool calls in one answer.
pub(crate) trait Reader: Send {
    fn put(&mut self, letter: char, out: &mut PartSink);
    /// Ends the answer. `cut`: whether it was cut off, so that a call that was not emitted yet is dropped.
    fn finish(&mut self, cut: bool, out: &mut PartSink);
}

/// The progress of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The call is not complete.
    More,
    /// The object is closed.
    Done,
    /// The text is not a call, or not JSON.
    Broken,
}

/// The parser of what is between the marks: a call, or several.
pub(crate) trait Body: Send {
    fn put(&mut self, letter: char, out: &mut PartSink) -> Progress;
    /// The text that was read, if no call was emitted.
    fn unemitted(&mut self) -> Option<String>;
}

/// The tags of a style.
#[derive(Debug)]
pub(crate) struct Tags {
    /// Before the name; empty if the name follows the mark of the call.
    pub(crate) name_open: &'static str,
    /// After the name; empty if the name ends with its line, or at the next tag.
    pub(crate) name_close: &'static str,
    pub(crate) key_open: &'static str,
    pub(crate) key_close: &'static str,
    /// Before the value; empty if it follows the key.
    pub(crate) value_open: &'static str,
    pub(crate) value_close: &'static str,
    /// After the last parameter.
    pub(crate) end: &'static str,
    /// Whether a value is on lines of its own, so that a line break before and after is no part of it.
    pub(crate) on_lines: bool,
    /// What closes a value that begins with `<![CDATA[`; empty if there are none.
    pub(crate) cdata_close: &'static str,
}
