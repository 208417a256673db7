//! The loops around the micro-kernels, written once for every path but AMX (`amx/blocked.rs`) and dictionary-compressed
//! bf16 with many rows (`gemm/bf16_dict12.rs`), which block K and have loops of their own. GEMV (M ≤ 2) runs the same
//! loops.
//!
//! ```text
//! for rows in chunks of MC                     Gemm::run
//!   for panels, NR at a time                   Gemm::run
//!     for rows of the chunk, MR at a time      Gemm::loop_m
//!       register tile MR × NR over all of K    MicroKernel::register_tile
//! ```
//!
//! K is the innermost loop and is never split, so the sum of an output runs over K in the same order for every tile size, and a row's
//! result does not depend on the batch.

use cpu::simd::{DotKind, Job, Simd};

use super::work::Work;
use crate::activations::ROW_GROUP;
use crate::tune::{maddubs_i16, tune};

/// A micro-kernel: rows of activations in the format that one weight layout is multiplied with, and the code that computes a register
/// tile of them.
pub(super) trait MicroKernel {
    /// As of a [`Job`].
    const DOT_KIND: DotKind;
    /// The type whose codegen unit the code is compiled in, see [`Simd::call_in_unit`].
    type Unit;
    /// MR: the most rows of a register tile.
    const MR: usize;
    /// Whether NR is two panels where [`Tune::nr_panels`](crate::tune::Tune) is.
    const PANEL_PAIRS: bool = false;
    /// Whether M ≤ 2: NR is then two panels only where weights are prefetched for GEMV.
    const GEMV: bool = false;
    /// Row count below which NR is two panels, with [`Int8Path::MaddubsI16`](crate::tune::Int8Path).
    const I16_PAIRS_BELOW: usize = 0;
    /// Independent accumulators that hide the latency of a multiply-add; with fewer rows, more panels go side by side.
    const MIN_ACCUMULATORS: usize;
    /// Whether activations are prefetched when M is large, where the tuning says so.
    const PREFETCH_ACTIVATIONS: bool = false;
    /// Bytes of a row of activations.
    fn row_bytes(cols: usize) -> usize;
    /// The accumulators `[NR, MR]` of rows `first` to `first + MR - 1` × `NR` panels over all of K, a lane for each weight row. Those of
    /// rows past the last are unspecified.
    fn register_tile<S: Simd, const MR: usize, const NR: usize>(
        &self,
        s: S,
        panels: [&[u8]; NR],
        cols: usize,
        first: usize,
    ) -> [[S::F; MR]; NR];
}

/// One task of a GEMM.
pub(super) struct Gemm<'w, 'a, K> {
    pub(super) work: &'w mut Work<'a>,
    pub(super) kernel: K,
}

/// Columns of the output staging buffer.
const STAGING_COLS: usize = 256;

/// Output staging buffer for a few rows. So many weights are read between two register tiles that the output's cache lines have left
/// the caches; writing one line of each row after every pair of panels costs a sixth of the time. Rows are written in longer pieces.
#[repr(align(64))]
struct OutputStaging([[f32; STAGING_COLS]; ROW_GROUP]);

impl OutputStaging {
    /// The sums of `row` and panel `p`.
    #[inline(always)]
    fn load<S: Simd>(&self, s: S, row: usize, p: usize) -> S::F {
        s.load(&self.0[row % ROW_GROUP][p * S::LANES % STAGING_COLS..])
    }

    /// Keeps the sums of `row` and panel `p`.
    #[inline(always)]
    fn store<S: Simd>(&mut self, s: S, row: usize, p: usize, sums: S::F) {
        s.store(sums, &mut self.0[row % ROW_GROUP][p * S::LANES % STAGING_COLS..]);
    }
}

impl<K: MicroKernel> Job for Gemm<'_, '_, K> {
    type Out = ();
    const DOT_KIND: DotKind = K::DOT_KIND;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.work.planes * self.work.rows;
        let panels = self.work.weights.count;
        // Prefetched rows are cheap to read again; a larger MC would displace more than it saves.
        let bytes = const {
            if tune::<S>().prefetch.gemm_activations_and_output && K::PREFETCH_ACTIVATIONS {
                tune::<S>().mc_bytes / 2
            } else {
                tune::<S>().mc_bytes
            }
        };
        let mc = (bytes / K::row_bytes(self.work.cols)).max(16) / 16 * 16;
        for first in (0..rows).step_by(mc) {
            let end = rows.min(first + mc);
            // Two panels: quantized weights (GEMV included) and `bf16_dict12` on AVX-512; quantized weights on AVX2.
            if const {
                K::PANEL_PAIRS
                    && tune::<S>().nr_panels == 2
                    && (!K::GEMV || tune::<S>().prefetch.gemv_weights)
            } || (const { maddubs_i16::<S>() } && end - first < K::I16_PAIRS_BELOW)
            {
                if const { tune::<S>().nr_panels == 1 } || !(2..=ROW_GROUP).contains(&self.work.rows) {
                    for p in (0..panels).step_by(2) {
                        self.loop_m::<S, 2>(s, p, first, end, None);
                    }
                    continue;
                }
                let mut staging = OutputStaging([[0.0; STAGING_COLS]; ROW_GROUP]);
                for from in (0..panels).step_by(STAGING_COLS / S::LANES) {
                    let to = panels.min(from + STAGING_COLS / S::LANES);
                    for p in (from..to).step_by(2) {
                        self.loop_m::<S, 2>(s, p, first, end, Some(&mut staging));
                    }
                    for row in 0..self.work.rows {
                        for p in from..to {
                            self.work.store(s, row, p * S::LANES, staging.load(s, row, p));
                        }
                    }
                }
                continue;
            }
            // Float weights, NEON and scalar, and with one panel at a time AVX2 and GEMV on Zen 4. Of float weights,
            // few rows take several panels side by side, so that there are accumulators enough.
            let gemv_panels = K::MIN_ACCUMULATORS.min(const { tune::<S>().mr }) / (end - first);
            let gemv_panels = if const { tune::<S>().nr_panels_float == 2 && K::MIN_ACCUMULATORS > 1 } {
                gemv_panels.max(2)
            } else {
                gemv_panels
            };
            let mut p = 0;
            while p < panels {
                p += match gemv_panels.min(panels - p) {
                    4.. if const { K::MIN_ACCUMULATORS >= 4 } => self.loop_m::<S, 4>(s, p, first, end, None),
                    2.. if const { K::MIN_ACCUMULATORS >= 2 } => self.loop_m::<S, 2>(s, p, first, end, None),
                    _ => self.loop_m::<S, 1>(s, p, first, end, None),
                };
            }
        }
    }
}

/// [`Gemm::accumulate_tile`] as a job of its own.
struct MicroTileJob<'p, 'w, 'a, 's, K, const MR: usize, const NR: usize> {
    gemm: &'p mut Gemm<'w, 'a, K>,
    p: usize,
    first: usize,
    staging: Option<&'s mut OutputStaging>,
}

impl<K: MicroKernel, const MR: usize, const NR: usize> Job for MicroTileJob<'_, '_, '_, '_, K, MR, NR> {
    type Out = usize;
    const DOT_KIND: DotKind = K::DOT_KIND;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        self.gemm.accumulate_tile::<S, MR, NR>(s, self.p, self.first, self.staging)
    }
}

impl<K: MicroKernel> Gemm<'_, '_, K> {
    /// The loop over M: rows `first..end`, MR at a time, × `NR` panels from `p` on. Returns `NR`.
    #[inline(always)]
    fn loop_m<S: Simd, const NR: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        end: usize,
        mut staging: Option<&mut OutputStaging>,
    ) -> usize {
        let mut t = first;
        while t < end {
            // Remainder: a tile of more rows than are left costs less than reading the weights again for a smaller one, from 3 of 4
            // rows on, and from 7 of 8; from 5 of 8 where two panels share the broadcasts.
            let full_tile_from = if const { tune::<S>().nr_panels == 2 } { 5 } else { 7 };
            t += match (end - t).min(K::MR).min(const { tune::<S>().mr }) {
                // Inline constants, so that unused tile sizes are not compiled.
                rows_left
                    if const { (NR == 1 || K::PANEL_PAIRS) && tune::<S>().mr >= 8 && K::MR >= 8 }
                        && rows_left >= full_tile_from =>
                {
                    self.micro_tile::<S, 8, NR>(s, p, t, staging.as_deref_mut())
                }
                3.. if const { tune::<S>().mr >= 4 && K::MR >= 4 } => {
                    self.micro_tile::<S, 4, NR>(s, p, t, staging.as_deref_mut())
                }
                2.. => self.micro_tile::<S, 2, NR>(s, p, t, staging.as_deref_mut()),
                _ => self.micro_tile::<S, 1, NR>(s, p, t, staging.as_deref_mut()),
            };
        }
        NR
    }

    /// One register tile. Returns `MR`.
    #[inline(always)]
    fn micro_tile<S: Simd, const MR: usize, const NR: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        staging: Option<&mut OutputStaging>,
    ) -> usize {
        // A function of its own: with all sizes in one, registers are allocated for all of them and compiling takes twice as long.
        if const { MR > 2 } {
            return s.call_in_unit::<K::Unit, _>(MicroTileJob::<K, MR, NR> { gemm: self, p, first, staging });
        }
        self.accumulate_tile::<S, MR, NR>(s, p, first, staging)
    }

    /// Computes a register tile and writes it to the output or the staging buffer. Returns `MR`.
    #[inline(always)]
    fn accumulate_tile<S: Simd, const MR: usize, const NR: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        mut staging: Option<&mut OutputStaging>,
    ) -> usize {
        let Work { cols, planes, .. } = *self.work;
        // A last panel without a neighbour is computed twice.
        let count = NR.min(self.work.weights.count - p);
        let panels = std::array::from_fn(|i| self.work.weights.panel(p + i.min(count - 1)));
        if const { tune::<S>().prefetch.gemm_activations_and_output && K::PREFETCH_ACTIVATIONS && MR == ROW_GROUP }
            && staging.is_none()
        {
            let (first, rows) = (first / planes, self.work.rows);
            self.work.prefetch_output(s, first..rows.min(first + MR / planes), p..p + count);
        }
        let sums = self.kernel.register_tile::<S, MR, NR>(s, panels, cols, first);
        for i in 0..count {
            for t in 0..(MR / planes).min(self.work.rows - first / planes) {
                let sums = &sums[i];
                // With two planes to a row, tiles hold an even number of them.
                let sum = if planes == 2 { s.add(sums[2 * t], sums[(2 * t + 1) % MR]) } else { sums[t] };
                let row = first / planes + t;
                match &mut staging {
                    Some(staging) => staging.store(s, row, p + i, sum),
                    None => self.work.store(s, row, (p + i) * S::LANES, sum),
                }
            }
        }
        MR
    }
}
