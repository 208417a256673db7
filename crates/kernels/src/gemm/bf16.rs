//! The micro-kernel of bf16 weights: `vdpbf16ps` where the tier has it, otherwise widened to `f32`.

use cpu::simd::{DotKind, Simd};

use super::driver::MicroKernel;
use super::work::unrolled;
use crate::activations::{PAIR_CHUNK, PairGroups, ROW_GROUP};

/// bf16 weights × bf16 rows where the tier has [`Simd::BF16_DOT`], otherwise × `f32` rows.
#[derive(Clone, Copy)]
pub(super) struct Bf16Rows<'a> {
    pub(super) f32: &'a [f32],
    pub(super) pairs: PairGroups<'a>,
}

impl MicroKernel for Bf16Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const MIN_ACCUMULATORS: usize = 8;
    fn row_bytes(cols: usize) -> usize {
        2 * cols
    }
    #[inline(always)]
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        cols: usize,
        first: usize,
    ) -> [[S::F; MR]; NR] {
        let x = self.rows::<S, MR>(cols, first);
        let mut sums = [[s.splat(0.0); MR]; NR];
        let mut vectors = panels.map(|panel| panel.chunks_exact(4 * S::LANES));
        if S::BF16_DOT {
            // Rows are zero-padded to whole chunks, and a last column without a partner is so in the weights.
            let whole = cols.div_ceil(2);
            for from in (0..whole).step_by(PAIR_CHUNK) {
                let x = x.chunk::<S>(from);
                for k in 0..PAIR_CHUNK.min(whole - from) {
                    for i in 0..NR {
                        let Some(weights) = vectors[i].next() else { return sums };
                        fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
                    }
                }
            }
            return sums;
        }
        let whole = cols / 2;
        // Asserted here so that the loop has no bounds checks.
        assert!(x.f32.iter().all(|row| row.len() == whole));
        for k in 0..whole {
            for i in 0..NR {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
            }
        }
        if cols % 2 == 1 {
            // A last column without a partner: zero-padded.
            let last: [[[f32; 2]; 1]; MR] =
                std::array::from_fn(|t| match self.f32.get((first + t + 1) * cols - 1) {
                    Some(&last) => [[last, 0.0]],
                    None => [[0.0; 2]],
                });
            let x = PairRows { f32: last.each_ref().map(|last| last.as_slice()), ..x };
            for i in 0..NR {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, 0, s.load_bytes(weights), &mut sums[i]);
            }
        }
        sums
    }
}

/// Rows as pairs of bf16 or of `f32`; the other one is empty.
#[derive(Clone, Copy)]
pub(super) struct PairRows<'a, const MR: usize> {
    /// [`PAIR_CHUNK`] pairs of the first row, then of the next; the next chunk of the first row begins `step` pairs further on.
    pairs: &'a [[i8; 4]],
    step: usize,
    f32: [&'a [[f32; 2]]; MR],
}

impl<'a, const MR: usize> PairRows<'a, MR> {
    const NONE: PairRows<'static, MR> = PairRows { pairs: &[], step: 0, f32: [&[]; MR] };

    /// [`PAIR_CHUNK`] pairs of each row from pair `from` on, a multiple of [`PAIR_CHUNK`].
    #[inline(always)]
    pub(super) fn chunk<S: Simd>(&self, from: usize) -> PairRows<'a, MR> {
        let mut chunk = PairRows::NONE;
        if S::BF16_DOT {
            chunk.pairs = &self.pairs[from / PAIR_CHUNK * self.step..][..PAIR_CHUNK * MR];
        } else {
            unrolled!(t < MR, {
                chunk.f32[t] = &self.f32[t][from..][..PAIR_CHUNK];
            });
        }
        chunk
    }
}

impl<'a> Bf16Rows<'a> {
    /// Rows `first` to `first + MR - 1` in the form that the tier multiplies.
    #[inline(always)]
    pub(super) fn rows<S: Simd, const MR: usize>(&self, cols: usize, first: usize) -> PairRows<'a, MR> {
        // A tile begins at a multiple of its size, and so is inside one group.
        const { assert!(MR <= ROW_GROUP) };
        if S::BF16_DOT {
            let (pairs, step) = self.pairs.stream(first);
            PairRows { pairs, step, ..PairRows::NONE }
        } else {
            let row = |t: usize| &self.f32[(first + t).min(self.f32.len() / cols - 1) * cols..][..cols];
            PairRows { f32: std::array::from_fn(|t| &row(t).as_chunks().0[..cols / 2]), ..PairRows::NONE }
        }
    }
}

/// Adds to the accumulators pair `k` of each row (for bf16: of the chunk) × the vector of weights of each panel.
#[inline(always)]
pub(super) fn fma_pairs<S: Simd, const MR: usize, const NR: usize>(
    s: S,
    x: &PairRows<'_, MR>,
    k: usize,
    w: &[S::I; NR],
    sums: &mut [[S::F; MR]; NR],
) {
    if S::BF16_DOT {
        unrolled!(t < MR, {
            let pair = s.splat4(&x.pairs[PAIR_CHUNK * t + k]);
            unrolled!(p < NR, {
                sums[p][t] = s.bf16_dot(sums[p][t], w[p], pair);
            });
        });
    } else {
        let high = s.splat_i(0xffff_0000_u32.cast_signed());
        for p in 0..NR {
            let (even, odd) = (s.cast_f(s.shl::<16>(w[p])), s.cast_f(s.and(w[p], high)));
            for t in 0..MR {
                let [first, second] = x.f32[t][k];
                sums[p][t] = s.fma(even, s.splat(first), sums[p][t]);
                sums[p][t] = s.fma(odd, s.splat(second), sums[p][t]);
            }
        }
    }
}

/// [`fma_pairs`] of one panel.
#[inline(always)]
pub(super) fn fma_pair<S: Simd, const MR: usize>(
    s: S,
    x: &PairRows<'_, MR>,
    k: usize,
    w: S::I,
    sums: &mut [S::F; MR],
) {
    fma_pairs(s, x, k, &[w], std::array::from_mut(sums));
}
