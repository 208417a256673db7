//! Whether control tokens are parsed in text.

/// Whether names of control tokens in a text are parsed (`parse_special` in llama.cpp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Names become control tokens: for text of chat templates.
    Parse,
    /// Names are plain text, and no control token is produced: for text of users.
    Plain,
}
