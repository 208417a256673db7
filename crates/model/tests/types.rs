//! Every type that a file may declare, for every tensor that a model needs, in both forms of file: what cannot be
//! computed with is a load error that names tensor and type, told before loading too; the rest loads. Never a panic,
//! and never another tensor in place of the one that was declared.

use crate::runner;

use cpu::{Pool, Tier};
use kernels::{Compute, Precision};
use model::{Model, Spec};
use runner::fixtures;
use std::path::Path;
use tensor::Dtype;
use weights::{Opened, Tensor, gguf};

/// One family of each kind of tensor: plain, norms on both sides, experts, biases and layer norms, fused maps.
const CASES: [&str; 5] = ["llama-3", "gemma3", "qwen3moe", "phi2", "phi3"];
/// Types of `enum ggml_type`, and some that it does not have.
const GGML_TYPES: std::ops::RangeInclusive<u32> = 0..=44;
/// Types of safetensors, with the bits of a number.
const STORED: [(&str, usize); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// The first tensor of each role: names that differ by the number of a layer or expert alone are one.
fn roles(opened: &Opened) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let plain = |name: &str| name.split('.').filter(|word| word.parse::<u32>().is_err()).collect::<String>();
    opened.tensors().map(|t| t.name.to_owned()).filter(|name| seen.insert(plain(name))).collect()
}

/// The model in `from` with the tensor `name` made zero and said to be of the ggml type `id`.
fn gguf_with(from: &Opened, name: &str, id: u32, to: &Path) {
    let count: usize = from.info(name).expect("a tensor").shape.iter().product();
    // Last in the file, so that a type that takes more bytes than F32 has them.
    let zeros = vec![0; 4 * count];
    let mut tensors: Vec<Tensor<'_>> =
        from.tensors().filter(|t| t.name != name).filter_map(|t| from.tensor(t.name)).collect();
    let shape = from.info(name).expect("a tensor").shape.to_vec();
    let dimensions = shape.len();
    tensors.push(Tensor { name, dtype: Dtype::F32, shape, bytes: &zeros });
    gguf::write(to, from.metadata().gguf().expect("a GGUF"), &tensors).expect("written");
    let mut bytes = std::fs::read(to).expect("written");
    let record: Vec<u8> =
        [&(name.len() as u64).to_le_bytes()[..], name.as_bytes(), &(dimensions as u32).to_le_bytes()]
            .concat();
    let at = bytes.windows(record.len()).position(|w| w == record).expect("a record");
    let at = at + record.len() + 8 * dimensions;
    bytes[at..at + 4].copy_from_slice(&id.to_le_bytes());
    bytes.resize(bytes.len() + 4 * count, 0);
    std::fs::write(to, bytes).expect("written");
}

/// The model in `from` with the tensor `name` made zero and said to be of the safetensors type `stored`.
fn safetensors_with(from: &Opened, name: &str, stored: &str, bits: usize, to: &Path) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for info in from.tensors() {
        let tensor = from.tensor(info.name).expect("fixtures are weights");
        let start = data.len();
        let dtype = if info.name == name {
            let count: usize = info.shape.iter().product();
            data.resize(start + count * bits / 8, 0);
            stored
        } else {
            data.extend_from_slice(tensor.bytes);
            info.element.name()
        };
        let value =
            serde_json::json!({"dtype": dtype, "shape": info.shape, "data_offsets": [start, data.len()]});
        header.insert(info.name.to_owned(), value);
    }
    let header = serde_json::Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(to, bytes).expect("written");
}

/// Loads what is at `path`; the error is that of planning, which must be that of loading too.
fn load(path: &Path, compute: &Compute) -> Result<(), String> {
    let opened = weights::open(path).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    })?;
    let planned = Spec::read(&opened)
        .and_then(|spec| spec.weight_bytes(&opened, compute.tier, Precision::Fast))
        .map(|_| ())
        .map_err(|error| error.to_string());
    let loaded = Model::load(&opened, compute, Precision::Fast, &mut |_| ()).map(|_| ());
    assert_eq!(loaded.map_err(|error| error.to_string()), planned, "planning and loading say the same");
    planned
}

/// Checks one combination: `dtype` is what the type is here, if it is computed with at all.
fn check(what: &str, loaded: Result<(), String>, tensor: &str, vector: bool, cols: usize, type_name: &str) {
    let dtype = type_name.parse::<Dtype>().ok();
    let fits = dtype.is_some_and(|dtype| match vector {
        true => matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16),
        false => cols.is_multiple_of(dtype.block_weights()),
    });
    match loaded {
        Ok(()) => assert!(fits, "{what}: was loaded"),
        Err(said) => {
            assert!(!fits, "{what}: {said}");
            assert!(said.contains(tensor), "{what}: the tensor is not named: {said}");
            assert!(said.contains(type_name) || said.contains("ggml type"), "{what}: no type: {said}");
        }
    }
}

fn compute() -> Compute {
    Compute::new(Tier::best(), Pool::new(1, None).expect("a thread"))
}

/// A vector for the model's purposes; a matrix may have one row.
fn is_vector(opened: &Opened, name: &str) -> (bool, usize) {
    let shape = opened.info(name).expect("a tensor").shape;
    (shape.len() == 1, shape.last().copied().unwrap_or(1))
}

const UNSUPPORTED: [(u32, &str); 5] = [(24, "I8"), (25, "I16"), (26, "I32"), (27, "I64"), (28, "F64")];

#[test]
fn fault_03_every_ggml_type_of_every_tensor_is_loaded_or_named() {
    let (compute, folder) = (compute(), tempfile::tempdir().expect("a folder"));
    let mut loaded = 0;
    for case in CASES {
        let from = weights::open(&fixtures().join(case).join("model.gguf")).expect("a fixture");
        for name in roles(&from) {
            let (vector, cols) = is_vector(&from, &name);
            for id in GGML_TYPES {
                let path = folder.path().join("model.gguf");
                gguf_with(&from, &name, id, &path);
                let known = Dtype::from_ggml(id).map(Dtype::name);
                let other = UNSUPPORTED.iter().find(|(n, _)| *n == id).map(|(_, name)| *name);
                let type_name = known.or(other).unwrap_or("unknown");
                let result = load(&path, &compute);
                loaded += usize::from(result.is_ok());
                check(&format!("{case} {name} {id} {type_name}"), result, &name, vector, cols, type_name);
            }
        }
    }
    assert!(loaded > 100, "{loaded}");
}

#[test]
fn fault_03_every_safetensors_type_of_every_tensor_is_loaded_or_named() {
    let (compute, folder) = (compute(), tempfile::tempdir().expect("a folder"));
    for case in CASES {
        let from = weights::open(&fixtures().join(case)).expect("a fixture");
        std::fs::copy(fixtures().join(case).join("config.json"), folder.path().join("config.json"))
            .expect("a fixture");
        for name in roles(&from) {
            let (vector, cols) = is_vector(&from, &name);
            for (stored, bits) in STORED {
                safetensors_with(&from, &name, stored, bits, &folder.path().join("model.safetensors"));
                let result = load(folder.path(), &compute);
                check(&format!("{case} {name} {stored}"), result, &name, vector, cols, stored);
            }
        }
    }
}

/// The first fault as it was found: a head of a type that is not computed with was left out, and the embedding used.
#[test]
fn fault_03_a_head_that_cannot_be_computed_with_is_not_replaced_by_the_embedding() {
    let (compute, folder) = (compute(), tempfile::tempdir().expect("a folder"));
    let from = weights::open(&fixtures().join("phi2/model.gguf")).expect("a fixture");
    assert!(from.info("output.weight").is_some(), "the fixture has a head of its own");
    for (id, name) in UNSUPPORTED {
        let path = folder.path().join("model.gguf");
        gguf_with(&from, "output.weight", id, &path);
        let said = load(&path, &compute).expect_err(name);
        assert!(
            said.contains("output.weight") && said.contains(name) && said.contains("supported: F32"),
            "{said}"
        );
    }
}

#[test]
fn fault_03_tensors_that_nothing_reads_may_be_of_any_type() {
    let (compute, folder) = (compute(), tempfile::tempdir().expect("a folder"));
    let from = weights::open(&fixtures().join("llama-3")).expect("a fixture");
    let path = folder.path().join("model.safetensors");
    std::fs::copy(fixtures().join("llama-3/config.json"), folder.path().join("config.json"))
        .expect("a fixture");
    safetensors_with(&from, "", "F32", 32, &path);
    let bytes = std::fs::read(&path).expect("written");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("a length")) as usize;
    let mut map: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
    let mut data = bytes[8 + header..].to_vec();
    let at = data.len();
    data.resize(at + 8 * 4, 0);
    let info = serde_json::json!({"dtype": "F64", "shape": [4], "data_offsets": [at, data.len()]});
    map.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), info);
    let header = serde_json::Value::Object(map).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(&path, bytes).expect("written");
    load(folder.path(), &compute).expect("nobody reads it");
}
