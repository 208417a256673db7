//! Latent attention: what its files say, what the KV cache holds, and what is refused.

use crate::keys::{folder, read, regguf, with};
use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, KvHeads, Precision};
use model::mixture::{RouterBias, Score};
use model::{FeedForward, LatentAttention, Mixer, Mixture, Spec};
use runner::{Runner, error, fixtures, prompts, truth};
use serde_json::{Map, Value, json};
use std::path::Path;
use tensor::Dtype;
use weights::{Tensor, gguf};

fn latent(spec: &Spec) -> LatentAttention {
    match spec.layers[0].mixer {
        Mixer::Latent(net) => net,
        other => panic!("{other:?}"),
    }
}

fn mixture(spec: &Spec, layer: usize) -> Mixture {
    match spec.layers[layer].feed {
        FeedForward::Experts(mixture) => mixture,
        other => panic!("{other:?}"),
    }
}

fn of_file(case: &str) -> Spec {
    let folder = regguf(case, |keys| keys);
    Spec::read(&weights::open(&folder.path().join("model.gguf")).expect("a fixture")).expect("a spec")
}

fn planned(path: &Path) -> Result<u64, model::Error> {
    let opened = weights::open(path).expect("a readable file");
    Spec::read(&opened).and_then(|spec| spec.weight_bytes(&opened, Tier::best(), Precision::Fast))
}

fn said(case: &str, edit: impl FnOnce(&mut Map<String, Value>)) -> String {
    planned(folder(case, edit).path()).expect_err("a refusal").to_string()
}

#[test]
fn the_cache_holds_one_latent_for_all_heads() {
    for (case, query_rank, dims, cached) in [
        ("deepseek-v2", None, (4, 12, 8, 12), 40),
        ("deepseek-v3", Some(24), (4, 12, 8, 12), 24),
        ("glm4-moe-lite", Some(24), (4, 12, 8, 20), 24),
        ("youtu", Some(24), (4, 12, 8, 12), 24),
    ] {
        let directory = read(&folder(case, |_| ())).expect("a fixture");
        let file = of_file(case);
        for spec in [&directory, &file] {
            let net = latent(spec);
            assert_eq!(
                (net.query_rank, net.heads, net.plain, net.rotary, net.value_dim).0,
                query_rank,
                "{case}"
            );
            assert_eq!((net.heads, net.plain, net.rotary, net.value_dim), dims, "{case}");
            assert_eq!(spec.heads_of(&spec.layers[0]), KvHeads { kv_heads: 1, head_dim: cached }, "{case}");
            assert_eq!(spec.kv_layers(), spec.layers.len(), "{case}");
            // Keys of the head's width, values of the next multiple of 16.
            let wide = cached + cached.next_multiple_of(16);
            assert_eq!(spec.kv_bytes_per_token(KvDtype::F16), spec.layers.len() * 2 * wide, "{case}");
        }
        assert_eq!(directory.parameters(), file.parameters(), "{case}");
        assert!((directory.attention_scale - file.attention_scale).abs() < 1e-7, "{case}");
        assert_eq!(directory.ropes[0].mscale(), file.ropes[0].mscale(), "{case}");
    }
}

#[test]
fn a_row_multiplies_by_each_weight_once() {
    let spec = read(&folder("youtu", |_| ())).expect("a fixture");
    let (layers, width, net) = (2, 32, latent(&spec));
    let norms = layers * (2 * width + 24 + net.rank) + width;
    let scores = layers * 2 * 4 * net.cached().head_dim;
    assert_eq!(spec.multiply_adds(0, 1, 1), spec.parameters() - norms as u64 + scores as u64);
}

#[test]
fn routers_are_those_of_the_class_or_of_the_file() {
    let directory = |case| read(&folder(case, |_| ())).expect("a fixture");
    for spec in [directory("deepseek-v3"), of_file("deepseek-v3")] {
        let router = mixture(&spec, 1).router;
        assert_eq!((router.score, router.bias), (Score::Sigmoid, Some(RouterBias::Choice)));
        assert_eq!((router.renormalise, router.scale), (true, 2.5));
        assert_eq!(router.groups.map(|groups| (groups.count, groups.used)), Some((4, 2)));
        assert_eq!(spec.layers[0].feed, FeedForward::Dense { width: 64 });
    }
    for spec in [directory("deepseek-v2"), of_file("deepseek-v2")] {
        let mixture = mixture(&spec, 2);
        assert_eq!((mixture.router.score, mixture.router.bias), (Score::Softmax, None));
        assert_eq!((mixture.router.groups, mixture.shared.map(|shared| shared.width)), (None, Some(32)));
    }
    let youtu = of_file("youtu");
    assert_eq!(youtu.layers[1].feed, FeedForward::Dense { width: 64 });
}

#[test]
fn abuse_widths_of_latents_that_do_not_fit_are_refused_by_name_value_and_limit() {
    for (key, value, words) in [
        ("kv_lora_rank", Value::Null, ["kv_lora_rank", ""]),
        ("kv_lora_rank", json!(0), ["kv_lora_rank", "1 to 568"]),
        ("kv_lora_rank", json!(569), ["569", "1 to 568, 576 less the 8"]),
        ("kv_lora_rank", json!(15), ["kv_a_proj_with_mqa.weight", "[23, 32]"]),
        ("qk_rope_head_dim", Value::Null, ["qk_rope_head_dim", ""]),
        ("qk_rope_head_dim", json!(7), ["qk_rope_head_dim", "an even number from 2 to 574"]),
        ("qk_rope_head_dim", json!(0), ["qk_rope_head_dim", "an even number"]),
        ("qk_rope_head_dim", json!(1u64 << 40), ["qk_rope_head_dim", "an even number"]),
        ("qk_nope_head_dim", json!(1u64 << 40), ["does not rotate", "1 to 65536"]),
        ("qk_nope_head_dim", json!(13), ["q_b_proj.weight", "[84, 24]"]),
        ("v_head_dim", json!(13), ["kv_b_proj.weight", "[100, 16]"]),
        ("v_head_dim", json!(0), ["width of a value", "1 to 65536"]),
        ("q_lora_rank", json!(0), ["queries' latent", "1 to 65536"]),
        ("q_lora_rank", json!(25), ["q_a_proj.weight", "[25, 32]"]),
        ("n_group", json!(3), ["groups of experts", "as many of the 8 experts"]),
        ("topk_group", json!(5), ["groups of experts used", "1 to 4"]),
        ("topk_group", Value::Null, ["topk_group", ""]),
        ("num_experts_per_tok", json!(5), ["experts used", "1 to 4"]),
        ("num_key_value_heads", json!(2), ["num_key_value_heads", "the 4 heads"]),
        ("scoring_func", json!("softmax"), ["scoring_func", "sigmoid"]),
        ("attention_bias", json!(true), ["attention_bias", "false"]),
        ("moe_layer_freq", json!(2), ["moe_layer_freq", "1"]),
    ] {
        let said = said("deepseek-v3", |config| drop(config.insert(key.into(), value.clone())));
        assert!(words.iter().all(|word| said.contains(word)), "{key} {value}: {said}");
    }
    let kinds =
        |config: &mut Map<String, Value>| drop(config.insert("mlp_layer_types".into(), json!(["dense"])));
    assert!(said("glm4-moe-lite", kinds).contains("one for each of the 3 layers"));
}

#[test]
fn abuse_a_gguf_whose_widths_do_not_fit_is_refused_by_name_value_and_limit() {
    use gguf::Value::U32;
    for (key, value, words) in [
        ("attention.kv_lora_rank", U32(569), ["kv_lora_rank", "1 to 568"]),
        ("rope.dimension_count", U32(9), ["rope.dimension_count", "an even number"]),
        ("attention.key_length_mla", U32(8), ["key_length_mla", "more than the 8"]),
        ("attention.key_length_mla", U32(21), ["attn_q_b.weight", "[84, 24]"]),
        ("attention.value_length_mla", U32(13), ["attn_v_b.weight", "[4, 13, 16]"]),
        ("expert_group_count", U32(3), ["groups of experts", "as many of the 8 experts"]),
        ("expert_gating_func", U32(9), ["expert_gating_func", "1 to 3"]),
    ] {
        let folder = regguf("deepseek-v3", |keys| with(keys, &format!("deepseek2.{key}"), value));
        let said = planned(&folder.path().join("model.gguf")).expect_err("a refusal").to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{key}: {said}");
    }
    let folder = regguf("deepseek-v3", |keys| {
        let mut left = gguf::Metadata::default();
        for (key, value) in keys.iter().filter(|(key, _)| *key != "deepseek2.attention.kv_lora_rank") {
            left.insert(key.to_owned(), value.clone());
        }
        left
    });
    let said = planned(&folder.path().join("model.gguf")).expect_err("a refusal").to_string();
    assert!(said.contains("deepseek2.attention.kv_lora_rank"), "{said}");
}

/// The logits of a fixture's GGUF as it was before the KV cache held latents: keys and values of all heads in one tensor, of
/// these blocks in each layer, and other widths.
fn of_older_file(case: &Path, dtype: Dtype, blocks: &[Vec<u8>]) -> Vec<f32> {
    let new = weights::open(&case.join("model.gguf")).expect("a fixture");
    let names: Vec<String> = (0..blocks.len()).map(|layer| format!("blk.{layer}.attn_kv_b.weight")).collect();
    let kept = new.tensors().filter(|t| !t.name.contains("attn_k_b") && !t.name.contains("attn_v_b"));
    let mut tensors: Vec<Tensor> = kept.map(|t| new.tensor(t.name).expect("a fixture")).collect();
    let both = names.iter().zip(blocks);
    tensors.extend(both.map(|(name, bytes)| Tensor { name, dtype, shape: vec![96, 32], bytes }));
    let mut keys = gguf::Metadata::default();
    for (key, value) in new.metadata().gguf().expect("keys").iter() {
        let value = match key {
            "deepseek2.attention.key_length" => gguf::Value::U32(20),
            "deepseek2.attention.value_length" => gguf::Value::U32(12),
            "deepseek2.attention.head_count_kv" => gguf::Value::U32(4),
            key if key.ends_with("_mla") => continue,
            _ => value.clone(),
        };
        keys.insert(key.to_owned(), value);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old.gguf");
    gguf::write(&path, &keys, &tensors).expect("written");
    Runner::load(&path, Tier::best(), Precision::F32, KvDtype::F32, None).prompt(&prompts(case)[0], 7)
}

#[test]
fn fault_an_older_gguf_with_one_tensor_of_keys_and_values_gives_the_same() {
    let case = fixtures().join("deepseek-v2");
    let directory = weights::open(&case).expect("a fixture");
    let stored = |dtype, values: &[f32]| {
        let mut bytes = Vec::new();
        tensor::quantize(dtype, values, &mut bytes).expect("whole blocks");
        bytes
    };
    let floats = |dtype, bytes: &[u8]| {
        let mut values = vec![0.0; 96 * 32];
        tensor::dequantize(dtype, bytes, &mut values).expect("whole blocks");
        values
    };
    let published: Vec<Vec<f32>> = (0..3)
        .map(|layer| {
            let name = format!("model.layers.{layer}.self_attn.kv_b_proj.weight");
            let tensor = directory.tensor(&name).expect("a fixture");
            floats(tensor.dtype, tensor.bytes)
        })
        .collect();
    let plain: Vec<_> = published.iter().map(|values| stored(Dtype::BF16, values)).collect();
    let worst = error(&of_older_file(&case, Dtype::BF16, &plain), &truth(&case, 0));
    assert!(worst < 1e-4, "{worst:e}");
    // Blocks are what their floats are, but that keys are rounded to half precision.
    let blocks: Vec<_> = published.iter().map(|values| stored(Dtype::Q8_0, values)).collect();
    let same: Vec<_> = blocks.iter().map(|bytes| stored(Dtype::F32, &floats(Dtype::Q8_0, bytes))).collect();
    let [quantized, exact] =
        [(Dtype::Q8_0, &blocks), (Dtype::F32, &same)].map(|(dtype, of)| of_older_file(&case, dtype, of));
    let worst = error(&quantized, &exact);
    assert!(worst < 2e-3, "{worst:e}");
}

/// Many rows are multiplied a head at a time, few rows several heads at once.
#[test]
fn a_long_prompt_gets_the_bits_that_it_gets_in_parts() {
    for (precision, kv) in [(Precision::Fast, KvDtype::F16), (Precision::F32, KvDtype::F32)] {
        let case = fixtures().join("deepseek-v3");
        let mut runner = Runner::load(&case, Tier::best(), precision, kv, None);
        let prompt: Vec<u32> = prompts(&case)[0].iter().copied().cycle().take(150).collect();
        let whole = runner.prompt(&prompt, 150);
        assert!(whole == runner.prompt(&prompt, 70), "{precision:?}: two parts of many rows");
        assert!(whole == runner.prompt(&prompt, 17), "{precision:?}: parts of few rows");
    }
}
