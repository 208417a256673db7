//! ONNX files: the messages, the graph, the operators' attributes, and a run on small inputs. What would go to `rten` is
//! left out.
//!
//! Looks for: a panic, memory beyond what the options allow, and an output that is not of its declared type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnx::{Data, Dim, ElementType, Options, RunOptions, Session, Tensor, Value, ValueType};

/// The most elements of an input.
const MAX_ELEMENTS: usize = 1 << 12;

/// An input of a declared type; open dimensions are 3.
fn input(kind: &ValueType) -> Option<Value> {
    let ValueType::Tensor { element, shape } = kind else { return None };
    let size = |dim: &Dim| if let Dim::Fixed(n) = dim { *n } else { 3 };
    let shape: Vec<usize> = shape.as_ref().map_or_else(|| vec![3, 3], |dims| dims.iter().map(size).collect());
    let count = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
    if count > MAX_ELEMENTS {
        return None;
    }
    let values = (0..count).map(|i| i as f32 * 0.7 - 2.0);
    let data = match element {
        ElementType::F32 => Data::F32(values.collect()),
        ElementType::F64 => Data::F64(values.map(f64::from).collect()),
        ElementType::I64 => Data::I64(values.map(|x| x as i64).collect()),
        ElementType::String => Data::String(values.map(|x| x.to_string()).collect()),
        _ => return None,
    };
    Tensor::new(shape, data).ok().map(Value::Tensor)
}

fuzz_target!(|bytes: &[u8]| {
    let options = Options { max_bytes: 32 << 20, max_nodes: 200, neural: false };
    let Ok(session) = Session::from_bytes(bytes.to_vec(), &options) else { return };
    let inputs: Option<Vec<Value>> = session.inputs().iter().map(|info| input(&info.kind)).collect();
    let Some(inputs) = inputs else { return };
    let named: Vec<(&str, &Value)> = session.inputs().iter().map(|info| &*info.name).zip(&inputs).collect();
    let wanted: Vec<&str> = session.outputs().iter().map(|info| &*info.name).collect();
    if let Ok(outputs) = session.run(&named, &wanted, &RunOptions::default()) {
        assert_eq!(outputs.len(), wanted.len());
    }
});
