//! Keys that only one family reads: each is honoured, and a missing or wrong value is refused by name.

use crate::keys::{folder, read, regguf, with};

use model::{QkNorm, QueryTemperature, RopeScaling, Spec};
use serde_json::{Map, Value, json};
use weights::gguf;

fn changed(case: &str, key: &str, value: Value) -> Result<Spec, model::Error> {
    read(&folder(case, |config| drop(config.insert(key.into(), value))))
}

fn changed_gguf(case: &str, key: &str, value: gguf::Value) -> Result<Spec, model::Error> {
    let folder = regguf(case, |keys| with(keys, key, value));
    Spec::read(&weights::open(&folder.path().join("model.gguf")).expect("a readable file"))
}

/// Changes a key of `rope_parameters`; null removes it.
fn rope(case: &str, key: &str, value: Value) -> Result<Spec, model::Error> {
    read(&folder(case, |config| {
        let rope = config["rope_parameters"].as_object_mut().expect("an object");
        match value {
            Value::Null => drop(rope.remove(key)),
            value => drop(rope.insert(key.into(), value)),
        }
    }))
}

fn said(result: Result<Spec, model::Error>) -> String {
    result.expect_err("a refusal").to_string()
}

fn with_rope(spec: &Spec) -> Vec<bool> {
    spec.layers.iter().map(|layer| layer.rope.is_some()).collect()
}

#[test]
fn layers_without_rope_are_read_from_the_list_or_the_interval() {
    let spec = changed("smollm3-window", "no_rope_layers", json!([0, 1, 1, 0])).expect("a longer list");
    assert_eq!(with_rope(&spec), [false, true, true]);
    let spec = read(&folder("smollm3-window", |config| {
        config.remove("no_rope_layers");
        config.insert("no_rope_layer_interval".into(), json!(2));
    }));
    assert_eq!(with_rope(&spec.expect("an interval")), [true, false, true]);
    let spec = read(&folder("smollm3", |config| {
        config.remove("no_rope_layers");
        config.remove("no_rope_layer_interval");
    }));
    assert_eq!(with_rope(&spec.expect("the default")), [true, true, true, false, true]);
    for (key, value) in [
        ("no_rope_layers", json!([1, 0])),
        ("no_rope_layers", json!("all")),
        ("no_rope_layers", json!([1, -1, 1])),
        ("layer_types", json!(["full_attention"])),
        ("use_sliding_window", json!(2)),
    ] {
        let said = said(changed("smollm3-window", key, value.clone()));
        assert!(said.contains(key), "{key} {value}: {said}");
    }
    let none = read(&folder("smollm3-window", |config| {
        config.remove("no_rope_layers");
        config.insert("no_rope_layer_interval".into(), json!(0));
    }));
    assert!(said(none).contains("no_rope_layer_interval"));
}

#[test]
fn a_window_of_letters_is_repeated() {
    let letters = |pattern: Value| {
        read(&folder("exaone4", |config| {
            config.remove("layer_types");
            config.insert("sliding_window_pattern".into(), pattern);
        }))
    };
    assert_eq!(with_rope(&letters(json!("LG")).expect("letters")), [true, false, true, false]);
    assert_eq!(with_rope(&letters(json!("LLLG")).expect("letters")), [true, true, true, false]);
    assert_eq!(with_rope(&letters(json!(3)).expect("a period")), [true, true, false, true]);
    for pattern in [json!("LLXG"), json!(""), json!(2.5), json!(-1), json!([1])] {
        let said = said(letters(pattern.clone()));
        assert!(said.contains("sliding_window_pattern"), "{pattern}: {said}");
    }
    // Null is no window, and an absent key the default.
    let global = changed("exaone4", "sliding_window", Value::Null).expect("no window");
    assert!(global.layers.iter().all(|layer| layer.window.is_none() && layer.rope.is_some()));
    let default = read(&folder("exaone4", |config| drop(config.remove("sliding_window"))));
    assert_eq!(default.expect("the default").layers[0].window, Some(4096));
}

#[test]
fn the_window_pattern_of_a_gguf_is_a_list_or_a_period() {
    use gguf::{Array, Value};
    const KEY: &str = "olmo2.attention.sliding_window_pattern";
    let slides = |value| -> Vec<bool> {
        let spec = changed_gguf("olmo3", KEY, value).expect("a pattern");
        spec.layers.iter().map(|layer| layer.window.is_some()).collect()
    };
    assert_eq!(slides(Value::Array(Array::Bool(vec![true, true, false, true]))), [true, true, false, true]);
    assert_eq!(slides(Value::Array(Array::I32(vec![0, 1, 1, 0]))), [false, true, true, false]);
    assert_eq!(slides(Value::Array(Array::U32(vec![1, 0, 0, 0]))), [true, false, false, false]);
    assert_eq!(slides(Value::U32(2)), [true, false, true, false]);
    for value in [
        Value::Array(Array::Bool(vec![true])),
        Value::Array(Array::F32(vec![1.0; 4])),
        Value::String("LLLG".into()),
        Value::F32(1.5),
    ] {
        let said = said(changed_gguf("olmo3", KEY, value));
        assert!(said.contains("sliding_window_pattern"), "{said}");
    }
}

#[test]
fn a_number_listed_for_each_layer_must_be_the_same() {
    use gguf::{Array, Value};
    const KEY: &str = "granite.attention.head_count_kv";
    let kv_heads = |list| changed_gguf("granite4", KEY, Value::Array(list)).map(|spec| spec.kv_heads);
    assert_eq!(kv_heads(Array::U32(vec![2, 2])).expect("one number"), 2);
    for list in [Array::I32(vec![2, 4]), Array::I32(Vec::new()), Array::Bool(vec![true; 2])] {
        let said = kv_heads(list).expect_err("a refusal").to_string();
        assert!(said.contains("head_count_kv"), "{said}");
    }
}

#[test]
fn granite_4_is_read_without_mamba_and_without_experts() {
    let spec = read(&folder("granite4", |_| ())).expect("a fixture");
    assert_eq!((spec.family, spec.layers[0].feed.width()), ("granite", 48));
    let wide = changed("granite4", "shared_intermediate_size", json!(96)).expect("another width");
    assert_eq!(wide.layers[1].feed.width(), 96);
    for place in [Value::Null, json!("nope")] {
        let spec = changed("granite4", "position_embedding_type", place).expect("no rope");
        assert_eq!(with_rope(&spec), [false; 2]);
    }
    let spelled_anew = changed("granite4", "layer_types", json!(["full_attention", "attention"]));
    assert!(spelled_anew.is_ok());
    for (key, value, words) in [
        ("layer_types", json!(["mamba", "mamba"]), "layers of attention"),
        ("layer_types", json!(["attention"]), "layer_types"),
        ("layer_types", json!([1, 2]), "layer_types"),
        ("num_local_experts", json!(8), "experts used"),
    ] {
        let said = said(changed("granite4", key, value));
        assert!(said.contains(words), "{key}: {said}");
    }
    let unsaid = read(&folder("granite4", |config: &mut Map<String, Value>| {
        config.remove("num_local_experts");
    }));
    assert!(said(unsaid).contains("num_local_experts"), "a number of experts that is not there");
    let off = changed_gguf("granite4", "granite.rope.scaling.finetuned", gguf::Value::Bool(false));
    assert_eq!(with_rope(&off.expect("no rope")), [false; 2]);
    let wrong = changed_gguf("granite4", "granite.rope.scaling.finetuned", gguf::Value::U32(1));
    assert!(said(wrong).contains("finetuned"));
}

#[test]
fn hunyuan_stretches_the_base_of_rope() {
    let spec = read(&folder("hunyuan", |_| ())).expect("a fixture");
    assert_eq!((spec.qk_norm, &spec.ropes[0].scaling), (QkNorm::HeadAfterRope, &RopeScaling::None));
    assert!((spec.ropes[0].base / 874_339.3 - 1.0).abs() < 1e-6, "{}", spec.ropes[0].base);
    for alpha in [json!("many"), json!(0.0), json!(-2)] {
        let said = said(rope("hunyuan", "alpha", alpha.clone()));
        assert!(said.contains("alpha") && said.contains("a positive number"), "{alpha}: {said}");
    }
    // Without it the base follows the length of the text.
    let said = said(rope("hunyuan", "alpha", Value::Null));
    assert!(said.contains("rope_type is dynamic"), "{said}");
}

#[test]
fn queries_of_ministral_need_their_scale() {
    let spec = read(&folder("ministral3", |_| ())).expect("a fixture");
    assert_eq!(spec.query_temperature, Some(QueryTemperature { scale: 0.3, step: 16 }));
    let none = said(rope("ministral3", "llama_4_scaling_beta", Value::Null));
    assert!(none.contains("llama_4_scaling_beta"), "{none}");
    for (key, value, words) in [
        ("llama_4_scaling_beta", json!("warm"), "llama_4_scaling_beta"),
        ("llama_4_scaling_beta", json!(1e300), "query temperature"),
        ("original_max_position_embeddings", json!(0), "step of the query temperature"),
    ] {
        let said = said(rope("ministral3", key, value));
        assert!(said.contains(words), "{key}: {said}");
    }
    // A GGUF of Mistral Small 3 has no such key.
    let none = changed_gguf("ministral3", "mistral3.attention.temperature_scale", gguf::Value::F32(0.0));
    assert_eq!(none.expect("no scale").query_temperature, None);
    let wrong = changed_gguf("ministral3", "mistral3.attention.temperature_scale", gguf::Value::Bool(true));
    assert!(said(wrong).contains("temperature_scale"));
}

/// DeepSeek-R1-0528-Qwen3-8B has `attn_factor`, which its converter stores under the name of another factor.
#[test]
fn fault_a_part_of_the_yarn_factor_is_not_taken_for_the_whole() {
    const KEY: &str = "qwen3.rope.scaling.yarn_attn_factor";
    let factor = |given| {
        let spec = changed_gguf("qwen3-yarn", KEY, gguf::Value::F32(given)).expect("a fixture");
        spec.ropes[0].mscale()
    };
    assert_eq!(factor(1.25), 1.25);
    assert!((factor(0.878_248_9) - (0.1 * 4f32.ln() + 1.0)).abs() < 1e-6);
}
