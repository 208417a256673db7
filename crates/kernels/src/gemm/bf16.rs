//! The micro-kernel of bf16 weights.

use cpu::simd::{DotKind, Simd};

use super::driver::MicroKernel;
use super::work::unrolled;
use crate::activations::{PAIR_CHUNK, PairGroups, ROW_GROUP};

/// bfloat16 weights times bfloat16 rows where the tier has that product, else times `f32` rows.
#[derive(Clone, Copy)]
pub(super) struct Bf16Rows<'a> {
    pub(super) f32: &'a [f32],
    pub(super) pairs: PairGroups<'a>,
}

impl MicroKernel for Bf16Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const SUMS: usize = 8;
    fn row_bytes(cols: usize) -> usize {
        2 * cols
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let x = self.rows::<S, T>(cols, first);
        let mut sums = [[s.splat(0.0); T]; P];
        let mut vectors = panels.map(|panel| panel.chunks_exact(4 * S::LANES));
        if S::BF16_DOT {
            // Filled up with zeros to whole chunks, as a last column without a partner is in the weights.
            let whole = cols.div_ceil(2);
            for from in (0..whole).step_by(PAIR_CHUNK) {
                let x = x.chunk::<S>(from);
                for k in 0..PAIR_CHUNK.min(whole - from) {
                    for i in 0..P {
                        let Some(weights) = vectors[i].next() else { return sums };
                        fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
                    }
                }
            }
            return sums;
        }
        let whole = cols / 2;
        // Said where it can be seen: else the loop looks at the length of each row for each pair.
        assert!(x.f32.iter().all(|row| row.len() == whole));
        for k in 0..whole {
            for i in 0..P {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
            }
        }
        if cols % 2 == 1 {
            // A last column without a partner: with zeros.
            let last: [[[f32; 2]; 1]; T] =
                std::array::from_fn(|t| match self.f32.get((first + t + 1) * cols - 1) {
                    Some(&last) => [[last, 0.0]],
                    None => [[0.0; 2]],
                });
            let x = PairRows { f32: last.each_ref().map(|last| last.as_slice()), ..x };
            for i in 0..P {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, 0, s.load_bytes(weights), &mut sums[i]);
            }
        }
        sums
    }
}

/// Rows as pairs of bfloat16 and of `f32`, of which one is empty.
#[derive(Clone, Copy)]
pub(super) struct PairRows<'a, const T: usize> {
    /// [`PAIR_CHUNK`] pairs of the first row, then those of the next; the next pairs of the first begin `step` pairs on.
    pairs: &'a [[i8; 4]],
    step: usize,
    f32: [&'a [[f32; 2]]; T],
}

impl<'a, const T: usize> PairRows<'a, T> {
    const NONE: PairRows<'static, T> = PairRows { pairs: &[], step: 0, f32: [&[]; T] };

    /// [`PAIR_CHUNK`] pairs of each row from pair `from` on, a multiple of so many.
    #[inline(always)]
    pub(super) fn chunk<S: Simd>(&self, from: usize) -> PairRows<'a, T> {
        let mut chunk = PairRows::NONE;
        if S::BF16_DOT {
            chunk.pairs = &self.pairs[from / PAIR_CHUNK * self.step..][..PAIR_CHUNK * T];
        } else {
            unrolled!(t < T, {
                chunk.f32[t] = &self.f32[t][from..][..PAIR_CHUNK];
            });
        }
        chunk
    }
}

impl<'a> Bf16Rows<'a> {
    /// Rows `first` to `first + T - 1` in the form that is multiplied; in the other form they are empty.
    #[inline(always)]
    pub(super) fn rows<S: Simd, const T: usize>(&self, cols: usize, first: usize) -> PairRows<'a, T> {
        // Tiles begin at multiples of their own size, so that one lies in one group.
        const { assert!(T <= ROW_GROUP) };
        if S::BF16_DOT {
            let (pairs, step) = self.pairs.stream(first);
            PairRows { pairs, step, ..PairRows::NONE }
        } else {
            let row = |t: usize| &self.f32[(first + t).min(self.f32.len() / cols - 1) * cols..][..cols];
            PairRows { f32: std::array::from_fn(|t| &row(t).as_chunks().0[..cols / 2]), ..PairRows::NONE }
        }
    }
}

/// Adds to the sum of each row and panel the row's pair `k`, of bfloat16 of a chunk, times the panel's vector of weights.
#[inline(always)]
pub(super) fn fma_pairs<S: Simd, const T: usize, const P: usize>(
    s: S,
    x: &PairRows<'_, T>,
    k: usize,
    w: &[S::I; P],
    sums: &mut [[S::F; T]; P],
) {
    if S::BF16_DOT {
        unrolled!(t < T, {
            let pair = s.splat4(&x.pairs[PAIR_CHUNK * t + k]);
            unrolled!(p < P, {
                sums[p][t] = s.bf16_dot(sums[p][t], w[p], pair);
            });
        });
    } else {
        let high = s.splat_i(0xffff_0000_u32.cast_signed());
        for p in 0..P {
            let (even, odd) = (s.cast_f(s.shl::<16>(w[p])), s.cast_f(s.and(w[p], high)));
            for t in 0..T {
                let [first, second] = x.f32[t][k];
                sums[p][t] = s.fma(even, s.splat(first), sums[p][t]);
                sums[p][t] = s.fma(odd, s.splat(second), sums[p][t]);
            }
        }
    }
}

/// [`fma_pairs`] of one panel.
#[inline(always)]
pub(super) fn fma_pair<S: Simd, const T: usize>(
    s: S,
    x: &PairRows<'_, T>,
    k: usize,
    w: S::I,
    sums: &mut [S::F; T],
) {
    fma_pairs(s, x, k, &[w], std::array::from_mut(sums));
}
