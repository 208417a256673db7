//! Tensors of a model on disk, as its users see them.

use tensor::Dtype;

use crate::Element;

/// What is known of a tensor without touching its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its bytes are.
    pub element: Element,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: &'a [usize],
    /// Size in the file.
    pub bytes: usize,
}

impl TensorInfo<'_> {
    /// Numbers in it.
    pub fn count(&self) -> u64 {
        // No overflow: the count fits the file size times the weights a byte can hold, which parsing checked.
        self.shape.iter().map(|&d| d as u64).product()
    }
}

/// A tensor's bytes in the mapped file, with what they mean.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its format.
    pub dtype: Dtype,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: Vec<usize>,
    /// Exactly the bytes of the shape in the format.
    pub bytes: &'a [u8],
}

/// A tensor of a model that is made in memory: where its bytes are among the parts given beside it.
#[derive(Clone, Debug)]
pub struct PlacedTensor {
    /// Its name.
    pub name: String,
    /// Its format.
    pub dtype: Dtype,
    /// Row-major, outermost first: `[rows, cols]`.
    pub shape: Vec<usize>,
    /// The index of the part that holds it.
    pub part: usize,
    /// Its first byte in the part.
    pub start: usize,
}
