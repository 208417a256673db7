//! The loops around the micro-kernels.

use cpu::simd::{DotKind, Job, Simd};

use super::work::Work;
use crate::activations::ROW_GROUP;
use crate::tune::{maddubs_i16, tune};

/// Input rows in the form that one weight layout multiplies.
pub(super) trait MicroKernel {
    /// As of a [`Job`].
    const DOT_KIND: DotKind;
    /// The type that the product is compiled beside, see [`Simd::call_in_unit`].
    type Unit;
    /// The most rows that are worth a tile together.
    const MR: usize;
    /// Whether panels go in pairs where [`Simd::PAIRS`] says so.
    const PAIRS: bool = false;
    /// Whether they are so few that panels go in pairs only where [`Simd::PREFETCH_GEMV`] says so.
    const GEMV: bool = false;
    /// Below how many rows they do where [`Simd::I16_MIN_ROWS`] says so.
    const I16_MIN_ROWS: usize = 0;
    /// Sums at a time that keep the multipliers busy: with fewer, a product waits for the one before it.
    const SUMS: usize;
    /// Whether many rows are asked for ahead where [`Simd::PREFETCH_GEMM`] says so.
    const AHEAD: bool = false;
    /// Bytes of an input row.
    fn row_bytes(cols: usize) -> usize;
    /// The products of rows `first` to `first + T - 1` with panels, a lane for each weight row; of rows that there are not, anything.
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P];
}

pub(super) struct Gemm<'w, 'a, K> {
    pub(super) work: &'w mut Work<'a>,
    pub(super) kernel: K,
}

/// Columns of the output whose sums are written together.
const STAGING_COLS: usize = 256;

/// Sums of a few rows, on their way to the output. Between one product and the next so many weights are read that the lines of the output
/// are no longer near, and writing to one of each row after every pair of panels costs a sixth of the time; so rows are written in longer
/// pieces.
#[repr(align(64))]
struct OutputStaging([[f32; STAGING_COLS]; ROW_GROUP]);

impl OutputStaging {
    /// The sums of row `row` and panel `p`.
    #[inline(always)]
    fn load<S: Simd>(&self, s: S, row: usize, p: usize) -> S::F {
        s.load(&self.0[row % ROW_GROUP][p * S::LANES % STAGING_COLS..])
    }

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
        // Where rows are asked for ahead, reading them again takes less than what more of them displace.
        let bytes = const {
            if tune::<S>().prefetch.gemm && K::AHEAD {
                tune::<S>().mc_bytes / 2
            } else {
                tune::<S>().mc_bytes
            }
        };
        let chunk = (bytes / K::row_bytes(self.work.cols)).max(16) / 16 * 16;
        for first in (0..rows).step_by(chunk) {
            let end = rows.min(first + chunk);
            if const { K::PAIRS && tune::<S>().nr_panels == 2 && (!K::GEMV || tune::<S>().prefetch.gemv) }
                || (const { maddubs_i16::<S>() } && end - first < K::I16_MIN_ROWS)
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
            // With few rows, panels side by side.
            let gemv_panels = K::SUMS.min(const { tune::<S>().mr }) / (end - first);
            let gemv_panels = if const { tune::<S>().nr_panels_float == 2 && K::SUMS > 1 } {
                gemv_panels.max(2)
            } else {
                gemv_panels
            };
            let mut p = 0;
            while p < panels {
                p += match gemv_panels.min(panels - p) {
                    4.. if const { K::SUMS >= 4 } => self.loop_m::<S, 4>(s, p, first, end, None),
                    2.. if const { K::SUMS >= 2 } => self.loop_m::<S, 2>(s, p, first, end, None),
                    _ => self.loop_m::<S, 1>(s, p, first, end, None),
                };
            }
        }
    }
}

/// [`Gemm::sums`].
struct MicroTile<'p, 'w, 'a, 's, K, const T: usize, const P: usize> {
    gemm: &'p mut Gemm<'w, 'a, K>,
    p: usize,
    first: usize,
    staging: Option<&'s mut OutputStaging>,
}

impl<K: MicroKernel, const T: usize, const P: usize> Job for MicroTile<'_, '_, '_, '_, K, T, P> {
    type Out = usize;
    const DOT_KIND: DotKind = K::DOT_KIND;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        self.gemm.accumulate_tile::<S, T, P>(s, self.p, self.first, self.staging)
    }
}

impl<K: MicroKernel> Gemm<'_, '_, K> {
    /// Walks the rows from `first` to before `end` over `P` panels from `p` on.
    #[inline(always)]
    fn loop_m<S: Simd, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        end: usize,
        mut staging: Option<&mut OutputStaging>,
    ) -> usize {
        let mut t = first;
        while t < end {
            // A tile of more rows than are left takes less than reading the weights a second time for a smaller one. Where multiplying
            // takes longest, that is so for three rows of four and for seven of eight.
            let worth = if const { tune::<S>().nr_panels == 2 } { 5 } else { 7 };
            t += match (end - t).min(K::MR).min(const { tune::<S>().mr }) {
                // Constants, so that tiles that are never taken are not compiled.
                bytes_left
                    if const { (P == 1 || K::PAIRS) && tune::<S>().mr >= 8 && K::MR >= 8 }
                        && bytes_left >= worth =>
                {
                    self.micro_tile::<S, 8, P>(s, p, t, staging.as_deref_mut())
                }
                3.. if const { tune::<S>().mr >= 4 && K::MR >= 4 } => {
                    self.micro_tile::<S, 4, P>(s, p, t, staging.as_deref_mut())
                }
                2.. => self.micro_tile::<S, 2, P>(s, p, t, staging.as_deref_mut()),
                _ => self.micro_tile::<S, 1, P>(s, p, t, staging.as_deref_mut()),
            };
        }
        P
    }

    #[inline(always)]
    fn micro_tile<S: Simd, const T: usize, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        staging: Option<&mut OutputStaging>,
    ) -> usize {
        // A job of its own: in one with all sizes the registers of one depend on the others, and the compiler takes twice as long.
        if const { T > 2 } {
            return s.call_in_unit::<K::Unit, _>(MicroTile::<K, T, P> { gemm: self, p, first, staging });
        }
        self.accumulate_tile::<S, T, P>(s, p, first, staging)
    }

    #[inline(always)]
    fn accumulate_tile<S: Simd, const T: usize, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        mut staging: Option<&mut OutputStaging>,
    ) -> usize {
        let Work { cols, planes, .. } = *self.work;
        // A last one without a neighbour is its own.
        let count = P.min(self.work.weights.count - p);
        let panels = std::array::from_fn(|i| self.work.weights.panel(p + i.min(count - 1)));
        if const { tune::<S>().prefetch.gemm && K::AHEAD && T == ROW_GROUP } && staging.is_none() {
            let (first, rows) = (first / planes, self.work.rows);
            self.work.prefetch_output(s, first..rows.min(first + T / planes), p..p + count);
        }
        let sums = self.kernel.register_tile::<S, T, P>(s, panels, cols, first);
        for i in 0..count {
            for t in 0..(T / planes).min(self.work.rows - first / planes) {
                let sums = &sums[i];
                // Tiles hold an even number of rows when each output row has two.
                let sum = if planes == 2 { s.add(sums[2 * t], sums[(2 * t + 1) % T]) } else { sums[t] };
                let row = first / planes + t;
                match &mut staging {
                    Some(staging) => staging.store(s, row, p + i, sum),
                    None => self.work.store(s, row, (p + i) * S::LANES, sum),
                }
            }
        }
        T
    }
}
