//! GEMM of quantized weights × prefill rows on AMX: weights are dequantized to bf16, scale and minimum included, once
//! for many rows, so that accumulators stay in tiles.

use std::marker::PhantomData;

use cpu::simd::Simd;
use cpu::simd::amx::Amx;

use super::blocked::blocked;
use super::tile::{DecodedKBlock, K_BLOCK, TILE_COLS, Weights};
use crate::gemm::work::Work;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout, Grid, SUB};

/// Computes the rows of `work` from `first` on: weights in blocks of the layout `F` × rows in AMX tile order.
pub(crate) fn gemm<F: BlockLayout>(
    amx: Amx,
    work: &mut Work<'_>,
    pairs: &[[i8; 4]],
    grid: &'static Grid,
    first: usize,
) {
    blocked::<F, _>(amx, DequantBf16::<F> { grid, layout: PhantomData }, work, pairs, first);
}

struct DequantBf16<F> {
    grid: &'static Grid,
    layout: PhantomData<F>,
}

impl<F: BlockLayout> Weights for DequantBf16<F> {
    #[inline(always)]
    fn decode_into<S: Simd>(
        &self,
        s: S,
        panel: &[u8],
        _: usize,
        from: usize,
        tile: usize,
        decoded: &mut DecodedKBlock,
    ) {
        const { assert!(SUB == TILE_COLS && K_BLOCK.is_multiple_of(F::WEIGHTS)) };
        let Some((block, i)) = unpack::find_sub_block::<S, F>(s, panel, from + tile * SUB) else { return };
        let to = &mut decoded.0[tile];
        let head = unpack::head::<S, F>(s, self.grid, block);
        dequant_tile::<S, F>(s, &unpack::unpack::<S, F>(s, self.grid, head, block, i), to);
    }
}

/// A factor of the weights before their lower 16 bits are cut off. `1 + ln 2 / 256` is the mean of half a unit in the
/// last place of bf16, which makes truncation nearly unbiased, for half the instructions of rounding.
const ROUNDING_BIAS: f32 = 1.0 + std::f32::consts::LN_2 / 256.0;

/// The upper eight bits of the mantissa: a byte `q` there makes [`CODE_BIAS`] 256 + q.
const CODE_MASK: i32 = 0x007f_8000;
/// The float whose last mantissa bits hold a code, and what its value is too large by.
const CODE_BIAS: f32 = 256.0;

/// Dequantizes a sub-block into a tile: a row for each pair of columns.
#[inline(always)]
fn dequant_tile<S: Simd, F: BlockLayout>(s: S, u: &unpack::Unpacked<S>, tile: &mut [u8]) {
    let zero = CODE_BIAS + unpack::zero_point::<S, F>() as f32;
    let (zero, rounding_bias) = (s.splat(-zero), s.splat(ROUNDING_BIAS));
    for half in 0..2 {
        // weight = scale · code + (bias - scale · zero)
        let scale = s.mul(u.scale[half], rounding_bias);
        let mut bias = s.mul(scale, zero);
        if F::Scales::BIAS {
            bias = s.fma(u.bias[half], rounding_bias, bias);
        }
        for quad in 4 * half..4 * half + 4 {
            let (v, rows) = (u.w[quad], &mut tile[8 * quad * S::LANES..]);
            let first = s.fma(code(s, s.shl::<15>(v)), scale, bias);
            let second = s.fma(code(s, s.shl::<7>(v)), scale, bias);
            let third = s.fma(code(s, s.shr::<1>(v)), scale, bias);
            let fourth = s.fma(code(s, s.shr::<9>(v)), scale, bias);
            s.store_bytes(upper_halves(s, first, second), rows);
            s.store_bytes(upper_halves(s, third, fourth), &mut rows[4 * S::LANES..]);
        }
    }
}

/// 256 + the byte at [`CODE_MASK`].
#[inline(always)]
fn code<S: Simd>(s: S, v: S::I) -> S::F {
    s.cast_f(s.or(s.and(v, s.splat_i(CODE_MASK)), s.splat_i(CODE_BIAS.to_bits().cast_signed())))
}

/// The upper halves of each lane's bits: of `low` in the lower half, of `high` in the upper.
#[inline(always)]
fn upper_halves<S: Simd>(s: S, low: S::F, high: S::F) -> S::I {
    let upper = s.splat_i(0xffff_0000_u32.cast_signed());
    s.or(s.shr::<16>(s.bits(low)), s.and(s.bits(high), upper))
}
