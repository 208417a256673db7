//! The sampler as a whole: that each parameter does what it says, and that draws follow the probabilities.

use super::*;
use crate::fake::FakeVocabulary;
use crate::{Dry, Dynatemp, Mirostat, MirostatVersion, Xtc};

/// Everything off: plain draws in proportion to the probabilities.
fn plain() -> Params {
    Params { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Params::default() }
}

fn logits(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() - 1.5).collect()
}

/// Shares of 40,000 draws after `tokens`.
fn shares(params: Params, logits: &[f32], tokens: &[u32]) -> Vec<f64> {
    let mut scratch = SamplerScratch::new(logits.len(), 64);
    let mut sampler = Sampler::new(params, 11, EndTokens::default(), &FakeVocabulary, tokens);
    let mut counts = vec![0usize; logits.len()];
    for _ in 0..40_000 {
        counts[sampler.pick(logits, tokens, None, &FakeVocabulary, &mut scratch).unwrap() as usize] += 1;
    }
    counts.iter().map(|n| *n as f64 / 40_000.0).collect()
}

fn pick(params: Params, logits: &[f32], tokens: &[u32]) -> Result<u32, Error> {
    let mut scratch = SamplerScratch::new(logits.len(), 64);
    Sampler::new(params, 11, EndTokens::default(), &FakeVocabulary, tokens).pick(
        logits,
        tokens,
        None,
        &FakeVocabulary,
        &mut scratch,
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
    let sampler = Sampler::new(
        Params { repeat_last_n: 4, ..params },
        0,
        EndTokens::default(),
        &FakeVocabulary,
        &tokens,
    );
    let mut scratch = SamplerScratch::new(4, 64);
    scratch.logits.extend(raw);
    sampler.penalise(&tokens, &mut scratch);
    assert_eq!(scratch.logits, [1.0 / 2.0 - 2.0 * 0.5 - 0.25, -2.0 - 0.5 - 0.25, 2.0, -0.75]);
    assert!(scratch.seen.iter().all(|n| *n == 0), "the counts are cleared for the next request");
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
fn only_allowed_tokens_come() {
    let among = |ids: &[u32]| Params { allowed_ids: Some(ids.to_vec()), ..plain() };
    near(&shares(among(&[0, 2]), &logits(&P), &[0]), &[0.25, 0.0, 0.75, 0.0]);
    let wide: Vec<f32> = (0..200).map(|i| i as f32 / 10.0).collect();
    let greedy = |ids: &[u32]| Params { allowed_ids: Some(ids.to_vec()), ..Params::greedy() };
    assert_eq!(pick(greedy(&[3, 64, 95]), &wide, &[0]), Ok(95));
    assert_eq!(pick(greedy(&[199]), &wide, &[0]), Ok(199));
    let banned = Params { logit_bias: vec![(3, f32::NEG_INFINITY)], ..greedy(&[3]) };
    assert_eq!(pick(banned, &wide, &[0]), Err(Error::NothingLeft));
}

#[test]
fn a_bad_word_is_not_completed() {
    let params = Params { bad_words: vec![vec![1, 2], vec![3]], ..Params::greedy() };
    // The answer begins after the prompt's last token.
    let mut sampler = Sampler::new(params, 1, EndTokens::default(), &FakeVocabulary, &[0, 1]);
    let mut scratch = SamplerScratch::new(4, 64);
    let mut after = |tokens: &[u32], logits: &[f32]| {
        sampler.pick(logits, tokens, None, &FakeVocabulary, &mut scratch).unwrap()
    };
    let [two, three] = [[0.0, 0.1, 2.0, 1.0], [0.0, 0.1, 1.0, 2.0]];
    assert_eq!(after(&[0, 1], &two), 2, "the prompt's end does not count");
    assert_eq!(after(&[0, 1, 1], &two), 1, "2 after 1 is banned, and 3 always");
    assert_eq!(after(&[0, 1, 2], &two), 2);
    assert_eq!(after(&[0, 1], &three), 2);
}

#[test]
fn ends_wait_for_the_least_number_of_tokens() {
    let ends = EndTokens { late: vec![0, 2], min_tokens: 2, ..EndTokens::default() };
    let mut sampler = Sampler::new(Params::greedy(), 1, ends, &FakeVocabulary, &[5]);
    let mut scratch = SamplerScratch::new(4, 64);
    let mut after = |tokens: &[u32]| {
        sampler.pick(&[3.0, 1.0, 2.0, 0.0], tokens, None, &FakeVocabulary, &mut scratch).unwrap()
    };
    assert_eq!((after(&[5]), after(&[5, 1]), after(&[5, 1, 1])), (1, 1, 0));
}

#[test]
fn where_a_form_leaves_only_the_end_it_comes_early() {
    let rules = |mut params: Params| {
        TokenRules::new(&mut params, EndTokens { late: vec![0], min_tokens: 9, ..EndTokens::default() }, 0)
    };
    let end = |mut logits: [f32; 3], formed| {
        rules(Params::greedy()).apply_mask(&mut logits, &[1], formed);
        logits[0]
    };
    assert_eq!(end([1.0, f32::NEG_INFINITY, f32::NEG_INFINITY], true), 1.0);
    assert_eq!(end([1.0, 0.0, f32::NEG_INFINITY], true), f32::NEG_INFINITY);
    assert_eq!(end([1.0, f32::NEG_INFINITY, f32::NEG_INFINITY], false), f32::NEG_INFINITY);
}

#[test]
fn a_temperature_that_follows_the_entropy() {
    // Two equals: the entropy is at its most, so the temperature is 1 + 0.5 whatever the exponent; all else is cut.
    let dynatemp = Dynatemp { range: 0.5, exponent: 2.0 };
    near(
        &shares(Params { dynatemp, top_k: 2, ..plain() }, &logits(&[0.1, 0.4, 0.4, 0.1]), &[0]),
        &[0.0, 0.5, 0.5, 0.0],
    );
    // Of P the entropy is 0.9232 of its most: temperature 0.5 + 0.9232.
    let entropy = -P.iter().map(|p| f64::from(*p) * f64::from(*p).ln()).sum::<f64>() / 4f64.ln();
    let dynatemp = Dynatemp { range: 0.5, exponent: 1.0 };
    let weights: Vec<f64> = P.iter().map(|p| f64::from(*p).powf(1.0 / (0.5 + entropy))).collect();
    let total: f64 = weights.iter().sum();
    let wanted: Vec<f64> = weights.iter().map(|w| w / total).collect();
    near(&shares(Params { dynatemp, ..plain() }, &logits(&P), &[0]), &wanted);
}

#[test]
fn mirostat_takes_the_place_of_the_filters() {
    // top_k 1 would leave token 1 only; a cut at 2·5 bits leaves all, and does not move.
    let mirostat = Some(Mirostat { version: MirostatVersion::Two, tau: 5.0, eta: 0.0 });
    near(&shares(Params { mirostat, top_k: 1, ..plain() }, &logits(&P), &[0]), &[0.1, 0.4, 0.3, 0.2]);
    let narrow = Some(Mirostat { version: MirostatVersion::Two, tau: 0.9, eta: 0.0 });
    near(
        &shares(Params { mirostat: narrow, ..plain() }, &logits(&P), &[0]),
        &[0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0],
    );
    // Temperature 0 is greedy all the same.
    assert_eq!(pick(Params { mirostat, ..Params::greedy() }, &[0.5, 2.0, 1.0], &[0]), Ok(1));
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
    let mut scratch = SamplerScratch::new(5000, 64);
    let params = Params {
        typical_p: 0.9,
        repeat_penalty: 1.1,
        dry: Dry { multiplier: 0.8, ..Dry::default() },
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
        top_n_sigma: 3.0,
        dynatemp: Dynatemp { range: 0.5, exponent: 1.0 },
        bad_words: vec![vec![1, 2, 3]],
        allowed_ids: Some((0..4000).collect()),
        ..Params::default()
    };
    let tokens: Vec<u32> = (0..60).map(|i| 1 + i % 7).collect();
    let sizes = |b: &SamplerScratch| {
        [b.candidates.capacity(), b.seen.capacity(), b.punished.capacity(), b.suffixes.capacity()]
    };
    let before = sizes(&scratch);
    let mut sampler = Sampler::new(params, 1, EndTokens::default(), &FakeVocabulary, &tokens);
    for _ in 0..50 {
        sampler.pick(&logits, &tokens, None, &FakeVocabulary, &mut scratch).unwrap();
    }
    assert_eq!(sizes(&scratch), before, "the buffers were made large enough");
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

#[test]
fn given_tokens_are_scored_in_place_of_the_likeliest() {
    let logits = [1.0, 3.0, -2.0, 0.5];
    let likeliest = logprobs(&logits, 1, 4);
    let scored = scored(&logits, 1, &[2, 0]);
    let of = |id: u32| likeliest.top.iter().find(|(other, _)| *other == id).copied().unwrap();
    assert_eq!(scored, TokenLogprobs { top: vec![of(2), of(0)], ..likeliest.clone() });
    assert!((likeliest.top.iter().map(|(_, logprob)| logprob.exp()).sum::<f32>() - 1.0).abs() < 1e-6);
}
