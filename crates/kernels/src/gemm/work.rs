//! What a GEMM task works on: packed panels of weights and a tile of the output.

use std::ops::Range;

use cpu::Tile;
use cpu::simd::Simd;

use crate::partial;

/// Unrolls the block for `t` = 0, 1, … below `n`, at most 8: in a rolled loop the accumulators of a tile would be in memory, not in
/// registers. `n` is a constant. There are eight copies of the block whatever `n` is, and 64 of one inside another, which the compiler
/// reads for every instance of the function: a block inside a block is a function of its own.
macro_rules! unrolled {
    ($t:ident < $n:expr, $body:block) => {
        const { assert!($n <= 8) };
        unrolled!(@ $t, $n, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $t:ident, $n:expr, $body:block, $($i:literal)*) => {
        $({
            let $t = $i;
            if $t < $n $body
        })*
    };
}
pub(crate) use unrolled;

/// Consecutive panels of packed weights.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) panel_bytes: usize,
    pub(crate) count: usize,
}

impl<'a> Panels<'a> {
    /// Panel `p`.
    #[inline(always)]
    pub(crate) fn panel(self, p: usize) -> &'a [u8] {
        &self.data[p * self.panel_bytes..][..self.panel_bytes]
    }
}

/// A task: some panels, some rows, and the tile of the output that they fill.
pub(crate) struct Work<'a> {
    /// The task's panels.
    pub(crate) weights: Panels<'a>,
    /// K.
    pub(crate) cols: usize,
    /// Rows of quantized activations to a row of the output: two, the coarse and the fine plane, when they are in 16 bits.
    pub(crate) planes: usize,
    /// Rows of the output to compute, from the first on.
    pub(crate) rows: usize,
    pub(crate) out: Tile<'a, f32>,
}

impl Work<'_> {
    /// Prefetches for writing the cache lines of the output of these rows and panels.
    #[inline(always)]
    pub(super) fn prefetch_output<S: Simd>(&mut self, s: S, rows: Range<usize>, panels: Range<usize>) {
        for row in rows {
            let out = self.out.row(row);
            for p in panels.clone() {
                s.prefetch_write(&mut out[p * S::LANES..]);
            }
        }
    }

    /// Writes `sums` to row `t` of the output from column `at` on, less than a register at the end of a row.
    #[inline(always)]
    pub(crate) fn store<S: Simd>(&mut self, s: S, t: usize, at: usize, sums: S::F) {
        partial::store(s, sums, self.out.row(t), at);
    }
}
