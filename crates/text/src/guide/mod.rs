//! Constrained decoding: the tokens that may come next under a grammar, and the end of too long reasoning.
//!
//! A tokenizer has one [`ConstraintCompiler`], which compiles an [`AnswerConstraint`] into a [`CompiledConstraint`];
//! each answer has its own [`ConstraintMatcher`]. Grammars are matched by llguidance. This module adds the reasoning
//! before an answer, to which the grammar does not apply, and which ends at a token budget.

mod brief;
mod calls;
mod constraint;
mod forced;
mod gbnf;
mod grammar;
mod schema;
mod thinking;

pub use calls::RequiredToolCalls;
pub use constraint::AnswerConstraint;
pub use grammar::ConstraintCompiler;
pub use schema::{JsonSpacing, Schema};

use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use brief::brief;
use thinking::{Owner, ReasoningState, Stage};

use crate::Tokenizer;

/// The compiled constraint and reasoning budget of one request.
pub struct CompiledConstraint {
    /// The initial state, which each answer copies.
    matcher: Option<Matcher>,
    warnings: Vec<String>,
    thinking: Option<ReasoningState>,
    ends: Vec<u32>,
    vocab: usize,
    tokenizer: Arc<Tokenizer>,
}

/// The constraint state of one answer.
pub struct ConstraintMatcher {
    matcher: Option<Matcher>,
    thinking: Option<ReasoningState>,
    ends: Vec<u32>,
    /// One bit for each token that may come next, `[vocab]`.
    mask: SimpleVob,
    /// Whether all tokens are allowed, so that `mask` is not used.
    free: bool,
    /// The tokens of an incomplete opening tag that the matcher took as the answer's.
    taken: usize,
    /// Whether the matcher refused one of them, so that only the rest of the tag can follow.
    refused: bool,
    tokenizer: Arc<Tokenizer>,
}

impl CompiledConstraint {
    /// Warnings about parts of the constraint that are not enforced, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A matcher for a new answer.
    pub fn matcher(&self) -> ConstraintMatcher {
        ConstraintMatcher {
            // A deep copy shares no lock with other answers.
            matcher: self.matcher.as_ref().map(Matcher::deep_clone),
            thinking: self.thinking.clone(),
            ends: self.ends.clone(),
            mask: SimpleVob::alloc(self.vocab),
            free: true,
            taken: 0,
            refused: false,
            tokenizer: self.tokenizer.clone(),
        }
    }
}

impl ConstraintMatcher {
    /// Computes the tokens that may come next. Call this once before each token.
    ///
    /// # Errors
    /// The library's message: a limit was reached, or no token can continue the answer.
    pub fn prepare(&mut self) -> Result<(), String> {
        let ConstraintMatcher { matcher, thinking, ends, mask, free, refused, .. } = self;
        *free = false;
        match thinking.as_ref().map_or(Stage::Past, ReasoningState::stage) {
            Stage::Forced(token) => {
                mask.set_all(false);
                mask.allow_token(token);
            }
            Stage::Inside => {
                mask.set_all(true);
                ends.iter().for_each(|end| mask.disallow_token(*end));
                // Without a grammar the answer may end here too.
                *free = matcher.is_none();
            }
            Stage::Before(Some(token)) if *refused => {
                mask.set_all(false);
                mask.allow_token(token);
            }
            Stage::Before(also) | Stage::Gap(also) => match matcher {
                Some(matcher) => {
                    *mask = masked(matcher)?;
                    also.into_iter().for_each(|token| mask.allow_token(token));
                }
                None => *free = true,
            },
            Stage::Past => match matcher {
                Some(matcher) => *mask = masked(matcher)?,
                None => *free = true,
            },
        }
        Ok(())
    }

    /// The mask that [`prepare`](ConstraintMatcher::prepare) computed: bit `id % 32` of word `id / 32` is set if the
    /// token is allowed. `None` allows all tokens.
    pub fn allowed(&self) -> Option<&[u32]> {
        (!self.free).then(|| self.mask.as_slice())
    }

    /// Advances by the chosen token, whose text is `bytes`. Returns whether the answer is complete, so that only an end
    /// token could follow.
    ///
    /// # Errors
    /// A token that was not allowed.
    pub fn accept(&mut self, token: u32, bytes: &[u8]) -> Result<bool, String> {
        if self.ends.contains(&token) {
            return Ok(true);
        }
        let guided = self.matcher.is_some();
        let owner = self.thinking.as_mut().map_or(Owner::Answer, |t| t.accept(token, bytes, guided));
        let Some(matcher) = &mut self.matcher else { return Ok(false) };
        let brief_of = |error: &dyn fmt::Display| brief(&error.to_string());
        match owner {
            Owner::Reasoning => return Ok(false),
            Owner::Either => {
                self.refused |= matcher.validate_tokens(&[token]).map_err(|error| brief_of(&error))? == 0;
                if !self.refused {
                    matcher.consume_token(token).map_err(|error| brief_of(&error))?;
                    self.taken += 1;
                }
                return Ok(false);
            }
            Owner::Opened => {
                self.refused = false;
                let taken = std::mem::take(&mut self.taken);
                if taken > 0 {
                    matcher.rollback(taken).map_err(|error| brief_of(&error))?;
                }
                return Ok(false);
            }
            Owner::Answer => {}
        }
        matcher.consume_token(token).map_err(|error| brief(&error.to_string()))?;
        Ok(matcher.is_stopped())
    }

    /// Appends the tokens of the text that the grammar forces next, in the tokenizer's canonical tokenization (the mask
    /// also allows others). The last token may turn out longer than the forced text. Appends nothing if there is a
    /// choice.
    pub fn forced_tokens(&mut self, tokens: &mut Vec<u32>) {
        let ConstraintMatcher { matcher, thinking, tokenizer, .. } = self;
        if let Some(matcher) = matcher
            && thinking.as_ref().is_none_or(|thinking| thinking.stage() == Stage::Past)
        {
            forced::tokens(&matcher.compute_ff_bytes(), tokenizer, tokens);
        }
    }
}

fn masked(matcher: &mut Matcher) -> Result<SimpleVob, String> {
    matcher.compute_mask_or_eos().map_err(|error| brief(&error.to_string()))
}

impl fmt::Debug for CompiledConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledConstraint")
            .field("grammar", &self.matcher.is_some())
            .field("thinking", &self.thinking)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
