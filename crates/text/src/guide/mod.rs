//! Which tokens may come next: for answers that must have a form, and thoughts that must end.
//!
//! A [`ConstraintCompiler`] is made once for a tokenizer; it compiles a [`AnswerConstraint`] into a
//! [`CompiledConstraint`], of which each answer gets a [`ConstraintMatcher`] of its own. Grammars are llguidance's.
//! What is here beside it is the thought before the answer, to which no grammar applies: it is let pass, and cut off
//! when it is too long.

mod brief;
mod constraint;
mod forced;
mod gbnf;
mod grammar;
mod schema;
mod thinking;

pub use constraint::{AnswerConstraint, RequiredToolCalls};
pub use grammar::ConstraintCompiler;
pub use schema::{JsonSpacing, Schema};

use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use brief::brief;
use thinking::{ReasoningState, Stage};

use crate::Tokenizer;

/// What the answers to one request must be like.
pub struct CompiledConstraint {
    /// Never advanced: each answer has a copy.
    matcher: Option<Matcher>,
    warnings: Vec<String>,
    thinking: Option<ReasoningState>,
    ends: Vec<u32>,
    vocab: usize,
    tokenizer: Arc<Tokenizer>,
}

/// Leads one answer.
pub struct ConstraintMatcher {
    matcher: Option<Matcher>,
    thinking: Option<ReasoningState>,
    ends: Vec<u32>,
    /// `[vocab]`: a bit a token that may come next.
    mask: SimpleVob,
    /// `mask` says nothing: all tokens may come.
    free: bool,
    tokenizer: Arc<Tokenizer>,
}

impl CompiledConstraint {
    /// What of the form is not held to, as sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Leads a new answer.
    pub fn matcher(&self) -> ConstraintMatcher {
        ConstraintMatcher {
            // The copy shares nothing: two answers never wait for each other.
            matcher: self.matcher.as_ref().map(Matcher::deep_clone),
            thinking: self.thinking.clone(),
            ends: self.ends.clone(),
            mask: SimpleVob::alloc(self.vocab),
            free: true,
            tokenizer: self.tokenizer.clone(),
        }
    }
}

impl ConstraintMatcher {
    /// Works out which tokens may come next: once before each token.
    ///
    /// # Errors
    /// What the grammar library says: a limit that is reached, or a state from which no token leads on.
    pub fn prepare(&mut self) -> Result<(), String> {
        let ConstraintMatcher { matcher, thinking, ends, mask, free, .. } = self;
        *free = false;
        match thinking.as_ref().map_or(Stage::Past, ReasoningState::stage) {
            Stage::Forced(token) => {
                mask.set_all(false);
                mask.allow_token(token);
            }
            Stage::Inside => {
                mask.set_all(true);
                ends.iter().for_each(|end| mask.disallow_token(*end));
                // Without a grammar the answer may end anywhere.
                *free = matcher.is_none();
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

    /// The tokens that may come next, as [`prepare`](ConstraintMatcher::prepare) found them: bit `id % 32` of word `id
    /// / 32`. None is all of them.
    pub fn allowed(&self) -> Option<&[u32]> {
        (!self.free).then(|| self.mask.as_slice())
    }

    /// Takes the token that came; `bytes` is what it says. Returns whether the answer is complete: nothing but its end
    /// could follow.
    ///
    /// # Errors
    /// A token that was not allowed.
    pub fn accept(&mut self, token: u32, bytes: &[u8]) -> Result<bool, String> {
        if self.ends.contains(&token) {
            return Ok(true);
        }
        if let Some(thinking) = &mut self.thinking
            && !thinking.accept(token, bytes, self.matcher.is_some())
        {
            return Ok(false);
        }
        let Some(matcher) = &mut self.matcher else { return Ok(false) };
        matcher.consume_token(token).map_err(|error| brief(&error.to_string()))?;
        Ok(matcher.is_stopped())
    }

    /// Adds the tokens of what the answer must say next, whatever the model: written as this vocabulary writes that
    /// text, which is how models write it, though the mask allows other ways. The last token may turn out longer than
    /// what is certain. Nothing is added where there is a choice.
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
