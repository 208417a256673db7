//! Products of quantized weights with rows in eight bits on lanes that are [`Simd::TWOS`], with as few multiplications as will do beside those
//! of codes: where products of bytes add to 32 bits, the others take the time.
//!
//! - Steps of activations are sums of two powers of two, by which products are multiplied with additions alone (docs/decisions/0050).
//! - Biases of two sub-blocks are multiplied by their activations at once, as bfloat16 (docs/decisions/0049). Codes count from their middle, so
//!   that biases, and what is rounded off, are small.
//!
//! What is worked out of the products of codes is a chain of instructions that wait for each other. A CPU does not look far enough ahead to
//! find other work behind those of eight rows, so they are written between the products of the next codes.

use std::marker::PhantomData;

use cpu::simd::Simd;

use super::work::unrolled;
use crate::activations::{Block, RowGroups, ZERO_BLOCKS};
use crate::tune::tune;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Format, Prefetcher, QUADS, SUB, SubBlock};

/// The products of rows `first` to `first + T - 1` of `grouped` with panels, a lane for each weight row; of rows that there are not, anything.
/// The rows are `GEMV` as those of a product are.
#[inline(always)]
pub(crate) fn tile<S: Simd, F: Format, const GEMV: bool, const T: usize, const P: usize>(
    s: S,
    grouped: RowGroups<'_>,
    panels: [&[u8]; P],
    first: usize,
) -> [[S::F; T]; P] {
    let (mut rows, step) = grouped.stream(first);
    let mut tile_state = Pow2Tile::<S, F, T, P>::new(s);
    let bytes = unpack::block_bytes::<F>(S::LANES);
    // Whether biases of two sub-blocks of a block go together.
    let paired_bias = const { F::Scales::BIAS && F::Scales::GROUPS == 1 && F::WEIGHTS > SUB };
    for at in (0..panels[0].len()).step_by(bytes) {
        let whole = &panels[0][at..][..bytes];
        let mut subs = [SubBlock { head: unpack::head::<S, F>(s, whole), block: whole, i: 0 }; P];
        for p in 1..P {
            let block = &panels[p][at..][..bytes];
            subs[p] = SubBlock { head: unpack::head::<S, F>(s, block), block, i: 0 };
        }
        let (bytes_left, wrap_skip) = (panels[0].len() - at, (P - 1) * panels[0].len());
        for i in (0..F::WEIGHTS / SUB).step_by(if paired_bias { 2 } else { 1 }) {
            for p in 0..P {
                subs[p].i = i;
            }
            let operands = SubBlockOperands::new::<S, F, GEMV, T>(subs, &rows[..T], bytes_left, wrap_skip);
            rows = &rows[step..];
            // With the biases of the sub-block before, where there were not two of them.
            if paired_bias {
                tile_state.dot_next::<0, false>(s, operands);
            } else {
                tile_state.dot_next::<0, true>(s, operands);
            }
            for p in 0..P {
                let (scale, bias) = subs[p].scales::<F>(s);
                (tile_state.scale[p], tile_state.bias[p]) = (scale[0], bias[0]);
                if const { F::Scales::BIAS && F::Scales::GROUPS == 1 } {
                    tile_state.bf16_biases[p] = subs[p].bf16_biases::<F>(s, paired_bias);
                }
            }
            if const { F::Scales::GROUPS == 2 } {
                tile_state.dot_next::<1, true>(s, operands);
                for p in 0..P {
                    let (scale, bias) = subs[p].scales::<F>(s);
                    (tile_state.scale[p], tile_state.bias[p]) = (scale[1], bias[1]);
                }
            } else if paired_bias {
                for p in 0..P {
                    subs[p].i = i + 1;
                }
                let operands =
                    SubBlockOperands::new::<S, F, GEMV, T>(subs, &rows[..T], bytes_left, wrap_skip);
                rows = &rows[step..];
                tile_state.dot_next::<0, true>(s, operands);
                for p in 0..P {
                    tile_state.scale[p] = subs[p].scales::<F>(s).0[0];
                }
            }
        }
    }
    unrolled!(t < T, {
        match (F::Scales::GROUPS, paired_bias) {
            (1, true) => tile_state.add_dots::<0, false>(s, t),
            (1, false) => tile_state.add_dots::<0, true>(s, t),
            _ => tile_state.add_dots::<1, true>(s, t),
        }
    });
    tile_state.sums
}

/// A sub-block of `P` panels, the activations that it is multiplied by, and what is asked for meanwhile.
#[derive(Clone, Copy)]
struct SubBlockOperands<'a, const P: usize> {
    codes: [&'a [u8]; P],
    x: &'a [Block],
    prefetch: Option<Prefetcher<'a, P>>,
}

impl<'a, const P: usize> SubBlockOperands<'a, P> {
    /// Of the sub-blocks `subs` and `T` rows; for the others see [`tile`] and [`Prefetcher::new`].
    #[inline(always)]
    fn new<S: Simd, F: Format, const GEMV: bool, const T: usize>(
        subs: [SubBlock<'a, S>; P],
        x: &'a [Block],
        bytes_left: usize,
        wrap_skip: usize,
    ) -> Self {
        let mut blocks = [subs[0].block; P];
        let mut codes = blocks;
        for p in 0..P {
            blocks[p] = subs[p].block;
            codes[p] = unpack::sub_block::<S, F>(blocks[p], subs[p].i).1;
        }
        let prefetch = Prefetcher::new::<S, F>(blocks, subs[0].i, bytes_left, wrap_skip);
        SubBlockOperands {
            codes,
            x,
            prefetch: (T >= 4 || (GEMV && const { tune::<S>().prefetch.gemv })).then_some(prefetch),
        }
    }
}

/// Sums on their way: the latest products of codes are not in them yet.
struct Pow2Tile<'a, S: Simd, F, const T: usize, const P: usize> {
    sums: [[S::F; T]; P],
    /// The latest products of codes.
    dots: [[S::I; T]; P],
    /// What they were multiplied with.
    x: &'a [Block],
    /// The scale of those products.
    scale: [S::F; P],
    /// Their bias, where it is that of a half.
    bias: [S::F; P],
    /// Otherwise as bfloat16, with that of the sub-block behind or zero.
    bf16_biases: [S::I; P],
    format: PhantomData<F>,
}

impl<'a, S: Simd, F: Format, const T: usize, const P: usize> Pow2Tile<'a, S, F, T, P> {
    /// None so far: what there is to add is zero.
    #[inline(always)]
    fn new(s: S) -> Self {
        let (float, int) = (s.splat(0.0), s.splat_i(0));
        Pow2Tile {
            sums: [[float; T]; P],
            dots: [[int; T]; P],
            x: &ZERO_BLOCKS[..T],
            scale: [float; P],
            bias: [float; P],
            bf16_biases: [int; P],
            format: PhantomData,
        }
    }

    /// Adds the latest products of row `t`, those of half `HALF` or of all of a sub-block, and where they are `WITH_BIAS` what the biases add.
    #[inline(always)]
    fn add_dots<const HALF: usize, const WITH_BIAS: bool>(&mut self, s: S, t: usize) {
        let x = self.x[t].pow2();
        for p in 0..P {
            // Times each power of the step, from the large floats on; then less both.
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
            // Here: the compiler would do what waits for nothing first, and what is waited for last.
            self.sums[p][t] = s.cast_f(s.prefetch_barrier(s.bits(sum)));
        }
    }

    /// Multiplies the next codes, half `HALF` of a sub-block or all of it, and meanwhile adds the products of those before, `WITH_BIAS` or not.
    #[inline(always)]
    fn dot_next<const HALF: usize, const WITH_BIAS: bool>(
        &mut self,
        s: S,
        operands: SubBlockOperands<'a, P>,
    ) {
        let SubBlockOperands { codes, x, prefetch } = operands;
        let quads = QUADS / F::Scales::GROUPS;
        let shared = const { if F::Codes::SHARES_REGISTER && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        let mut dots = [[s.splat_i(0); T]; P];
        unrolled!(t < T, {
            let x = x[t].pow2();
            let start = s.splat_i(match const { (F::Scales::GROUPS, unpack::zero_point::<S, F>()) } {
                (1, 8) => x.init_8,
                (1, 128) => x.init_128,
                (1, offset) => x.init(None, offset),
                (_, 32) => x.init_half_32[HALF],
                (_, offset) => x.init(Some(HALF), offset),
            });
            for p in 0..P {
                dots[p][t] = start;
            }
        });
        unrolled!(k < quads, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(prefetch) = prefetch
                && k % shared == 0
            {
                prefetch.issue::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
            }
            let mut w = [s.splat_i(0); P];
            for p in 0..P {
                w[p] = F::Codes::quad(s, codes[p], j);
            }
            unrolled!(t < T, {
                let four = s.splat4(&x[t].q[4 * j..]);
                for p in 0..P {
                    dots[p][t] = if F::Codes::EIGHT_BIT {
                        s.dot_u8(dots[p][t], w[p], four)
                    } else {
                        s.dot(dots[p][t], w[p], four)
                    };
                }
            });
            unrolled!(t < T, {
                if t * quads / T == k {
                    // Those before are of the other half, where there are two.
                    match const { (F::Scales::GROUPS, HALF) } {
                        (2, 0) => self.add_dots::<1, WITH_BIAS>(s, t),
                        _ => self.add_dots::<0, WITH_BIAS>(s, t),
                    }
                }
            });
            unrolled!(t < T, {
                for p in 0..P {
                    dots[p][t] = s.prefetch_barrier(dots[p][t]);
                }
            });
        });
        self.dots = dots;
        self.x = x;
    }
}
