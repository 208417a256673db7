//! The micro-kernel of quantized weights without VNNI ([`Int8Path::MaddubsI16`](crate::tune::Int8Path)): AVX2.
//! M ≤ 2 goes through [`super::q8`], which calls [`gemv_i16_scaled`] for `Q3_K` and `Q6_K`.
//!
//! `vpmaddubsw` multiplies bytes and adds pairs in `i16`. Products of narrow codes are accumulated there, over as many quads as cannot
//! overflow ([`i16_quads`]), and widened to `i32` once by `vpmaddwd`, which also applies integer scales of 16 weights.

use cpu::simd::{Simd, i16_quads};

use super::dot_quad::dot_quad;
use super::work::unrolled;
use super::zero_point::{zero_point_i16, zero_point_init};
use crate::activations::Block;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout, Grid, QUADS};

/// The micro-kernel: adds to the accumulators `sums` one sub-block of 32 columns of `NR` panels × rows `from` to `from + SUB_MR - 1`.
///
/// Loop order as in [`super::q8`]: quads of K outer, rows × panels inner. `SUB_MR` × `NR` is 4 × 2, or 8 × 1 where
/// unpacking dominates: accumulators in `i16` and `i32`, weights and a broadcast fill 16 registers.
#[inline(always)]
pub(super) fn microkernel_i16<
    S: Simd,
    F: BlockLayout,
    const SUB_MR: usize,
    const MR: usize,
    const NR: usize,
>(
    s: S,
    grid: &'static Grid,
    heads: &[[S::F; 2]; NR],
    blocks: &[&[u8]; NR],
    i: usize,
    x: &[Block],
    from: usize,
    sums: &mut [[S::F; MR]; NR],
) {
    let x = &x[from..from + SUB_MR];
    let two_scales = F::Scales::GROUPS == 2;
    let mut u = [unpack::unpack::<S, F>(s, grid, heads[0], blocks[0], i); NR];
    for p in 1..NR {
        u[p] = unpack::unpack::<S, F>(s, grid, heads[p], blocks[p], i);
    }
    let ones = s.splat_i(0x0001_0001);
    let mut dots = [[s.splat_i(0); SUB_MR]; NR];
    unrolled!(t < SUB_MR, {
        if two_scales {
            let correction = s.splat_i(x[t].plain().neg_sum_i16);
            for p in 0..NR {
                dots[p][t] = s.dot_i16(s.splat_i(0), zero_point_i16::<S, F>(s, u[p].sub_scales), correction);
            }
        } else {
            let start = zero_point_init::<S, F, 0>(s, &x[t]);
            for p in 0..NR {
                dots[p][t] = start;
            }
        }
    });
    if const { F::Codes::EIGHT_BIT } {
        unrolled!(j < QUADS, {
            dot_quad::<S, F, SUB_MR, NR>(s, x, j, &codes(s, &u, j), &mut dots);
        });
    } else if two_scales {
        unrolled!(pair < QUADS / 2, {
            dot_scaled_quads(s, x, 2 * pair, &u, &mut dots);
        });
    } else {
        for chunk in 0..QUADS / const { quads_in_i16::<F>() } {
            let mut i16_sums = [[s.splat_i(0); SUB_MR]; NR];
            unrolled!(k < quads_in_i16::<F>(), {
                // Quads that share a register of nibbles follow each other.
                let k = chunk * const { quads_in_i16::<F>() } + k;
                let j = k % 2 * 4 + k / 2;
                maddubs_quad(s, x, j, &u, &mut i16_sums);
            });
            unrolled!(t < SUB_MR, {
                for p in 0..NR {
                    dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums[p][t], ones);
                }
            });
        }
    }
    unrolled!(t < SUB_MR, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..NR {
            let weights = if two_scales { u[p].factor } else { u[p].scale[0] };
            sums[p][from + t] = s.fma(s.to_f(dots[p][t]), s.mul(weights, scale), sums[p][from + t]);
        }
        if F::Scales::BIAS {
            let sum = s.splat(x[t].plain().sum);
            for p in 0..NR {
                sums[p][from + t] = s.fma(u[p].bias[0], sum, sums[p][from + t]);
            }
        }
    });
}

/// Quads whose products are accumulated in `i16` before they are widened.
const fn quads_in_i16<F: BlockLayout>() -> usize {
    if F::Scales::GROUPS == 2 || F::Codes::EIGHT_BIT { 2 } else { i16_quads(F::Codes::BITS) }
}

/// The codes of quad `j` of each panel.
#[inline(always)]
fn codes<S: Simd, const NR: usize>(s: S, u: &[unpack::Unpacked<S>; NR], j: usize) -> [S::I; NR] {
    let mut codes = [s.splat_i(0); NR];
    for p in 0..NR {
        codes[p] = u[p].w[j];
    }
    codes
}

/// Adds quad `j` of each row × the codes of each panel to the `i16` accumulators.
#[inline(always)]
fn maddubs_quad<S: Simd, const SUB_MR: usize, const NR: usize>(
    s: S,
    x: &[Block],
    j: usize,
    u: &[unpack::Unpacked<S>; NR],
    i16_sums: &mut [[S::I; SUB_MR]; NR],
) {
    unrolled!(t < SUB_MR, {
        let four = s.splat4(&x[t].q[4 * j..]);
        for p in 0..NR {
            i16_sums[p][t] = s.maddubs_i16(i16_sums[p][t], u[p].w[j], four);
        }
    });
}

/// Adds quads `j` and `j + 1` of each row × the codes of each panel × the integer scale that both have.
#[inline(always)]
fn dot_scaled_quads<S: Simd, const SUB_MR: usize, const NR: usize>(
    s: S,
    x: &[Block],
    j: usize,
    u: &[unpack::Unpacked<S>; NR],
    dots: &mut [[S::I; SUB_MR]; NR],
) {
    unrolled!(t < SUB_MR, {
        let (first, second) = (s.splat4(&x[t].q[4 * j..]), s.splat4(&x[t].q[4 * j + 4..]));
        for p in 0..NR {
            let i16_sums = s.maddubs_i16(s.splat_i(0), u[p].w[j], first);
            let i16_sums = s.maddubs_i16(i16_sums, u[p].w[j + 1], second);
            dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums, u[p].sub_scales[j / 4]);
        }
    });
}

/// One row × one panel, where scales of 16 weights are integers ([`unpack::int8_sub_scales`]): one `i32` accumulator for both halves.
/// Codes of more than 3 bits are multiplied as codes of 6.
#[inline(always)]
pub(super) fn gemv_i16_scaled<S: Simd, F: BlockLayout>(
    s: S,
    u: &unpack::Unpacked<S>,
    x: &Block,
    sum: S::F,
) -> S::F {
    let [first, second] = u.sub_scales;
    let mut dots =
        s.dot_i16(s.splat_i(0), zero_point_i16::<S, F>(s, u.sub_scales), s.splat_i(x.plain().neg_sum_i16));
    match const { F::Codes::BITS } {
        ..=3 => {
            dots = s.dot_scaled::<4, 3>(dots, &u.w, &x.q, 0, first);
            dots = s.dot_scaled::<4, 3>(dots, &u.w, &x.q, 4, second);
        }
        _ => {
            dots = s.dot_scaled::<4, 6>(dots, &u.w, &x.q, 0, first);
            dots = s.dot_scaled::<4, 6>(dots, &u.w, &x.q, 4, second);
        }
    }
    s.fma(s.to_f(dots), s.mul(u.factor, s.splat(x.plain().scale)), sum)
}
