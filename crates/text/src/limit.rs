//! How far a text is tokenized.

/// Most tokens of a text, and what ends the work before.
pub struct TokenLimit<'a> {
    /// Tokens; a text that has more is an error, never cut.
    pub max_tokens: usize,
    /// Asked between words: whether to stop.
    pub should_stop: &'a dyn Fn() -> bool,
}

/// Why a text has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It has more than the limit.
    #[error("the text has at least {at_least} tokens")]
    TooMany {
        /// A count that it certainly has.
        at_least: usize,
        /// Tokens that were worked out before that was known.
        worked: usize,
    },
    /// The work was stopped.
    #[error("stopped after {worked} tokens")]
    Stopped {
        /// Tokens that were worked out.
        worked: usize,
    },
    /// The tokenizer refuses the text, in words.
    #[error("{0}")]
    Failed(String),
}

impl EncodeError {
    /// The same of a text that has so many tokens before.
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

    /// Tokens that were worked out as a whole, if they are within the limit.
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
