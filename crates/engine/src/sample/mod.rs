//! The sampler: from logits to a token.
//!
//! The order is llama.cpp's: what a constraint and the request's rules allow, logit bias, then penalties, DRY,
//! top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature, draw; or, after DRY, temperature and mirostat. Greedy
//! (temperature 0) takes the best after DRY: the filters would keep it anyway, and XTC, which would not, is left out so
//! that temperature 0 stays repeatable. Log-probabilities are of the raw logits.
//!
//! One [`SamplerScratch`] serves all requests of an engine; nothing is allocated for a token unless log-probabilities
//! are requested.

mod constraint_state;
mod draw;
mod dry;
mod filter;
mod rng;
mod rules;
mod vocab_ops;

pub(crate) use constraint_state::{ConstraintState, MaskWorker};
use filter::Candidate;
pub(crate) use rng::Rng;
pub(crate) use rules::EndTokens;
use rules::TokenRules;

use crate::{Error, Params, TokenLogprobs, Vocabulary};

/// Buffers of the sampler, sized once.
pub(crate) struct SamplerScratch {
    /// `[vocab]`: the logits, as the request's options change them; minus infinity is banned.
    logits: Vec<f32>,
    /// One or two numbers of each block of logits: its maximum, or its sum of weights.
    blocks: Vec<f32>,
    candidates: Vec<Candidate>,
    /// `[vocab]`: how often a token was seen lately; zero between picks.
    seen: Vec<u32>,
    /// `[vocab]`: DRY's penalty of a token; zero between picks.
    repeats: Vec<f32>,
    punished: Vec<u32>,
    suffixes: Vec<u32>,
    /// Computes the masks of constrained sequences.
    pub(crate) mask_worker: MaskWorker,
}

impl SamplerScratch {
    pub(crate) fn new(vocab: usize, context: usize) -> SamplerScratch {
        SamplerScratch {
            logits: Vec::with_capacity(vocab),
            blocks: Vec::with_capacity(2 * vocab.div_ceil(vocab_ops::BLOCK)),
            candidates: Vec::with_capacity(vocab),
            seen: vec![0; vocab],
            repeats: vec![0.0; vocab],
            punished: Vec::with_capacity(context.min(vocab)),
            suffixes: Vec::with_capacity(context),
            mask_worker: MaskWorker::default(),
        }
    }
}

/// Filters of candidates, in the order in which they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Filter {
    TopNSigma,
    TopK,
    Typical,
    TopP,
    MinP,
    Xtc,
    /// A temperature that follows the entropy.
    Entropy,
}

impl Filter {
    const ALL: [Filter; 7] = [
        Filter::TopNSigma,
        Filter::TopK,
        Filter::Typical,
        Filter::TopP,
        Filter::MinP,
        Filter::Xtc,
        Filter::Entropy,
    ];
}

/// The sampler of one request.
pub(crate) struct Sampler {
    params: Params,
    rules: TokenRules,
    cut: Option<draw::MirostatState>,
    rng: Rng,
    breaks: dry::SequenceBreaks,
}

impl Sampler {
    /// A sampler with checked `params`. Penalties apply to the tokens of `prompt` too.
    pub(crate) fn new(
        mut params: Params,
        seed: u64,
        ends: EndTokens,
        vocabulary: &dyn Vocabulary,
        prompt: &[u32],
    ) -> Sampler {
        let mut sampler = Sampler {
            rules: TokenRules::new(&mut params, ends, prompt.len()),
            cut: params.mirostat.map(draw::MirostatState::new),
            rng: Rng::new(seed),
            breaks: dry::SequenceBreaks::default(),
            params,
        };
        for id in prompt {
            sampler.accept(*id, vocabulary);
        }
        sampler
    }

    /// Records a token that is now part of the text.
    pub(crate) fn accept(&mut self, id: u32, vocabulary: &dyn Vocabulary) {
        if self.params.dry.multiplier > 0.0 {
            self.breaks.push(&self.params.dry, &vocabulary.bytes(id));
        }
    }

    /// Draws the random numbers that the choice of a known token took. (Mirostat's state cannot be brought along so.)
    pub(crate) fn skip(&mut self) {
        if self.params.temperature == 0.0 {
            return;
        }
        let draws = 1 + usize::from(self.cut.is_none() && self.is_enabled(Filter::Xtc));
        (0..draws).for_each(|_| {
            self.rng.next();
        });
    }

    /// Chooses the token after `tokens` from the logits of the last of them.
    pub(crate) fn pick(
        &mut self,
        logits: &[f32],
        tokens: &[u32],
        constraint: Option<&mut ConstraintState>,
        vocabulary: &dyn Vocabulary,
        scratch: &mut SamplerScratch,
    ) -> Result<u32, Error> {
        check(logits, tokens.len() - 1)?;
        scratch.logits.clear();
        scratch.logits.extend_from_slice(logits);
        let formed = constraint.map_or(Ok(false), |constraint| constraint.apply_mask(&mut scratch.logits))?;
        self.bias(&mut scratch.logits);
        self.rules.apply_mask(&mut scratch.logits, tokens, formed);
        self.penalise(tokens, scratch);
        self.penalise_repeats(tokens, vocabulary, scratch);
        if self.params.temperature == 0.0 {
            return vocab_ops::best(&scratch.logits).ok_or(Error::NothingLeft);
        }
        let SamplerScratch { logits, blocks, candidates, .. } = scratch;
        let Params { temperature, top_k, top_p, min_p, .. } = self.params;
        if let Some(cut) = &mut self.cut {
            vocab_ops::all(logits, candidates);
            return cut.draw(candidates, temperature, logits.len(), &mut self.rng).ok_or(Error::NothingLeft);
        }
        // A vocabulary is long: where possible, only the tokens that pass the first filter become candidates.
        let first = Filter::ALL.into_iter().find(|filter| self.is_enabled(*filter));
        let next = match first {
            None => {
                return vocab_ops::draw(logits, temperature, self.rng.unit(), blocks)
                    .ok_or(Error::NothingLeft);
            }
            Some(Filter::TopK) => {
                vocab_ops::likeliest(logits, top_k, blocks, candidates);
                Filter::Typical
            }
            Some(Filter::TopP) => {
                vocab_ops::nucleus(logits, top_p, blocks, candidates);
                Filter::MinP
            }
            Some(Filter::MinP) => {
                vocab_ops::at_least(logits, min_p, candidates);
                Filter::Xtc
            }
            Some(_) => {
                vocab_ops::all(logits, candidates);
                Filter::TopNSigma
            }
        };
        self.filter(candidates, next);
        let temperature = draw::temperature(candidates, temperature, self.params.dynatemp);
        let drawn = draw::draw(candidates, temperature, &mut self.rng);
        drawn.map(|(id, _)| id).ok_or(Error::NothingLeft)
    }

    fn bias(&self, logits: &mut [f32]) {
        for &(id, bias) in &self.params.logit_bias {
            logits[id as usize] += bias;
        }
    }

    fn penalise(&self, tokens: &[u32], scratch: &mut SamplerScratch) {
        let Params { repeat_penalty, frequency_penalty, presence_penalty, repeat_last_n, .. } = self.params;
        if repeat_penalty == 1.0 && frequency_penalty == 0.0 && presence_penalty == 0.0 {
            return;
        }
        let last = usize::try_from(repeat_last_n).map_or(tokens.len(), |n| n.min(tokens.len()));
        let window = &tokens[tokens.len() - last..];
        for id in window {
            scratch.seen[*id as usize] += 1;
        }
        for id in window {
            let count = std::mem::take(&mut scratch.seen[*id as usize]);
            if count > 0 {
                let logit = &mut scratch.logits[*id as usize];
                *logit = if *logit <= 0.0 { *logit * repeat_penalty } else { *logit / repeat_penalty };
                *logit -= count as f32 * frequency_penalty + presence_penalty;
            }
        }
    }

    fn penalise_repeats(&self, tokens: &[u32], vocabulary: &dyn Vocabulary, scratch: &mut SamplerScratch) {
        let SamplerScratch { logits, repeats, punished, suffixes, .. } = scratch;
        punished.clear();
        dry::penalties(&self.params.dry, tokens, &self.breaks, suffixes, |id, penalty| {
            let most = &mut repeats[id as usize];
            if *most == 0.0 {
                punished.push(id);
            }
            *most = most.max(penalty);
        });
        for id in punished.iter() {
            let penalty = std::mem::take(&mut repeats[*id as usize]);
            if !dry::holds_breaker(&self.params.dry, vocabulary, *id) {
                logits[*id as usize] -= penalty;
            }
        }
    }

    /// Whether the request enables a filter.
    fn is_enabled(&self, filter: Filter) -> bool {
        let params = &self.params;
        match filter {
            Filter::TopNSigma => params.top_n_sigma > 0.0,
            Filter::TopK => params.top_k > 0,
            Filter::Typical => params.typical_p < 1.0,
            Filter::TopP => params.top_p < 1.0,
            Filter::MinP => params.min_p > 0.0,
            // Two top choices need at most half each.
            Filter::Xtc => params.xtc.probability > 0.0 && params.xtc.threshold <= 0.5,
            Filter::Entropy => params.dynatemp.range != 0.0,
        }
    }

    /// Applies the enabled filters, from `next` on.
    fn filter(&mut self, candidates: &mut Vec<Candidate>, next: Filter) {
        for filter in Filter::ALL.into_iter().filter(|filter| *filter >= next) {
            if !self.is_enabled(filter) {
                continue;
            }
            let params = &self.params;
            match filter {
                Filter::TopNSigma => filter::top_n_sigma(candidates, params.top_n_sigma),
                Filter::TopK => filter::top_k(candidates, params.top_k),
                Filter::Typical => filter::typical(candidates, params.typical_p),
                Filter::TopP => filter::top_p(candidates, params.top_p),
                Filter::MinP => filter::min_p(candidates, params.min_p),
                Filter::Xtc if self.rng.unit() < f64::from(params.xtc.probability) => {
                    filter::exclude_top_choices(candidates, params.xtc.threshold);
                }
                Filter::Xtc | Filter::Entropy => {}
            }
        }
    }

    /// Log-probabilities of `chosen` and of the likeliest tokens, if the request asked for them.
    pub(crate) fn logprobs(&self, logits: &[f32], chosen: u32) -> Option<TokenLogprobs> {
        let count = self.params.logprobs?;
        let ids = &self.params.scored_ids;
        Some(if ids.is_empty() { logprobs(logits, chosen, count) } else { scored(logits, chosen, ids) })
    }
}

/// Log-probabilities of `given`, the token that follows `position` in a prompt, and of the `count` likeliest there.
pub(crate) fn score(
    logits: &[f32],
    position: usize,
    given: u32,
    count: usize,
) -> Result<TokenLogprobs, Error> {
    check(logits, position)?;
    Ok(logprobs(logits, given, count))
}

/// Refuses logits that are not finite, of the token at `position`.
fn check(logits: &[f32], position: usize) -> Result<(), Error> {
    match vocab_ops::not_finite(logits) {
        Some((token, value)) => Err(Error::Logits { token, position, value }),
        None => Ok(()),
    }
}

/// Log-softmax of raw logits: of `chosen`, and of the tokens `ids`.
fn scored(logits: &[f32], chosen: u32, ids: &[u32]) -> TokenLogprobs {
    let of = log_softmax(logits);
    let top = ids.iter().map(|id| (*id, of(logits[*id as usize]))).collect();
    TokenLogprobs { top, ..logprobs(logits, chosen, 0) }
}

/// From a logit to its log-probability among `logits`.
fn log_softmax(logits: &[f32]) -> impl Fn(f32) -> f32 + use<> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_total = logits.iter().map(|l| f64::from(l - max).exp()).sum::<f64>().ln();
    move |logit: f32| (f64::from(logit - max) - log_total) as f32
}

/// Log-softmax of raw logits: of `chosen`, and of the `count` likeliest tokens, best first.
fn logprobs(logits: &[f32], chosen: u32, count: usize) -> TokenLogprobs {
    let of = log_softmax(logits);
    let mut top: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    for (logit, id) in logits.iter().zip(0u32..) {
        if top.len() < count || top.last().is_some_and(|least| *logit > least.1) {
            let at = top.partition_point(|better| better.1 >= *logit);
            top.insert(at, (id, *logit));
            top.truncate(count);
        }
    }
    for (_, logit) in &mut top {
        *logit = of(*logit);
    }
    let own = logits[chosen as usize];
    TokenLogprobs { logprob: of(own), rank: 1 + logits.iter().filter(|logit| **logit > own).count(), top }
}

#[cfg(test)]
mod tests;
