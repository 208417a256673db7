//! What answers say, and why they end.

use serde::Deserialize;

/// What answers say.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Words drawn from the seed and the prompt: [`answer_words`](crate::answer_words).
    #[default]
    Words,
    /// This text.
    Text(String),
    /// The last text of the prompt.
    Echo,
    /// A call of a tool, when the request offers tools; words when not.
    Tool {
        /// The tool's name.
        name: String,
        /// Its arguments, in JSON.
        arguments: String,
    },
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model had finished.
    Stop,
    /// The limit of tokens.
    Length,
    /// A call of a tool.
    ToolCall,
    /// A content filter.
    Filtered,
}
