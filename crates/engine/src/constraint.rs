//! Answers that must have a form.

use std::fmt;

use text::{Guidance, Guide};

/// What the answers of a request must be like. Each of its sequences has a [`Constraint`] of its own.
pub trait Constrain: Send + Sync + fmt::Debug {
    /// For a new answer.
    fn begin(&self) -> Box<dyn Constraint>;
}

/// Decides which tokens one sequence may choose. Must depend on nothing but the tokens it is told.
pub trait Constraint: Send {
    /// Works out which tokens may come next: once before each choice, beside the model's own computing.
    ///
    /// # Errors
    /// Why that could not be worked out; the request fails with it.
    fn prepare(&mut self) -> Result<(), String>;

    /// What was worked out: bit `id % 32` of word `id / 32` is set for a token that may come. None is every token.
    fn allowed(&self) -> Option<&[u32]>;

    /// Takes the token that was chosen, and what it says. Returns whether nothing may follow: the answer is over.
    ///
    /// # Errors
    /// A token that was not allowed; the request fails with it.
    fn accept(&mut self, id: u32, bytes: &[u8]) -> Result<bool, String>;

    /// Adds to `tokens` those that are as good as certain to come next, in order, as the form leaves no choice of what to say. They
    /// are proposed, so that wrong ones cost time and change nothing. Called after [`accept`](Constraint::accept) where guesses are
    /// made at all.
    fn foresee(&mut self, _tokens: &mut Vec<u32>) {}
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

    fn foresee(&mut self, tokens: &mut Vec<u32>) {
        Guide::foresee(self, tokens);
    }
}
