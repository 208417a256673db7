//! Packs the matrices of a model, each from its bytes in the file.

use crate::error::Error;
use crate::locate::{EncoderFormat, LocatedWeight};
use crate::tensors::floats;
use cpu::Arena;
use kernels::{Compute, Matrix, Precision};
use std::ops::Range;
use tensor::Dtype;
use weights::Opened;

/// How the matrices of one model are packed.
#[derive(Clone, Copy)]
pub(crate) struct Packer<'a> {
    pub(crate) compute: &'a Compute,
    pub(crate) opened: &'a Opened,
    pub(crate) precision: Precision,
    pub(crate) format: EncoderFormat,
}

impl Packer<'_> {
    /// One allocation that holds the matrices among `weights`, packed.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn arena(&self, weights: &[LocatedWeight<'_>]) -> Result<Arena, Error> {
        let packed = || {
            let matrices = weights.iter().filter(|weight| weight.is_packed());
            matrices.map(|weight| weight.packed_bytes(self.compute.tier, self.precision, self.format))
        };
        let lengths = packed().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let bytes = packed().fold(0, u64::saturating_add);
        Arena::new(lengths).map_err(|source| Error::Memory { bytes, source })
    }

    /// Packs one matrix, releasing the file's pages after they are read. A weight that is NaN or infinite is an error: it
    /// would corrupt every output.
    pub(crate) fn pack(&self, arena: &mut Arena, weight: &LocatedWeight<'_>) -> Result<Matrix, Error> {
        let (compute, opened) = (self.compute, self.opened);
        let (dtype, precision) = weight.packed_as(self.format, self.precision, compute.tier);
        let arranged = match &weight.repacked {
            Some(repacked) => Some(repacked.blocks(compute, weight.rows)?),
            None => weight.in_rows(),
        };
        let source = arranged.as_deref().unwrap_or(weight.bytes);
        let converted = match dtype == weight.dtype {
            true => arranged,
            false => Some(converted(weight, source, dtype)?),
        };
        let bytes = converted.as_deref().unwrap_or(weight.bytes);
        let on_consumed = |range: Range<usize>| {
            if converted.is_none() {
                opened.drop_pages_of(&weight.bytes[range]);
            }
        };
        let (rows, cols) = (weight.rows, weight.cols);
        let packed = Matrix::pack_into(compute, arena, dtype, rows, cols, bytes, precision, &on_consumed);
        let packed = packed.map_err(|error| match error {
            kernels::Error::Weights(source) => Error::Weights { name: weight.name.clone(), source },
            source => Error::Pack { name: weight.name.clone(), source },
        })?;
        if converted.is_some() {
            opened.drop_pages_of(weight.bytes);
        }
        Ok(packed)
    }
}

/// The share of a model's matrices that is packed, by their bytes in the file.
pub(crate) struct Progress<'a> {
    total: u64,
    done: u64,
    told: &'a mut dyn FnMut(f32),
}

impl Progress<'_> {
    pub(crate) fn new<'a>(found: &[LocatedWeight<'_>], told: &'a mut dyn FnMut(f32)) -> Progress<'a> {
        let matrices = found.iter().filter(|weight| weight.is_packed());
        Progress { total: matrices.map(|weight| weight.bytes.len() as u64).sum(), done: 0, told }
    }

    pub(crate) fn add(&mut self, weight: &LocatedWeight<'_>) {
        self.done += weight.bytes.len() as u64;
        (self.told)(self.done as f32 / self.total.max(1) as f32);
    }
}

/// A weight's floats in another format.
fn converted(weight: &LocatedWeight<'_>, bytes: &[u8], dtype: Dtype) -> Result<Vec<u8>, Error> {
    let of = |source| Error::Weights { name: weight.name.clone(), source };
    tensor::check_finite(weight.dtype, bytes).map_err(of)?;
    let values = floats(&weight.name, weight.dtype, bytes)?;
    let mut bytes = Vec::new();
    tensor::quantize(dtype, &values, &mut bytes).map_err(of)?;
    Ok(bytes)
}
