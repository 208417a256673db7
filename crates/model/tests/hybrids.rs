//! Keys of hybrids with Mamba-2 layers: each is honoured, and a missing or wrong value is refused by name.

use crate::keys::{folder, read, regguf, with};

use model::{LayerWeight, Mamba2, Mixer, Spec, WeightRole};
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
        ("mamba_n_groups", json!(1 << 40), ["groups", "1 to 6"]),
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
