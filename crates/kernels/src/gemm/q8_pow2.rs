//! The micro-kernel of quantized weights on Zen 4 ([`Int8Path::Pow2Scale`](crate::tune::Int8Path)).
//!
//! VNNI, FMA and conversions share the same two units there, so it spends as few of the latter as possible:
//!
//! - Scales of activations are sums of two powers of two, which additions alone apply to the integer sums
//!   (docs/lab/zen-4.md#decision-50).
//! - Minima of two sub-blocks are multiplied by their activations at once, as bf16 pairs
//!   (docs/lab/zen-4.md#decision-49). Codes count from the middle of their range, so that minima, and their rounding
//!   errors, are small.
//!
//! Applying scales and minima is a chain of dependent instructions. The out-of-order window does not reach past those of eight rows, so
//! they are software-pipelined: written between the dot products of the next sub-block.

use std::marker::PhantomData;

use cpu::simd::Simd;

use super::dot_quad::dot_quad;
use super::work::unrolled;
use crate::activations::{Block, RowGroups, ZERO_BLOCKS};
use crate::tune::tune;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout, Grid, Prefetcher, QUADS, SUB, SubBlock};

/// The accumulators of rows `first` to `first + MR - 1` of `grouped` × `NR` panels; as
/// [`MicroKernel::register_tile`](super::driver::MicroKernel::register_tile).
#[inline(always)]
pub(crate) fn tile<S: Simd, F: BlockLayout, const GEMV: bool, const MR: usize, const NR: usize>(
    s: S,
    grouped: RowGroups<'_>,
    grid: &'static Grid,
    panels: [&[u8]; NR],
    first: usize,
) -> [[S::F; MR]; NR] {
    let (mut rows, step) = grouped.stream(first);
    let mut tile_state = Pow2Tile::<S, F, MR, NR>::new(s);
    let bytes = unpack::block_bytes::<F>(S::LANES);
    // Whether the minima of two sub-blocks are multiplied at once.
    let paired_bias = const { F::Scales::BIAS && F::Scales::GROUPS == 1 && F::WEIGHTS > SUB };
    for at in (0..panels[0].len()).step_by(bytes) {
        let whole = &panels[0][at..][..bytes];
        let mut subs = [SubBlock { head: unpack::head::<S, F>(s, grid, whole), block: whole, i: 0 }; NR];
        for p in 1..NR {
            let block = &panels[p][at..][..bytes];
            subs[p] = SubBlock { head: unpack::head::<S, F>(s, grid, block), block, i: 0 };
        }
        let (bytes_left, wrap_skip) = (panels[0].len() - at, (NR - 1) * panels[0].len());
        for i in (0..F::WEIGHTS / SUB).step_by(if paired_bias { 2 } else { 1 }) {
            for p in 0..NR {
                subs[p].i = i;
            }
            let operands =
                SubBlockOperands::new::<S, F, GEMV, MR>(grid, subs, &rows[..MR], bytes_left, wrap_skip);
            rows = &rows[step..];
            // With the minimum of the sub-block before, where minima are not paired.
            if paired_bias {
                tile_state.dot_next::<0, false>(s, operands);
            } else {
                tile_state.dot_next::<0, true>(s, operands);
            }
            for p in 0..NR {
                let (scale, bias) = subs[p].scales::<F>(s);
                (tile_state.scale[p], tile_state.bias[p]) = (scale[0], bias[0]);
                if const { F::Scales::BIAS && F::Scales::GROUPS == 1 } {
                    tile_state.bf16_biases[p] = subs[p].bf16_biases::<F>(s, paired_bias);
                }
            }
            if const { F::Scales::GROUPS == 2 } {
                tile_state.dot_next::<1, true>(s, operands);
                for p in 0..NR {
                    let (scale, bias) = subs[p].scales::<F>(s);
                    (tile_state.scale[p], tile_state.bias[p]) = (scale[1], bias[1]);
                }
            } else if paired_bias {
                for p in 0..NR {
                    subs[p].i = i + 1;
                }
                let operands =
                    SubBlockOperands::new::<S, F, GEMV, MR>(grid, subs, &rows[..MR], bytes_left, wrap_skip);
                rows = &rows[step..];
                tile_state.dot_next::<0, true>(s, operands);
                for p in 0..NR {
                    tile_state.scale[p] = subs[p].scales::<F>(s).0[0];
                }
            }
        }
    }
    unrolled!(t < MR, {
        match (F::Scales::GROUPS, paired_bias) {
            (1, true) => tile_state.add_dots::<0, false>(s, t),
            (1, false) => tile_state.add_dots::<0, true>(s, t),
            _ => tile_state.add_dots::<1, true>(s, t),
        }
    });
    tile_state.sums
}

/// The operands of one sub-block: codes of `NR` panels, activations, and what is prefetched meanwhile.
#[derive(Clone, Copy)]
struct SubBlockOperands<'a, const NR: usize> {
    grid: &'static Grid,
    codes: [&'a [u8]; NR],
    x: &'a [Block],
    prefetch: Option<Prefetcher<'a, NR>>,
}

impl<'a, const NR: usize> SubBlockOperands<'a, NR> {
    /// Those of `subs` and `MR` rows; for `bytes_left` and `wrap_skip` see [`Prefetcher::new`].
    #[inline(always)]
    fn new<S: Simd, F: BlockLayout, const GEMV: bool, const MR: usize>(
        grid: &'static Grid,
        subs: [SubBlock<'a, S>; NR],
        x: &'a [Block],
        bytes_left: usize,
        wrap_skip: usize,
    ) -> Self {
        let mut blocks = [subs[0].block; NR];
        let mut codes = blocks;
        for p in 0..NR {
            blocks[p] = subs[p].block;
            codes[p] = unpack::sub_block::<S, F>(blocks[p], subs[p].i).1;
        }
        let prefetch = Prefetcher::new::<S, F>(blocks, subs[0].i, bytes_left, wrap_skip);
        SubBlockOperands {
            grid,
            codes,
            x,
            prefetch: (MR >= 4 || (GEMV && const { tune::<S>().prefetch.gemv_weights })).then_some(prefetch),
        }
    }
}

/// A register tile in flight: the dot products of the latest sub-block are not in the accumulators yet.
struct Pow2Tile<'a, S: Simd, F, const MR: usize, const NR: usize> {
    sums: [[S::F; MR]; NR],
    /// The latest dot products.
    dots: [[S::I; MR]; NR],
    /// The activations of these.
    x: &'a [Block],
    /// The scale of these.
    scale: [S::F; NR],
    /// Their bias (the minimum, negated), where scales are of 16 weights.
    bias: [S::F; NR],
    /// Otherwise as a bf16 pair, with that of the next sub-block or zero.
    bf16_biases: [S::I; NR],
    format: PhantomData<F>,
}

impl<'a, S: Simd, F: BlockLayout, const MR: usize, const NR: usize> Pow2Tile<'a, S, F, MR, NR> {
    /// Zero accumulators, and dot products of zeros.
    #[inline(always)]
    fn new(s: S) -> Self {
        let (float, int) = (s.splat(0.0), s.splat_i(0));
        Pow2Tile {
            sums: [[float; MR]; NR],
            dots: [[int; MR]; NR],
            x: &ZERO_BLOCKS[..MR],
            scale: [float; NR],
            bias: [float; NR],
            bf16_biases: [int; NR],
            format: PhantomData,
        }
    }

    /// Adds the latest dot products of row `t`, of half `HALF` or of the whole sub-block, and the bias if `WITH_BIAS`.
    #[inline(always)]
    fn add_dots<const HALF: usize, const WITH_BIAS: bool>(&mut self, s: S, t: usize) {
        let x = self.x[t].pow2();
        for p in 0..NR {
            // The dot product started from the bits of MAGIC · 2^a, so that as a float it is (MAGIC + dot) · 2^a; likewise for the second
            // power; both MAGIC terms are subtracted.
            let dots = self.dots[p][t];
            let second = s.cast_f(s.add_i(dots, s.splat_i(x.second_delta)));
            let dots = s.add(s.cast_f(dots), s.add(second, s.splat(x.neg_magic)));
            let mut sum = s.fma(dots, self.scale[p], self.sums[p][t]);
            if WITH_BIAS && F::Scales::BIAS {
                sum = match const { F::Scales::GROUPS } {
                    1 => s.bf16_dot(sum, self.bf16_biases[p], s.splat_i(x.bf16_sums)),
                    _ => s.fma(self.bias[p], s.splat(x.sum_half(HALF)), sum),
                };
            }
            // A scheduling barrier: the compiler would put the whole chain last.
            self.sums[p][t] = s.cast_f(s.prefetch_barrier(s.bits(sum)));
        }
    }

    /// Dot products of the next sub-block, or of its half `HALF`, interleaved with [`Pow2Tile::add_dots`] of the one before.
    #[inline(always)]
    fn dot_next<const HALF: usize, const WITH_BIAS: bool>(&mut self, s: S, next: SubBlockOperands<'a, NR>) {
        let SubBlockOperands { grid, codes, x, prefetch } = next;
        let quads = const { QUADS / F::Scales::GROUPS };
        let shared = const { if F::Codes::SHARES_REGISTER && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        let mut dots = [[s.splat_i(0); MR]; NR];
        unrolled!(t < MR, {
            let x = x[t].pow2();
            let start = s.splat_i(match const { (F::Scales::GROUPS, unpack::zero_point::<S, F>()) } {
                (1, 8) => x.init_8,
                (1, 128) => x.init_128,
                (1, offset) => x.init(None, offset),
                (_, 32) => x.init_half_32[HALF],
                (_, offset) => x.init(Some(HALF), offset),
            });
            for p in 0..NR {
                dots[p][t] = start;
            }
        });
        unrolled!(k < QUADS / F::Scales::GROUPS, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(prefetch) = prefetch
                && k % shared == 0
            {
                prefetch.issue::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
            }
            let mut w = [s.splat_i(0); NR];
            for p in 0..NR {
                w[p] = F::Codes::quad(s, grid, codes[p], j);
            }
            dot_quad::<S, F, MR, NR>(s, x, j, &w, &mut dots);
            self.add_dots_of_quad::<HALF, WITH_BIAS>(s, k);
            keep_in_order(s, &mut dots);
        });
        self.dots = dots;
        self.x = x;
    }

    /// [`Pow2Tile::add_dots`] for the rows whose turn comes beside quad `k` of half `HALF` of the next sub-block.
    #[inline(always)]
    fn add_dots_of_quad<const HALF: usize, const WITH_BIAS: bool>(&mut self, s: S, k: usize) {
        unrolled!(t < MR, {
            if t * const { QUADS / F::Scales::GROUPS } / MR == k {
                // The ones before are of the other half, where there are two.
                match const { (F::Scales::GROUPS, HALF) } {
                    (2, 0) => self.add_dots::<1, WITH_BIAS>(s, t),
                    _ => self.add_dots::<0, WITH_BIAS>(s, t),
                }
            }
        });
    }
}

/// A scheduling barrier for each accumulator.
#[inline(always)]
fn keep_in_order<S: Simd, const MR: usize, const NR: usize>(s: S, dots: &mut [[S::I; MR]; NR]) {
    unrolled!(t < MR, {
        for p in 0..NR {
            dots[p][t] = s.prefetch_barrier(dots[p][t]);
        }
    });
}
