//! The micro-kernel of weights in [`crate::int8`] × activations in 7 bits.

use cpu::simd::{DotKind, Simd};

use super::driver::MicroKernel;
use super::work::unrolled;
use crate::activations::{U7_BLOCK, U7Block, U7Rows};
use crate::int8;
use crate::tune::{self, maddubs_i16};

/// Quads of a block.
const QUADS: usize = U7_BLOCK / 4;

impl MicroKernel for U7Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Int8;
    type Unit = U7Block;
    // 4 × 2 accumulators, two registers of weights and a broadcast; AVX2 has 16 registers.
    const MR: usize = 4;
    const PANEL_PAIRS: bool = true;
    const I16_PAIRS_BELOW: usize = usize::MAX;
    const MIN_ACCUMULATORS: usize = 1;

    fn row_bytes(cols: usize) -> usize {
        cols.div_ceil(U7_BLOCK) * size_of::<U7Block>()
    }

    #[inline(always)]
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        cols: usize,
        first: usize,
    ) -> [[S::F; MR]; NR] {
        let blocks = cols.div_ceil(U7_BLOCK);
        let block_bytes = const { int8::block_bytes(S::LANES) };
        let mut rows: [&[U7Block]; MR] = [&[]; MR];
        for (t, row) in rows.iter_mut().enumerate() {
            *row = &self.row(first + t)[..blocks];
        }
        let mut sums = [[s.splat(0.0); MR]; NR];
        for b in 0..blocks {
            let mut weights: [&[u8]; NR] = [&[]; NR];
            for p in 0..NR {
                weights[p] = &panels[p][b * block_bytes..][..block_bytes];
            }
            let mut x: [&U7Block; MR] = [&rows[0][b]; MR];
            for t in 1..MR {
                x[t] = &rows[t][b];
            }
            if first == 0 {
                // The next panels, before the first rows; the others find these in L1.
                for part in weights {
                    for line in part.chunks(64) {
                        tune::prefetch(s, line, NR * blocks * block_bytes);
                    }
                }
            }
            let dots = block(s, &weights, &x);
            let floats = const { U7_BLOCK * S::LANES };
            for p in 0..NR {
                let scale = s.load_f32_bytes(&weights[p][floats..]);
                let sum = s.load_f32_bytes(&weights[p][floats + 4 * S::LANES..]);
                unrolled!(t < MR, {
                    let dot = s.mul(s.to_f(dots[p][t]), scale);
                    let with_dot = s.fma(dot, s.splat(x[t].scale), sums[p][t]);
                    sums[p][t] = s.fma(sum, s.splat(x[t].offset), with_dot);
                });
            }
        }
        sums
    }
}

/// The products of the codes of a block.
#[inline(always)]
fn block<S: Simd, const MR: usize, const NR: usize>(
    s: S,
    weights: &[&[u8]; NR],
    x: &[&U7Block; MR],
) -> [[S::I; MR]; NR] {
    let mut dots = [[s.splat_i(0); MR]; NR];
    let ones = s.splat_i(0x0001_0001);
    for j in 0..QUADS {
        let mut w = [s.splat_i(0); NR];
        for p in 0..NR {
            w[p] = s.load_bytes(&weights[p][4 * S::LANES * j..]);
        }
        unrolled!(t < MR, {
            let four = s.splat4(&x[t].q[4 * j..]);
            for p in 0..NR {
                dots[p][t] = if const { maddubs_i16::<S>() } {
                    s.madd_i16_to_i32(dots[p][t], s.maddubs_i16(s.splat_i(0), four, w[p]), ones)
                } else {
                    s.dot(dots[p][t], four, w[p])
                };
            }
        });
    }
    dots
}
