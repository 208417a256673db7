//! Weights that another library quantized: made into blocks of a format that is computed with, one matrix at a time.

use std::sync::OnceLock;

use crate::error::Error;
use kernels::Compute;
use weights::Repacked;

/// Rows that a thread makes at a time.
const TASK_ROWS: usize = 64;

/// Rows of a weight that is made of several tensors.
#[derive(Clone, Copy)]
pub(crate) struct RepackedRows<'a> {
    pub(crate) weight: Repacked<'a>,
    /// The first row.
    pub(crate) first: usize,
}

impl RepackedRows<'_> {
    /// The blocks of `rows` rows, in the format of [`Repacked::dtype`].
    ///
    /// # Errors
    /// A code or a scale that the format does not hold.
    pub(crate) fn blocks(&self, compute: &Compute, rows: usize) -> Result<Vec<u8>, Error> {
        let [_, cols] = self.weight.shape;
        let row_bytes =
            self.weight.dtype().row_bytes(cols).expect("opening checked that rows are whole blocks");
        let mut blocks = vec![0; rows * row_bytes];
        let failed = OnceLock::new();
        compute.pool.chunks_mut(&mut blocks, TASK_ROWS * row_bytes, &|task, chunk| {
            if let Err(error) = self.weight.rows_into(self.first + task * TASK_ROWS, chunk) {
                // The first of several is enough.
                let _ = failed.set(error);
            }
        });
        match failed.into_inner() {
            None => Ok(blocks),
            Some(source) => Err(Error::Repack { name: self.weight.name.to_owned(), source }),
        }
    }
}
