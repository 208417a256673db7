//! Locates every weight of a spec in a file, and checks shapes and types, before any weight is read.

use crate::arrange::Arrangement;
use crate::error::Error;
use crate::names;
use crate::repacked::RepackedRows;
use crate::source::Source;
use crate::spec::Spec;
use crate::tensor_location::{BLOCKS, RowGroups, Slice, TensorLocation, scales_of};
use crate::tensors::{tensor, vector_format};
use crate::weight_role::{LayerWeight, WeightDecl, WeightRole};
use cpu::Tier;
use kernels::{Matrix, Precision};
use std::collections::HashSet;
use tensor::Dtype;
use weights::{Opened, Repacked};

/// A weight of the spec with its bytes in the mapped file, not yet read.
pub(crate) struct LocatedWeight<'a> {
    pub(crate) role: WeightRole,
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    /// Rows of the weight matrix; 1 for a vector.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) vector: bool,
    /// The bytes in the file; of a repacked weight its codes.
    pub(crate) bytes: &'a [u8],
    /// How the weight lies in `bytes`.
    pub(crate) arrangement: Arrangement<'a>,
    /// What makes the rows if another library quantized them.
    pub(crate) repacked: Option<RepackedRows<'a>>,
}

impl LocatedWeight<'_> {
    /// Bytes of this weight in memory after packing, in a model of this precision and format.
    pub(crate) fn packed_bytes(&self, tier: Tier, of_model: Precision, format: EncoderFormat) -> u64 {
        if self.vector {
            return 4 * self.cols as u64;
        }
        if self.role.stays_in_file() {
            return 0;
        }
        let (dtype, precision) = self.packed_as(format, of_model, tier);
        Matrix::packed_bytes(tier, dtype, self.rows, self.cols, precision)
    }

    /// Whether the weight is packed.
    pub(crate) fn is_packed(&self) -> bool {
        !self.vector && !self.role.stays_in_file()
    }

    /// The weight's bytes row after row, if the file has them otherwise.
    pub(crate) fn in_rows(&self) -> Option<Vec<u8>> {
        self.arrangement.in_rows(self.dtype, self.rows, self.cols, self.bytes)
    }

    /// The precision of this weight in a model of this precision: heads of encoders are computed in f32.
    pub(crate) fn precision(&self, of_model: Precision) -> Precision {
        if self.role.is_task() { Precision::F32 } else { of_model }
    }

    /// The format in which this matrix is packed, and its precision: those of the file and the model, or the encoder's.
    pub(crate) fn packed_as(
        &self,
        format: EncoderFormat,
        of_model: Precision,
        tier: Tier,
    ) -> (Dtype, Precision) {
        let precision = self.precision(of_model);
        let float = matches!(self.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        if self.role.is_task() || !float || self.repacked.is_some() {
            return (self.dtype, precision);
        }
        let embedding = self.role == WeightRole::Embedding;
        match format {
            EncoderFormat::File => (self.dtype, precision),
            EncoderFormat::Int8 if !embedding && kernels::multiplies_u7(tier) => {
                (self.dtype, Precision::Int8)
            }
            EncoderFormat::Int8 if !embedding && self.cols.is_multiple_of(32) => (Dtype::Q8_0, precision),
            EncoderFormat::Int8 | EncoderFormat::Bf16 => (Dtype::BF16, precision),
        }
    }

    pub(crate) fn packed(&self, tier: Tier, precision: Precision) -> PackedWeight {
        PackedWeight {
            role: self.role,
            dtype: self.dtype,
            rows: self.rows,
            cols: self.cols,
            vector: self.vector,
            bytes: self.packed_bytes(tier, precision, EncoderFormat::File),
        }
    }
}

/// The format of an encoder's matrices in memory, where the file has them in floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncoderFormat {
    /// As in the file.
    #[default]
    File,
    /// bf16.
    Bf16,
    /// 8 bits with a scale for each 32 weights (`Q8_0`), or for each 64 and activations in 7 bits on tiers that are faster
    /// so ([`kernels::multiplies_u7`]); the embedding in bf16.
    Int8,
}

/// A weight as it will be loaded: role, shape, format and size in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedWeight {
    /// The weight's role in the model.
    pub role: WeightRole,
    /// The weight's format in the file.
    pub dtype: Dtype,
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Whether the weight is a vector or a table (a norm, a bias, positions), which is kept as f32 and not packed.
    pub vector: bool,
    /// Bytes in memory after packing; 0 for a table whose rows are read from the file.
    pub bytes: u64,
}

/// Finds every weight of the spec in the file, checks its shape and closes the ledger.
pub(crate) fn locate_weights<'a>(
    opened: &'a Opened,
    source: &Source,
    spec: &Spec,
) -> Result<Vec<LocatedWeight<'a>>, Error> {
    let mut ledger = opened.ledger();
    let mut claimed = HashSet::new();
    let mut found = Vec::new();
    for decl in spec.weights() {
        let places = names::places(source, spec, decl.role);
        let place =
            places.iter().find(|p| fits(opened, p)).or_else(|| places.iter().find(|p| source.has(&p.name)));
        let Some(place) = place else {
            if let Some(usual) = places.first() {
                ledger.claim(&usual.name);
            }
            continue;
        };
        if claimed.insert(place.name.clone()) {
            ledger.claim(&place.name);
            if matches!(place.slice, Slice::ExpertBlocks { .. }) {
                ledger.claim(&scales_of(&place.name));
            }
        }
        found.push(cut(opened, place, &decl)?);
    }
    for tensor in opened.tensors() {
        if names::ignorable(tensor.name, spec) {
            ledger.waive(tensor.name);
        }
    }
    ledger.close()?;
    Ok(found)
}

/// Whether the file has a tensor of this name with the number of rows that the location expects.
fn fits(opened: &Opened, place: &TensorLocation) -> bool {
    let Some(tensor) = opened.info(&place.name) else { return false };
    match place.slice {
        Slice::Whole | Slice::Every { .. } => true,
        Slice::ExpertColumns { .. } | Slice::ExpertBlocks { .. } => true,
        Slice::Rows { of, .. } | Slice::Transposed { of, .. } => tensor.shape.first() == Some(&of),
        Slice::Groups(RowGroups { count, rows, .. }) => tensor.shape.first() == Some(&(count * rows)),
        Slice::Expert { count, of, .. } => tensor.shape.len() == 3 && tensor.shape[..2] == [count, of],
    }
}

/// The weight's bytes within its tensor, after checking the tensor's type and whole shape.
fn cut<'a>(
    opened: &'a Opened,
    place: &TensorLocation,
    decl: &WeightDecl,
) -> Result<LocatedWeight<'a>, Error> {
    if let Some(weight) = opened.repacked(&place.name).filter(|_| !decl.role.stays_in_file()) {
        return cut_repacked(weight, place, decl);
    }
    if let Slice::ExpertBlocks { index, count, first, step } = place.slice {
        return blocks(opened, &place.name, decl, (index, count), (first, step));
    }
    let tensor = tensor(opened, &place.name)?;
    let vector = decl.shape.len() == 1 || decl.role.is_table();
    if vector {
        vector_format(&place.name, tensor.dtype)?;
    }
    let (rows, cols) = if vector { (1, decl.shape.iter().product()) } else { (decl.shape[0], decl.shape[1]) };
    let (expected, first, unit) = match place.slice {
        Slice::Whole => (decl.shape.clone(), 0, rows),
        Slice::Rows { first, of } if vector => (vec![of], first, cols),
        Slice::Rows { first, of } => (vec![of, cols], first, rows),
        Slice::Transposed { first, of } => (vec![of, rows], first, cols),
        Slice::Groups(RowGroups { count, rows: of, .. }) => (vec![count * of, cols], 0, count * of),
        Slice::Expert { index, count, first, of } => (vec![count, of, cols], index * of + first, rows),
        Slice::Every { step, .. } => {
            let mut shape = decl.shape.clone();
            shape.iter_mut().rev().take(1).for_each(|values| *values *= step);
            (shape, 0, step)
        }
        Slice::ExpertColumns { index, count, step, .. } => {
            (vec![count, cols, step * rows], index * step * rows, step * rows)
        }
        Slice::ExpertBlocks { .. } => (decl.shape.clone(), 0, rows),
    };
    let wrong_shape =
        || Error::Shape { name: place.name.clone(), found: tensor.shape.clone(), expected: expected.clone() };
    if !same_shape(&tensor.shape, &expected, decl, place.slice) {
        return Err(wrong_shape());
    }
    let row = match place.slice {
        Slice::Rows { .. } if vector => 1,
        Slice::Transposed { .. } => rows,
        _ => cols,
    };
    let row_bytes = tensor.dtype.row_bytes(row).ok_or_else(wrong_shape)?;
    let bytes = tensor.bytes.get(first * row_bytes..(first + unit) * row_bytes).ok_or_else(wrong_shape)?;
    let name = place.name.clone();
    let (arrangement, dtype) = arrangement(place.slice, tensor.dtype);
    if matches!(arrangement, Arrangement::Every { .. } | Arrangement::Columns { .. }) {
        // Single values are moved.
        vector_format(&place.name, dtype)?;
    }
    Ok(LocatedWeight { role: decl.role, name, dtype, rows, cols, vector, bytes, arrangement, repacked: None })
}

/// How a part of a tensor in the format `stored` lies in the file, and the format that it is packed in.
fn arrangement(slice: Slice, stored: Dtype) -> (Arrangement<'static>, Dtype) {
    match slice {
        Slice::Groups(groups) => (Arrangement::Groups(groups), stored),
        Slice::Transposed { .. } if stored.is_quantized() => (Arrangement::Transposed(stored), Dtype::F16),
        Slice::Transposed { .. } => (Arrangement::Transposed(stored), stored),
        Slice::Every { first, step } => (Arrangement::Every { first, step }, stored),
        Slice::ExpertColumns { first, step, .. } => (Arrangement::Columns { first, step }, stored),
        _ => (Arrangement::Rows, stored),
    }
}

/// Whether a tensor of shape `found` is the expected one.
fn same_shape(found: &[usize], expected: &[usize], decl: &WeightDecl, slice: Slice) -> bool {
    // The weight of a norm by groups of columns has a row for each group in a GGUF.
    if matches!(decl.role, WeightRole::Layer(_, LayerWeight::MixerNorm)) && slice == Slice::Whole {
        let values = |shape: &[usize]| shape.iter().try_fold(1, |all: usize, &n| all.checked_mul(n));
        return values(found) == values(expected);
    }
    // A depthwise convolution has a dimension of 1 in some files: `[channels, 1, kernel]`. One row may be stored as a
    // vector, and a vector as one row.
    let is_squeezed = decl.role.is_table() || slice == Slice::Whole;
    let squeezed =
        |shape: &[usize]| shape.iter().copied().filter(|n| !is_squeezed || *n != 1).collect::<Vec<_>>();
    squeezed(found) == squeezed(expected)
}

/// The rows `first`, `first + step`, … of expert `index` in MXFP4, whose blocks are in one tensor `[experts, rows, blocks, 16]` and exponents in another.
fn blocks<'a>(
    opened: &'a Opened,
    name: &str,
    decl: &WeightDecl,
    (index, count): (usize, usize),
    (first, step): (usize, usize),
) -> Result<LocatedWeight<'a>, Error> {
    let (rows, cols) = (decl.shape[0], decl.shape[1]);
    let of_row = cols.div_ceil(32);
    // The bytes of this expert in a tensor of bytes.
    let expert = |name: &str, shape: &[usize]| {
        let info = opened.info(name).ok_or_else(|| Error::MissingKey { key: format!("tensor {name}") })?;
        let bytes = opened.bytes(name).unwrap_or_default();
        let size = shape[1..].iter().product::<usize>();
        if info.shape != shape || !cols.is_multiple_of(32) || bytes.len() != count * size {
            let (name, found, expected) = (name.to_owned(), info.shape.to_vec(), shape.to_vec());
            return Err(Error::Shape { name, found, expected });
        }
        Ok(&bytes[index * size..][..size])
    };
    let bytes = expert(name, &[count, step * rows, of_row, 16])?;
    let scales = expert(&scales_of(name), &[count, step * rows, of_row])?;
    let name = name.strip_suffix(BLOCKS).unwrap_or(name).to_owned();
    let arrangement = Arrangement::Blocks { scales, first, step };
    Ok(LocatedWeight {
        role: decl.role,
        name,
        dtype: Dtype::MXFP4,
        rows,
        cols,
        vector: false,
        bytes,
        arrangement,
        repacked: None,
    })
}

/// The rows of a weight that another library quantized, after checking its whole shape.
fn cut_repacked<'a>(
    weight: Repacked<'a>,
    place: &TensorLocation,
    decl: &WeightDecl,
) -> Result<LocatedWeight<'a>, Error> {
    let (name, dtype) = (place.name.clone(), weight.dtype());
    let &[rows, cols] = decl.shape.as_slice() else {
        return Err(Error::VectorFormat { name, found: dtype.name() });
    };
    let (first, of) = match place.slice {
        Slice::Whole => (0, Some(rows)),
        Slice::Rows { first, of } => (first, Some(of)),
        // Experts in one tensor are of no method that is read.
        _ => (0, None),
    };
    if decl.role.is_table() || of.map(|of| [of, cols]) != Some(weight.shape) || first + rows > weight.shape[0]
    {
        let (found, expected) = (weight.shape.to_vec(), vec![of.unwrap_or(rows), cols]);
        return Err(Error::Shape { name, found, expected });
    }
    let repacked = Some(RepackedRows { weight, first });
    Ok(LocatedWeight {
        role: decl.role,
        name,
        dtype,
        rows,
        cols,
        vector: false,
        bytes: weight.codes,
        arrangement: Arrangement::Rows,
        repacked,
    })
}
