//! The values of metadata keys, as `shapes.toml` spells them.

use serde::Deserialize;
use weights::gguf::{Array, Value};

/// The value of a metadata key.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum KeyValue {
    Flag(bool),
    /// A whole number without a point, which others read only as an integer.
    Integer(u32),
    Number(f32),
    Text(String),
    List(Vec<i32>),
    /// A value for each layer, as runs of `[layers, value]`.
    Runs(Vec<[u32; 2]>),
    /// As runs, of floats.
    FloatRuns(Vec<(usize, f32)>),
    /// A flag for each layer, as runs of `[layers, flag]` that repeat up to the last layer.
    FlagRuns(Vec<(usize, bool)>),
}

impl KeyValue {
    /// The value as a converter writes it for a model of so many layers.
    pub(super) fn written(&self, layers: usize) -> Value {
        match self {
            KeyValue::Flag(flag) => Value::Bool(*flag),
            KeyValue::Integer(number) => Value::U32(*number),
            KeyValue::Number(number) => Value::F32(*number),
            KeyValue::Text(text) => Value::String(text.clone()),
            KeyValue::List(numbers) => Value::Array(Array::I32(numbers.clone())),
            KeyValue::Runs(runs) => {
                let values = runs.iter().flat_map(|&[count, value]| vec![value; count as usize]);
                Value::Array(Array::U32(values.collect()))
            }
            KeyValue::FloatRuns(runs) => {
                let values = runs.iter().flat_map(|&(count, value)| vec![value; count]);
                Value::Array(Array::F32(values.collect()))
            }
            KeyValue::FlagRuns(runs) => {
                let period: Vec<bool> = runs.iter().flat_map(|&(count, flag)| vec![flag; count]).collect();
                Value::Array(Array::Bool(period.into_iter().cycle().take(layers).collect()))
            }
        }
    }
}
