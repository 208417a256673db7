//! Real models from the store: batching, preemption and repetition change no token.
//!
//! Run with `cargo test -p engine --release --test engine -- --ignored models_batch` after `gristmill pull
//! smollm2-135m-instruct`.

use crate::common;

use std::time::Duration;

use common::{ask, engine, request};
use engine::{FinishReason, Limits, Params};
use text::Special;

fn load(name: &str) -> common::Parts {
    let home = weights::store::ModelStore::from_env(|name| std::env::var_os(name)).expect("a store");
    let path = weights::store::resolve(name, &home, &mut weights::fetch::NoProgress).expect("the model");
    common::load(&path, 2)
}

const PROMPTS: [&str; 8] = [
    "The capital of France is",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "Once upon a time, in a village by the sea, there lived",
    "1, 1, 2, 3, 5, 8,",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three laws of thermodynamics are:\n1.",
    "Q: What is the boiling point of water?\nA:",
    "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals, when it was checked by",
];

fn same_alone_and_in_a_batch(name: &str) {
    let parts = load(name);
    let prompts: Vec<Vec<u32>> = PROMPTS
        .iter()
        .map(|text| parts.tokenizer.encode(text, Special::Plain, true).expect("tokens"))
        .collect();
    let requests: Vec<_> = (0..8)
        .map(|i| {
            let params = Params { temperature: [0.0, 0.9][i % 2], seed: Some(i as u64), ..Params::default() };
            request(prompts[i].clone(), 40, params)
        })
        .collect();
    // A small chunk, so that prompts are computed in several pieces beside decoding rows.
    let limits = Limits {
        context: 256,
        kv_bytes: 1 << 30,
        prefill_chunk: 16,
        max_stall: Duration::ZERO,
        ..Limits::default()
    };
    let handle = engine(parts, limits);
    let alone: Vec<_> = requests.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
    let twice: Vec<_> = requests.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
    assert_eq!(alone, twice, "twice in a row");
    let together = ask(&handle, requests);
    assert_eq!(alone, together, "in a batch of eight");
    assert!(alone.iter().all(|answer| answer.tokens.len() == 40 || answer.reason == FinishReason::Stop));
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_is_the_same_alone_and_in_a_batch() {
    same_alone_and_in_a_batch("smollm2-135m-instruct");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen_coder_is_the_same_alone_and_in_a_batch() {
    same_alone_and_in_a_batch("qwen2.5-coder-0.5b-instruct");
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3_is_the_same_alone_and_in_a_batch() {
    same_alone_and_in_a_batch("gemma3-270m");
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn preempted_sequences_say_the_same() {
    let requests = |parts: &common::Parts| -> Vec<_> {
        PROMPTS[..4]
            .iter()
            .map(|text| {
                let prompt = parts.tokenizer.encode(text, Special::Plain, true).expect("tokens");
                let mut request = request(prompt, 90, Params::greedy());
                request.ignore_end = true;
                request
            })
            .collect()
    };
    let parts = load("smollm2-135m-instruct");
    let asked = requests(&parts);
    let ample = engine(parts, Limits { context: 128, kv_bytes: 1 << 30, ..Limits::default() });
    let expected = ask(&ample, asked.clone());
    drop(ample);
    // Blocks for one context and a half: four sequences of 100 tokens must push each other out.
    let parts = load("smollm2-135m-instruct");
    let block = 32 * parts.model.spec.kv_bytes_per_token(kernels::KvDtype::F16) as u64;
    let tight = engine(parts, Limits { context: 128, kv_bytes: 6 * block, ..Limits::default() });
    assert_eq!(ask(&tight, asked), expected);
    assert!(tight.stats().preemptions > 0, "the pool was too large to test anything");
}
