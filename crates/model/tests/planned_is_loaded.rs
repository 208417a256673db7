//! What planning calls good, loads and runs: files with generated keys, types and shapes.
//!
//! `inspect` and `serve --check` say what [`Spec::read`] and [`Spec::weight_bytes`] say; a model that passes them must
//! load and compute without a panic, and one that does not must be refused in a sentence without Rust in it.

use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, Precision};
use model::Spec;
use proptest::prelude::*;
use runner::{Runner, fixtures};
use serde_json::{Map, Value, json};
use std::path::Path;
use weights::gguf;

const CASES: [&str; 16] = [
    "llama-3",
    "mistral-window",
    "qwen3",
    "qwen3moe",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "phi2",
    "phi4-mini",
    "granite4-h",
    "nemotron-h-moe",
    "falcon-h1",
    "qwen3next",
    "deepseek-v3",
    "glm4-moe-lite",
];

/// Values that people, converters and fuzzers put at a key.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..40).prop_map(Value::from),
        prop_oneof![Just(128i64), Just(255), Just(1 << 20), Just(i64::MAX), Just(i64::MIN)]
            .prop_map(Value::from),
        prop_oneof![Just(0.0), Just(0.5), Just(1e-30), Just(-1.0), Just(1e30), Just(1e300)]
            .prop_map(Value::from),
        prop_oneof![
            Just(""),
            Just("silu"),
            Just("gelu"),
            Just("default"),
            Just("linear"),
            Just("full_attention")
        ]
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!(["sliding_attention", "full_attention"])),
        Just(json!([0, 1])),
        Just(json!({})),
        Just(json!({"rope_type": "linear", "factor": 2.0})),
        Just(json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})),
        Just(json!({"rope_type": "llama3", "factor": 1e9})),
        Just(json!({"rope_theta": 1e-9, "partial_rotary_factor": 0.1})),
    ]
}

/// Planning says yes: then it must load and compute.
fn planned(path: &Path) -> Result<bool, TestCaseError> {
    let opened = match weights::open(path) {
        Ok(opened) => opened,
        Err(error) => {
            let said = error.to_string();
            prop_assert!(!said.contains("Some(") && !said.contains("None"), "{said}");
            return Ok(false);
        }
    };
    let tier = Tier::best();
    let plan =
        Spec::read(&opened).and_then(|spec| spec.weight_bytes(&opened, tier, Precision::Fast).map(|_| spec));
    match plan {
        Err(error) => {
            let said = error.to_string();
            prop_assert!(!said.contains("Some(") && !said.contains("String("), "{said}");
            Ok(false)
        }
        Ok(spec) => {
            drop(opened);
            let mut runner = Runner::load(path, tier, Precision::Fast, KvDtype::F16, Some(64));
            let tokens: Vec<u32> = (0..5).map(|t| t % spec.vocab as u32).collect();
            let rows = tokens.len().min(runner.model.spec.context);
            prop_assert_eq!(runner.prompt(&tokens[..rows], 3).len(), rows * spec.vocab);
            Ok(true)
        }
    }
}

/// A value of a GGUF as near to one of JSON as there is.
fn of_gguf(value: &Value) -> gguf::Value {
    match value {
        Value::Bool(flag) => gguf::Value::Bool(*flag),
        Value::String(text) => gguf::Value::String(text.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => u32::try_from(whole).map_or(gguf::Value::I64(whole), gguf::Value::U32),
            None => gguf::Value::F64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(list) => gguf::Value::Array(gguf::Array::I32((0..list.len() as i32).collect())),
        Value::Null | Value::Object(_) => gguf::Value::F32(f32::NAN),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_config_json_with_other_values(
        case in 0..CASES.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), value()), 1..4),
    ) {
        let from = fixtures().join(CASES[case]);
        let config = std::fs::read(from.join("config.json")).expect("a fixture");
        let mut config: Map<String, Value> = serde_json::from_slice(&config).expect("a fixture");
        let keys: Vec<String> = config.keys().cloned().collect();
        for (at, value) in edits {
            config.insert(at.get(&keys).clone(), value);
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("config.json"), Value::Object(config).to_string()).expect("written");
        std::fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).expect("a fixture");
        planned(folder.path())?;
    }

    #[test]
    fn a_gguf_with_other_values(
        case in 0..CASES.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), value()), 1..4),
    ) {
        let path = fixtures().join(CASES[case]).join("model.gguf");
        prop_assume!(path.exists());
        let opened = weights::open(&path).expect("a fixture");
        let keys = opened.metadata().gguf().expect("a GGUF");
        let names: Vec<String> = keys.iter().map(|(key, _)| key.to_owned()).collect();
        let mut changed: Vec<(String, gguf::Value)> =
            keys.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        for (at, value) in edits {
            let name = at.get(&names);
            if name == "general.alignment" {
                continue;
            }
            if let Some(entry) = changed.iter_mut().find(|(key, _)| key == name) {
                entry.1 = of_gguf(&value);
            }
        }
        let mut metadata = gguf::Metadata::default();
        for (key, value) in changed {
            metadata.insert(key, value);
        }
        let tensors: Vec<_> = opened.tensors().filter_map(|t| opened.tensor(t.name)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("model.gguf");
        gguf::write(&to, &metadata, &tensors).expect("written");
        planned(&to)?;
    }

    #[test]
    fn a_gguf_with_a_tensor_of_another_shape_or_type(
        case in 0..CASES.len(),
        at: proptest::sample::Index,
        id in 0u32..45,
        dimensions in proptest::collection::vec(1u64..80, 0..4),
        keep_shape: bool,
    ) {
        let path = fixtures().join(CASES[case]).join("model.gguf");
        prop_assume!(path.exists());
        let opened = weights::open(&path).expect("a fixture");
        let names: Vec<String> = opened.tensors().map(|t| t.name.to_owned()).collect();
        let name = at.get(&names);
        let shape: Vec<u64> = match keep_shape {
            true => opened.info(name).expect("a tensor").shape.iter().rev().map(|&d| d as u64).collect(),
            false => dimensions,
        };
        // The record written by hand: the writer takes only what is right. The tensor's data are zeros at the end.
        let others: Vec<_> = opened.tensors().filter(|t| t.name != *name).filter_map(|t| opened.tensor(t.name)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("model.gguf");
        gguf::write(&to, opened.metadata().gguf().expect("a GGUF"), &others).expect("written");
        let bytes = std::fs::read(&to).expect("written");
        let start = gguf::parse(&bytes).expect("written").data_start;
        let (head, data) = bytes.split_at(start);
        let mut record = (name.len() as u64).to_le_bytes().to_vec();
        record.extend(name.as_bytes());
        record.extend((shape.len() as u32).to_le_bytes());
        record.extend(shape.iter().flat_map(|d| d.to_le_bytes()));
        record.extend(id.to_le_bytes());
        record.extend((data.len().next_multiple_of(32) as u64).to_le_bytes());
        // The head may end in padding, which stands before no record: its records end where the last one's offset does.
        let last = others.last().expect("more tensors").name.as_bytes();
        let place = head.windows(last.len()).rposition(|w| w == last).expect("a record") + last.len();
        let count = u32::from_le_bytes(head[place..place + 4].try_into().expect("four")) as usize;
        let end = place + 4 + 8 * count + 4 + 8;
        let mut file = head[..end].to_vec();
        file.extend(record);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file.resize(file.len().next_multiple_of(32) + 8 * shape.iter().product::<u64>() as usize, 0);
        let tensors = u64::from_le_bytes(file[8..16].try_into().expect("eight")) + 1;
        file[8..16].copy_from_slice(&tensors.to_le_bytes());
        std::fs::write(&to, file).expect("written");
        planned(&to)?;
    }
}
