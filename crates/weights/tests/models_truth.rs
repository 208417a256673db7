//! Real models: every tensor lies where the `gguf` package says, and one of each format dequantizes to the same bits.
//! Truth: `python tools/fixtures/real_tensors.py`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use sha2::{Digest, Sha256};
use weights::fetch::NoProgress;
use weights::store::{ModelStore, resolve};

fn check(model: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real.json");
    let truth: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let truth = &truth[model];
    let home = ModelStore::from_env(|name| std::env::var_os(name)).unwrap();
    let opened = weights::open(&resolve(model, &home, &mut NoProgress).unwrap()).unwrap();
    assert_eq!(opened.tensors().len() as u64, truth["tensors"]);
    assert_eq!(opened.metadata().gguf().unwrap().len() as u64, truth["fields"]);
    let formats = truth["formats"].as_object().unwrap();
    assert!(formats.len() >= 3);
    for (format, want) in formats {
        let tensor = opened.tensor(want["tensor"].as_str().unwrap()).unwrap();
        assert_eq!(tensor.dtype.name(), format);
        assert_eq!(serde_json::json!(tensor.shape), want["shape"]);
        let mut values = vec![0.0; tensor.shape.iter().product()];
        tensor::dequantize(tensor.dtype, tensor.bytes, &mut values).unwrap();
        let mut hash = Sha256::new();
        values.iter().for_each(|v| hash.update(v.to_le_bytes()));
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, want["sha256"], "{model}: {}", tensor.name);
    }
    for t in opened.tensors() {
        if let Some(t) = opened.tensor(t.name) {
            tensor::check_finite(t.dtype, t.bytes).unwrap();
        }
    }
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2_is_what_gguf_says() {
    check("smollm2-135m-instruct");
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_is_what_gguf_says() {
    check("qwen2.5-coder-0.5b-instruct");
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3_is_what_gguf_says() {
    check("gemma3-270m");
}
