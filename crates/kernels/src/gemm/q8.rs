//! The micro-kernel of quantized weights.

use std::array::from_ref;

use cpu::simd::{DotKind, Simd};

use super::driver::MicroKernel;
use super::q8_i16::{gemv_i16_scaled, microkernel_i16};
use super::q8_pow2;
use super::work::unrolled;
use super::zero_point::zero_point_init;
use crate::activations::{BLOCK, Block, ROW_GROUP, RowGroups};
use crate::tune::{maddubs_i16, pow2_scale, tune};
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Format, Prefetcher, QUADS, SUB};

/// Quantized weights times rows in eight bits. Of one or two rows, `GEMV`, the product is compiled by itself: what is asked for ahead
/// there would move the registers of larger tiles to the stack (measured: a sixth of a prompt).
pub(super) struct Q8Rows<'a, F, const GEMV: bool> {
    pub(super) rows: RowGroups<'a>,
    pub(super) format: std::marker::PhantomData<F>,
}

impl<F: Format, const GEMV: bool> MicroKernel for Q8Rows<'_, F, GEMV> {
    const DOT_KIND: DotKind = DotKind::Int8;
    type Unit = F;
    const MR: usize = if GEMV { 2 } else { ROW_GROUP };
    const PAIRS: bool = true;
    const GEMV: bool = GEMV;
    const I16_MIN_ROWS: usize = match (unpack::i16_accumulable::<F>(), unpack::unpack_bound::<F>()) {
        (true, _) if GEMV => 0,
        // Eight rows share what one panel's weights take to unpack.
        (true, true) => 8,
        (true, false) => usize::MAX,
        (false, _) => 0,
    };
    // Unpacking goes on while sums wait.
    const SUMS: usize = 1;
    const AHEAD: bool = true;
    fn row_bytes(cols: usize) -> usize {
        cols / BLOCK * size_of::<Block>()
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        _: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        const { assert!(SUB == BLOCK && T <= ROW_GROUP) };
        // Tiles begin at multiples of their own size, so that one lies in one group.
        let (rows, step) = self.rows.stream(first);
        let mut sums = [[s.splat(0.0); T]; P];
        if const { pow2_scale::<S>() } {
            if const { T * P <= ROW_GROUP } {
                return q8_pow2::tile::<S, F, GEMV, T, P>(s, self.rows, panels, first);
            }
            // Panels one after the other, where what they need together does not find room in registers.
            for p in 0..P {
                [sums[p]] = q8_pow2::tile::<S, F, GEMV, T, 1>(s, self.rows, [panels[p]], first);
            }
            return sums;
        }
        // Those of one group are near.
        let many = self.rows.count() > ROW_GROUP;
        let bytes = unpack::block_bytes::<F>(S::LANES);
        let mut others = panels.map(|panel| panel.chunks_exact(bytes));
        let mut bytes_left = panels[0].len();
        let mut at = 0;
        for block in panels[0].chunks_exact(bytes) {
            let mut blocks = [block; P];
            for p in 1..P {
                let Some(block) = others[p].next() else { return sums };
                blocks[p] = block;
            }
            let mut heads = [unpack::head::<S, F>(s, blocks[0]); P];
            for p in 1..P {
                heads[p] = unpack::head::<S, F>(s, blocks[p]);
            }
            for i in 0..F::WEIGHTS / SUB {
                // Before the weights are read: a check between reading and multiplying kept all of them in registers, and the sums out.
                let x = &rows[at..at + T];
                at += step;
                if const { tune::<S>().prefetch.gemm && T == ROW_GROUP } && many {
                    s.prefetch_span_l2(x, const { tune::<S>().prefetch.activations });
                }
                // What lies behind this panel is already being read.
                let prefetch = Prefetcher::new::<S, F>(blocks, i, bytes_left, (P - 1) * panels[0].len());
                if const { maddubs_i16::<S>() && !GEMV && unpack::i16_accumulable::<F>() } {
                    prefetch.issue::<S, F>(s, 0, 1);
                    // Of two panels by four rows: more sums do not fit into sixteen registers.
                    match (T, P) {
                        (8, 2) => {
                            microkernel_i16::<S, F, 4, T, P>(s, &heads, &blocks, i, x, 0, &mut sums);
                            microkernel_i16::<S, F, 4, T, P>(s, &heads, &blocks, i, x, 4, &mut sums);
                        }
                        _ => microkernel_i16::<S, F, T, T, P>(s, &heads, &blocks, i, x, 0, &mut sums),
                    }
                    continue;
                }
                let mut u = [unpack::unpack::<S, F>(s, heads[0], blocks[0], i); P];
                for p in 1..P {
                    u[p] = unpack::unpack::<S, F>(s, heads[p], blocks[p], i);
                }
                let prefetch = (T >= 4 || (GEMV && const { tune::<S>().prefetch.gemv })).then_some(prefetch);
                if const { tune::<S>().nr_panels == 2 || (maddubs_i16::<S>() && F::Codes::EIGHT_BIT) } {
                    microkernel_dot::<S, F, T, P>(s, &u, x, prefetch, &mut sums);
                } else {
                    if let Some(prefetch) = prefetch {
                        prefetch.issue::<S, F>(s, 0, 1);
                    }
                    for p in 0..P {
                        unrolled!(t < T, {
                            if const { unpack::int8_sub_scales::<S, F>() } {
                                sums[p][t] = gemv_i16_scaled::<S, F>(s, &u[p], &x[t], sums[p][t]);
                            } else {
                                let mut sum = [[sums[p][t]]];
                                microkernel_dot::<S, F, 1, 1>(s, from_ref(&u[p]), &x[t..], None, &mut sum);
                                sums[p][t] = sum[0][0];
                            }
                        });
                    }
                }
            }
            bytes_left -= bytes;
        }
        sums
    }
}

/// Adds to `sums` 32 weights of each lane's row, of `P` panels, times the 32 activations of each of `T` rows. Of several, a quad
/// of all rows and panels is multiplied after the other: a product waits for the one before it of the same row and panel, and a CPU
/// looks ahead only so far; and a quad of activations is read once for all panels. A quad of weights is read when it is multiplied, and
/// what is asked for ahead is spread over them.
#[inline(always)]
fn microkernel_dot<S: Simd, F: Format, const T: usize, const P: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; P],
    x: &[Block],
    prefetch: Option<Prefetcher<'_, P>>,
    sums: &mut [[S::F; T]; P],
) {
    // Of both halves, each times its weights' scale: multiplied by the step of the activations once for both.
    let mut scaled = [[s.splat(0.0); T]; P];
    microkernel_dot_half::<S, F, T, P, 0>(s, u, x, prefetch, &mut scaled, sums);
    if const { F::Scales::GROUPS == 2 } {
        microkernel_dot_half::<S, F, T, P, 1>(s, u, x, prefetch, &mut scaled, sums);
    }
}

/// The part of [`microkernel_dot`] with one scale.
#[inline(always)]
fn microkernel_dot_half<S: Simd, F: Format, const T: usize, const P: usize, const HALF: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; P],
    x: &[Block],
    prefetch: Option<Prefetcher<'_, P>>,
    scaled: &mut [[S::F; T]; P],
    sums: &mut [[S::F; T]; P],
) {
    let quads = QUADS / F::Scales::GROUPS;
    let mut dots = [[s.splat_i(0); T]; P];
    unrolled!(t < T, {
        let start = zero_point_init::<S, F, HALF>(s, &x[t]);
        for p in 0..P {
            dots[p][t] = start;
        }
    });
    if const { T == 1 && P == 1 } {
        if let Some(prefetch) = prefetch {
            prefetch.issue::<S, F>(s, HALF, F::Scales::GROUPS);
        }
        dots[0][0] = match const { F::Scales::GROUPS } {
            1 => dot_quads::<S, F, 8>(s, dots[0][0], &u[0], &x[0], 0),
            _ => dot_quads::<S, F, 4>(s, dots[0][0], &u[0], &x[0], quads * HALF),
        };
    } else {
        // Those that share a register go after each other.
        let shared = const { if F::Codes::SHARES_REGISTER && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        unrolled!(k < quads, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(prefetch) = prefetch
                && k % shared == 0
            {
                prefetch.issue::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
                dots[0][0] = s.prefetch_barrier(dots[0][0]);
            }
            let mut w = [s.splat_i(0); P];
            for p in 0..P {
                w[p] = F::Codes::quad(s, u[p].codes, j);
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
        });
    }
    unrolled!(t < T, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..P {
            let dot = s.to_f(dots[p][t]);
            match (F::Scales::GROUPS, HALF) {
                (1, _) => sums[p][t] = s.fma(dot, s.mul(u[p].scale[HALF], scale), sums[p][t]),
                (_, 0) => scaled[p][t] = s.mul(dot, u[p].scale[HALF]),
                _ => {
                    scaled[p][t] = s.fma(dot, u[p].scale[HALF], scaled[p][t]);
                    sums[p][t] = s.fma(scaled[p][t], scale, sums[p][t]);
                }
            }
        }
        if F::Scales::BIAS {
            let x = x[t].plain();
            let sum = s.splat(if F::Scales::GROUPS == 1 { x.sum } else { x.sum_half(HALF) });
            for p in 0..P {
                sums[p][t] = s.fma(u[p].bias[HALF], sum, sums[p][t]);
            }
        }
    });
}

/// `acc` + quads `from` to `from + QUADS - 1` of the weights times those of the activations. No closure: it would be
/// compiled without the tier's instructions.
#[inline(always)]
fn dot_quads<S: Simd, F: Format, const QUADS: usize>(
    s: S,
    acc: S::I,
    u: &unpack::Unpacked<S>,
    x: &Block,
    from: usize,
) -> S::I {
    match const { F::Codes::BITS } {
        ..=4 => s.dot_quads::<QUADS, 4>(acc, &u.w, &x.q, from),
        5 => s.dot_quads::<QUADS, 5>(acc, &u.w, &x.q, from),
        6 => s.dot_quads::<QUADS, 6>(acc, &u.w, &x.q, from),
        _ => s.dot_quads::<QUADS, 8>(acc, &u.w, &x.q, from),
    }
}
