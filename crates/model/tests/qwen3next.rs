//! Qwen3-Next: what its files say, and what is refused.

use crate::keys::{folder, read, regguf};

use cpu::Tier;
use kernels::Precision;
use model::{FeedForward, Mixer, Spec};
use serde_json::{Value, json};

/// What is wrong with a fixture whose `config.json` has another value of `key`.
fn said(key: &str, value: Value) -> String {
    let folder = folder("qwen3next", |config| drop(config.insert(key.into(), value)));
    let opened = weights::open(folder.path()).expect("a readable folder");
    let planned =
        Spec::read(&opened).and_then(|spec| spec.weight_bytes(&opened, Tier::best(), Precision::Fast));
    planned.expect_err("a refusal").to_string()
}

#[test]
fn projections_fused_by_key_head_are_read_from_both_kinds_of_file() {
    let directory = read(&folder("qwen3next", |_| ())).expect("a fixture");
    let file = regguf("qwen3next", |keys| keys);
    let file =
        Spec::read(&weights::open(&file.path().join("model.gguf")).expect("a fixture")).expect("a spec");
    for spec in [&directory, &file] {
        let Mixer::DeltaNet(net) = spec.layers[0].mixer else { panic!("{:?}", spec.layers[0].mixer) };
        assert_eq!(
            (net.key_heads, net.value_heads, net.key_dim, net.value_dim, net.tiled),
            (2, 6, 8, 12, false)
        );
        assert_eq!((spec.family, spec.kv_layers(), spec.experts()), ("qwen3next", 1, (8, 3)));
    }
    assert_eq!(directory.parameters(), file.parameters());
    let mixed = read(&folder("qwen3next-mixed", |_| ())).expect("a fixture");
    assert_eq!(mixed.layers[1].feed, FeedForward::Dense { width: 64 });
}

#[test]
fn abuse_heads_that_the_projections_do_not_have_are_refused() {
    for (key, value, words) in [
        (
            "linear_num_value_heads",
            json!(5),
            ["value heads of linear attention", "a multiple of the 2 key heads"],
        ),
        ("linear_num_value_heads", json!(4), ["in_proj_qkvz.weight", "[128, 32]"]),
        ("linear_num_key_heads", json!(0), ["key heads of linear attention", "1 to 4096"]),
        ("linear_num_key_heads", json!(3), ["in_proj_qkvz.weight", "[192, 32]"]),
        ("linear_num_key_heads", Value::Null, ["linear_num_key_heads", ""]),
        ("linear_value_head_dim", json!(1u64 << 40), ["value size of linear attention", "1 to 4096"]),
        ("num_experts_per_tok", json!(9), ["num_experts_per_tok", "at most the 8 experts"]),
        ("layer_types", json!(["linear_attention"]), ["layer_types", "4 layers"]),
    ] {
        let said = said(key, value.clone());
        assert!(words.iter().all(|word| said.contains(word)), "{key} {value}: {said}");
    }
}
