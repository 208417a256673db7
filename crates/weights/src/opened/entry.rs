//! A tensor in the files of a model.

use std::ops::Range;

use tensor::Dtype;
use tensor::repack::{CodeLayout, ZeroLayout};

use super::tensors::TensorInfo;
use crate::element::Element;

/// A tensor of a file, or a weight that several of them are.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
    pub(super) part: usize,
    /// The bytes of the tensor; of the codes if there is a recipe.
    pub(super) range: Range<usize>,
    pub(super) recipe: Option<Box<Recipe>>,
}

impl Entry {
    pub(super) fn info(&self) -> TensorInfo<'_> {
        let beside = self.recipe.as_ref().map_or(0, |recipe| {
            recipe.scales.range.len() + recipe.zeros.as_ref().map_or(0, |(place, _)| place.range.len())
        });
        let bytes = self.range.len().saturating_add(beside);
        TensorInfo { name: &self.name, element: self.element, shape: &self.shape, bytes }
    }
}

/// Bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

/// How a weight is made from tensors that another library quantized.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) layout: CodeLayout,
    pub(super) scales: Place,
    pub(super) scale_dtype: Dtype,
    /// Rows and columns of weights that share a scale.
    pub(super) scale_of: (usize, usize),
    /// Whether scales are `[groups, rows]`.
    pub(super) columns_first: bool,
    pub(super) zeros: Option<(Place, ZeroLayout)>,
}
