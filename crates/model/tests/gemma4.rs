//! What only Gemma 4 has in its files: heads of two sizes, layers without keys, embeddings of each layer.

use crate::keys::{folder, read, regguf, with};
use crate::runner::{Runner, fixtures};

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, KvHeads, Precision};
use model::{KvSource, Model, Spec, WeightRole};
use serde_json::{Map, Value, json};
use weights::gguf;

fn changed(case: &str, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<Spec, model::Error> {
    read(&folder(case, edit))
}

fn changed_gguf(
    case: &str,
    edit: impl FnOnce(gguf::Metadata) -> gguf::Metadata,
) -> Result<Spec, model::Error> {
    let folder = regguf(case, edit);
    Spec::read(&weights::open(&folder.path().join("model.gguf")).expect("a readable file"))
}

fn without(keys: gguf::Metadata, name: &str) -> gguf::Metadata {
    let mut out = gguf::Metadata::default();
    for (key, value) in keys.iter().filter(|(key, _)| *key != name) {
        out.insert(key.to_owned(), value.clone());
    }
    out
}

fn said(result: Result<Spec, model::Error>) -> String {
    result.expect_err("a refusal").to_string()
}

#[test]
fn both_files_tell_the_same_layers() {
    for case in ["gemma4", "gemma4-equal", "gemma4-moe"] {
        let folder = read(&self::folder(case, |_| ())).expect("a fixture");
        let file = changed_gguf(case, |keys| keys).expect("a fixture");
        assert_eq!(format!("{:?}", folder.layers), format!("{:?}", file.layers), "{case}");
        assert_eq!(folder.per_layer_width, file.per_layer_width, "{case}");
    }
    let spec = read(&self::folder("gemma4", |_| ())).expect("a fixture");
    let heads = |layer: usize| spec.heads_of(&spec.layers[layer]);
    assert_eq!(heads(0), KvHeads { kv_heads: 1, head_dim: 16 });
    assert_eq!(heads(2), KvHeads { kv_heads: 1, head_dim: 32 });
    let sources: Vec<KvSource> = spec.layers.iter().map(|layer| layer.kv).collect();
    let own = [KvSource::Own; 3];
    assert_eq!(sources[..3], own);
    assert_eq!(sources[3..], [KvSource::Layer(1), KvSource::Layer(1), KvSource::Layer(2)]);
    assert_eq!((spec.kv_layers(), spec.last_kept_layer()), (3, 2));
    let equal = read(&self::folder("gemma4-equal", |_| ())).expect("a fixture");
    assert_eq!(equal.layers[1].kv, KvSource::OneProjection);
}

#[test]
fn the_keys_of_published_files_say_the_same_as_those_of_each_layer() {
    let published = |config: &mut Map<String, Value>| {
        config.remove("per_layer_config");
        config.insert("global_head_dim".into(), json!(32));
        config.insert("num_global_key_value_heads".into(), json!(1));
    };
    for case in ["gemma4", "gemma4-equal"] {
        let (own, other) = (changed(case, |_| ()), changed(case, published));
        assert_eq!(format!("{:?}", own.expect(case)), format!("{:?}", other.expect(case)), "{case}");
    }
}

#[test]
fn keys_that_a_layer_does_not_use_are_left_unread() {
    // As the published E2B has them: the last two layers of this one have keys, and are told to use those before.
    let folder =
        folder("gemma4-equal", |config| drop(config.insert("num_kv_shared_layers".into(), json!(2))));
    let mut runner = Runner::load(folder.path(), Tier::best(), Precision::F32, KvDtype::F32, None);
    assert!(runner.prompt(&[1, 2, 3, 4], 4).iter().all(|logit| logit.is_finite()));
}

#[test]
fn memory_counts_each_layer_by_its_heads_and_no_table_of_the_file() {
    let path = fixtures().join("gemma4").join("model.gguf");
    let opened = weights::open(&path).expect("a fixture");
    let compute = Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"));
    let model = Model::load(&opened, &compute, Precision::Fast, &mut |_| ()).expect("a fixture");
    let spec = &model.spec;
    // Two sliding layers and a global one, keys and values, one head each: of 16 and of 32 values.
    assert_eq!(spec.kv_bytes_per_token(KvDtype::F16), 2 * 2 * (2 * 16 + 32));
    let read: Vec<usize> = (0..6).map(|layer| spec.kv_layer_bytes(layer, KvDtype::F16)).collect();
    assert_eq!(read, [64, 64, 128, 64, 64, 128]);
    // Position 19 sees 9 positions in sliding layers, and 20 in global ones.
    assert_eq!(spec.kv_read_bytes(19, KvDtype::F16), 4 * 64 * 9 + 2 * 128 * 20);
    let packed = spec.packed_weights(&opened, compute.tier, Precision::Fast).expect("a fixture");
    let table = packed.iter().find(|weight| weight.role == WeightRole::PerLayerEmbedding);
    assert_eq!(table.map(|table| (table.rows, table.cols, table.bytes)), Some((128, 48, 0)));
    let bytes = spec.weight_bytes(&opened, compute.tier, Precision::Fast).expect("a fixture");
    assert_eq!(bytes, model.bytes() as u64);
}

#[test]
fn fault_layers_that_share_keys_with_none_are_refused() {
    for shared in [6, 7, 300] {
        let said = said(changed("gemma4", |config| {
            drop(config.insert("num_kv_shared_layers".into(), json!(shared)))
        }));
        assert!(said.contains("num_kv_shared_layers") && said.contains(&shared.to_string()), "{said}");
        assert!(said.contains("fewer than the 6 layers"), "{said}");
    }
    // The first layers are all sliding: the global layers have none to read.
    let said = said(changed("gemma4", |config| drop(config.insert("num_kv_shared_layers".into(), json!(4)))));
    assert!(said.contains("num_kv_shared_layers") && said.contains("global"), "{said}");
    const KEY: &str = "gemma4.attention.shared_kv_layers";
    let said = self::said(changed_gguf("gemma4", |keys| with(keys, KEY, gguf::Value::U32(9))));
    assert!(said.contains(KEY) && said.contains('9'), "{said}");
}

#[test]
fn abuse_widths_of_nothing_are_refused_by_name() {
    let zero =
        |key: &'static str| said(changed("gemma4", |config| drop(config.insert(key.into(), json!(0)))));
    assert!(zero("hidden_size_per_layer_input").contains("hidden_size_per_layer_input"));
    assert!(zero("head_dim").contains("head size"));
    assert!(zero("num_key_value_heads").contains("key and value heads"));
    assert!(zero("sliding_window").contains("sliding window"));
    const PER_LAYER: &str = "gemma4.embedding_length_per_layer_input";
    let said = said(changed_gguf("gemma4", |keys| with(keys, PER_LAYER, gguf::Value::U32(0))));
    assert!(said.contains(PER_LAYER), "{said}");
}

#[test]
fn abuse_a_gguf_without_the_head_size_of_a_kind_is_refused_by_name() {
    for key in
        ["gemma4.attention.key_length", "gemma4.attention.key_length_swa", "gemma4.attention.sliding_window"]
    {
        let said = said(changed_gguf("gemma4", |keys| without(keys, key)));
        assert!(said.contains(key), "{said}");
    }
    const KV: &str = "gemma4.attention.head_count_kv";
    let list = gguf::Value::Array(gguf::Array::U32(vec![2, 1, 2]));
    let said = said(changed_gguf("gemma4-equal", |keys| with(keys, KV, list)));
    assert!(said.contains(KV) && said.contains('3') && said.contains("4 layers"), "{said}");
    let list = gguf::Value::Array(gguf::Array::U32(vec![2, 3, 2, 3]));
    let said = self::said(changed_gguf("gemma4-equal", |keys| with(keys, KV, list)));
    assert!(said.contains("heads") && said.contains('3'), "{said}");
}

#[test]
fn attention_in_both_directions_is_that_of_pictures_or_refused() {
    let direction =
        |value: Value| changed("gemma4", |c| drop(c.insert("use_bidirectional_attention".into(), value)));
    assert!(direction(json!("vision")).is_ok());
    assert!(said(direction(json!("all"))).contains("use_bidirectional_attention"));
}
