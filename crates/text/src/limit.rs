//! How far a text is tokenized.

/// Most tokens of a text, and what ends the work before.
pub struct Limit<'a> {
    /// Tokens; a text that has more is an error, never cut.
    pub most: usize,
    /// Asked between words: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// Why a text has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unencoded {
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

impl Unencoded {
    /// The same of a text that has so many tokens before.
    pub(crate) fn after(self, tokens: usize) -> Unencoded {
        match self {
            Unencoded::TooMany { at_least, worked } => {
                Unencoded::TooMany { at_least: at_least + tokens, worked: worked + tokens }
            }
            Unencoded::Stopped { worked } => Unencoded::Stopped { worked: worked + tokens },
            failed @ Unencoded::Failed(_) => failed,
        }
    }
}

impl Limit<'_> {
    /// No limit.
    pub const NONE: Limit<'static> = Limit { most: usize::MAX, stop: &|| false };

    /// Tokens that were worked out as a whole, if they are within the limit.
    ///
    /// # Errors
    /// [`Unencoded::TooMany`].
    pub fn check(&self, tokens: Vec<u32>) -> Result<Vec<u32>, Unencoded> {
        let count = tokens.len();
        if count > self.most {
            Err(Unencoded::TooMany { at_least: count, worked: count })
        } else {
            Ok(tokens)
        }
    }
}

impl std::fmt::Debug for Limit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at most {} tokens", self.most)
    }
}
