//! Stripes: columns of two matrices, a task for each of them.

use std::marker::PhantomData;

use super::{Pool, Shareable, Tile};

/// Columns of a row-major matrix `[rows, row_len]` to be cut into stripes of all rows, for [`Pool::stripes_mut`].
pub struct Stripes<'a, T> {
    /// The matrix.
    pub data: &'a mut [T],
    /// The matrix's row length.
    pub row_len: usize,
    /// The first column of the first stripe.
    pub start: usize,
    /// Columns in a stripe.
    pub cols: usize,
    /// Columns of all stripes together; the last stripe may be narrower.
    pub width: usize,
}

/// What is done with the `i`-th stripe of each of two matrices.
type StripeJob<'j, T> = dyn Fn(usize, Tile<'_, T>, Tile<'_, T>) + Sync + 'j;

impl<T> Stripes<'_, T> {
    /// The number of stripes.
    fn count(&self) -> usize {
        assert!(self.cols > 0 && self.row_len > 0, "stripes of no columns");
        assert!(self.data.len().is_multiple_of(self.row_len), "a matrix of whole rows");
        assert!(
            self.start <= self.row_len && self.width <= self.row_len - self.start,
            "stripes beyond a row"
        );
        self.width.div_ceil(self.cols)
    }
}

impl Pool {
    /// Cuts columns of two matrices into as many stripes and calls `job(i, first, second)` for the `i`-th stripe of each.
    ///
    /// # Panics
    /// When a matrix is not a whole number of rows, the columns lie outside of it, or the two have other numbers of stripes.
    pub fn stripes_mut<T: Send>(
        &self,
        first: Stripes<'_, T>,
        second: Stripes<'_, T>,
        job: &StripeJob<'_, T>,
    ) {
        let stripes = first.count();
        assert_eq!(stripes, second.count(), "stripes of two matrices");
        let parts = [first, second].map(|m| {
            let rows = m.data.len() / m.row_len;
            (Shareable(m.data.as_mut_ptr()), m.row_len, rows, m.start, m.cols, m.width)
        });
        self.run(stripes, &|i| {
            let [a, b] = parts.each_ref().map(|(base, row_len, rows, start, cols, width)| Tile {
                // SAFETY: `start + i * cols` is below `start + width`, so it is a column of the matrix, or one past an
                // empty one, of which no row is read. Stripes of different `i` share no column, and the matrices stay
                // mutably borrowed until `run` returns.
                start: unsafe { base.at(if *rows == 0 { 0 } else { start + i * cols }) },
                row_len: *row_len,
                rows: *rows,
                cols: (*cols).min(width - i * cols),
                borrow: PhantomData,
            });
            job(i, a, b);
        });
    }
}
