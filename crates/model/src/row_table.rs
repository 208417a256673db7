//! A table whose rows are looked up and never multiplied, read from the mapped file row by row.

use crate::error::Error;
use tensor::Dtype;
use weights::TensorBytes;

/// Values that are decoded at once: whole blocks of every format.
const PART: usize = tensor::format::MAX_BLOCK_WEIGHTS;

/// A table of rows in the format and at the place of its file. Pages of rows that no text had are never read.
pub(crate) struct RowTable {
    bytes: TensorBytes,
    dtype: Dtype,
    cols: usize,
    row_bytes: usize,
}

impl RowTable {
    /// The table of these bytes, whose rows are `cols` values each.
    ///
    /// # Errors
    /// Rows that are not whole blocks.
    pub(crate) fn new(name: &str, bytes: TensorBytes, dtype: Dtype, cols: usize) -> Result<RowTable, Error> {
        let row_bytes = dtype.row_bytes(cols).ok_or_else(|| Error::Weights {
            name: name.to_owned(),
            source: tensor::Error::NotWholeBlocks { dtype, weights: cols },
        })?;
        Ok(RowTable { bytes, dtype, cols, row_bytes })
    }

    /// Values of a row.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Calls `part(first, values)` for the values of a row, some at a time, from value `first` on. Values of a damaged
    /// file are NaN.
    pub(crate) fn read(&self, row: usize, part: &mut dyn FnMut(usize, &[f32])) {
        let bytes = self.bytes.get(row * self.row_bytes..).unwrap_or_default();
        for first in (0..self.cols).step_by(PART) {
            let mut values = [0.0; PART];
            let values = &mut values[..PART.min(self.cols - first)];
            let range = self.dtype.row_bytes(first).zip(self.dtype.row_bytes(values.len()));
            let encoded = range.and_then(|(start, len)| bytes.get(start..start + len)).unwrap_or_default();
            if tensor::dequantize(self.dtype, encoded, values).is_err() {
                values.fill(f32::NAN);
            }
            part(first, values);
        }
    }
}
