//! The log-probabilities of prompts: against the logits of transformers, and against those of the fake model by hand.

use crate::common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{ask, request};
use cpu::{Pool, Tier};
use engine::fake::{Around, FakeModel, FakeVocabulary};
use engine::{
    Engine, Error, Event, FinishReason, Forward, Handle, Limits, Params, Request, Rows, TokenLogprobs,
    Unwatched,
};
use kernels::{Compute, KvDtype, Precision};
use model::Model;

const VOCAB: usize = 40;

fn start(forward: impl Forward + 'static, limits: Limits) -> Handle {
    Engine::start_with(forward, Arc::new(FakeVocabulary), limits, Box::new(Unwatched)).expect("an engine")
}

fn scoring(length: u32, salt: u32, max_tokens: usize) -> Request {
    let prompt = (0..length).map(|i| 1 + (salt + i * i * 7) % (VOCAB as u32 - 1)).collect();
    let mut request = request(prompt, max_tokens, Params::greedy());
    request.prompt_logprobs = Some(3);
    request.ignore_end = true;
    request
}

/// What softmax makes of a row of logits, in f64: of `given`, its rank, and the three likeliest.
fn by_hand(logits: &[f32], given: u32) -> (f64, usize, Vec<(u32, f64)>) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|l| f64::from(l - most).exp()).sum();
    let of = |id: u32| f64::from(logits[id as usize] - most) - total.ln();
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    let rank = 1 + order.iter().position(|id| *id == given).expect("a token");
    (of(given), rank, order[..3].iter().map(|id| (*id, of(*id))).collect())
}

/// The largest difference to what is worked out by hand; panics where an order is another.
fn compare(found: &[TokenLogprobs], prompt: &[u32], logits: impl Fn(usize) -> Vec<f32>) -> f64 {
    assert_eq!(found.len(), prompt.len() - 1);
    let mut worst: f64 = 0.0;
    for (position, found) in found.iter().enumerate() {
        let (logprob, rank, top) = by_hand(&logits(position), prompt[position + 1]);
        assert_eq!(found.rank, rank, "at {position}");
        worst = worst.max((f64::from(found.logprob) - logprob).abs());
        for ((id, logprob), (wanted, by_hand)) in found.top.iter().zip(top) {
            assert_eq!(*id, wanted, "at {position}");
            worst = worst.max((f64::from(*logprob) - by_hand).abs());
        }
    }
    worst
}

fn fake_logits(prompt: &[u32]) -> impl Fn(usize) -> Vec<f32> {
    |position| {
        let mut logits = Vec::new();
        FakeModel::logits_after(prompt[..=position].iter().copied(), VOCAB, &mut logits);
        logits
    }
}

#[test]
fn they_are_the_softmax_of_the_raw_logits() {
    let handle = start(FakeModel::new(VOCAB, 256, 200, 4), Limits::default());
    for length in [1, 2, 31, 32, 33, 34, 200] {
        let mut asked = scoring(length, 3, 4);
        // What the sampler does is no matter.
        asked.params.logit_bias = vec![(9, 100.0)];
        let answer = ask(&handle, vec![asked.clone()]).remove(0);
        assert_eq!(answer.tokens, [9; 4]);
        let worst = compare(&answer.prompt, &asked.prompt, fake_logits(&asked.prompt));
        assert!(worst < 1e-5, "{worst}");
    }
}

#[test]
fn they_come_before_the_answer_and_an_answer_is_not_needed() {
    let handle = start(FakeModel::new(VOCAB, 64, 200, 4), Limits::default());
    for (length, max_tokens) in [(1, 0), (20, 0), (20, 2)] {
        let (to, from) = channel();
        let _ticket = handle.submit(scoring(length, 5, max_tokens), Box::new(to)).expect("a place");
        let events: Vec<Event> = from.iter().collect();
        assert!(matches!(&events[0], Event::Prompt { logprobs } if logprobs.len() + 1 == length as usize));
        assert_eq!(events.len(), 2 + max_tokens);
        let Some(Event::Done { reason, usage, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!((*reason, usage.completion_tokens), (FinishReason::Length, max_tokens));
    }
    let stats = handle.stats();
    assert_eq!((stats.prompt_tokens, stats.generated_tokens), (41, 2));
    let unscored = Request { prompt_logprobs: None, ..scoring(20, 5, 0) };
    let answer = ask(&handle, vec![unscored]).remove(0);
    assert!(answer.prompt.is_empty() && answer.tokens.is_empty() && answer.reason == FinishReason::Length);
}

/// Nothing of such a prompt is taken from the cache, and all of it is left there.
#[test]
fn what_is_remembered_is_of_no_use_to_them_and_they_are_to_others() {
    let handle = start(FakeModel::new(VOCAB, 256, 200, 4), Limits::default());
    let asked = scoring(100, 1, 3);
    let plain = Request { prompt_logprobs: None, ..asked.clone() };
    let cold = ask(&handle, vec![asked.clone()]).remove(0);
    assert_eq!(handle.stats().cached_tokens, 0);
    assert_eq!(ask(&handle, vec![plain]).remove(0).tokens, cold.tokens);
    assert_eq!(handle.stats().cached_tokens, 96);
    assert_eq!(ask(&handle, vec![asked]).remove(0), cold);
    assert_eq!(handle.stats().cached_tokens, 96);
}

/// Eight that ask for them and eight that do not, in a pool that holds few: many are computed again.
#[test]
fn alone_and_among_others_and_after_preemption_they_are_the_same() {
    let limits = || Limits { max_running: 16, context: 128, prefill_chunk: 48, ..Limits::default() };
    let all: Vec<Request> = (0..16)
        .map(|i| {
            let asked = scoring(20 + 5 * i, i % 5, 40);
            if i % 2 == 0 { asked } else { Request { prompt_logprobs: None, ..asked } }
        })
        .collect();
    let ample = start(FakeModel::new(VOCAB, 128, 1000, 4), limits());
    let alone: Vec<_> = all.iter().map(|r| ask(&ample, vec![r.clone()]).remove(0)).collect();
    assert!(ask(&ample, all.clone()) == alone);
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let model = FakeModel::new(VOCAB, 128, 70, 4);
    let tight = Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        seen.fetch_max(rows.want.len(), Ordering::Relaxed);
        model.forward(rows).map(<[f32]>::to_vec)
    });
    let tight = start(tight, limits());
    assert!(ask(&tight, all) == alone);
    assert!(tight.stats().preemptions > 0, "{:?}", tight.stats());
    let most = most.load(Ordering::Relaxed);
    assert!((32..=limits().max_logit_rows()).contains(&most), "{most} rows of logits in a step");
}

/// A prompt's row that is no number fails its request; the others of the step have their own.
#[test]
fn a_row_that_is_no_number_fails_its_own_request_only() {
    let model = FakeModel::new(VOCAB, 64, 200, 4);
    let broken = Around::new(model, |model: &mut FakeModel, rows: &Rows<'_>| {
        let mut logits = model.forward(rows)?.to_vec();
        for (row, logits) in rows.want.iter().zip(logits.chunks_exact_mut(VOCAB)) {
            if rows.tokens[*row] == 39 {
                logits[7] = f32::NAN;
            }
        }
        Ok(logits)
    });
    let handle = start(broken, Limits::default());
    let good = (0..).map(|salt| scoring(12, salt, 0)).filter(|request| !request.prompt.contains(&39));
    let good: Vec<Request> = good.take(3).collect();
    let mut bad = good[0].clone();
    bad.prompt[4] = 39;
    let (to, from) = channel();
    let alone: Vec<_> = good.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
    let _ticket = handle.submit(bad, Box::new(to)).expect("a place");
    assert!(ask(&handle, good) == alone);
    let Event::Failed { error, .. } = from.recv_timeout(Duration::from_secs(20)).expect("an end") else {
        panic!("not failed")
    };
    assert!(matches!(error, Error::Logits { token: 7, position: 4, .. }), "{error}");
}

/// Each family's tiny model, in f32, on the prompts and logits that transformers gave
/// (`tools/fixtures/transformers.py`).
#[test]
fn every_family_gives_the_log_probabilities_of_transformers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures");
    let mut compared = 0;
    for entry in std::fs::read_dir(root).expect("the fixtures") {
        let case = entry.expect("a fixture").path();
        if !case.join("tokens.json").exists() {
            continue;
        }
        let compute = Compute::new(Tier::best(), Pool::new(2, None).expect("threads"));
        let opened = weights::open(&case).expect("a fixture");
        let model = Model::load(&opened, &compute, Precision::F32, &mut |_| {}).expect("a fixture");
        let vocab = model.spec.vocab;
        let limits = Limits { kv_dtype: Some(KvDtype::F32), ..Limits::default() };
        let handle = Engine::start(Arc::new(model), Arc::new(FakeVocabulary), compute, limits);
        let handle = handle.expect("an engine");
        for (index, prompt) in prompts(&case).into_iter().enumerate() {
            // Long rope chooses its factors by the context: this prompt's logits are of a shorter one.
            if case.ends_with("phi4-mini") && prompt.len() <= 24 {
                continue;
            }
            let truth = floats(&case.join(format!("logits.{index}.f32")));
            let largest = truth.iter().fold(0f32, |most, l| most.max(l.abs()));
            let mut asked = request(prompt.clone(), 0, Params::greedy());
            asked.prompt_logprobs = Some(1);
            let answer = ask(&handle, vec![asked]).remove(0);
            for (position, found) in answer.prompt.iter().enumerate() {
                let row = &truth[position * vocab..(position + 1) * vocab];
                let (logprob, ..) = by_hand(row, prompt[position + 1]);
                let apart = (f64::from(found.logprob) - logprob).abs();
                // The budget of a logit is 1e-4 of the largest; here are two of them.
                assert!(apart <= 2e-4 * f64::from(largest), "{} at {position}: {apart:e}", case.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "only {compared}");
}

fn prompts(case: &Path) -> Vec<Vec<u32>> {
    let text = std::fs::read_to_string(case.join("tokens.json")).expect("tokens");
    serde_json::from_str(&text).expect("lists of tokens")
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).expect("logits");
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}
