//! Weights that another library quantized: several tensors of the files are one weight.

use tensor::Dtype;
use tensor::repack::{Linear, Scales, Zeros};

use super::entry::{Entry, Place};

/// A weight that another library quantized, as codes, scales and zero points. Its rows are made when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Repacked<'a> {
    /// The weight's name: that of the module, and `.weight`.
    pub name: &'a str,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// The codes as they are in the file, for progress and for identity; rows are not slices of them.
    pub codes: &'a [u8],
    linear: Linear<'a>,
}

impl<'a> Repacked<'a> {
    /// The weight of an entry with a recipe, whose shape has been checked.
    pub(super) fn new(
        entry: &'a Entry,
        bytes: impl Fn(&Place) -> Option<&'a [u8]>,
    ) -> Option<Result<Repacked<'a>, tensor::repack::Error>> {
        let recipe = entry.recipe.as_deref()?;
        let &[rows, cols] = entry.shape.as_slice() else { return None };
        let codes = bytes(&Place { part: entry.part, range: entry.range.clone() })?;
        let scales = Scales {
            dtype: recipe.scale_dtype,
            bytes: bytes(&recipe.scales)?,
            rows: recipe.scale_of.0,
            cols: recipe.scale_of.1,
            columns_first: recipe.columns_first,
        };
        let zeros = match &recipe.zeros {
            None => Zeros::Middle,
            Some((place, layout)) => Zeros::Packed { bytes: bytes(place)?, layout: *layout },
        };
        let linear = Linear::new((rows, cols), recipe.layout, codes, scales, zeros);
        Some(linear.map(|linear| Repacked { name: &entry.name, shape: [rows, cols], codes, linear }))
    }

    /// The format of the rows that are made.
    pub fn dtype(&self) -> Dtype {
        self.linear.dtype()
    }

    /// Writes whole rows from `first` on as blocks of [`Repacked::dtype`].
    ///
    /// # Errors
    /// A code or a scale that the format does not hold.
    ///
    /// # Panics
    /// If `out` is not whole rows, or they are not all below the weight's.
    pub fn rows_into(&self, first: usize, out: &mut [u8]) -> Result<(), tensor::repack::Error> {
        self.linear.rows_into(first, out)
    }
}
