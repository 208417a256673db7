//! The micro-kernel of quantized weights without VNNI.

use cpu::simd::{Simd, i16_quads};

use super::work::unrolled;
use super::zero_point::{zero_point_i16, zero_point_init};
use crate::activations::Block;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Format, QUADS};

/// [`microkernel_dot`] where few registers are left ([`Simd::I16_MIN_ROWS`]): a quad of all rows and panels is multiplied after the other, and products
/// of narrow codes are added in words, of as many quads as fit, before they are widened. Of rows `from` to `from + R - 1` of the tile.
#[inline(always)]
pub(super) fn microkernel_i16<S: Simd, F: Format, const R: usize, const T: usize, const P: usize>(
    s: S,
    heads: &[[S::F; 2]; P],
    blocks: &[&[u8]; P],
    i: usize,
    x: &[Block],
    from: usize,
    sums: &mut [[S::F; T]; P],
) {
    let x = &x[from..from + R];
    let two_scales = F::Scales::GROUPS == 2;
    let unroll_factor =
        const { if F::Scales::GROUPS == 2 || F::Codes::EIGHT_BIT { 2 } else { i16_quads(F::Codes::BITS) } };
    let mut u = [unpack::unpack::<S, F>(s, heads[0], blocks[0], i); P];
    for p in 1..P {
        u[p] = unpack::unpack::<S, F>(s, heads[p], blocks[p], i);
    }
    let ones = s.splat_i(0x0001_0001);
    let mut dots = [[s.splat_i(0); R]; P];
    unrolled!(t < R, {
        if two_scales {
            let correction = s.splat_i(x[t].plain().neg_sum_i16);
            for p in 0..P {
                dots[p][t] = s.dot_i16(s.splat_i(0), zero_point_i16::<S, F>(s, u[p].sub_scales), correction);
            }
        } else {
            let start = zero_point_init::<S, F, 0>(s, &x[t]);
            for p in 0..P {
                dots[p][t] = start;
            }
        }
    });
    if const { F::Codes::EIGHT_BIT } {
        unrolled!(j < QUADS, {
            unrolled!(t < R, {
                let four = s.splat4(&x[t].q[4 * j..]);
                for p in 0..P {
                    dots[p][t] = s.dot_u8(dots[p][t], u[p].w[j], four);
                }
            });
        });
    } else if two_scales {
        unrolled!(pair < QUADS / 2, {
            let j = 2 * pair;
            unrolled!(t < R, {
                let (first, second) = (s.splat4(&x[t].q[4 * j..]), s.splat4(&x[t].q[4 * j + 4..]));
                for p in 0..P {
                    let i16_sums = s.maddubs_i16(s.splat_i(0), u[p].w[j], first);
                    let i16_sums = s.maddubs_i16(i16_sums, u[p].w[j + 1], second);
                    dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums, u[p].sub_scales[j / 4]);
                }
            });
        });
    } else {
        for chunk in 0..QUADS / unroll_factor {
            let mut i16_sums = [[s.splat_i(0); R]; P];
            unrolled!(k < unroll_factor, {
                // Those that share a register of nibbles after each other.
                let k = chunk * unroll_factor + k;
                let j = k % 2 * 4 + k / 2;
                unrolled!(t < R, {
                    let four = s.splat4(&x[t].q[4 * j..]);
                    for p in 0..P {
                        i16_sums[p][t] = s.maddubs_i16(i16_sums[p][t], u[p].w[j], four);
                    }
                });
            });
            unrolled!(t < R, {
                for p in 0..P {
                    dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums[p][t], ones);
                }
            });
        }
    }
    unrolled!(t < R, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..P {
            let weights = if two_scales { u[p].factor } else { u[p].scale[0] };
            sums[p][from + t] = s.fma(s.to_f(dots[p][t]), s.mul(weights, scale), sums[p][from + t]);
        }
        if F::Scales::BIAS {
            let sum = s.splat(x[t].plain().sum);
            for p in 0..P {
                sums[p][from + t] = s.fma(u[p].bias[0], sum, sums[p][from + t]);
            }
        }
    });
}

/// [`microkernel_dot`] for one row and panel, where scales of the halves are integers ([`unpack::int8_sub_scales`]): one sum for both halves.
#[inline(always)]
pub(super) fn gemv_i16_scaled<S: Simd, F: Format>(
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
