//! Control tokens in texts.

/// Whether names of control tokens in a text become those tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// They do: for text that a chat template wrote.
    Parse,
    /// They do not, and no control token comes out: for text that a user wrote.
    Plain,
}
