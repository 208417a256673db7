//! Tokens that a request excludes, whatever their logits.

use super::vocab_ops::apply_mask;
use crate::Params;

/// How a request treats the tokens that end an answer.
#[derive(Debug, Default)]
pub(crate) struct EndTokens {
    /// Tokens that are never chosen: the end tokens of a request with `ignore_eos`.
    pub(crate) never: Vec<u32>,
    /// Not chosen among the first `min_tokens`.
    pub(crate) late: Vec<u32>,
    pub(crate) min_tokens: usize,
}

/// The tokens that a request excludes.
pub(super) struct TokenRules {
    ends: EndTokens,
    /// Bit `id % 32` of word `id / 32`; tokens beyond are not allowed.
    allowed: Option<Vec<u32>>,
    bad_words: Vec<Vec<u32>>,
    prompt_len: usize,
}

impl TokenRules {
    pub(super) fn new(params: &mut Params, ends: EndTokens, prompt_len: usize) -> TokenRules {
        let allowed = params.allowed_ids.take().map(|ids| {
            let words = ids.iter().max().map_or(0, |most| *most as usize / 32 + 1);
            let mut allowed = vec![0u32; words];
            ids.iter().for_each(|id| allowed[*id as usize / 32] |= 1 << (id % 32));
            allowed
        });
        TokenRules { ends, allowed, bad_words: std::mem::take(&mut params.bad_words), prompt_len }
    }

    /// Masks what must not follow `tokens`. With `formed` a constraint has been applied, so that an end token may be
    /// all that is left; it is then allowed before `min_tokens`.
    pub(super) fn apply_mask(&self, logits: &mut [f32], tokens: &[u32], formed: bool) {
        if let Some(allowed) = &self.allowed {
            apply_mask(allowed, logits);
        }
        let answer = &tokens[self.prompt_len.min(tokens.len())..];
        for id in &self.ends.never {
            ban(*id, logits);
        }
        for word in &self.bad_words {
            if let Some((last, before)) = word.split_last()
                && answer.ends_with(before)
            {
                ban(*last, logits);
            }
        }
        if answer.len() < self.ends.min_tokens {
            let late = &self.ends.late;
            let gone = |(id, logit): (u32, &f32)| *logit == f32::NEG_INFINITY || late.contains(&id);
            if !(formed && (0..).zip(logits.iter()).all(gone)) {
                late.iter().for_each(|id| ban(*id, logits));
            }
        }
    }
}

fn ban(id: u32, logits: &mut [f32]) {
    if let Some(logit) = logits.get_mut(id as usize) {
        *logit = f32::NEG_INFINITY;
    }
}
