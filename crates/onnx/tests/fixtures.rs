//! Values as the scripts under tools/fixtures write them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use onnx::{Data, Keys, Map, Tensor, Value};
use serde_json::Value as Json;

/// The folder of the fixtures.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn read(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(json: &Json) -> f64 {
    match json {
        Json::String(text) => text.parse().unwrap(),
        Json::Bool(flag) => f64::from(u8::from(*flag)),
        _ => json.as_f64().unwrap(),
    }
}

fn text(json: &Json) -> String {
    json.as_str().unwrap().to_owned()
}

/// A value; maps have keys of texts or integers, and values of floats unless `integers`.
pub(crate) fn value(json: &Json) -> Value {
    if let Some(entries) = json.get("map") {
        let entries: BTreeMap<String, f64> =
            entries.as_array().unwrap().iter().map(|pair| (text(&pair[0]), number(&pair[1]))).collect();
        let values = entries.values().map(|&x| x as f32).collect();
        let keys = Arc::new(Keys::String(entries.into_keys().collect()));
        return Value::Map(Map { keys, values: Data::F32(values) });
    }
    if let Some(maps) = json.get("maps") {
        return Value::Maps(maps.as_array().unwrap().iter().map(map).collect());
    }
    let shape = json["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let data = json["data"].as_array().unwrap();
    let numbers = || data.iter().map(number);
    let ints = || data.iter().map(|n| n.as_i64().unwrap());
    let data = match json["type"].as_str().unwrap() {
        "float32" => Data::F32(numbers().map(|x| x as f32).collect()),
        "float64" => Data::F64(numbers().collect()),
        "float16" => Data::F16(numbers().map(f16::from_f64).collect()),
        "bfloat16" => Data::Bf16(numbers().map(bf16::from_f64).collect()),
        "int8" => Data::I8(ints().map(|x| x as i8).collect()),
        "int16" => Data::I16(ints().map(|x| x as i16).collect()),
        "int32" => Data::I32(ints().map(|x| x as i32).collect()),
        "int64" => Data::I64(ints().collect()),
        "uint8" => Data::U8(ints().map(|x| x as u8).collect()),
        "uint16" => Data::U16(ints().map(|x| x as u16).collect()),
        "uint32" => Data::U32(ints().map(|x| x as u32).collect()),
        "uint64" => Data::U64(data.iter().map(|n| n.as_u64().unwrap()).collect()),
        "bool" => Data::Bool(data.iter().map(|x| x.as_bool().unwrap()).collect()),
        "string" => Data::String(data.iter().map(text).collect()),
        other => panic!("type {other}"),
    };
    Value::Tensor(Tensor::new(shape, data).unwrap())
}

fn map(json: &Json) -> Map {
    let keys = json[0].as_array().unwrap();
    let keys = match &keys[0] {
        Json::String(_) => Keys::String(keys.iter().map(text).collect()),
        _ => Keys::I64(keys.iter().map(|n| n.as_i64().unwrap()).collect()),
    };
    let values = json[1].as_array().unwrap().iter().map(|x| number(x) as f32).collect();
    Map { keys: Arc::new(keys), values: Data::F32(values) }
}

/// Whether two values are equal, floats within `tolerance` of `1 + |wanted|`; otherwise the first difference.
pub(crate) fn near(found: &Value, wanted: &Value, tolerance: f64) -> Result<(), String> {
    match (found, wanted) {
        (Value::Tensor(a), Value::Tensor(b)) if a.shape() == b.shape() => {
            near_data(a.data(), b.data(), tolerance)
        }
        (Value::Tensor(a), Value::Tensor(b)) => {
            Err(format!("shape {:?} in place of {:?}", a.shape(), b.shape()))
        }
        (Value::Maps(a), Value::Maps(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                if a.keys != b.keys {
                    return Err(format!("keys {:?} in place of {:?}", a.keys, b.keys));
                }
                near_data(&a.values, &b.values, tolerance)?;
            }
            Ok(())
        }
        _ => Err("another kind of value".to_owned()),
    }
}

fn near_data(found: &Data, wanted: &Data, tolerance: f64) -> Result<(), String> {
    let floats = |data: &Data| -> Option<Vec<f64>> {
        match data {
            Data::F32(v) => Some(v.iter().map(|&x| f64::from(x)).collect()),
            Data::F64(v) => Some(v.clone()),
            Data::F16(v) => Some(v.iter().map(|&x| f64::from(x)).collect()),
            Data::Bf16(v) => Some(v.iter().map(|&x| f64::from(x)).collect()),
            _ => None,
        }
    };
    if found.element() != wanted.element() {
        return Err(format!("elements of {} in place of {}", found.element(), wanted.element()));
    }
    match (floats(found), floats(wanted)) {
        (Some(a), Some(b)) => {
            for (at, (a, b)) in a.iter().zip(&b).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * (1.0 + b.abs());
                if !same {
                    return Err(format!("{a} in place of {b} at {at}"));
                }
            }
            Ok(())
        }
        _ if found == wanted => Ok(()),
        _ => Err(format!("{found:?} in place of {wanted:?}")),
    }
}
