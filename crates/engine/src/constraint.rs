//! Constraints: what an answer must match.

use std::fmt;

use text::{Guidance, Guide};

/// A constraint on the answers of a request. Each of its sequences has a [`Constraint`] of its own.
pub trait Constrain: Send + Sync + fmt::Debug {
    /// The state of the constraint at the beginning of an answer.
    fn begin(&self) -> Box<dyn Constraint>;
}

/// Decides which tokens one sequence may choose. Must depend on nothing but the tokens it is told.
pub trait Constraint: Send {
    /// Computes the mask of tokens that may come next: once before each choice, while the model computes.
    ///
    /// # Errors
    /// Why the mask could not be computed; the request fails with it.
    fn prepare(&mut self) -> Result<(), String>;

    /// The mask: bit `id % 32` of word `id / 32` is set for a token that may come. None is every token.
    fn allowed(&self) -> Option<&[u32]>;

    /// Takes the token that was chosen, and its bytes. Returns whether nothing may follow: the answer is over.
    ///
    /// # Errors
    /// A token that was not allowed; the request fails with it.
    fn accept(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String>;

    /// Adds to `tokens` those that the constraint forces next, in order. They are proposed speculatively, so that wrong
    /// ones cost time and change nothing. Called after [`accept`](Constraint::accept) where speculation is on.
    fn forced_tokens(&mut self, _tokens: &mut Vec<u32>) {}
}

impl Constrain for Guidance {
    fn begin(&self) -> Box<dyn Constraint> {
        Box::new(self.guide())
    }
}

impl Constraint for Guide {
    fn prepare(&mut self) -> Result<(), String> {
        Guide::prepare(self)
    }

    fn allowed(&self) -> Option<&[u32]> {
        Guide::allowed(self)
    }

    fn accept(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String> {
        Guide::accept(self, id, bytes)
    }

    fn forced_tokens(&mut self, tokens: &mut Vec<u32>) {
        Guide::foresee(self, tokens);
    }
}
