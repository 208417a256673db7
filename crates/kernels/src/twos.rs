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

use cpu::lanes::Simd;

use crate::activations::{Block, Grouped, NONE};
use crate::matmul::unrolled;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Ahead, Format, QUADS, SUB, Sub};

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
    let mut twos = Twos::<S, F, T, P>::new(s);
    let bytes = unpack::block_bytes::<F>(S::LANES);
    // Whether biases of two sub-blocks of a block go together.
    let pairs = const { F::Scales::BIAS && F::Scales::GROUPS == 1 && F::WEIGHTS > SUB };
    for at in (0..panels[0].len()).step_by(bytes) {
        let whole = &panels[0][at..][..bytes];
        let mut subs = [Sub { head: unpack::head::<S, F>(s, whole), block: whole, i: 0 }; P];
        for p in 1..P {
            let block = &panels[p][at..][..bytes];
            subs[p] = Sub { head: unpack::head::<S, F>(s, block), block, i: 0 };
        }
        let (left, skip) = (panels[0].len() - at, (P - 1) * panels[0].len());
        for i in (0..F::WEIGHTS / SUB).step_by(if pairs { 2 } else { 1 }) {
            for p in 0..P {
                subs[p].i = i;
            }
            let next = Next::of::<S, F, FEW, T>(subs, &rows[..T], left, skip);
            rows = &rows[step..];
            // With the biases of the sub-block before, where there were not two of them.
            if pairs {
                twos.multiply::<0, false>(s, next);
            } else {
                twos.multiply::<0, true>(s, next);
            }
            for p in 0..P {
                let (scale, bias) = subs[p].scales::<F>(s);
                (twos.scale[p], twos.bias[p]) = (scale[0], bias[0]);
                if const { F::Scales::BIAS && F::Scales::GROUPS == 1 } {
                    twos.biases[p] = subs[p].biases::<F>(s, pairs);
                }
            }
            if const { F::Scales::GROUPS == 2 } {
                twos.multiply::<1, true>(s, next);
                for p in 0..P {
                    let (scale, bias) = subs[p].scales::<F>(s);
                    (twos.scale[p], twos.bias[p]) = (scale[1], bias[1]);
                }
            } else if pairs {
                for p in 0..P {
                    subs[p].i = i + 1;
                }
                let next = Next::of::<S, F, FEW, T>(subs, &rows[..T], left, skip);
                rows = &rows[step..];
                twos.multiply::<0, true>(s, next);
                for p in 0..P {
                    twos.scale[p] = subs[p].scales::<F>(s).0[0];
                }
            }
        }
    }
    unrolled!(t < T, {
        match (F::Scales::GROUPS, pairs) {
            (1, true) => twos.add::<0, false>(s, t),
            (1, false) => twos.add::<0, true>(s, t),
            _ => twos.add::<1, true>(s, t),
        }
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
    /// Of the sub-blocks `subs` and `T` rows; for the others see [`tile`] and [`Ahead::of`].
    #[inline(always)]
    fn of<S: Simd, F: Format, const FEW: bool, const T: usize>(
        subs: [Sub<'a, S>; P],
        x: &'a [Block],
        left: usize,
        skip: usize,
    ) -> Self {
        let mut blocks = [subs[0].block; P];
        let mut codes = blocks;
        for p in 0..P {
            blocks[p] = subs[p].block;
            codes[p] = unpack::sub_block::<S, F>(blocks[p], subs[p].i).1;
        }
        let ahead = Ahead::of::<S, F>(blocks, subs[0].i, left, skip);
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
    /// The scale of those products.
    scale: [S::F; P],
    /// Their bias, where it is that of a half.
    bias: [S::F; P],
    /// Otherwise as bfloat16, with that of the sub-block behind or zero.
    biases: [S::I; P],
    format: PhantomData<F>,
}

impl<'a, S: Simd, F: Format, const T: usize, const P: usize> Twos<'a, S, F, T, P> {
    /// None so far: what there is to add is zero.
    #[inline(always)]
    fn new(s: S) -> Self {
        let (float, int) = (s.splat(0.0), s.splat_i(0));
        Twos {
            sums: [[float; T]; P],
            dots: [[int; T]; P],
            x: &NONE[..T],
            scale: [float; P],
            bias: [float; P],
            biases: [int; P],
            format: PhantomData,
        }
    }

    /// Adds the latest products of row `t`, those of half `HALF` or of all of a sub-block, and where they are `BIASED` what the biases add.
    #[inline(always)]
    fn add<const HALF: usize, const BIASED: bool>(&mut self, s: S, t: usize) {
        let x = self.x[t].in_twos();
        for p in 0..P {
            // Times each power of the step, from the large floats on; then less both.
            let dots = self.dots[p][t];
            let second = s.cast_f(s.add_i(dots, s.splat_i(x.beyond)));
            let dots = s.add(s.cast_f(dots), s.add(second, s.splat(x.less)));
            let mut sum = s.fma(dots, self.scale[p], self.sums[p][t]);
            if BIASED && F::Scales::BIAS {
                sum = match const { F::Scales::GROUPS } {
                    1 => s.bf16_dot(sum, self.biases[p], s.splat_i(x.sums)),
                    _ => s.fma(self.bias[p], s.splat(x.sum_half(HALF)), sum),
                };
            }
            // Here: the compiler would do what waits for nothing first, and what is waited for last.
            self.sums[p][t] = s.cast_f(s.once_asked(s.bits(sum)));
        }
    }

    /// Multiplies the next codes, half `HALF` of a sub-block or all of it, and meanwhile adds the products of those before, `BIASED` or not.
    #[inline(always)]
    fn multiply<const HALF: usize, const BIASED: bool>(&mut self, s: S, next: Next<'a, P>) {
        let Next { codes, x, ahead } = next;
        let quads = QUADS / F::Scales::GROUPS;
        let shared = const { if F::Codes::SHARED && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        let mut dots = [[s.splat_i(0); T]; P];
        unrolled!(t < T, {
            let x = x[t].in_twos();
            let start = s.splat_i(match const { (F::Scales::GROUPS, unpack::offset::<S, F>()) } {
                (1, 8) => x.from_8,
                (1, 128) => x.from_128,
                (1, offset) => x.start(None, offset),
                (_, 32) => x.from_half_32[HALF],
                (_, offset) => x.start(Some(HALF), offset),
            });
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
                    // Those before are of the other half, where there are two.
                    match const { (F::Scales::GROUPS, HALF) } {
                        (2, 0) => self.add::<1, BIASED>(s, t),
                        _ => self.add::<0, BIASED>(s, t),
                    }
                }
            });
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
