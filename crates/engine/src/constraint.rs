//! Constraints: what an answer must match.

use std::fmt;

use text::{CompiledConstraint, ConstraintMatcher};

/// A constraint on the answers of a request. Each of its sequences has a [`Constraint`] of its own.
pub trait Constrain: Send + Sync + fmt::Debug {
    /// The state of the constraint at the beginning of an answer.
    fn begin(&self) -> Box<dyn Constraint>;
}

/// The constraint on one sequence's tokens. Must depend only on the tokens passed to it.
pub trait Constraint: Send {
    /// Computes the mask of tokens that may come next: once before each choice, while the model computes.
    ///
    /// # Errors
    /// Why the mask could not be computed; the request fails with it.
    fn prepare(&mut self) -> Result<(), String>;

    /// The mask: bit `id % 32` of word `id / 32` is set for a token that may come. None is every token.
    fn allowed(&self) -> Option<&[u32]>;

    /// Advances the constraint by the chosen token, given with its bytes. Returns whether the answer is complete.
    ///
    /// # Errors
    /// A token that was not allowed; the request fails with it.
    fn accept(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String>;

    /// Adds to `tokens` those that the constraint forces next, in order. They are proposals of speculative decoding:
    /// wrong ones cost time but change no text. Called after [`accept`](Constraint::accept) if speculation is on.
    fn forced_tokens(&mut self, _tokens: &mut Vec<u32>) {}
}

impl Constrain for CompiledConstraint {
    fn begin(&self) -> Box<dyn Constraint> {
        Box::new(self.matcher())
    }
}

impl Constraint for ConstraintMatcher {
    fn prepare(&mut self) -> Result<(), String> {
        ConstraintMatcher::prepare(self)
    }

    fn allowed(&self) -> Option<&[u32]> {
        ConstraintMatcher::allowed(self)
    }

    fn accept(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String> {
        ConstraintMatcher::accept(self, id, bytes)
    }

    fn forced_tokens(&mut self, tokens: &mut Vec<u32>) {
        ConstraintMatcher::forced_tokens(self, tokens);
    }
}
