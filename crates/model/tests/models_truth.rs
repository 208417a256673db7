//! Real quantized models against transformers in fp32 on the same dequantized weights
//! (`tools/fixtures/real_models.py`). How far the fast precision is from ours in f32 is `gristmill perplexity`'s to
//! say.
//!
//! Run with `cargo test -p model --release --test model -- --ignored models_truth` after `gristmill pull NAME`.

#![allow(clippy::print_stdout, reason = "a test may tell how close it came")]

use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, Precision};
use runner::{Run, Runner, Sequence, fixtures};
use std::path::PathBuf;

/// What transformers said of one model.
#[derive(serde::Deserialize)]
struct Truth {
    prompt: Vec<u32>,
    rows: Vec<Row>,
    greedy: Vec<u32>,
}

/// The largest logits after one position of the prompt.
#[derive(serde::Deserialize)]
struct Row {
    position: usize,
    ids: Vec<usize>,
    logits: Vec<f32>,
    log_sum_exp: f32,
    largest: f32,
}

fn path(name: &str) -> PathBuf {
    let home = weights::store::ModelStore::from_env(|name| std::env::var_os(name)).expect("a store");
    weights::store::resolve(name, &home, &mut weights::fetch::NoProgress).expect("the model")
}

fn truth(name: &str) -> Truth {
    let text = std::fs::read(fixtures().join(format!("real/{name}.json"))).expect("a truth");
    serde_json::from_slice(&text).expect("a truth")
}

fn log_sum_exp(logits: &[f32]) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    most + logits.iter().map(|l| f64::from(l - most).exp()).sum::<f64>().ln() as f32
}

/// Greedy tokens after the prompt, one at a time.
fn greedy(runner: &mut Runner, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut sequence = Sequence::default();
    let mut out: Vec<u32> = Vec::new();
    let mut next = prompt.to_vec();
    for _ in 0..tokens {
        let want = [next.len() - 1];
        let logits = runner.step_wanting(&mut [Run { sequence: &mut sequence, tokens: &next }], &want);
        let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("a vocabulary").0;
        out.push(best as u32);
        next = vec![best as u32];
    }
    runner.end(sequence);
    out
}

/// Ours in f32 within 1e-4 of the largest logit of transformers, at every position that is kept, and the same greedy
/// tokens.
fn compare(name: &str) {
    let truth = truth(name);
    let mut exact = Runner::load(&path(name), Tier::best(), Precision::F32, KvDtype::F32, Some(1024));
    let logits = exact.prompt(&truth.prompt, 33);
    let vocab = exact.model.spec.vocab;
    let mut worst: f32 = 0.0;
    for row in &truth.rows {
        let ours = &logits[row.position * vocab..(row.position + 1) * vocab];
        for (&id, &theirs) in row.ids.iter().zip(&row.logits) {
            worst = worst.max((ours[id] - theirs).abs() / row.largest);
        }
        worst = worst.max((log_sum_exp(ours) - row.log_sum_exp).abs() / row.largest);
    }
    println!("{name}: f32 differs from transformers by {worst:e} of the largest logit");
    assert!(worst <= 1e-4, "{name}: {worst:e}");
    assert_eq!(greedy(&mut exact, &truth.prompt, truth.greedy.len()), truth.greedy, "{name}");
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_is_that_of_transformers() {
    compare("smollm2-135m-instruct");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_is_that_of_transformers() {
    compare("qwen2.5-coder-0.5b-instruct");
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3_is_that_of_transformers() {
    compare("gemma3-270m");
}
