//! The limit of tokenization: a number of tokens, and a stop signal.

/// The most tokens of a text, and a callback that stops the tokenization.
pub struct TokenLimit<'a> {
    /// The most tokens; a text with more is an error, it is never truncated.
    pub max_tokens: usize,
    /// Called between words; true stops the tokenization with [`EncodeError::Stopped`].
    pub should_stop: &'a dyn Fn() -> bool,
}

/// Why a text could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The text has more tokens than the limit.
    #[error("the text has at least {at_least} tokens")]
    TooMany {
        /// A lower bound of the text's tokens.
        at_least: usize,
        /// Tokens that were computed before the limit was exceeded.
        worked: usize,
    },
    /// [`TokenLimit::should_stop`] returned true.
    #[error("stopped after {worked} tokens")]
    Stopped {
        /// Tokens that were computed before.
        worked: usize,
    },
    /// The tokenizer failed, with its message.
    #[error("{0}")]
    Failed(String),
}

impl EncodeError {
    /// The error for the whole text, given `tokens` tokens before the part that failed.
    pub(crate) fn after(self, tokens: usize) -> EncodeError {
        match self {
            EncodeError::TooMany { at_least, worked } => {
                EncodeError::TooMany { at_least: at_least + tokens, worked: worked + tokens }
            }
            EncodeError::Stopped { worked } => EncodeError::Stopped { worked: worked + tokens },
            failed @ EncodeError::Failed(_) => failed,
        }
    }
}

impl TokenLimit<'_> {
    /// No limit.
    pub const NONE: TokenLimit<'static> = TokenLimit { max_tokens: usize::MAX, should_stop: &|| false };

    /// Returns `tokens` if they are within the limit.
    ///
    /// # Errors
    /// [`EncodeError::TooMany`].
    pub fn check(&self, tokens: Vec<u32>) -> Result<Vec<u32>, EncodeError> {
        let count = tokens.len();
        if count > self.max_tokens {
            Err(EncodeError::TooMany { at_least: count, worked: count })
        } else {
            Ok(tokens)
        }
    }
}

impl std::fmt::Debug for TokenLimit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at most {} tokens", self.max_tokens)
    }
}
