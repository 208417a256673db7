//! How calls are framed, and who reads them.

use crate::parts::PartSink;

/// How calls are framed, for the grammar of answers that must be calls: `first call (between call)* last`, where a call
/// is `{"name": …, key: …}`.
pub(crate) struct Frame {
    pub(crate) first: &'static [FramePart],
    pub(crate) between: &'static [FramePart],
    pub(crate) last: &'static [FramePart],
    /// `arguments`, or what the style calls them.
    pub(crate) key: &'static str,
}

/// A bit of a frame.
pub(crate) enum FramePart {
    /// One of the style's marks: perhaps a control token.
    Mark(&'static str),
    Text(&'static str),
}

/// Reads the calls of one answer.
pub(crate) trait Reader: Send {
    fn put(&mut self, letter: char, out: &mut PartSink);
    /// The end. `cut` is that the answer did not end by itself: a call that was begun by its mark and not told is left
    /// out.
    fn finish(&mut self, cut: bool, out: &mut PartSink);
}
