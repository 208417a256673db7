//! The fast path of real models beside our own f32 path on the same quantized weights.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop, and tell how close it came")]

use crate::support;

use support::{installed, json};

/// How far the fast path's perplexity may be from the f32 one's, as a ratio: the project's own limit.
const PERPLEXITY: f64 = 0.003;
/// Mean Kullback–Leibler divergence from the f32 path's distribution, in nats: the project's own limit.
const MEAN_KL: f64 = 0.002;

/// On the CPU's best tier. `chunks` is what the time of a CI run allows; docs/perplexity.md has the figures of the whole text.
fn hold(model: &str, chunks: &str) {
    hold_on(None, model, chunks);
}

fn hold_on(tier: Option<&str>, model: &str, chunks: &str) {
    let prose = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/prose.txt");
    let args = ["perplexity", model, "--file", prose, "--chunks", chunks, "--kl-against", "f32", "--json"];
    let mut command = installed();
    if let Some(tier) = tier {
        command.env("GRISTMILL_ISA", tier);
    }
    let report = json(&command.args(args).output().unwrap());
    assert!(tier.is_none_or(|tier| report["isa"] == tier), "{} for {tier:?}", report["isa"]);
    let (ratio, kl) = (report["perplexity_ratio"].as_f64().unwrap(), report["mean_kl"].as_f64().unwrap());
    println!("{model}, {chunks} chunks on {}: fast / f32 = {ratio:.6}, mean KL {kl:.6}", report["isa"]);
    assert!((ratio - 1.0).abs() <= PERPLEXITY, "{model}: fast / f32 = {ratio}");
    assert!(kl <= MEAN_KL, "{model}: mean KL {kl}");
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_is_near_its_f32_path() {
    hold("smollm2-135m-instruct", "1");
}

/// Narrow enough for activations of sixteen bits there, with which next to nothing is lost.
#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_is_near_its_f32_path_on_avx2() {
    hold_on(Some("avx2"), "smollm2-135m-instruct", "1");
}

/// Products of bytes, on the tier without the instruction for them.
#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_is_near_its_f32_path_on_avx2() {
    hold_on(Some("avx2"), "qwen2.5-coder-0.5b-instruct", "6");
}

/// Too wide for activations of sixteen bits, so more is lost than in the other two. Over the 255 tokens of one chunk the
/// difference of the two figures has a standard error of nearly 0.3 %, the whole limit; over six it has 0.11 %.
#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_is_near_its_f32_path() {
    hold("qwen2.5-coder-0.5b-instruct", "6");
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3_is_near_its_f32_path() {
    hold("gemma3-270m", "1");
}
