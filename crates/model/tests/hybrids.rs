//! Keys of hybrids with Mamba-2 layers: each is honoured, and a missing or wrong value is refused by name.

use crate::keys::{folder, read, regguf, with};

use model::{FeedForward, Layer, LayerWeight, Mamba2, Mamba2Factors, Mixer, Spec, WeightRole};
use serde_json::{Value, json};
use weights::gguf;

fn changed(case: &str, key: &str, value: Value) -> Result<Spec, model::Error> {
    read(&folder(case, |config| drop(config.insert(key.into(), value))))
}

fn said(result: Result<Spec, model::Error>) -> String {
    result.expect_err("a refusal").to_string()
}

fn regguffed(case: &str, edit: impl FnOnce(gguf::Metadata) -> gguf::Metadata) -> Result<Spec, model::Error> {
    let folder = regguf(case, edit);
    Spec::read(&weights::open(&folder.path().join("model.gguf")).expect("a readable file"))
}

fn without(keys: gguf::Metadata, name: &str) -> gguf::Metadata {
    let mut left = gguf::Metadata::default();
    for (key, value) in keys.iter().filter(|(key, _)| *key != name) {
        left.insert(key.to_owned(), value.clone());
    }
    left
}

fn mamba2(spec: &Spec) -> Mamba2 {
    let net = spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::Mamba2(net) => Some(net),
        _ => None,
    });
    net.expect("a layer of Mamba-2")
}

#[test]
fn granite_4_has_layers_of_mamba_2_in_both_kinds_of_file() {
    let directory = read(&folder("granite4-h", |_| ())).expect("a fixture");
    let file = regguffed("granite4-h", |keys| keys).expect("a fixture");
    for (spec, log_rates) in [(&directory, true), (&file, false)] {
        let net = mamba2(spec);
        assert_eq!((net.heads, net.head_dim, net.groups, net.state_dim, net.kernel), (6, 16, 3, 16, 4));
        assert_eq!((net.conv_bias, net.log_rates, net.steps), (true, log_rates, (0.0, f32::INFINITY)));
        assert_eq!((spec.family, spec.kv_layers(), spec.has_states()), ("granitehybrid", 1, true));
        assert_eq!((spec.experts(), spec.layers[1].rope), ((5, 3), None));
        // Convolution: three inputs of 192 channels; recurrence: 6 heads of 16 by 16.
        assert_eq!(spec.layers[0].state_floats(), 3 * 192 + 6 * 16 * 16);
    }
    assert_eq!(directory.parameters(), file.parameters());
    let limited = read(&folder("granite4-h-limits", |_| ())).expect("a fixture");
    assert_eq!((mamba2(&limited).steps, limited.layers[1].rope), ((0.45, 1.1), Some(0)));
    let dense = read(&folder("granite4-h-dense", |_| ())).expect("a fixture");
    assert_eq!((dense.experts(), dense.layers[0].feed.width()), ((0, 0), 48));
    let conv_biases = |spec: &Spec| {
        let biases = |role| matches!(role, WeightRole::Layer(_, LayerWeight::ConvBias));
        spec.weights().iter().filter(|weight| biases(weight.role)).count()
    };
    assert_eq!((conv_biases(&dense), conv_biases(&file)), (0, 2));
}

#[test]
fn abuse_dimensions_of_mamba_2_that_do_not_fit_are_refused_with_their_limit() {
    for (key, value, words) in [
        ("mamba_n_groups", json!(4), ["heads", "a multiple of the 4 groups"]),
        ("mamba_n_groups", json!(0), ["groups", "1 to 6"]),
        ("mamba_n_groups", json!(1_u64 << 40), ["groups", "1 to 6"]),
        ("mamba_d_head", json!(8), ["mamba_d_head", "16"]),
        ("mamba_n_heads", json!(7), ["mamba_n_heads", "96"]),
        ("mamba_n_heads", json!(0), ["mamba_n_heads", "96"]),
        ("mamba_expand", json!(3), ["mamba_d_head", "144"]),
        ("mamba_expand", json!(1e15), ["mamba_", ""]),
        ("mamba_d_state", json!(0), ["state size", "1 to 4096"]),
        ("mamba_d_state", json!(1e15), ["state size", "1 to 4096"]),
        ("mamba_d_conv", json!(1), ["convolution kernel", "2 to 8"]),
        ("mamba_d_conv", json!(9), ["convolution kernel", "2 to 8"]),
        ("mamba_proj_bias", json!(true), ["mamba_proj_bias", "false"]),
        ("hidden_act", json!("relu"), ["hidden_act", "silu"]),
        ("layer_types", json!(["mamba", "attention"]), ["layer_types", "3 layers"]),
        ("layer_types", json!(["mamba", "conv", "mamba"]), ["layer_types", "conv"]),
        ("layer_types", json!(["mamba", "mamba", "mamba"]), ["layers of attention", "1 to 3"]),
        ("time_step_limit", json!([0.1]), ["time_step_limit", "largest"]),
        ("time_step_limit", json!(0.1), ["time_step_limit", "largest"]),
        ("time_step_limit", json!([0.0, "far"]), ["time_step_limit", "largest"]),
        ("time_step_limit", json!([0.5, 0.1]), ["step limits", "least first"]),
        ("time_step_limit", json!([-0.5, 0.1]), ["step limits", "least first"]),
        ("time_step_limit", json!([0.0, {"__float__": "NaN"}]), ["step limits", "least first"]),
    ] {
        let said = said(changed("granite4-h", key, value.clone()));
        assert!(words.iter().all(|word| said.contains(word)), "{key} {value}: {said}");
    }
    let auto = changed("granite4-h", "mamba_d_head", json!("auto")).expect("the width over the heads");
    assert_eq!(mamba2(&auto).head_dim, 16);
    let unlimited = changed("granite4-h", "time_step_limit", Value::Null).expect("no limits");
    assert_eq!(mamba2(&unlimited).steps, (0.0, f32::INFINITY));
}

#[test]
fn abuse_a_gguf_without_the_keys_of_mamba_2_is_refused() {
    for key in ["conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank"] {
        let name = format!("granitehybrid.ssm.{key}");
        let said = said(regguffed("granite4-h", |keys| without(keys, &name)));
        assert!(said.contains(&name), "{key}: {said}");
    }
    use gguf::{Array, Value::Array as List, Value::U32};
    for (key, value, words) in [
        ("ssm.inner_size", U32(97), ["inner_size", "a multiple of the 6 heads"]),
        ("ssm.time_step_rank", U32(0), ["inner_size", "0 heads"]),
        ("ssm.group_count", U32(4), ["heads", "a multiple of the 4 groups"]),
        ("ssm.conv_kernel", U32(0), ["convolution kernel", "2 to 8"]),
        ("attention.head_count_kv", List(Array::I32(vec![0, 2])), ["head_count_kv", "3 layers"]),
        ("attention.head_count_kv", List(Array::I32(vec![0; 3])), ["key and value heads", "0"]),
    ] {
        let name = format!("granitehybrid.{key}");
        let said = said(regguffed("granite4-h", |keys| with(keys, &name, value)));
        assert!(words.iter().all(|word| said.contains(word)), "{key}: {said}");
    }
}

/// What each layer is, a letter for each, as Nemotron's files spell it.
fn letters(spec: &Spec) -> String {
    let letter = |layer: &Layer| match (layer.mixer, layer.feed) {
        (Mixer::Mamba2(_), FeedForward::None) => 'M',
        (Mixer::Attention, FeedForward::None) => '*',
        (Mixer::None, FeedForward::Dense { .. }) => '-',
        (Mixer::None, FeedForward::Experts(_)) => 'E',
        _ => '?',
    };
    spec.layers.iter().map(letter).collect()
}

#[test]
fn each_layer_of_nemotron_h_has_one_part() {
    for (case, family, parts) in
        [("nemotron-h", "nemotron_h", "M-*M-"), ("nemotron-h-moe", "nemotron_h_moe", "ME*E")]
    {
        let directory = read(&folder(case, |_| ())).expect("a fixture");
        let file = regguffed(case, |keys| keys).expect("a fixture");
        for spec in [&directory, &file] {
            assert_eq!((spec.family, letters(spec).as_str()), (family, parts));
            assert!(spec.layers.iter().all(|layer| layer.rope.is_none()) && !spec.gated);
            assert_eq!((spec.kv_layers(), spec.has_states()), (1, true));
        }
        assert_eq!(directory.parameters(), file.parameters());
    }
    let words = read(&folder("nemotron-h", |config| {
        config.remove("hybrid_override_pattern");
        let words = json!(["mamba", "mlp", "attention", "linear_attention", "mlp"]);
        config.insert("layers_block_type".into(), words);
    }));
    assert_eq!(letters(&words.expect("words in place of letters")), "M-*M-");
    let grouped = read(&folder("nemotron-h-groups", |_| ())).expect("a fixture");
    assert_eq!(letters(&grouped), "*EM-");
}

#[test]
fn abuse_layers_of_nemotron_h_that_do_not_add_up_are_refused() {
    for (key, value, words) in [
        ("hybrid_override_pattern", json!("M-*M"), ["hybrid_override_pattern", "5 layers"]),
        ("hybrid_override_pattern", json!("M-*Mx"), ["hybrid_override_pattern", "letters"]),
        ("hybrid_override_pattern", json!(5), ["hybrid_override_pattern", "text"]),
        ("hybrid_override_pattern", json!("M-MM-"), ["layers of attention", "0"]),
        ("hybrid_override_pattern", json!("ME*M-"), ["moe_intermediate_size", ""]),
        ("num_hidden_layers", json!(4), ["hybrid_override_pattern", "4 layers"]),
        ("n_groups", json!(3), ["heads", "a multiple of the 3 groups"]),
        ("mamba_num_heads", json!(0), ["heads", "1 to 4096"]),
        ("mamba_head_dim", json!(1e9), ["head size", "1 to 4096"]),
        ("mamba_hidden_act", json!("gelu"), ["mamba_hidden_act", "silu"]),
        ("use_bias", json!(true), ["use_bias", "false"]),
        ("attention_bias", json!(true), ["attention_bias", "false"]),
        ("moe_latent_size", json!(64), ["moe_latent_size", "64"]),
        ("sliding_window", json!(64), ["sliding_window", "64"]),
    ] {
        let said = said(changed("nemotron-h", key, value.clone()));
        assert!(words.iter().all(|word| said.contains(word)), "{key} {value}: {said}");
    }
    let unsaid = read(&folder("nemotron-h", |config| drop(config.remove("hybrid_override_pattern"))));
    assert!(said(unsaid).contains("hybrid_override_pattern"));
    let groups = changed("nemotron-h-groups", "topk_group", json!(4));
    assert!(said(groups).contains("groups of experts used"));
    use gguf::{Array, Value::Array as List, Value::U32};
    for (key, value, words) in [
        ("feed_forward_length", List(Array::I32(vec![0, 64])), ["feed_forward_length", "5 layers"]),
        ("attention.head_count_kv", List(Array::I32(vec![2])), ["head_count_kv", "5 layers"]),
        ("ssm.inner_size", U32(193), ["inner_size", "a multiple of the 8 heads"]),
        ("nextn_predict_layers", U32(5), ["nextn_predict_layers", "fewer than the 5 layers"]),
    ] {
        let name = format!("nemotron_h.{key}");
        let said = said(regguffed("nemotron-h", |keys| with(keys, &name, value)));
        assert!(words.iter().all(|word| said.contains(word)), "{key}: {said}");
    }
}

#[test]
fn falcon_h1_has_attention_and_mamba_2_side_by_side() {
    let spec = read(&folder("falcon-h1-norm", |_| ())).expect("a fixture");
    let Mixer::AttentionAndMamba2(net) = spec.layers[0].mixer else { panic!("{:?}", spec.layers[0].mixer) };
    assert_eq!((net.heads, net.head_dim, net.groups, net.norm, net.conv_bias), (4, 16, 2, true, false));
    assert_eq!((net.factors.gate, net.factors.out), (1.5 * 0.5, 0.4));
    assert_eq!((spec.kv_layers(), spec.has_states(), spec.logit_scale), (2, true, 0.5));
    let file = regguffed("falcon-h1", |keys| keys).expect("a fixture");
    let Mixer::AttentionAndMamba2(net) = file.layers[1].mixer else { panic!("{:?}", file.layers[1].mixer) };
    assert_eq!((net.norm, net.factors), (false, Mamba2Factors::ONE));
    for (key, value, words) in [
        ("mamba_d_head", json!(8), ["mamba_d_head", "16"]),
        ("mamba_d_ssm", json!(66), ["mamba_n_heads", "66"]),
        ("mamba_norm_before_gate", json!(true), ["mamba_norm_before_gate", "false"]),
        ("projectors_bias", json!(true), ["projectors_bias", "false"]),
        ("ssm_multipliers", json!([1.0, 2.0]), ["ssm_multipliers", "5 numbers"]),
        ("mlp_multipliers", json!("large"), ["mlp_multipliers", "2 numbers"]),
        ("mlp_multipliers", json!([1e300, 1.0]), ["factor on gates", "finite"]),
        ("ssm_out_multiplier", json!(1e300), ["Mamba-2 factor", "finite"]),
    ] {
        let said = said(changed("falcon-h1-norm", key, value.clone()));
        assert!(words.iter().all(|word| said.contains(word)), "{key} {value}: {said}");
    }
}
