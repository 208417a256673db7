//! Broken files and batches give an error that names the thing, never a panic.

use crate::runner;

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, KvPool, Precision, SeqRows};
use model::{Batch, Error, Model, Scratch, Spec};
use runner::fixtures;
use std::path::Path;
use tempfile::TempDir;

/// A copy of a fixture's folder with `edit` applied to its two files.
fn broken(case: &str, edit: impl Fn(&mut serde_json::Value, &mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let from = fixtures().join(case);
    let mut config = serde_json::from_slice(&std::fs::read(from.join("config.json")).expect("a fixture"))
        .expect("a fixture");
    let mut tensors = std::fs::read(from.join("model.safetensors")).expect("a fixture");
    edit(&mut config, &mut tensors);
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a fixture");
    std::fs::write(folder.path().join("model.safetensors"), tensors).expect("a fixture");
    folder
}

/// Renames a tensor to another name of the same length.
fn rename(bytes: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).expect("the name is in the header");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
}

fn load(path: &Path) -> Result<Model, Error> {
    let opened = weights::open(path).expect("a readable folder");
    let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
    Model::load(&opened, &compute, Precision::Fast, &mut |_| ())
}

fn refusal(folder: &TempDir) -> String {
    match load(folder.path()) {
        Ok(_) => panic!("a broken model was loaded"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_unknown_family_is_named_with_those_that_are_known() {
    let said = refusal(&broken("qwen2", |config, _| {
        config["architectures"] = serde_json::json!(["MambaForCausalLM"]);
        config["model_type"] = "mamba".into();
    }));
    assert!(
        said.contains("MambaForCausalLM") && said.contains("qwen3moe") && said.contains("phi3"),
        "{said}"
    );
}

#[test]
fn missing_and_left_over_tensors_are_named() {
    let said =
        refusal(&broken("qwen2", |_, tensors| rename(tensors, "model.norm.weight", "model.mron.weight")));
    assert!(said.contains("model.norm.weight") && said.contains("model.mron.weight"), "{said}");
}

#[test]
fn a_shape_that_the_metadata_does_not_imply_is_named_with_both() {
    let said = refusal(&broken("qwen2", |config, _| config["intermediate_size"] = 96.into()));
    assert!(said.contains("layers.0.mlp.") && said.contains("64") && said.contains("96"), "{said}");
}

#[test]
fn values_out_of_range_are_named() {
    type Edit = (&'static str, fn(&mut serde_json::Value));
    let edits: [Edit; 14] = [
        ("num_hidden_layers", |c| c["num_hidden_layers"] = 1_000_000_000.into()),
        ("layers", |c| c["num_hidden_layers"] = 0.into()),
        ("hidden_size", |c| c["hidden_size"] = "wide".into()),
        ("hidden_size", |c| c["hidden_size"] = (-3).into()),
        ("hidden_size", |c| c["hidden_size"] = 1e300.into()),
        ("heads", |c| c["num_attention_heads"] = 0.into()),
        ("heads", |c| c["num_attention_heads"] = 3.into()),
        ("key and value heads", |c| c["num_key_value_heads"] = 0.into()),
        ("context", |c| c["max_position_embeddings"] = 0.into()),
        ("rope_type", |c| c["rope_parameters"] = serde_json::json!({"rope_type": "spiral"})),
        ("factor", |c| c["rope_parameters"] = serde_json::json!({"rope_type": "linear"})),
        ("rotary", |c| c["rope_parameters"] = serde_json::json!({"partial_rotary_factor": 7.0})),
        ("rope base", |c| c["rope_parameters"] = serde_json::json!({"rope_theta": -1.0})),
        ("short_factor", |c| {
            c["rope_parameters"] = serde_json::json!({"rope_type": "longrope", "long_factor": [1.0]});
        }),
    ];
    for (name, edit) in edits {
        let said = refusal(&broken("llama-2", |config, _| edit(config)));
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn a_layer_list_of_another_length_is_refused() {
    let said =
        refusal(&broken("gemma3", |config, _| config["layer_types"] = serde_json::json!(["full_attention"])));
    assert!(said.contains("layer_types") && said.contains('7'), "{said}");
}

#[test]
fn abuse_a_router_that_names_more_experts_than_there_are_is_refused() {
    let said = refusal(&broken("qwen2moe", |config, _| config["num_experts_per_tok"] = 300.into()));
    assert!(
        said.contains("num_experts_per_tok") && said.contains("300") && said.contains("8 experts"),
        "{said}"
    );
    let said = refusal(&broken("qwen2moe", |config, _| config["num_experts"] = 5000.into()));
    assert!(said.contains("experts") && said.contains("5000") && said.contains("4096"), "{said}");
    let said = refusal(&broken("qwen2moe", |config, _| config["num_experts"] = 16.into()));
    assert!(
        said.contains("mlp.experts.8") || (said.contains("mlp.gate.weight") && said.contains("16")),
        "{said}"
    );
}

#[test]
fn abuse_experts_of_unequal_shapes_are_named_with_both() {
    let name = "model.layers.1.mlp.experts.3.gate_proj.weight";
    let said = refusal(&broken("qwen2moe", |_, tensors| {
        let find = |text: &str, from: usize| {
            let at = tensors[from..].windows(text.len()).position(|w| w == text.as_bytes());
            from + at.expect("it is in the header")
        };
        let shape = find("[16,32]", find(name, 0));
        tensors[shape..shape + 7].copy_from_slice(b"[32,16]");
    }));
    assert!(said.contains(name) && said.contains("[32, 16]") && said.contains("[16, 32]"), "{said}");
}

#[test]
fn abuse_blocks_of_mxfp4_without_their_exponents_are_refused() {
    let said = refusal(&broken("gpt-oss-mxfp4", |_, tensors| {
        rename(tensors, "layers.1.mlp.experts.down_proj_scales", "layers.1.mlp.experts.down_proj_sealed");
    }));
    assert!(said.contains("layers.1.mlp.experts.down_proj_scales"), "{said}");
    let said = refusal(&broken("gpt-oss-mxfp4", |config, _| config["swiglu_limit"] = 9.into()));
    assert!(said.contains("swiglu_limit") && said.contains('9') && said.contains('7'), "{said}");
}

/// A folder all of whose weights are `value`, in bf16.
fn filled(case: &str, value: u16) -> TempDir {
    broken(case, |_, tensors| {
        let header = u64::from_le_bytes(tensors[..8].try_into().expect("a length")) as usize;
        for pair in tensors[8 + header..].chunks_exact_mut(2) {
            pair.copy_from_slice(&value.to_le_bytes());
        }
    })
}

#[test]
fn weights_of_nan_or_infinity_are_refused_by_name() {
    for case in ["llama-3", "qwen3moe", "gemma2", "phi2"] {
        for value in [0x7fc0, 0x7f80, 0xff80] {
            let said = refusal(&filled(case, value));
            assert!(said.contains("tensor model.embed_tokens.weight"), "{said}");
        }
    }
}

#[test]
fn weights_that_overflow_every_sum_run_without_a_panic() {
    for case in ["llama-3", "qwen3moe", "gemma2", "phi2"] {
        for precision in [Precision::Fast, Precision::F32] {
            // 2^60: scores and values overflow, and their differences are NaN.
            let folder = filled(case, 0x5d80);
            let mut runner = runner::Runner::load(folder.path(), Tier::best(), precision, KvDtype::F16, None);
            let tokens: Vec<u32> = (0..40).collect();
            let logits = runner.prompt(&tokens, 9);
            assert_eq!(logits.len(), 40 * runner.model.spec.vocab);
            // Caps and norms on both sides keep Gemma 2 finite even so.
            let overflowed = logits.iter().any(|l| !l.is_finite());
            assert!(overflowed || case == "gemma2", "{case} {precision:?}: the overflow does not vanish");
        }
    }
}

#[test]
fn a_batch_that_does_not_fit_is_refused() {
    let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
    let opened = weights::open(&fixtures().join("qwen2")).expect("a fixture");
    let model = Model::load(&opened, &compute, Precision::Fast, &mut |_| ()).expect("a fixture");
    let mut kv = KvPool::new(model.spec.kv_shape(2, KvDtype::F16)).expect("a small pool");
    let mut scratch = Scratch::new(&model.spec, 40, 2);
    let run = |rows, first_position, blocks| vec![SeqRows::last(rows, first_position, blocks)];
    let tokens: Vec<u32> = (0..41).collect();
    type Case<'a> = (&'a str, &'a [u32], Vec<SeqRows<'a>>, &'a [usize]);
    let cases: [Case; 10] = [
        ("rows", &tokens, run(0..41, 0, &[0, 1]), &[]),
        ("token", &[128], run(0..1, 0, &[0]), &[0]),
        ("wanted rows", &tokens[..4], run(0..4, 0, &[0]), &[0, 1, 2]),
        ("wanted row", &tokens[..4], run(0..4, 0, &[0]), &[4]),
        ("wanted row", &tokens[..4], run(0..4, 0, &[0]), &[2, 2]),
        ("position", &tokens[..4], run(0..4, 30, &[0]), &[0]),
        ("position", &tokens[..4], run(0..4, usize::MAX, &[0]), &[0]),
        ("KV block", &tokens[..4], run(0..4, 0, &[2]), &[0]),
        ("rows covered", &tokens[..4], run(0..3, 0, &[0]), &[0]),
        ("first row", &tokens[..4], run(1..4, 0, &[0]), &[0]),
    ];
    for (what, tokens, sequences, want) in cases {
        let batch = Batch { tokens, sequences: &sequences, want, decode_rows: 0 };
        let said = model.forward(&compute, &batch, &mut kv, &mut scratch).expect_err(what).to_string();
        assert!(said.contains(what), "{what}: {said}");
    }
    let batch = Batch { tokens: &[], sequences: &[], want: &[], decode_rows: 0 };
    assert!(model.forward(&compute, &batch, &mut kv, &mut scratch).expect("nothing to do").is_empty());
}

#[test]
fn memory_is_known_before_loading() {
    for case in runner::cases() {
        for precision in [Precision::Fast, Precision::F32] {
            let opened = weights::open(&case).expect("a fixture");
            let spec = Spec::read(&opened).expect("a fixture");
            let tier = Tier::best();
            let said = spec.weight_bytes(&opened, tier, precision).expect("a fixture");
            let compute = Compute::new(tier, Pool::new(1, None).expect("a thread"));
            let model = Model::load(&opened, &compute, precision, &mut |_| ()).expect("a fixture");
            // Memory comes in pages of 4096 bytes for each matrix.
            let matrices = spec.weights().iter().filter(|w| w.shape.len() == 2).count() as u64;
            let taken = model.bytes() as u64;
            assert!(said <= taken && taken <= said + 4096 * matrices, "{said} said, {taken} taken");
            let need = spec.memory(said, 100, KvDtype::F16, 64, 4);
            let pool = KvPool::new(spec.kv_shape(4, KvDtype::F16)).expect("a small pool");
            assert_eq!(need.kv, pool.bytes() as u64, "100 tokens are 4 blocks");
            assert_eq!(need.total(), need.weights + need.kv + need.scratch);
        }
    }
}
