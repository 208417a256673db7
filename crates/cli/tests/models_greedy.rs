//! What real models say at temperature 0, 64 tokens, beside texts that were read and found sensible.
//! `snapshots/README.md` tells how they are made again.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use std::path::Path;

use support::{gristmill, installed, json, text};

/// Asks `model` on each of the `tiers` that this machine has: those whose text was found to be the snapshot.
fn says(model: &str, prompt: &str, tiers: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{model}.txt"));
    let home = tempfile::tempdir().unwrap();
    let machine = json(&gristmill(home.path()).args(["doctor", "--json"]).output().unwrap());
    let there = |tier: &&&str| machine["tiers"].as_array().unwrap().iter().any(|name| name == *tier);
    for (index, tier) in tiers.iter().filter(there).enumerate() {
        let args =
            ["run", model, prompt, "--temperature", "0", "-n", "64", "--context", "512", "--isa", tier];
        let output = installed().args(args).arg("--json").output().unwrap();
        let said = json(&output)["text"].as_str().unwrap().to_owned();
        if index == 0 && std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &said).unwrap();
        }
        let kept = text(&std::fs::read(&path).unwrap());
        assert_eq!(said, kept, "{model} on {tier}");
    }
}

const ALL: [&str; 4] = ["avx512", "avx2", "scalar", "amx"];
const REGISTERS: [&str; 3] = ["avx512", "avx2", "scalar"];
/// The scalar tier adds in another order, and parts from these after some words.
const VECTOR: [&str; 3] = ["avx512", "avx2", "amx"];

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2() {
    // After fifty tokens two words are nearly as likely, and tiles, which add in another order, take the other one.
    says("smollm2-135m-instruct", "Explain how a water mill works.", &REGISTERS);
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3() {
    says("gemma3-270m", "The history of the water mill begins", &ALL);
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_half_b() {
    // Two openings are nearly as likely: AVX-512 takes one or the other as it has the bfloat16 product or not.
    says("qwen2.5-coder-0.5b-instruct", "Write a Python function that reverses a string.", &["avx2"]);
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-1.5b-instruct"]
fn qwen2_5_coder_1_5b() {
    says("qwen2.5-coder-1.5b-instruct", "Write a Python function that reverses a string.", &VECTOR);
}
