//! The sampler as a whole: that each parameter does what it says, and that draws follow the probabilities.

use super::*;
use crate::fake::FakeVocabulary;
use crate::{Dry, Xtc};

/// Everything off: plain draws in proportion to the probabilities.
fn plain() -> Params {
    Params { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Params::default() }
}

fn logits(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() - 1.5).collect()
}

/// Shares of 40,000 draws after `tokens`.
fn shares(params: Params, logits: &[f32], tokens: &[u32]) -> Vec<f64> {
    let mut bench = Bench::new(logits.len(), 64);
    let mut sampler = Sampler::new(params, 11, Vec::new(), &FakeVocabulary, tokens);
    let mut counts = vec![0usize; logits.len()];
    for _ in 0..40_000 {
        counts[sampler.pick(logits, tokens, None, &FakeVocabulary, &mut bench).unwrap() as usize] += 1;
    }
    counts.iter().map(|n| *n as f64 / 40_000.0).collect()
}

fn pick(params: Params, logits: &[f32], tokens: &[u32]) -> Result<u32, Error> {
    let mut bench = Bench::new(logits.len(), 64);
    Sampler::new(params, 11, Vec::new(), &FakeVocabulary, tokens).pick(
        logits,
        tokens,
        None,
        &FakeVocabulary,
        &mut bench,
    )
}

/// Five standard deviations of a share of 40,000 draws are at most 0.0125.
#[track_caller]
fn near(shares: &[f64], expected: &[f64]) {
    let close = shares.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.0125);
    assert!(close && shares.len() == expected.len(), "{shares:?} is not {expected:?}");
}

const P: [f32; 4] = [0.1, 0.4, 0.3, 0.2];

#[test]
fn draws_follow_the_probabilities() {
    near(&shares(plain(), &logits(&P), &[0]), &[0.1, 0.4, 0.3, 0.2]);
}

#[test]
fn temperature_sharpens() {
    // p² / Σ p² of 0.1, 0.4, 0.3, 0.2.
    let params = Params { temperature: 0.5, ..plain() };
    near(&shares(params, &logits(&P), &[0]), &[0.01 / 0.3, 0.16 / 0.3, 0.09 / 0.3, 0.04 / 0.3]);
}

#[test]
fn each_filter_leaves_what_it_should() {
    let of = |params| shares(params, &logits(&P), &[0]);
    near(&of(Params { top_k: 2, ..plain() }), &[0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0]);
    near(&of(Params { top_p: 0.6, ..plain() }), &[0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0]);
    near(&of(Params { min_p: 0.45, ..plain() }), &[0.0, 4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0]);
    near(&of(Params { top_k: 3, top_p: 0.7, ..plain() }), &[0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0]);
    // Acts half of the time, and then only token 3 (0.2) and less likely ones stay.
    let xtc = Xtc { probability: 0.5, threshold: 0.15 };
    let sometimes = [0.05 + 0.5 / 3.0, 0.2, 0.15, 0.1 + 1.0 / 3.0];
    near(&of(Params { xtc, ..plain() }), &sometimes);
}

#[test]
fn the_penalties_are_llama_cpps() {
    let raw = [1.0, -1.0, 2.0, 0.0];
    let params = Params { repeat_penalty: 2.0, frequency_penalty: 0.5, presence_penalty: 0.25, ..plain() };
    // Tokens 0 (twice) and 1 (once) lie in the last four; token 2 does not.
    let tokens = [2, 0, 1, 0, 3];
    let sampler =
        Sampler::new(Params { repeat_last_n: 4, ..params }, 0, Vec::new(), &FakeVocabulary, &tokens);
    let mut bench = Bench::new(4, 64);
    let all = raw.iter().zip(0..).map(|(logit, id)| Candidate { id, logit: *logit, key: 0.0 });
    bench.candidates.extend(all);
    sampler.penalise(&tokens, &mut bench);
    let after: Vec<f32> = bench.candidates.iter().map(|c| c.logit).collect();
    assert_eq!(after, [1.0 / 2.0 - 2.0 * 0.5 - 0.25, -2.0 - 0.5 - 0.25, 2.0, -0.75]);
    assert!(bench.seen.iter().all(|n| *n == 0), "the counts are cleared for the next request");
}

#[test]
fn greedy_takes_the_best_and_the_lowest_of_equals() {
    assert_eq!(pick(Params::greedy(), &[0.5, 2.0, 2.0, 1.0], &[0]), Ok(1));
    // With every filter on, still.
    let busy = Params { typical_p: 0.1, xtc: Xtc { probability: 1.0, threshold: 0.0 }, ..Params::greedy() };
    assert_eq!(pick(busy, &[0.5, 2.0, 2.0, 1.0], &[0]), Ok(1));
    let penalised = Params { presence_penalty: 2.0, ..Params::greedy() };
    assert_eq!(pick(penalised, &[0.5, 2.0, 1.9, 1.0], &[1]), Ok(2));
}

#[test]
fn dry_stops_a_loop() {
    // "a b c a b": c would repeat three.
    let tokens = [1, 2, 3, 1, 2];
    let flat = [0.0, 0.0, 0.0, 0.1, 0.0];
    assert_eq!(pick(Params::greedy(), &flat, &tokens), Ok(3));
    let dry = Dry { multiplier: 0.8, ..Dry::default() };
    assert_eq!(pick(Params { dry: dry.clone(), ..Params::greedy() }, &flat, &tokens), Ok(0));
    // Unless the token holds a breaker.
    let dry = Dry { sequence_breakers: vec!["c".into()], ..dry };
    assert_eq!(pick(Params { dry, ..Params::greedy() }, &flat, &tokens), Ok(3));
}

#[test]
fn biases_add_and_ban() {
    let bias = |logit_bias| Params { logit_bias, ..Params::greedy() };
    assert_eq!(pick(bias(vec![(0, 3.0)]), &[0.0, 2.0], &[0]), Ok(0));
    assert_eq!(pick(bias(vec![(1, f32::NEG_INFINITY)]), &[0.0, 2.0], &[0]), Ok(0));
    let all = vec![(0, f32::NEG_INFINITY), (1, f32::NEG_INFINITY)];
    assert_eq!(pick(bias(all.clone()), &[0.0, 2.0], &[0]), Err(Error::NothingLeft));
    let drawn = Params { logit_bias: all, ..Params::default() };
    assert_eq!(pick(drawn, &[0.0, 2.0], &[0]), Err(Error::NothingLeft));
}

#[test]
fn what_is_no_number_is_an_error_that_says_where() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let Err(Error::Logits { token, position, value }) = pick(plain(), &[0.0, bad], &[0, 0, 0]) else {
            panic!("{bad} was taken");
        };
        assert_eq!((token, position, value.to_bits()), (1, 2, bad.to_bits()));
    }
}

#[test]
fn nothing_is_allocated_after_the_first_token() {
    let logits: Vec<f32> = (0..5000).map(|i| ((i * 7919) % 5000) as f32 / 500.0).collect();
    let mut bench = Bench::new(5000, 64);
    let params = Params {
        typical_p: 0.9,
        repeat_penalty: 1.1,
        dry: Dry { multiplier: 0.8, ..Dry::default() },
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
        ..Params::default()
    };
    let tokens: Vec<u32> = (0..60).map(|i| 1 + i % 7).collect();
    let sizes = |b: &Bench| {
        [b.candidates.capacity(), b.seen.capacity(), b.punished.capacity(), b.suffixes.capacity()]
    };
    let before = sizes(&bench);
    let mut sampler = Sampler::new(params, 1, Vec::new(), &FakeVocabulary, &tokens);
    for _ in 0..50 {
        sampler.pick(&logits, &tokens, None, &FakeVocabulary, &mut bench).unwrap();
    }
    assert_eq!(sizes(&bench), before, "the buffers were made large enough");
}

#[test]
fn logprobs_sum_to_one_and_lead_with_the_best() {
    let raw = logits(&P);
    let all = logprobs(&raw, 2, 4);
    assert_eq!(all.top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 3, 0]);
    let sum: f32 = all.top.iter().map(|t| t.1.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-6 && (all.logprob - 0.3f32.ln()).abs() < 1e-6);
    assert_eq!(logprobs(&raw, 0, 0).top, []);
}
