//! Elements of tensors as numbers.

use wire::oip::{Datatype, Tensor, TensorData};

use crate::spec::Spec;

/// Datatypes of real numbers.
pub(crate) const FLOATS: [Datatype; 4] = [Datatype::Fp32, Datatype::Fp64, Datatype::Fp16, Datatype::Bf16];

fn all<const N: usize, T>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
}

/// The elements of any datatype of numbers.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f64>, String> {
    let TensorData::Raw(bytes) = &tensor.data else {
        return Err(format!("{} has strings, not numbers", tensor.described()));
    };
    Ok(match tensor.datatype {
        Datatype::Bool | Datatype::Uint8 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        Datatype::Int8 => all(bytes, |b| f64::from(i8::from_le_bytes(b))),
        Datatype::Uint16 => all(bytes, |b| f64::from(u16::from_le_bytes(b))),
        Datatype::Int16 => all(bytes, |b| f64::from(i16::from_le_bytes(b))),
        Datatype::Uint32 => all(bytes, |b| f64::from(u32::from_le_bytes(b))),
        Datatype::Int32 => all(bytes, |b| f64::from(i32::from_le_bytes(b))),
        Datatype::Uint64 => all(bytes, |b| u64::from_le_bytes(b) as f64),
        Datatype::Int64 => all(bytes, |b| i64::from_le_bytes(b) as f64),
        Datatype::Fp16 => all(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
        Datatype::Bf16 => all(bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
        Datatype::Fp32 => all(bytes, |b| f64::from(f32::from_le_bytes(b))),
        Datatype::Fp64 => all(bytes, f64::from_le_bytes),
        Datatype::Bytes => Vec::new(),
    })
}

/// A tensor of numbers in a datatype: fractions are cut towards zero, what is out of range becomes the nearest number.
pub(crate) fn cast(shape: Vec<usize>, values: &[f64], to: Datatype) -> Result<Tensor, String> {
    fn bytes<const N: usize>(values: &[f64], number: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| number(*value)).collect()
    }
    // `as` saturates.
    let raw = match to {
        Datatype::Bool => values.iter().map(|value| u8::from(*value != 0.0)).collect(),
        Datatype::Uint8 => bytes(values, |v| (v as u8).to_le_bytes()),
        Datatype::Int8 => bytes(values, |v| (v as i8).to_le_bytes()),
        Datatype::Uint16 => bytes(values, |v| (v as u16).to_le_bytes()),
        Datatype::Int16 => bytes(values, |v| (v as i16).to_le_bytes()),
        Datatype::Uint32 => bytes(values, |v| (v as u32).to_le_bytes()),
        Datatype::Int32 => bytes(values, |v| (v as i32).to_le_bytes()),
        Datatype::Uint64 => bytes(values, |v| (v as u64).to_le_bytes()),
        Datatype::Int64 => bytes(values, |v| (v as i64).to_le_bytes()),
        Datatype::Fp16 => bytes(values, |v| half::f16::from_f64(v).to_le_bytes()),
        Datatype::Bf16 => bytes(values, |v| half::bf16::from_f64(v).to_le_bytes()),
        Datatype::Fp32 => bytes(values, |v| (v as f32).to_le_bytes()),
        Datatype::Fp64 => bytes(values, f64::to_le_bytes),
        Datatype::Bytes => return Err("numbers are no strings".into()),
    };
    Tensor::raw("", to, shape, raw.into()).map_err(|why| format!("a tensor that {why}"))
}

/// A tensor of FP32 for each input of real numbers, of the same shape.
pub(crate) fn same_shape(inputs: &[Spec]) -> Result<Vec<Spec>, String> {
    let one = |input: &Spec| {
        input.one_of(&FLOATS).map_err(|why| format!("its input {why}"))?;
        Ok(Spec { datatype: Some(Datatype::Fp32), shape: input.shape.clone() })
    };
    inputs.iter().map(one).collect()
}

/// The length of a row, which is the last dimension.
pub(crate) fn width(tensor: &Tensor) -> usize {
    tensor.shape.last().copied().unwrap_or(1)
}
