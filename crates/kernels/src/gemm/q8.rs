//! The micro-kernel of quantized weights × quantized activations: [`microkernel_dot`] for one sub-block of 32 columns,
//! and the loop over K around it.
//!
//! `acc[n, m] += scale[n] · scale[m] · Σ_k code[n, k] · q[m, k]`, the inner sum in `i32` by dot-product instructions of four bytes (VNNI,
//! `sdot`). A register holds one quad (four consecutive k) of a panel's rows; a quad of activations is broadcast.
//!
//! | token | what multiplies |
//! |---|---|
//! | AVX-512 | [`microkernel_dot`], MR × NR interleaved; M = 1 with one panel [`dot_quads`] |
//! | Zen 4, 8-bit activations | [`super::q8_pow2`] |
//! | AVX2, M ≥ 3 | [`super::q8_i16`]; `Q2_K` as NEON |
//! | AVX2, M ≤ 2 | 8-bit codes [`microkernel_dot`]; `Q3_K`, `Q6_K` [`gemv_i16_scaled`]; others as NEON |
//! | NEON, scalar | row by row and panel by panel [`dot_quads`], a chain of eight dot products; the tile's rows share the unpacking |

use std::array::from_ref;

use cpu::simd::{DotKind, Simd};

use super::dot_quad::dot_quad;
use super::driver::MicroKernel;
use super::q8_i16::{gemv_i16_scaled, microkernel_i16};
use super::q8_pow2;
use super::work::unrolled;
use super::zero_point::zero_point_init;
use crate::activations::{BLOCK, Block, ROW_GROUP, RowGroups};
use crate::tune::{maddubs_i16, pow2_scale, tune};
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout, Grid, Prefetcher, QUADS, SUB};

/// The most rows of a GEMV.
pub(super) const GEMV_ROWS: usize = 2;

/// Quantized weights in blocks of the layout `F` × activations in blocks of 8 bits. `GEMV` (M ≤ 2) is compiled apart: its prefetches would spill
/// the accumulators of larger tiles (measured: a sixth of a prefill).
pub(super) struct Q8Rows<'a, F, const GEMV: bool> {
    pub(super) rows: RowGroups<'a>,
    pub(super) grid: &'static Grid,
    pub(super) layout: std::marker::PhantomData<F>,
}

impl<F: BlockLayout, const GEMV: bool> MicroKernel for Q8Rows<'_, F, GEMV> {
    const DOT_KIND: DotKind = DotKind::Int8;
    type Unit = F;
    const MR: usize = if GEMV { GEMV_ROWS } else { ROW_GROUP };
    const PANEL_PAIRS: bool = true;
    const GEMV: bool = GEMV;
    const I16_PAIRS_BELOW: usize = match (unpack::i16_accumulable::<F>(), unpack::unpack_bound::<F>()) {
        (true, _) if GEMV => 0,
        // From 8 rows on, sharing the unpacking of one panel among them gains more than a second panel.
        (true, true) => 8,
        (true, false) => usize::MAX,
        (false, _) => 0,
    };
    // One row and panel suffice: unpacking fills the latency of the dot product.
    const MIN_ACCUMULATORS: usize = 1;
    const PREFETCH_ACTIVATIONS: bool = true;
    fn row_bytes(cols: usize) -> usize {
        cols / BLOCK * size_of::<Block>()
    }
    #[inline(always)]
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        _: usize,
        first: usize,
    ) -> [[S::F; MR]; NR] {
        const { assert!(SUB == BLOCK && MR <= ROW_GROUP) };
        // A tile begins at a multiple of its size, and so is inside one group.
        let (rows, step) = self.rows.stream(first);
        let mut sums = [[s.splat(0.0); MR]; NR];
        if const { pow2_scale::<S>() } {
            if const { MR * NR <= ROW_GROUP } {
                return q8_pow2::tile::<S, F, GEMV, MR, NR>(s, self.rows, self.grid, panels, first);
            }
            // One panel after the other where two would spill.
            for p in 0..NR {
                [sums[p]] = q8_pow2::tile::<S, F, GEMV, MR, 1>(s, self.rows, self.grid, [panels[p]], first);
            }
            return sums;
        }
        // Rows of a single group are in L1.
        let many = self.rows.count() > ROW_GROUP;
        let bytes = unpack::block_bytes::<F>(S::LANES);
        let mut others = panels.map(|panel| panel.chunks_exact(bytes));
        let mut bytes_left = panels[0].len();
        let mut at = 0;
        for block in panels[0].chunks_exact(bytes) {
            let mut blocks = [block; NR];
            for p in 1..NR {
                let Some(block) = others[p].next() else { return sums };
                blocks[p] = block;
            }
            let mut heads = [unpack::head::<S, F>(s, self.grid, blocks[0]); NR];
            for p in 1..NR {
                heads[p] = unpack::head::<S, F>(s, self.grid, blocks[p]);
            }
            for i in 0..F::WEIGHTS / SUB {
                // Bounds are checked before the weights are loaded: between loads and products the check would keep all weights in
                // registers, and spill the accumulators.
                let x = &rows[at..at + MR];
                at += step;
                if const { tune::<S>().prefetch.gemm_activations_and_output && MR == ROW_GROUP } && many {
                    s.prefetch_span_l2(x, const { tune::<S>().prefetch.activations });
                }
                // The next `NR - 1` panels are being read beside this one: the prefetch skips them.
                let prefetch = Prefetcher::new::<S, F>(blocks, i, bytes_left, (NR - 1) * panels[0].len());
                if const { maddubs_i16::<S>() && !GEMV && unpack::i16_accumulable::<F>() } {
                    prefetch.issue::<S, F>(s, 0, 1);
                    // Register tile of 4 rows × 2 panels, or 8 × 1: more accumulators do not fit into 16 registers.
                    match (MR, NR) {
                        (8, 2) => {
                            microkernel_i16::<S, F, 4, MR, NR>(
                                s, self.grid, &heads, &blocks, i, x, 0, &mut sums,
                            );
                            microkernel_i16::<S, F, 4, MR, NR>(
                                s, self.grid, &heads, &blocks, i, x, 4, &mut sums,
                            );
                        }
                        _ => microkernel_i16::<S, F, MR, MR, NR>(
                            s, self.grid, &heads, &blocks, i, x, 0, &mut sums,
                        ),
                    }
                    continue;
                }
                let mut u = [unpack::unpack::<S, F>(s, self.grid, heads[0], blocks[0], i); NR];
                for p in 1..NR {
                    u[p] = unpack::unpack::<S, F>(s, self.grid, heads[p], blocks[p], i);
                }
                let prefetch =
                    (MR >= 4 || (GEMV && const { tune::<S>().prefetch.gemv_weights })).then_some(prefetch);
                if const { tune::<S>().nr_panels == 2 || (maddubs_i16::<S>() && F::Codes::EIGHT_BIT) } {
                    microkernel_dot::<S, F, MR, NR>(s, &u, x, prefetch, &mut sums);
                } else {
                    if let Some(prefetch) = prefetch {
                        prefetch.issue::<S, F>(s, 0, 1);
                    }
                    for p in 0..NR {
                        unrolled!(t < MR, {
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

/// The micro-kernel: adds to the accumulators `sums` one sub-block of 32 columns of `NR` panels × `MR` rows.
///
/// Loop order: quads of K outer, rows × panels inner. That interleaves independent accumulators, which hides the latency of the dot
/// product, and broadcasts a quad of activations once for all panels. Weights are loaded a quad at a time, and prefetches are spread
/// between the quads.
#[inline(always)]
fn microkernel_dot<S: Simd, F: BlockLayout, const MR: usize, const NR: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; NR],
    x: &[Block],
    prefetch: Option<Prefetcher<'_, NR>>,
    sums: &mut [[S::F; MR]; NR],
) {
    // The products of both halves, each times its weights' scale; the scale of the activations is applied once to their sum.
    let mut scaled = [[s.splat(0.0); MR]; NR];
    microkernel_dot_half::<S, F, MR, NR, 0>(s, u, x, prefetch, &mut scaled, sums);
    if const { F::Scales::GROUPS == 2 } {
        microkernel_dot_half::<S, F, MR, NR, 1>(s, u, x, prefetch, &mut scaled, sums);
    }
}

/// The columns of [`microkernel_dot`] that share a scale: all 32, or half `HALF`.
#[inline(always)]
fn microkernel_dot_half<S: Simd, F: BlockLayout, const MR: usize, const NR: usize, const HALF: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; NR],
    x: &[Block],
    prefetch: Option<Prefetcher<'_, NR>>,
    scaled: &mut [[S::F; MR]; NR],
    sums: &mut [[S::F; MR]; NR],
) {
    let quads = const { QUADS / F::Scales::GROUPS };
    let mut dots = [[s.splat_i(0); MR]; NR];
    unrolled!(t < MR, {
        let start = zero_point_init::<S, F, HALF>(s, &x[t]);
        for p in 0..NR {
            dots[p][t] = start;
        }
    });
    if const { MR == 1 && NR == 1 } {
        if let Some(prefetch) = prefetch {
            prefetch.issue::<S, F>(s, HALF, F::Scales::GROUPS);
        }
        dots[0][0] = match const { F::Scales::GROUPS } {
            1 => dot_quads::<S, F, 8>(s, dots[0][0], &u[0], &x[0], 0),
            _ => dot_quads::<S, F, 4>(s, dots[0][0], &u[0], &x[0], quads * HALF),
        };
    } else {
        // Quads j and j + 4 that share a register of nibbles follow each other.
        let shared = const { if F::Codes::SHARES_REGISTER && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        unrolled!(k < QUADS / F::Scales::GROUPS, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(prefetch) = prefetch
                && k % shared == 0
            {
                prefetch.issue::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
                dots[0][0] = s.prefetch_barrier(dots[0][0]);
            }
            let mut w = [s.splat_i(0); NR];
            for p in 0..NR {
                w[p] = F::Codes::quad(s, u[p].grid, u[p].codes, j);
            }
            dot_quad::<S, F, MR, NR>(s, x, j, &w, &mut dots);
        });
    }
    unrolled!(t < MR, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..NR {
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
            for p in 0..NR {
                sums[p][t] = s.fma(u[p].bias[HALF], sum, sums[p][t]);
            }
        }
    });
}

/// `acc` + the dot products of quads `from` to `from + QUADS - 1`, for one row and panel. There are no codes of 7 bits:
/// they would need an arm (asserted in `unpack::pack`).
#[inline(always)]
fn dot_quads<S: Simd, F: BlockLayout, const QUADS: usize>(
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
