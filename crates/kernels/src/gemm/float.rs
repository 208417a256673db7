//! The micro-kernel of `f32` and `f16` weights × `f32` activations: FMA.

use cpu::simd::{DotKind, Simd};

use super::driver::MicroKernel;
use crate::kv_layout::StorageType;

/// Weights stored as `W` × `f32` rows.
pub(super) struct F32Rows<'a, W> {
    pub(super) rows: &'a [f32],
    pub(super) stored: std::marker::PhantomData<W>,
}

impl<W: StorageType> MicroKernel for F32Rows<'_, W> {
    const DOT_KIND: DotKind = DotKind::F32;
    type Unit = Self;
    const MR: usize = 8;
    const MIN_ACCUMULATORS: usize = 4;
    fn row_bytes(cols: usize) -> usize {
        4 * cols
    }
    #[inline(always)]
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        cols: usize,
        first: usize,
    ) -> [[S::F; MR]; NR] {
        let last = self.rows.len() / cols - 1;
        let x: [&[f32]; MR] = std::array::from_fn(|t| &self.rows[(first + t).min(last) * cols..][..cols]);
        let mut vectors = panels.map(|panel| panel.chunks_exact(W::BYTES * S::LANES));
        let mut sums = [[s.splat(0.0); MR]; NR];
        for k in 0..cols {
            for i in 0..NR {
                let Some(weights) = vectors[i].next() else { return sums };
                let w = W::load(s, weights);
                for t in 0..MR {
                    sums[i][t] = s.fma(w, s.splat(x[t][k]), sums[i][t]);
                }
            }
        }
        sums
    }
}
