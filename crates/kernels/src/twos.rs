//! Products of quantized weights with rows in eight bits on lanes that are [`Simd::TWOS`]: scales are multiplied in by twos.
//!
//! Where products of bytes add to 32 bits, scales take the time: beside eight products of a sub-block of 32 weights, a row takes one
//! multiplication for the step of its activations, one for the scale of the weights, one for their bias. Here the products with two scales,
//! of two sub-blocks or of the halves of one, are rounded to bfloat16 and multiplied by both at once, and so are biases. That rounds
//! less than activations of eight bits do (docs/decisions/0049), as long as codes count from their middle: products with all of a
//! code, and the bias that takes most of them back, are some times larger than what is left of them, and so is what is rounded off.
//!
//! What is worked out of the products of codes is a chain of instructions that wait for each other. A CPU does not look far enough ahead to
//! find other work behind those of eight rows, so they are written between the products of the next codes.

use cpu::lanes::Simd;

use crate::activations::{Block, GROUP, Grouped};
use crate::matmul::{FURTHER, from_offset, unrolled};
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Ahead, Format, QUADS, SUB};

/// The products of rows `first` to `first + T - 1` of `grouped` with panels, a lane for each weight row; of rows that there are not, anything.
/// The rows are `FEW` as those of a product are.
#[inline(always)]
pub(crate) fn tile<S: Simd, F: Format, const FEW: bool, const T: usize, const P: usize>(
    s: S,
    grouped: Grouped<'_>,
    panels: [&[u8]; P],
    first: usize,
) -> [[S::F; T]; P] {
    let (mut rows, step) = grouped.stream(first);
    let many = grouped.count() > GROUP;
    let mut twos = Twos::<S, F, T, P>::new(s, rows);
    let bytes = unpack::block_bytes::<F>(S::LANES);
    let mut left = panels[0].len();
    for at in (0..panels[0].len()).step_by(bytes) {
        let mut blocks = [&panels[0][..0]; P];
        for p in 0..P {
            blocks[p] = &panels[p][at..][..bytes];
        }
        let mut heads = [unpack::head::<S, F>(s, blocks[0]); P];
        for p in 1..P {
            heads[p] = unpack::head::<S, F>(s, blocks[p]);
        }
        let skip = (P - 1) * panels[0].len();
        for i in (0..F::WEIGHTS / SUB).step_by(2 / F::Scales::GROUPS) {
            let mut next = Next::<P>::of::<S, F, FEW, T>(s, blocks, i, &rows[..T], many, left, skip);
            twos.multiply::<0, false>(s, next);
            rows = &rows[step..];
            if const { F::Scales::GROUPS == 2 } {
                twos.multiply::<1, true>(s, next);
            } else {
                next = Next::of::<S, F, FEW, T>(s, blocks, i + 1, &rows[..T], many, left, skip);
                if F::Scales::BIAS {
                    for p in 0..P {
                        twos.bias[p] = unpack::two_biases::<S, F>(s, heads[p], blocks[p], i);
                    }
                }
                twos.multiply::<0, true>(s, next);
                rows = &rows[step..];
            }
            for p in 0..P {
                twos.scale[p] = unpack::two_scales::<S, F>(s, heads[p], blocks[p], i);
            }
        }
        left -= bytes;
    }
    unrolled!(t < T, {
        twos.finish(s, t);
    });
    twos.sums
}

/// A sub-block of `P` panels, the activations that it is multiplied by, and what is asked for meanwhile.
#[derive(Clone, Copy)]
struct Next<'a, const P: usize> {
    codes: [&'a [u8]; P],
    x: &'a [Block],
    ahead: Option<Ahead<'a, P>>,
}

impl<'a, const P: usize> Next<'a, P> {
    /// Sub-block `i` of `blocks`, and `T` rows; for the others see [`Ahead::of`].
    #[inline(always)]
    fn of<S: Simd, F: Format, const FEW: bool, const T: usize>(
        s: S,
        blocks: [&'a [u8]; P],
        i: usize,
        x: &'a [Block],
        many: bool,
        left: usize,
        skip: usize,
    ) -> Self {
        if const { S::MANY_AHEAD && T == GROUP } && many {
            s.prefetch_all_far(x, FURTHER);
        }
        let mut codes = [&blocks[0][..0]; P];
        for p in 0..P {
            codes[p] = unpack::sub_block::<S, F>(blocks[p], i).1;
        }
        let ahead = Ahead::of::<S, F>(blocks, i, left, skip);
        Next { codes, x, ahead: (T >= 4 || (FEW && S::FEW_AHEAD)).then_some(ahead) }
    }
}

/// Sums on their way: the latest products of codes are not in them yet.
struct Twos<'a, S: Simd, F, const T: usize, const P: usize> {
    sums: [[S::F; T]; P],
    /// The latest products of codes.
    dots: [[S::I; T]; P],
    /// What they were multiplied with.
    x: &'a [Block],
    /// The products of the first of two, by now floats.
    first: [[S::F; T]; P],
    /// The scales of both.
    scale: [S::I; P],
    /// The biases of both.
    bias: [S::I; P],
    format: std::marker::PhantomData<F>,
}

impl<'a, S: Simd, F: Format, const T: usize, const P: usize> Twos<'a, S, F, T, P> {
    /// None so far: what there is to finish is zero.
    #[inline(always)]
    fn new(s: S, x: &'a [Block]) -> Self {
        let (float, int) = (s.splat(0.0), s.splat_i(0));
        Twos {
            sums: [[float; T]; P],
            dots: [[int; T]; P],
            x: &x[..T],
            first: [[float; T]; P],
            scale: [int; P],
            bias: [int; P],
            format: Default::default(),
        }
    }

    /// The latest products of row `t` as floats, where scales are of whole sub-blocks times the step of the activations.
    #[inline(always)]
    fn products(&self, s: S, t: usize, p: usize) -> S::F {
        let dots = s.to_f(self.dots[p][t]);
        if F::Scales::GROUPS == 1 { s.mul(dots, s.splat(self.x[t].scale)) } else { dots }
    }

    /// Keeps the first products of row `t`, and adds the biases.
    #[inline(always)]
    fn keep(&mut self, s: S, t: usize) {
        for p in 0..P {
            self.first[p][t] = self.products(s, t, p);
        }
        if F::Scales::BIAS {
            let sums = s.splat4(&self.x[t].sums);
            for p in 0..P {
                self.sums[p][t] = s.bf16_dot(self.sums[p][t], self.bias[p], sums);
            }
        }
    }

    /// Adds both products of row `t`, times their scales.
    #[inline(always)]
    fn finish(&mut self, s: S, t: usize) {
        for p in 0..P {
            let both = s.bf16_pair(self.first[p][t], self.products(s, t, p));
            let sum = &mut self.sums[p][t];
            *sum = match const { F::Scales::GROUPS } {
                1 => s.bf16_dot(*sum, self.scale[p], both),
                _ => s.fma(s.bf16_dot(s.splat(0.0), self.scale[p], both), s.splat(self.x[t].scale), *sum),
            };
        }
    }

    /// Multiplies the next codes, half `HALF` of a sub-block or all of it, and meanwhile finishes those before, or where these are the
    /// `SECOND` keeps them.
    #[inline(always)]
    fn multiply<const HALF: usize, const SECOND: bool>(&mut self, s: S, next: Next<'a, P>) {
        let Next { codes, x, ahead } = next;
        let quads = QUADS / F::Scales::GROUPS;
        let shared = const { if F::Codes::SHARED && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        let mut dots = [[s.splat_i(0); T]; P];
        unrolled!(t < T, {
            let start = match const { if F::Scales::BIAS { unpack::middle::<F>() } else { 0 } } {
                0 => from_offset::<S, F, HALF>(s, &x[t]),
                8 => s.splat_i(x[t].less_8),
                16 => s.shl::<1>(s.splat_i(x[t].less_8)),
                other => unreachable!("codes from {other}: no format's with biases"),
            };
            for p in 0..P {
                dots[p][t] = start;
            }
        });
        unrolled!(k < quads, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(ahead) = ahead
                && k % shared == 0
            {
                ahead.ask::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
            }
            let mut w = [s.splat_i(0); P];
            for p in 0..P {
                w[p] = F::Codes::quad(s, codes[p], j);
            }
            unrolled!(t < T, {
                let four = s.splat4(&x[t].q[4 * j..]);
                for p in 0..P {
                    dots[p][t] = if F::Codes::WIDE {
                        s.dot_wide(dots[p][t], w[p], four)
                    } else {
                        s.dot(dots[p][t], w[p], four)
                    };
                }
            });
            unrolled!(t < T, {
                if t * quads / T == k {
                    if SECOND {
                        self.keep(s, t);
                    } else {
                        self.finish(s, t);
                    }
                }
            });
            // In this order: the compiler would do what waits for nothing first, and keep it all.
            unrolled!(t < T, {
                for p in 0..P {
                    dots[p][t] = s.once_asked(dots[p][t]);
                }
            });
        });
        self.dots = dots;
        self.x = x;
    }
}
