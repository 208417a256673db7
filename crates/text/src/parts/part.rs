//! One piece of an answer.

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// What is said.
    Content(String),
    /// What is thought.
    Reasoning(String),
    /// A tool is called: the `index`-th call of the answer, from 0. Its arguments follow.
    Call {
        /// From 0, without gaps.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// Text to append.
        text: String,
    },
}
