//! How many log-probabilities of prompts one request may ask for.

use wire::{Fault, limits};

use crate::plan::Plan;

/// Refuses what would make an answer without a bound: each entry is some sixty bytes of JSON.
pub(crate) fn check(plan: &Plan) -> Result<(), Fault> {
    let Some(count) = plan.template.prompt_logprobs else { return Ok(()) };
    let tokens: usize = plan.prompts.iter().map(Vec::len).sum();
    let entries = tokens.saturating_mul(plan.best).saturating_mul(1 + count);
    if entries <= limits::PROMPT_LOGPROBS {
        return Ok(());
    }
    let name = if plan.prompt_logprobs.is_some() { "prompt_logprobs" } else { "logprobs" };
    let message = format!(
        "{name} is {count} and the prompts have {tokens} tokens, for {} answers each: {entries} log-probabilities \
         of prompts; at most {} are allowed",
        plan.best,
        limits::PROMPT_LOGPROBS
    );
    Err(Fault::field(name, message))
}
