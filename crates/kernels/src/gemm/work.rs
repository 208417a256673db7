//! What a GEMM task works on: packed panels of weights and a tile of the output.

use std::ops::Range;

use cpu::Tile;
use cpu::simd::Simd;

use crate::partial;

/// The block with `t` = 0, 1, … below `n`, written out. In a rolled loop the sums of a tile would lie in memory and not in
/// registers.
macro_rules! unrolled {
    ($t:ident < $n:expr, $body:block) => {
        unrolled!(@ $t, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $t:ident, $n:expr, $body:block, $($i:literal)*) => {
        $({
            let $t = $i;
            if $t < $n $body
        })*
    };
}
pub(crate) use unrolled;

/// Panels of weights, one after the other.
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

pub(crate) struct Work<'a> {
    /// The panels, from this task's first on.
    pub(crate) weights: Panels<'a>,
    pub(crate) cols: usize,
    /// Rows of the input for each row of the output: two when the input is in sixteen bits.
    pub(crate) planes: usize,
    /// Rows to compute, from the first.
    pub(crate) rows: usize,
    pub(crate) out: Tile<'a, f32>,
}

impl Work<'_> {
    /// Asks for the lines of the output that the sums of these rows and panels will go to.
    #[inline(always)]
    pub(super) fn prefetch_output<S: Simd>(&mut self, s: S, rows: Range<usize>, panels: Range<usize>) {
        for row in rows {
            let out = self.out.row(row);
            for p in panels.clone() {
                s.prefetch_write(&mut out[p * S::LANES..]);
            }
        }
    }

    /// Writes `sums` to row `t` of the output, from its column `at` on; less than a register at the end of a row.
    #[inline(always)]
    pub(crate) fn store<S: Simd>(&mut self, s: S, t: usize, at: usize, sums: S::F) {
        partial::store(s, sums, self.out.row(t), at);
    }
}
