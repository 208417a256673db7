//! Tensors of an opened file, and vectors of floats from them.

use crate::error::Error;
use tensor::Dtype;
use weights::{Opened, Tensor};

/// The tensor `name`, in any supported weight format.
///
/// # Errors
/// The file lacks the tensor, or its type is not supported.
pub(crate) fn tensor<'a>(opened: &'a Opened, name: &str) -> Result<Tensor<'a>, Error> {
    let info = opened.info(name).ok_or_else(|| Error::MissingKey { key: format!("tensor {name}") })?;
    opened.tensor(name).ok_or_else(|| Error::TensorType {
        name: name.to_owned(),
        found: info.element.name(),
        supported: Dtype::supported(),
    })
}

/// Checks that `dtype` is a format in which vectors can be stored: F32, F16 or BF16.
pub(crate) fn vector_format(name: &str, dtype: Dtype) -> Result<(), Error> {
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
        other => Err(Error::VectorFormat { name: name.to_owned(), found: other.name() }),
    }
}

/// The values of a vector as f32.
pub(crate) fn floats(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, Error> {
    let halves = |value: fn([u8; 2]) -> f32| bytes.as_chunks::<2>().0.iter().map(|&b| value(b)).collect();
    match dtype {
        Dtype::F32 => Ok(bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
        Dtype::F16 => Ok(halves(|b| half::f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => Ok(halves(|b| half::bf16::from_le_bytes(b).to_f32())),
        other => Err(Error::VectorFormat { name: name.to_owned(), found: other.name() }),
    }
}
