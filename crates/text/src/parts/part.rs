//! The parts of a parsed answer.

/// A part of a parsed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// Text for the user.
    Content(String),
    /// Reasoning text.
    Reasoning(String),
    /// The beginning of a tool call; its arguments follow.
    Call {
        /// Index of the call in the answer, from 0 without gaps.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// Index of the call.
        index: usize,
        /// Text to append.
        text: String,
    },
}
