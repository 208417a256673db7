//! The frame of tool calls, and the trait of their readers.

use crate::parts::PartSink;

/// The frame of tool calls, for the grammar of required calls: `first call (between call)* last`, where a call is
/// `{"name": …, key: …}`.
pub(crate) struct Frame {
    pub(crate) first: &'static [FramePart],
    pub(crate) between: &'static [FramePart],
    pub(crate) last: &'static [FramePart],
    /// The key of the arguments: `arguments` or `parameters`.
    pub(crate) key: &'static str,
}

/// A part of a frame.
pub(crate) enum FramePart {
    /// A mark of the style, which may be a control token.
    Mark(&'static str),
    Text(&'static str),
}

/// A reader of the tool calls in one answer.
pub(crate) trait Reader: Send {
    fn put(&mut self, letter: char, out: &mut PartSink);
    /// Ends the answer. `cut`: whether it was cut off, so that a call that was not emitted yet is dropped.
    fn finish(&mut self, cut: bool, out: &mut PartSink);
}
