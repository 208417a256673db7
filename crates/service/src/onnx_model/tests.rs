use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use engine::{Device, MemoryBudget, MemoryKind};
use serde_json::Value as Json;
use wire::oip::{Datatype, Tensor, TensorData};

use super::OnnxModel;
use crate::tensor_model::TensorModel;

/// The fixtures of crate `onnx`: models with inputs, and what ONNX Runtime gave for them.
fn fixture(name: &str) -> (PathBuf, Json) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx/tests/fixtures/ml");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    (folder.join(format!("{name}.onnx")), serde_json::from_str(&text).unwrap())
}

fn load(path: &Path) -> Result<OnnxModel, String> {
    let pool = cpu::Pool::new(1, None).unwrap();
    let compute = kernels::Compute::new(cpu::Tier::Scalar, pool);
    let device = Device::new(compute, MemoryBudget::new(1 << 30));
    let memory = device.memory().reserve("m", MemoryKind::Weights, super::onnx_bytes(path)?).unwrap();
    OnnxModel::load("m", path, device, memory)
}

fn shape(json: &Json) -> Vec<usize> {
    json["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// A tensor of the fixture's, as a request has it.
fn tensor(name: &str, json: &Json) -> Tensor {
    let data = json["data"].as_array().unwrap();
    let number = |json: &Json| json.as_str().map_or_else(|| json.as_f64().unwrap(), |s| s.parse().unwrap());
    match json["type"].as_str().unwrap() {
        "float32" => {
            let values: Vec<f32> = data.iter().map(|value| number(value) as f32).collect();
            Tensor::floats(name, shape(json), &values).unwrap()
        }
        "int64" => {
            let bytes: Vec<u8> = data.iter().flat_map(|v| v.as_i64().unwrap().to_le_bytes()).collect();
            Tensor::raw(name, Datatype::Int64, shape(json), bytes.into()).unwrap()
        }
        "string" => {
            let texts = data.iter().map(|v| Bytes::from(v.as_str().unwrap().to_owned())).collect();
            Tensor::strings(name, shape(json), texts).unwrap()
        }
        other => panic!("{other}"),
    }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let TensorData::Raw(bytes) = &tensor.data else { panic!("{}", tensor.described()) };
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn values(map: &Json) -> Vec<f32> {
    match map {
        Json::Object(map) => {
            map["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
        }
        _ => map[1].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect(),
    }
}

/// What ONNX Runtime gave: numbers of a tensor, or the values of maps, row by row.
fn wanted(json: &Json) -> Vec<f32> {
    let number = |json: &Json| json.as_f64().unwrap() as f32;
    match json.get("maps") {
        // Pairs of keys and values.
        Some(maps) => maps.as_array().unwrap().iter().flat_map(values).collect(),
        None => json["data"].as_array().unwrap().iter().map(number).collect(),
    }
}

fn near(found: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}: {a} and {b}");
    }
}

#[test]
fn models_of_both_runtimes_answer_as_onnx_runtime_does() {
    for name in ["lightgbm-regression", "logistic-plain-output", "pipeline-columns", "network"] {
        let (path, json) = fixture(name);
        let model = load(&path).unwrap();
        let inputs = json["inputs"].as_object().unwrap();
        let inputs: Vec<Tensor> = inputs.iter().map(|(name, json)| tensor(name, json)).collect();
        let outputs = model.infer(inputs, &[], &|| false).unwrap();
        let all = json["outputs"].as_object().unwrap();
        assert_eq!(outputs.len(), all.len(), "{name}");
        for output in outputs.iter().filter(|output| output.datatype == Datatype::Fp32) {
            near(&floats(output), &wanted(&all[&output.name]), name);
        }
        assert_eq!(model.runtime(), if name == "network" { "rten" } else { "own operators" });
    }
}

#[test]
fn maps_of_scikit_learn_are_rows_of_a_tensor() {
    let (path, json) = fixture("logistic-binary");
    let model = load(&path).unwrap();
    let signature = model.signature();
    assert_eq!(signature.inputs[0].shape, [-1, 6]);
    let maps = &signature.outputs[1];
    assert_eq!((maps.datatype, maps.shape.as_slice()), (Datatype::Fp32, [-1, -1].as_slice()));
    let inputs = vec![tensor("X", &json["inputs"]["X"])];
    let outputs = model.infer(inputs, std::slice::from_ref(&maps.name), &|| false).unwrap();
    assert_eq!(outputs[0].shape, [37, 2]);
    let wanted = wanted(&json["outputs"][&maps.name]);
    near(&floats(&outputs[0]), &wanted, "logistic-binary");
}

#[test]
fn what_no_request_can_have_is_refused_at_load() {
    let (path, _) = fixture("dict-vectorizer");
    let Err(why) = load(&path) else { panic!("it has a map") };
    assert!(why.contains("is a map"), "{why}");
    let folder = std::env::temp_dir().join(format!("gristmill-onnx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bad = folder.join("bad.onnx");
    std::fs::write(&bad, b"no model at all").unwrap();
    let why = super::onnx_bytes(&bad).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(why.contains("not an ONNX model"), "{why}");
}

#[test]
fn requests_that_do_not_fit_are_told_so() {
    let (path, json) = fixture("lightgbm-regression");
    let model = Arc::new(load(&path).unwrap());
    let name = &model.signature().inputs[0].name;
    let good = tensor(name, &json["inputs"][name.as_str()]);
    let fault = model.infer(vec![good.clone()], &["nothing".to_owned()], &|| false).unwrap_err();
    assert!(fault.status == 400 && fault.message.contains("no output 'nothing'"), "{fault}");
    let fault = model.infer(Vec::new(), &[], &|| false).unwrap_err();
    assert!(fault.status == 400 && fault.message.contains("missing"), "{fault}");
    assert_eq!(model.infer(vec![good], &[], &|| true).unwrap_err().status, 503);
}
