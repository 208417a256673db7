//! Which tokens a request takes out, whatever their logits.

use super::wide::hold_to;
use crate::Params;

/// What becomes of the tokens that end an answer.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Never chosen: the end tokens of a request that ignores them.
    pub(crate) never: Vec<u32>,
    /// Not chosen among the first `min_tokens`.
    pub(crate) late: Vec<u32>,
    pub(crate) min_tokens: usize,
}

/// A request's rules, ready to be applied.
pub(super) struct Rules {
    ends: Ends,
    /// Bit `id % 32` of word `id / 32`; tokens beyond are not allowed.
    allowed: Option<Vec<u32>>,
    bad_words: Vec<Vec<u32>>,
    prompt_len: usize,
}

impl Rules {
    pub(super) fn new(params: &mut Params, ends: Ends, prompt_len: usize) -> Rules {
        let allowed = params.allowed_ids.take().map(|ids| {
            let words = ids.iter().max().map_or(0, |most| *most as usize / 32 + 1);
            let mut allowed = vec![0u32; words];
            ids.iter().for_each(|id| allowed[*id as usize / 32] |= 1 << (id % 32));
            allowed
        });
        Rules { ends, allowed, bad_words: std::mem::take(&mut params.bad_words), prompt_len }
    }

    /// Takes away what must not follow `tokens`. `formed`: a form has taken its share, so that an end may be all that is
    /// left; it comes early then.
    pub(super) fn hold(&self, logits: &mut [f32], tokens: &[u32], formed: bool) {
        if let Some(allowed) = &self.allowed {
            hold_to(allowed, logits);
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
