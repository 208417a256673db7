//! What only Gemma 3n has in its files: residual streams, a low-rank map beside attention, a share of gates that counts.

use crate::keys::{folder, read, regguf, with};
use crate::runner::{Runner, fixtures};

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, Precision};
use model::{AltUp, FeedForward, KvSource, Model, Scratch, Spec, WeightRole};
use serde_json::{Value, json};
use tensor::Dtype;
use weights::gguf;

fn changed(case: &str, key: &str, value: Value) -> Result<Spec, model::Error> {
    read(&folder(case, |config| drop(config.insert(key.into(), value))))
}

fn changed_gguf(key: &str, value: gguf::Value) -> Result<Spec, model::Error> {
    let folder = regguf("gemma3n", |keys| with(keys, key, value));
    Spec::read(&weights::open(&folder.path().join("model.gguf")).expect("a readable file"))
}

fn floats(list: &[f32]) -> gguf::Value {
    gguf::Value::Array(gguf::Array::F32(list.to_vec()))
}

fn said(result: Result<Spec, model::Error>) -> String {
    result.expect_err("a refusal").to_string()
}

fn of_one_stream(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.alt_up = None;
    spec
}

/// Loads a copy of the fixture's directory in which a tensor has another name of the same length.
fn renamed(from: &str, to: &str) -> String {
    let folder = folder("gemma3n", |_| ());
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("a fixture");
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect("the name");
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    std::fs::write(&path, bytes).expect("written");
    let opened = weights::open(folder.path()).expect("a readable folder");
    let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
    let loaded = Model::load(&opened, &compute, Precision::Fast, &mut |_| ());
    loaded.err().expect("a refusal").to_string()
}

#[test]
fn both_files_tell_the_same_layers() {
    let directory = read(&folder("gemma3n", |_| ())).expect("a fixture");
    let file =
        Spec::read(&weights::open(&fixtures().join("gemma3n/model.gguf")).expect("a fixture")).unwrap();
    assert_eq!(directory.alt_up, Some(AltUp { streams: 4, active: 0, scaled: true, laurel_rank: 8 }));
    assert_eq!(directory.alt_up, file.alt_up);
    assert_eq!((directory.per_layer_width, directory.per_layer_vocab), (8, 128));
    assert_eq!((file.per_layer_width, file.per_layer_vocab), (8, 128));
    assert_eq!((directory.logit_soft_cap, file.logit_soft_cap), (Some(30.0), Some(30.0)));
    for (one, other) in directory.layers.iter().zip(&file.layers) {
        assert_eq!(
            (one.window, one.rope, one.kv, one.feed),
            (other.window, other.rope, other.kv, other.feed)
        );
        match (one.gate_cutoff, other.gate_cutoff) {
            // The converter computed the quantile.
            (Some(one), Some(other)) => assert!((one - other).abs() < 1e-6, "{one} {other}"),
            (one, other) => assert_eq!(one, other),
        }
    }
    let widths: Vec<FeedForward> = directory.layers.iter().map(|layer| layer.feed).collect();
    assert_eq!(widths, [64, 64, 96, 64, 64, 96].map(|width| FeedForward::Dense { width }));
    let sources: Vec<KvSource> = directory.layers.iter().skip(3).map(|layer| layer.kv).collect();
    assert_eq!(sources, [KvSource::Layer(1), KvSource::Layer(1), KvSource::Layer(2)]);
}

#[test]
fn a_file_that_names_no_sparsity_has_that_of_the_class() {
    let without = |layers: usize| {
        let spec = read(&folder("gemma3n", |config| {
            config.insert("activation_sparsity_pattern".into(), Value::Null);
            config.insert("num_hidden_layers".into(), json!(layers));
            config.insert("layer_types".into(), Value::Null);
            config.insert("intermediate_size".into(), json!(64));
        }));
        let cutoffs: Vec<_> = spec.expect("a spec").layers.iter().map(|layer| layer.gate_cutoff).collect();
        cutoffs
    };
    assert_eq!(without(10), [None; 10]);
    let cutoffs = without(12);
    assert!(cutoffs[..10].iter().all(|cutoff| cutoff.is_some_and(|c| (c - 1.644_853_6).abs() < 1e-6)));
    assert_eq!(cutoffs[10..], [None; 2]);
}

#[test]
fn memory_counts_the_streams_and_no_table_of_the_file() {
    let opened = weights::open(&fixtures().join("gemma3n").join("model.gguf")).expect("a fixture");
    let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
    let model = Model::load(&opened, &compute, Precision::Fast, &mut |_| ()).expect("a fixture");
    let spec = &model.spec;
    let packed = spec.packed_weights(&opened, compute.tier, Precision::Fast).expect("a fixture");
    let table = packed.iter().find(|weight| weight.role == WeightRole::PerLayerEmbedding);
    assert_eq!(table.map(|table| (table.rows, table.cols, table.bytes)), Some((128, 48, 0)));
    let bytes = spec.weight_bytes(&opened, compute.tier, Precision::Fast).expect("a fixture");
    assert_eq!(bytes, model.bytes() as u64);
    let single = of_one_stream(spec);
    // A row has four streams of 32 values, and what the router says of each.
    assert_eq!(Scratch::bytes(spec, 10, 2) - Scratch::bytes(&single, 10, 2), 10 * 4 * 4 * (32 + 1));
    assert_eq!((spec.kv_layers(), spec.last_kept_layer()), (3, 2));
}

#[test]
fn each_row_multiplies_by_the_projections_of_streams() {
    let spec = read(&folder("gemma3n", |_| ())).expect("a fixture");
    let single = of_one_stream(&spec);
    let around = 2 * 3 * 32 * 32;
    // Two routers, the prediction of each stream from each, the correction of each, and LAuReL.
    let of_layer = 32 * (2 * 4 + 4 * 4 + 4 + 2 * 8);
    assert_eq!(spec.multiply_adds(5, 1, 1) - single.multiply_adds(5, 1, 1), around + 6 * of_layer);
}

#[test]
fn abuse_streams_that_cannot_be_are_refused_by_key_and_limit() {
    for (streams, limit) in [(0, "1 to 8"), (9, "1 to 8"), (1_000_000, "1 to 8")] {
        let said = said(changed("gemma3n", "altup_num_inputs", json!(streams)));
        assert!(said.contains("altup_num_inputs") && said.contains(&streams.to_string()), "{said}");
        assert!(said.contains(limit), "{said}");
    }
    for active in [4, 5, 300] {
        let said = said(changed("gemma3n", "altup_active_idx", json!(active)));
        assert!(said.contains("altup_active_idx") && said.contains(&active.to_string()), "{said}");
        assert!(said.contains("4 streams"), "{said}");
    }
    for (key, value) in [("altup.num_inputs", 0), ("altup.active_idx", 4)] {
        let said = said(changed_gguf(&format!("gemma3n.{key}"), gguf::Value::U32(value)));
        assert!(said.contains(&format!("gemma3n.{key}")) && said.contains(&value.to_string()), "{said}");
    }
    let said = said(changed("gemma3n", "laurel_rank", json!(0)));
    assert!(said.contains("laurel_rank") && said.contains("at least 1"), "{said}");
    let said = self::said(changed("gemma3n", "laurel_rank", json!(1 << 20)));
    assert!(said.contains("rank of LAuReL") && said.contains("65536"), "{said}");
    let said = self::said(changed("gemma3n", "hidden_size_per_layer_input", json!(0)));
    assert!(said.contains("hidden_size_per_layer_input"), "{said}");
}

#[test]
fn abuse_a_sparsity_of_another_length_or_beyond_its_range_is_refused_by_key() {
    const KEY: &str = "activation_sparsity_pattern";
    let said = said(changed("gemma3n", KEY, json!([0.95, 0.95])));
    assert!(said.contains(KEY) && said.contains('2') && said.contains("6 layers"), "{said}");
    for share in [json!(1.0), json!(-0.5), json!(2)] {
        let said = self::said(changed("gemma3n", KEY, json!([share, 0.0, 0.0, 0.0, 0.0, 0.0])));
        assert!(said.contains(KEY) && said.contains("at least 0 and less than 1"), "{said}");
    }
    for value in [json!(0.95), json!("most"), json!([0.0, 0.0, null, 0.0, 0.0, 0.0])] {
        let said = self::said(changed("gemma3n", KEY, value));
        assert!(said.contains(KEY) && said.contains("a list of numbers"), "{said}");
    }
    const SCALE: &str = "gemma3n.activation_sparsity_scale";
    let said = self::said(changed_gguf(SCALE, floats(&[1.0; 7])));
    assert!(said.contains(SCALE) && said.contains('7') && said.contains("6 layers"), "{said}");
    for bad in [f32::NAN, f32::INFINITY] {
        let said = self::said(changed_gguf(SCALE, floats(&[1.0, bad, 1.0, 1.0, 1.0, 1.0])));
        assert!(said.contains(SCALE) && said.contains("finite"), "{said}");
    }
    let said = self::said(changed_gguf(SCALE, gguf::Value::F32(1.6)));
    assert!(said.contains(SCALE) && said.contains("a list of numbers"), "{said}");
}

#[test]
fn abuse_missing_tensors_of_the_streams_are_named() {
    for (from, to) in [
        ("model.altup_projections.1.weight", "model.altup_projections.7.weight"),
        ("model.altup_unembed_projections.2.weight", "model.altup_unembed_projections.5.weight"),
        ("model.layers.4.altup.modality_router.weight", "model.layers.4.altup.modality_rooter.weight"),
        ("model.layers.2.altup.correct_output_scale", "model.layers.2.altup.correct_output_stale"),
        ("model.layers.0.laurel.linear_right.weight", "model.layers.0.laurel.linear_light.weight"),
        ("model.per_layer_projection_norm.weight", "model.per_layer_projection_gnome.weigh"),
    ] {
        let said = renamed(from, to);
        assert!(said.contains(from) && said.contains(to), "{said}");
    }
    // A file of more streams than it has tensors for.
    let said = changed("gemma3n", "altup_num_inputs", json!(5)).map(|spec| {
        let opened = weights::open(&fixtures().join("gemma3n")).expect("a fixture");
        spec.weight_bytes(&opened, Tier::best(), Precision::Fast).expect_err("a refusal").to_string()
    });
    let said = said.expect("a spec");
    assert!(said.contains("altup"), "{said}");
}

#[test]
fn fault_keys_of_layers_that_read_earlier_ones_are_left_unread() {
    // Published files have keys for all layers.
    let folder =
        folder("gemma3n-streams", |config| drop(config.insert("num_kv_shared_layers".into(), json!(2))));
    let mut runner = Runner::load(folder.path(), Tier::best(), Precision::F32, KvDtype::F32, None);
    assert!(runner.prompt(&[1, 2, 3, 127], 4).iter().all(|logit| logit.is_finite()));
    let said = said(changed("gemma3n", "num_kv_shared_layers", json!(6)));
    assert!(said.contains("num_kv_shared_layers") && said.contains("fewer than the 6 layers"), "{said}");
}

#[test]
fn a_token_that_is_no_number_anywhere_makes_no_plausible_logits() {
    // A table of NaN: neither the cut of gates nor the streams may turn it into numbers.
    let folder = folder("gemma3n", |_| ());
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("a fixture");
    let header = u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let names: Value = serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
    let at = &names["model.embed_tokens_per_layer.weight"]["data_offsets"];
    let at = [0, 1].map(|end| 8 + header + at[end].as_u64().expect("an offset") as usize);
    for value in bytes[at[0]..at[1]].chunks_exact_mut(2) {
        value.copy_from_slice(&[0xc0, 0x7f]);
    }
    std::fs::write(&path, bytes).expect("written");
    for precision in [Precision::Fast, Precision::F32] {
        let mut runner = Runner::load(folder.path(), Tier::best(), precision, KvDtype::F32, None);
        assert!(runner.prompt(&[1, 2, 3], 3).iter().all(|logit| logit.is_nan()));
    }
}

#[test]
fn a_shape_has_the_layers_of_the_published_model_and_the_tensors_of_its_converter() {
    let (shape, recipe) = model::shapes::parse("gemma3n-e4b:q4_k_m").unwrap();
    let outline = shape.outline(recipe).expect("a shape");
    let told = |name: &str| outline.tensor(name).map(|tensor| (tensor.dtype, tensor.shape.to_vec()));
    // llama.cpp's quantizer leaves these as they are.
    assert_eq!(told("altup_proj.weight"), Some((Dtype::BF16, vec![3, 2048, 2048])));
    assert_eq!(told("altup_unembd_proj.weight"), Some((Dtype::BF16, vec![3, 2048, 2048])));
    assert_eq!(told("blk.34.laurel_r.weight"), Some((Dtype::BF16, vec![2048, 64])));
    assert_eq!(told("blk.0.altup_predict_coef.weight"), Some((Dtype::F32, vec![16, 4])));
    assert_eq!(told("per_layer_token_embd.weight").map(|(_, shape)| shape), Some(vec![262_400, 35 * 256]));
    assert_eq!(told("blk.20.attn_k.weight"), None);
    let spec = Spec::read(&outline).expect("a shape");
    let layer = |index: usize| (spec.layers[index].window, spec.layers[index].kv);
    assert_eq!((layer(4), layer(18)), ((None, KvSource::Own), (Some(512), KvSource::Own)));
    assert_eq!(layer(20), (Some(512), KvSource::Layer(18)));
    assert_eq!(layer(34), (None, KvSource::Layer(19)));
    let sparse = spec.layers.iter().filter(|layer| layer.gate_cutoff == Some(1.644_853_6)).count();
    assert_eq!((sparse, spec.layers[10].gate_cutoff), (10, None));
    assert_eq!((spec.kv_layers(), spec.last_kept_layer()), (20, 19));
}
