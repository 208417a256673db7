//! Tensors of an opened model.

use tensor::Dtype;

use crate::Element;

/// The name, type, shape and size of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// The element type.
    pub element: Element,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: &'a [usize],
    /// Size in the file, in bytes.
    pub bytes: usize,
}

impl TensorInfo<'_> {
    /// The number of elements.
    pub fn count(&self) -> u64 {
        // No overflow: parsing checked the count against the file size.
        self.shape.iter().map(|&d| d as u64).product()
    }
}

/// A tensor: its bytes in the mapped file, with format and shape.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// The tensor's format.
    pub dtype: Dtype,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: Vec<usize>,
    /// The tensor's bytes; their length follows from shape and format.
    pub bytes: &'a [u8],
}

/// A tensor of a model in memory ([`Opened::in_memory`](super::Opened::in_memory)), with its position among the parts.
#[derive(Clone, Debug)]
pub struct PlacedTensor {
    /// The tensor's name.
    pub name: String,
    /// The tensor's format.
    pub dtype: Dtype,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: Vec<usize>,
    /// The index of the part that holds the tensor.
    pub part: usize,
    /// The offset of the tensor in the part, in bytes.
    pub start: usize,
}
