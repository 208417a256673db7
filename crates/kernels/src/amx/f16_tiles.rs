//! GEMM of quantized weights on AMX with f16 tiles (Granite Rapids): weights are dequantized to f16, scale and minimum
//! included, for any number of rows.
//!
//! A code becomes an f16 by bit operations: a narrow one is put into the mantissa of a number between 1 and 2, a wide
//! one into the last bits of 1,024. The excess goes into the bias, or is subtracted exactly where the bias would round
//! it too coarsely. Weights and rows are scaled by powers of two to near the upper end of f16, and results are scaled
//! back, so that neither overflow nor underflow loses anything.
//!
//! Up to 32 rows, a sub-block is dequantized while the one before it is multiplied, which together take less time than
//! memory takes to deliver the next one (docs/lab/amx-tiles.md#decision-35). More rows use [`super::blocked`].

use std::marker::PhantomData;

use cpu::simd::amx::{AmxFp16, ROWS, Tiles};
use cpu::simd::{Job, Simd};

use super::blocked::BlockedGemm;
use super::tile::{Accumulators, TILE_BYTES, multiply};
use super::tile::{DecodedKBlock, K_BLOCK, Weights};
use crate::activations::{AMX_TILE_PAIRS as PAIRS, F16Rows};
use crate::gemm::work::Work;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout, Grid, Prefetcher, QUADS, SUB};

/// The most rows for which dequantizing and multiplying are interleaved.
const SMALL_M_ROWS: usize = 2 * ROWS;

/// Computes `work`: weights in blocks of the layout `F`, scaled by `weight_scale`, a power of two, × the rows `x`.
pub(crate) fn gemm<F: BlockLayout>(
    amx: AmxFp16,
    work: &mut Work<'_>,
    x: F16Rows<'_>,
    grid: &'static Grid,
    weight_scale: f32,
) {
    let weights = F16Weights::<F> { amx, grid, weight_scale, row_descale: x.descale, layout: PhantomData };
    if work.out.rows() <= SMALL_M_ROWS {
        amx.avx512().call_in_unit::<F, _>(SmallM { work, pairs: x.pairs, weights });
    } else {
        amx.avx512().call_in_unit::<F, _>(BlockedGemm {
            amx: amx.amx(),
            work,
            pairs: x.pairs,
            first: 0,
            weights,
        });
    }
}

struct F16Weights<'a, F> {
    amx: AmxFp16,
    grid: &'static Grid,
    weight_scale: f32,
    /// The scale of each row.
    row_descale: &'a [f32],
    layout: PhantomData<F>,
}

impl<F: BlockLayout> Weights for F16Weights<'_, F> {
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
        const { assert!(K_BLOCK.is_multiple_of(F::WEIGHTS)) };
        let Some((block, i)) = unpack::find_sub_block::<S, F>(s, panel, from + tile * SUB) else { return };
        let to = &mut decoded.0[tile];
        let head = scaled_head::<S, F>(s, self.grid, block, self.weight_scale);
        dequant_f16::<S, F>(s, &unpack::unpack::<S, F>(s, self.grid, head, block, i), to);
    }
    #[inline(always)]
    fn dot<const C: usize, const A: usize, const B: usize>(&self, tiles: &Tiles) {
        tiles.dot_f16::<C, A, B>(self.amx);
    }
    #[inline(always)]
    fn descale(&self, row: usize) -> [f32; 2] {
        [self.row_descale[row], 1.0 / self.weight_scale]
    }
}

/// The head of `block`, its factors times `weight_scale`.
#[inline(always)]
fn scaled_head<S: Simd, F: BlockLayout>(s: S, grid: &Grid, block: &[u8], weight_scale: f32) -> [S::F; 2] {
    let (head, weight_scale) = (unpack::head::<S, F>(s, grid, block), s.splat(weight_scale));
    [s.mul(head[0], weight_scale), s.mul(head[1], weight_scale)]
}

/// A tile of weights.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Tile([u8; TILE_BYTES]);

struct SmallM<'w, 'a, F> {
    work: &'w mut Work<'a>,
    pairs: &'w [[i8; 4]],
    weights: F16Weights<'w, F>,
}

impl<F: BlockLayout> Job for SmallM<'_, '_, F> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (rows, panels) = (self.work.out.rows(), self.work.weights.count);
        let tiles = Tiles::new(self.weights.amx.amx(), rows.min(ROWS), 4 * PAIRS);
        for p in (0..panels).step_by(2) {
            match (rows <= ROWS, panels - p) {
                (true, 1) => self.loop_m::<S, 1, 1>(s, &tiles, p),
                (true, _) => self.loop_m::<S, 1, 2>(s, &tiles, p),
                (false, 1) => self.loop_m::<S, 2, 1>(s, &tiles, p),
                (false, _) => self.loop_m::<S, 2, 2>(s, &tiles, p),
            }
        }
    }
}

impl<F: BlockLayout> SmallM<'_, '_, F> {
    /// All rows, in `G` tiles, × `P` panels from `p` on, over all of K.
    #[inline(always)]
    fn loop_m<S: Simd, const G: usize, const P: usize>(&mut self, s: S, tiles: &Tiles, p: usize) {
        const { assert!(4 * S::LANES == TILE_BYTES / PAIRS || S::LANES != 16) };
        let (rows, cols, grid) = (self.work.out.rows(), self.work.cols, self.weights.grid);
        let a_row = cols.div_ceil(SUB) * PAIRS;
        let (mut x, mut steps): ([&[[i8; 4]]; G], _) = ([&[]; G], [0; G]);
        for g in 0..G {
            // A last tile of fewer rows is filled up by what follows them; those accumulators are dropped.
            steps[g] = ROWS.min(rows - g * ROWS) * PAIRS;
            x[g] = &self.pairs[g * ROWS * a_row..];
        }
        let bytes = unpack::block_bytes::<F>(S::LANES);
        let panel = self.work.weights.panel(p);
        let mut panels = [panel; P];
        for i in 1..P {
            panels[i] = self.work.weights.panel(p + i);
        }
        let mut bytes_left = panel.len();
        tiles.zero::<0>();
        tiles.zero::<1>();
        tiles.zero::<2>();
        tiles.zero::<3>();
        // Double buffer: the sub-block that is dequantized, and the one before it, which is multiplied.
        let mut decoded = [[const { Tile([0; TILE_BYTES]) }; P]; 2];
        let mut at = 0;
        for from in (0..panel.len()).step_by(bytes) {
            let mut blocks = [panel; P];
            let mut heads = [[s.splat(0.0); 2]; P];
            for p in 0..P {
                blocks[p] = &panels[p][from..from + bytes];
                heads[p] = scaled_head::<S, F>(s, grid, blocks[p], self.weights.weight_scale);
            }
            for i in 0..F::WEIGHTS / SUB {
                let prefetch_ahead = Prefetcher::new::<S, F>(blocks, i, bytes_left, (P - 1) * panel.len());
                for p in 0..P {
                    prefetch_ahead.issue::<S, F>(s, p, P);
                    let u = unpack::unpack::<S, F>(s, grid, heads[p], blocks[p], i);
                    dequant_f16::<S, F>(s, &u, &mut decoded[at % 2][p].0);
                }
                if at > 0 {
                    self.multiply(tiles, x, &steps, &decoded[(at - 1) % 2], at - 1);
                }
                at += 1;
            }
            bytes_left -= bytes;
        }
        self.multiply(tiles, x, &steps, &decoded[(at - 1) % 2], at - 1);
        let mut sums = [Accumulators::ZERO; 4];
        tiles.store_c::<0>(sums[0].0.as_flattened_mut(), 16);
        tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16);
        tiles.store_c::<2>(sums[2].0.as_flattened_mut(), 16);
        tiles.store_c::<3>(sums[3].0.as_flattened_mut(), 16);
        for row in 0..rows {
            let row_descale = self.weights.descale(row);
            for i in 0..P {
                let sums = s.load(&sums[row / ROWS * P + i].0[row % ROWS]);
                let sums = s.mul(s.mul(sums, s.splat(row_descale[0])), s.splat(row_descale[1]));
                self.work.store(s, row, (p + i) * S::LANES, sums);
            }
        }
    }

    /// Multiplies sub-block `at`.
    #[inline(always)]
    fn multiply<const G: usize, const P: usize>(
        &self,
        tiles: &Tiles,
        x: [&[[i8; 4]]; G],
        steps: &[usize; G],
        decoded: &[Tile; P],
        at: usize,
    ) {
        let (mut now, mut w): ([&[[i8; 4]]; G], [&[u8]; P]) = ([&[]; G], [&[]; P]);
        for g in 0..G {
            now[g] = &x[g][at * steps[g]..];
        }
        for p in 0..P {
            w[p] = &decoded[p].0;
        }
        multiply(tiles, &self.weights, now, w);
    }
}

/// 1.0 in both halves of a lane.
const F16_ONE: i32 = 0x3c00_3c00;
/// 1,024.0 in both halves of a lane: a byte is added in the last bits.
const F16_1024: i32 = 0x6400_6400;

/// Dequantizes a sub-block into a tile: of each quad of columns, a row with the first and third, then one with the
/// second and fourth.
#[inline(always)]
fn dequant_f16<S: Simd, F: BlockLayout>(s: S, u: &unpack::Unpacked<S>, tile: &mut [u8; TILE_BYTES]) {
    let zero = unpack::zero_point::<S, F>();
    let bits = const { F::Codes::BITS };
    let mut tiles = tile.chunks_exact_mut(8 * S::LANES);
    for half in 0..2 {
        let (mut scale, mut bias) = (u.scale[half], u.bias[half]);
        if bits <= 4 {
            // (1 + code / 2^bits) · (2^bits · scale) + (bias - scale · (zero + 2^bits))
            let stride = 1 << bits;
            let shift = s.splat(-((zero + stride) as f32));
            bias = if F::Scales::BIAS { s.fma(scale, shift, bias) } else { s.mul(scale, shift) };
            scale = s.mul(scale, s.splat(stride as f32));
        }
        let (scale, bias) = (s.to_f16_pair(scale), s.to_f16_pair(bias));
        for quad in QUADS / 2 * half..QUADS / 2 * (half + 1) {
            let Some(rows) = tiles.next() else { return };
            let (even, odd) = rows.split_at_mut(4 * S::LANES);
            let v = u.w[quad];
            if bits <= 4 {
                let first = match bits {
                    4 => (s.shl::<6>(v), s.shr::<2>(v)),
                    3 => (s.shl::<7>(v), s.shr::<1>(v)),
                    _ => (s.shl::<8>(v), v),
                };
                let (mask, one) = (s.splat_i(mantissa(bits)), s.splat_i(F16_ONE));
                s.store_bytes(s.f16_fma(s.or(s.and(first.0, mask), one), scale, bias), even);
                s.store_bytes(s.f16_fma(s.or(s.and(first.1, mask), one), scale, bias), odd);
            } else {
                let (mask, f16_1024) = (s.splat_i(0x00ff_00ff), s.splat_i(F16_1024));
                let shift = s.to_f16_pair(s.splat((1024 + zero) as f32));
                for (v, out) in [(v, even), (s.shr::<8>(v), odd)] {
                    let code = s.f16_sub(s.or(s.and(v, mask), f16_1024), shift);
                    let weight =
                        if F::Scales::BIAS { s.f16_fma(code, scale, bias) } else { s.f16_mul(code, scale) };
                    s.store_bytes(weight, out);
                }
            }
        }
    }
}

/// The first `bits` bits of the mantissa in both halves of a lane.
const fn mantissa(bits: u32) -> i32 {
    (((1 << bits) - 1) << (10 - bits)) * 0x0001_0001
}
