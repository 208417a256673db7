//! Matrix products: `out[t, r] = Σ_k x[t, k] · w[r, k]`, written once for all formats, tiers and numbers of rows.
//!
//! Where rows are many, each thread has its own of them. A task owns some panels of the output and walks its input rows over each panel, in
//! tiles of up to eight rows that share the unpacked weights, and as many rows at a time as stay in the second-level cache. Few rows walk over several
//! panels of plain floats at once, and on some tiers any rows over pairs of quantized ones or of those in twelve bits. The sum of one output runs over `k` in the same order in every tile size, so a row's
//! result does not depend on the batch.

use std::array::from_ref;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use cpu::simd::amx::{Amx, AmxFp16};
#[cfg(target_arch = "x86_64")]
use cpu::simd::has_f16_tiles;
use cpu::simd::has_tiles;
use cpu::simd::{DotKind, Job, Simd, dispatch, dispatch_in_unit, dispatch_pow2_in_unit, i16_quads};
use cpu::{MatrixTiles, Tier, Tile, TileOf};

use crate::activations::{Activations, BLOCK, Block, PAIR_CHUNK, PairGroups, ROW_GROUP, RowGroups};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::kv_layout::{F16, F32, StorageType};
use crate::matrix::{Layout, Matrix, with_format};
use crate::partial::{self, MAX_LANES};
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Format, Prefetcher, QUADS, SUB};
use crate::{Compute, bf16_dict12};

mod q8_pow2;

/// The most matrices that [`matmul_group`] takes.
pub const MAX_GROUP: usize = 4;

/// A task should be worth its hand-over: some microseconds of reading.
const TASK_BYTES: usize = 32 << 10;

/// Bytes of input rows that are walked over all panels of a task before the next ones: half of a second-level cache, the other half is the
/// panels'.
pub(crate) const MC_BYTES: usize = 512 << 10;

/// How far ahead of their product rows are asked for where they are many, in bytes: the first panels that they walk over find them far away,
/// and the hardware's own prefetch falls behind.
const ACT_PREFETCH_BYTES: usize = 16 << 10;

/// The block with `t` = 0, 1, … below `n`, written out. In a rolled loop the sums of a tile would lie in memory and not in
/// registers.
macro_rules! unrolled {
    ($t:ident < $n:expr, $body:block) => {
        unrolled!(@ $t, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $t:ident, $n:expr, $body:block, $($i:literal)*) => {
        $({
            let $t = $i;
            if $t < $n $body
        })*
    };
}
pub(crate) use unrolled;

/// `out = x · wᵀ`, with `out` of `[x rows, w.rows()]`.
///
/// # Panics
/// When shapes do not fit, or `x` was not [`set`](Activations::set) in the form that `w` reads.
pub fn matmul(c: &Compute, w: &Matrix, x: &Activations, out: &mut [f32]) {
    matmul_group(c, &mut [(w, out)], x);
}

/// Several products of the same rows in one round of the pool: Q, K and V, or gate and up.
///
/// # Panics
/// As [`matmul`], and for more than [`MAX_GROUP`] matrices.
pub fn matmul_group(c: &Compute, jobs: &mut [(&Matrix, &mut [f32])], x: &Activations) {
    assert!(jobs.len() <= MAX_GROUP, "{} matrices in a group of at most {MAX_GROUP}", jobs.len());
    let mut matrices: [Option<&Matrix>; MAX_GROUP] = [None; MAX_GROUP];
    let mut outs: [Option<MatrixTiles<'_, f32>>; MAX_GROUP] = [const { None }; MAX_GROUP];
    let mut panels = [0; MAX_GROUP];
    let m_splits = jobs.iter().map(|(w, _)| m_splits(w, x, c.pool.threads())).min().unwrap_or(1);
    let rows = x.rows.div_ceil(m_splits).next_multiple_of(ROW_GROUP);
    for (i, (w, out)) in jobs.iter_mut().enumerate() {
        assert_eq!(w.cols, x.cols, "weights of {} columns times rows of {}", w.cols, x.cols);
        assert_eq!(w.tier, c.tier, "weights packed for {} used on {}", w.tier, c.tier);
        assert_eq!(out.len(), x.rows * w.rows, "output of {} × {}", x.rows, w.rows);
        panels[i] = panels_per_task(w, x, c.pool.threads(), m_splits);
        matrices[i] = Some(w);
        outs[i] = Some(MatrixTiles { data: out, row_len: w.rows, tile_cols: panels[i] * w.lanes });
    }
    c.pool.tiles_mut(outs, rows, &|TileOf { matrix: i, row, col }, out| {
        if let Some(w) = matrices[i] {
            gemm_task(w, col * panels[i], x, row * rows, out);
        }
    });
}

/// Rows from which on each thread has its own: reading the weights once for each takes little beside multiplying so many, and what is
/// quantized, multiplied and added by the thread that wrote it need not come from another core's cache (docs/decisions/0051).
const MC_PER_THREAD: usize = 64;

/// Spans that the rows are cut into, one after the other in the order of tasks.
fn m_splits(w: &Matrix, x: &Activations, threads: usize) -> usize {
    // In tiles what is made of the weights once serves all rows, and weights that are not quantized are too many to read more than once.
    let whole = has_tiles(w.tier) || !matches!(w.layout, Layout::Quantized(_));
    if whole { 1 } else { (x.rows / MC_PER_THREAD).clamp(1, threads) }
}

fn panels_per_task(w: &Matrix, x: &Activations, threads: usize, m_splits: usize) -> usize {
    let panels = w.rows.div_ceil(w.lanes);
    let block = amx_block_panels(w, x).min(panels.div_ceil(2 * threads));
    let worth = TASK_BYTES.div_ceil(w.panel_bytes.max(1)).max(block);
    // Whole pairs.
    if threads == 1 {
        panels
    } else {
        panels.div_ceil((threads * 8).div_ceil(m_splits)).max(worth).next_multiple_of(2)
    }
    .max(1)
}

/// Panels that share what is read of the rows, where many are multiplied in tiles.
#[cfg(target_arch = "x86_64")]
fn amx_block_panels(w: &Matrix, x: &Activations) -> usize {
    let amx_rows = match w.layout {
        Layout::Quantized(_) if has_f16_tiles(w.tier) => x.rows,
        Layout::Quantized(_) => x.rows - x.quantized_rows,
        Layout::Bf16 | Layout::Bf16Dict12 => x.rows,
        Layout::F32 | Layout::F16 => 0,
    };
    if has_tiles(w.tier) && amx_rows >= amx::BLOCKED_MIN_M { amx::BLOCK_PANELS } else { 0 }
}

#[cfg(not(target_arch = "x86_64"))]
fn amx_block_panels(_: &Matrix, _: &Activations) -> usize {
    0
}

/// Fills `out` from the panels that start at `panel` and the rows that start at `first`.
fn gemm_task(w: &Matrix, panel: usize, x: &Activations, first: usize, out: Tile<'_, f32>) {
    let weights = Panels {
        data: &w.data[panel * w.panel_bytes..],
        panel_bytes: w.panel_bytes,
        count: out.cols().div_ceil(w.lanes),
    };
    #[cfg(target_arch = "x86_64")]
    if let Layout::Quantized(dtype) = w.layout
        && let Some(amx) = AmxFp16::for_tier(w.tier)
    {
        let work = &mut Work { weights, cols: w.cols, planes: 1, rows: x.rows, out };
        return with_format!(dtype, F => amx::gemm_f16_tiles::<F>(amx, work, x.f16(), w.f16_scale()), ());
    }
    let quantized = matches!(w.layout, Layout::Quantized(_));
    let q16 = w.q16_activations && quantized;
    assert!(!quantized || q16 == x.q16, "rows in another precision");
    let planes = if q16 { 2 } else { 1 };
    let rows = if quantized { x.quantized_rows - first } else { x.rows - first }.min(out.rows());
    let work = &mut Work { weights, cols: w.cols, planes, rows, out };
    match w.layout {
        Layout::Quantized(dtype) => with_format!(dtype, F => {
            if rows > 0 {
                let (work, x) = (&mut *work, x.quantized().from(planes * first));
                if planes * rows <= Q8Rows::<F, true>::MR {
                    gemm_q8::<F, true>(w.tier, work, x, q16);
                } else {
                    gemm_q8::<F, false>(w.tier, work, x, q16);
                }
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier).filter(|_| rows < x.rows) {
                amx::gemm_dequant_bf16::<F>(amx, work, &x.bf16, rows);
            }
        }, ()),
        Layout::F32 => dispatch(w.tier, Gemm { work, kernel: f32_rows::<F32>(&x.f32) }),
        Layout::F16 => dispatch(w.tier, Gemm { work, kernel: f32_rows::<F16>(&x.f32) }),
        Layout::Bf16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier) {
                return amx::gemm_bf16(amx, work, &x.bf16);
            }
            dispatch(w.tier, Gemm { work, kernel: Bf16Rows { f32: &x.f32, pairs: x.pairs() } });
        }
        Layout::Bf16Dict12 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::for_tier(w.tier) {
                return amx::gemm_bf16_dict12(amx, work, &x.bf16);
            }
            let x = Bf16Rows { f32: &x.f32, pairs: x.pairs() };
            if rows <= DECODE_TILE_MAX_M {
                dispatch(w.tier, Gemm { work, kernel: Dict12Rows(x) });
            } else {
                dispatch(w.tier, Dict12Blocked { work, x });
            }
        }
    }
}

fn gemm_q8<F: Format, const GEMV: bool>(tier: Tier, work: &mut Work<'_>, rows: RowGroups<'_>, q16: bool) {
    let x = Q8Rows::<F, GEMV> { rows, format: Default::default() };
    let mut product = Gemm { work, kernel: x };
    // Rows in sixteen bits have other steps.
    if !q16 {
        product = match dispatch_pow2_in_unit::<F, _>(tier, product) {
            Ok(()) => return,
            Err(product) => product,
        };
    }
    dispatch_in_unit::<F, _>(tier, product);
}

fn f32_rows<W>(rows: &[f32]) -> F32Rows<'_, W> {
    F32Rows { rows, stored: Default::default() }
}

/// Panels of weights, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    data: &'a [u8],
    pub(crate) panel_bytes: usize,
    pub(crate) count: usize,
}

impl<'a> Panels<'a> {
    /// Panel `p`.
    #[inline(always)]
    pub(crate) fn panel(self, p: usize) -> &'a [u8] {
        &self.data[p * self.panel_bytes..][..self.panel_bytes]
    }
}

pub(crate) struct Work<'a> {
    /// The panels, from this task's first on.
    pub(crate) weights: Panels<'a>,
    pub(crate) cols: usize,
    /// Rows of the input for each row of the output: two when the input is in sixteen bits.
    planes: usize,
    /// Rows to compute, from the first.
    rows: usize,
    pub(crate) out: Tile<'a, f32>,
}

impl Work<'_> {
    /// Asks for the lines of the output that the sums of these rows and panels will go to.
    #[inline(always)]
    fn prefetch_output<S: Simd>(&mut self, s: S, rows: Range<usize>, panels: Range<usize>) {
        for row in rows {
            let out = self.out.row(row);
            for p in panels.clone() {
                s.prefetch_write(&mut out[p * S::LANES..]);
            }
        }
    }

    /// Writes `sums` to row `t` of the output, from its column `at` on; less than a register at the end of a row.
    #[inline(always)]
    pub(crate) fn store<S: Simd>(&mut self, s: S, t: usize, at: usize, sums: S::F) {
        partial::store(s, sums, self.out.row(t), at);
    }
}

/// Input rows in the form that one weight layout multiplies.
trait MicroKernel {
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

struct Gemm<'w, 'a, K> {
    work: &'w mut Work<'a>,
    kernel: K,
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
        let bytes = const { if S::PREFETCH_GEMM && K::AHEAD { MC_BYTES / 2 } else { MC_BYTES } };
        let chunk = (bytes / K::row_bytes(self.work.cols)).max(16) / 16 * 16;
        for first in (0..rows).step_by(chunk) {
            let end = rows.min(first + chunk);
            if const { K::PAIRS && S::PAIRS && (!K::GEMV || S::PREFETCH_GEMV) }
                || (S::SHORT && end - first < K::I16_MIN_ROWS)
            {
                if !S::PAIRS || !(2..=ROW_GROUP).contains(&self.work.rows) {
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
            let gemv_panels = K::SUMS.min(S::MR) / (end - first);
            let gemv_panels =
                if const { S::FLOAT_PAIRS && K::SUMS > 1 } { gemv_panels.max(2) } else { gemv_panels };
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
            let worth = if S::PAIRS { 5 } else { 7 };
            t += match (end - t).min(K::MR).min(S::MR) {
                // Constants, so that tiles that are never taken are not compiled.
                bytes_left
                    if const { (P == 1 || K::PAIRS) && S::MR >= 8 && K::MR >= 8 } && bytes_left >= worth =>
                {
                    self.micro_tile::<S, 8, P>(s, p, t, staging.as_deref_mut())
                }
                3.. if const { S::MR >= 4 && K::MR >= 4 } => {
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
        if const { S::PREFETCH_GEMM && K::AHEAD && T == ROW_GROUP } && staging.is_none() {
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

/// Quantized weights times rows in eight bits. Of one or two rows, `GEMV`, the product is compiled by itself: what is asked for ahead
/// there would move the registers of larger tiles to the stack (measured: a sixth of a prompt).
struct Q8Rows<'a, F, const GEMV: bool> {
    rows: RowGroups<'a>,
    format: std::marker::PhantomData<F>,
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
        if const { S::TWOS } {
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
                if const { S::PREFETCH_GEMM && T == ROW_GROUP } && many {
                    s.prefetch_span_l2(x, ACT_PREFETCH_BYTES);
                }
                // What lies behind this panel is already being read.
                let prefetch = Prefetcher::new::<S, F>(blocks, i, bytes_left, (P - 1) * panels[0].len());
                if const { S::SHORT && !GEMV && unpack::i16_accumulable::<F>() } {
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
                let prefetch = (T >= 4 || (GEMV && S::PREFETCH_GEMV)).then_some(prefetch);
                if const { S::PAIRS || (S::SIGNS && F::Codes::EIGHT_BIT) } {
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

/// [`microkernel_dot`] where few registers are left ([`Simd::I16_MIN_ROWS`]): a quad of all rows and panels is multiplied after the other, and products
/// of narrow codes are added in words, of as many quads as fit, before they are widened. Of rows `from` to `from + R - 1` of the tile.
#[inline(always)]
fn microkernel_i16<S: Simd, F: Format, const R: usize, const T: usize, const P: usize>(
    s: S,
    heads: &[[S::F; 2]; P],
    blocks: &[&[u8]; P],
    i: usize,
    x: &[Block],
    from: usize,
    sums: &mut [[S::F; T]; P],
) {
    let x = &x[from..from + R];
    let two_scales = F::Scales::GROUPS == 2;
    let unroll_factor =
        const { if F::Scales::GROUPS == 2 || F::Codes::EIGHT_BIT { 2 } else { i16_quads(F::Codes::BITS) } };
    let mut u = [unpack::unpack::<S, F>(s, heads[0], blocks[0], i); P];
    for p in 1..P {
        u[p] = unpack::unpack::<S, F>(s, heads[p], blocks[p], i);
    }
    let ones = s.splat_i(0x0001_0001);
    let mut dots = [[s.splat_i(0); R]; P];
    unrolled!(t < R, {
        if two_scales {
            let correction = s.splat_i(x[t].plain().neg_sum_i16);
            for p in 0..P {
                dots[p][t] = s.dot_i16(s.splat_i(0), zero_point_i16::<S, F>(s, u[p].sub_scales), correction);
            }
        } else {
            let start = zero_point_init::<S, F, 0>(s, &x[t]);
            for p in 0..P {
                dots[p][t] = start;
            }
        }
    });
    if const { F::Codes::EIGHT_BIT } {
        unrolled!(j < QUADS, {
            unrolled!(t < R, {
                let four = s.splat4(&x[t].q[4 * j..]);
                for p in 0..P {
                    dots[p][t] = s.dot_u8(dots[p][t], u[p].w[j], four);
                }
            });
        });
    } else if two_scales {
        unrolled!(pair < QUADS / 2, {
            let j = 2 * pair;
            unrolled!(t < R, {
                let (first, second) = (s.splat4(&x[t].q[4 * j..]), s.splat4(&x[t].q[4 * j + 4..]));
                for p in 0..P {
                    let i16_sums = s.maddubs_i16(s.splat_i(0), u[p].w[j], first);
                    let i16_sums = s.maddubs_i16(i16_sums, u[p].w[j + 1], second);
                    dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums, u[p].sub_scales[j / 4]);
                }
            });
        });
    } else {
        for chunk in 0..QUADS / unroll_factor {
            let mut i16_sums = [[s.splat_i(0); R]; P];
            unrolled!(k < unroll_factor, {
                // Those that share a register of nibbles after each other.
                let k = chunk * unroll_factor + k;
                let j = k % 2 * 4 + k / 2;
                unrolled!(t < R, {
                    let four = s.splat4(&x[t].q[4 * j..]);
                    for p in 0..P {
                        i16_sums[p][t] = s.maddubs_i16(i16_sums[p][t], u[p].w[j], four);
                    }
                });
            });
            unrolled!(t < R, {
                for p in 0..P {
                    dots[p][t] = s.madd_i16_to_i32(dots[p][t], i16_sums[p][t], ones);
                }
            });
        }
    }
    unrolled!(t < R, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..P {
            let weights = if two_scales { u[p].factor } else { u[p].scale[0] };
            sums[p][from + t] = s.fma(s.to_f(dots[p][t]), s.mul(weights, scale), sums[p][from + t]);
        }
        if F::Scales::BIAS {
            let sum = s.splat(x[t].plain().sum);
            for p in 0..P {
                sums[p][from + t] = s.fma(u[p].bias[0], sum, sums[p][from + t]);
            }
        }
    });
}

/// [`microkernel_dot`] for one row and panel, where scales of the halves are integers ([`unpack::int8_sub_scales`]): one sum for both halves.
#[inline(always)]
fn gemv_i16_scaled<S: Simd, F: Format>(s: S, u: &unpack::Unpacked<S>, x: &Block, sum: S::F) -> S::F {
    let [first, second] = u.sub_scales;
    let mut dots =
        s.dot_i16(s.splat_i(0), zero_point_i16::<S, F>(s, u.sub_scales), s.splat_i(x.plain().neg_sum_i16));
    match const { F::Codes::BITS } {
        ..=3 => {
            dots = s.dot_scaled::<4, 3>(dots, &u.w, &x.q, 0, first);
            dots = s.dot_scaled::<4, 3>(dots, &u.w, &x.q, 4, second);
        }
        _ => {
            dots = s.dot_scaled::<4, 6>(dots, &u.w, &x.q, 0, first);
            dots = s.dot_scaled::<4, 6>(dots, &u.w, &x.q, 4, second);
        }
    }
    s.fma(s.to_f(dots), s.mul(u.factor, s.splat(x.plain().scale)), sum)
}

/// The offset times the scales of both halves, in words, the first below the second.
#[inline(always)]
fn zero_point_i16<S: Simd, F: Format>(s: S, [first, second]: [S::I; 2]) -> S::I {
    let (low, high) = match const { F::ZERO_POINT } {
        4 => (s.shl::<2>(first), s.shl::<18>(second)),
        32 => (s.shl::<5>(first), s.shl::<21>(second)),
        other => unreachable!("offset {other}: that of a format with scales of 16 weights in bytes"),
    };
    s.or(s.and(low, s.splat_i(0xffff)), high)
}

/// What the products of `x`, or of its half `HALF` where there are scales of halves, start from, so that codes count from the format's zero.
#[inline(always)]
pub(crate) fn zero_point_init<S: Simd, F: Format, const HALF: usize>(s: S, x: &Block) -> S::I {
    match const { (F::Scales::GROUPS, unpack::zero_point::<S, F>()) } {
        (_, 0) => s.splat_i(0),
        (1, 8) => s.splat_i(x.plain().neg_sum_8),
        (1, 16) => s.shl::<1>(s.splat_i(x.plain().neg_sum_8)),
        (1, 128) => s.splat_i(x.plain().neg_sum_128),
        (2, 4) => s.splat_i(x.plain().neg_half_sum_32[HALF] >> 3),
        (2, 32) => s.splat_i(x.plain().neg_half_sum_32[HALF]),
        (scales, offset) => unreachable!("offset {offset} of codes with {scales} scales: no format's"),
    }
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

/// Weights stored as `W` times `f32` rows.
struct F32Rows<'a, W> {
    rows: &'a [f32],
    stored: std::marker::PhantomData<W>,
}

impl<W: StorageType> MicroKernel for F32Rows<'_, W> {
    const DOT_KIND: DotKind = DotKind::F32;
    type Unit = Self;
    const MR: usize = 8;
    const SUMS: usize = 4;
    fn row_bytes(cols: usize) -> usize {
        4 * cols
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let last = self.rows.len() / cols - 1;
        let x: [&[f32]; T] = std::array::from_fn(|t| &self.rows[(first + t).min(last) * cols..][..cols]);
        let mut vectors = panels.map(|panel| panel.chunks_exact(W::BYTES * S::LANES));
        let mut sums = [[s.splat(0.0); T]; P];
        for k in 0..cols {
            for i in 0..P {
                let Some(weights) = vectors[i].next() else { return sums };
                let w = W::load(s, weights);
                for t in 0..T {
                    sums[i][t] = s.fma(w, s.splat(x[t][k]), sums[i][t]);
                }
            }
        }
        sums
    }
}

/// bfloat16 weights times bfloat16 rows where the tier has that product, else times `f32` rows.
#[derive(Clone, Copy)]
struct Bf16Rows<'a> {
    f32: &'a [f32],
    pairs: PairGroups<'a>,
}

impl MicroKernel for Bf16Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const SUMS: usize = 8;
    fn row_bytes(cols: usize) -> usize {
        2 * cols
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let x = self.rows::<S, T>(cols, first);
        let mut sums = [[s.splat(0.0); T]; P];
        let mut vectors = panels.map(|panel| panel.chunks_exact(4 * S::LANES));
        if S::BF16_DOT {
            // Filled up with zeros to whole chunks, as a last column without a partner is in the weights.
            let whole = cols.div_ceil(2);
            for from in (0..whole).step_by(PAIR_CHUNK) {
                let x = x.chunk::<S>(from);
                for k in 0..PAIR_CHUNK.min(whole - from) {
                    for i in 0..P {
                        let Some(weights) = vectors[i].next() else { return sums };
                        fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
                    }
                }
            }
            return sums;
        }
        let whole = cols / 2;
        // Said where it can be seen: else the loop looks at the length of each row for each pair.
        assert!(x.f32.iter().all(|row| row.len() == whole));
        for k in 0..whole {
            for i in 0..P {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
            }
        }
        if cols % 2 == 1 {
            // A last column without a partner: with zeros.
            let last: [[[f32; 2]; 1]; T] =
                std::array::from_fn(|t| match self.f32.get((first + t + 1) * cols - 1) {
                    Some(&last) => [[last, 0.0]],
                    None => [[0.0; 2]],
                });
            let x = PairRows { f32: last.each_ref().map(|last| last.as_slice()), ..x };
            for i in 0..P {
                let Some(weights) = vectors[i].next() else { return sums };
                fma_pair(s, &x, 0, s.load_bytes(weights), &mut sums[i]);
            }
        }
        sums
    }
}

/// Rows as pairs of bfloat16 and of `f32`, of which one is empty.
#[derive(Clone, Copy)]
struct PairRows<'a, const T: usize> {
    /// [`PAIR_CHUNK`] pairs of the first row, then those of the next; the next pairs of the first begin `step` pairs on.
    pairs: &'a [[i8; 4]],
    step: usize,
    f32: [&'a [[f32; 2]]; T],
}

impl<'a, const T: usize> PairRows<'a, T> {
    const NONE: PairRows<'static, T> = PairRows { pairs: &[], step: 0, f32: [&[]; T] };

    /// [`PAIR_CHUNK`] pairs of each row from pair `from` on, a multiple of so many.
    #[inline(always)]
    fn chunk<S: Simd>(&self, from: usize) -> PairRows<'a, T> {
        let mut chunk = PairRows::NONE;
        if S::BF16_DOT {
            chunk.pairs = &self.pairs[from / PAIR_CHUNK * self.step..][..PAIR_CHUNK * T];
        } else {
            unrolled!(t < T, {
                chunk.f32[t] = &self.f32[t][from..][..PAIR_CHUNK];
            });
        }
        chunk
    }
}

impl<'a> Bf16Rows<'a> {
    /// Rows `first` to `first + T - 1` in the form that is multiplied; in the other form they are empty.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(&self, cols: usize, first: usize) -> PairRows<'a, T> {
        // Tiles begin at multiples of their own size, so that one lies in one group.
        const { assert!(T <= ROW_GROUP) };
        if S::BF16_DOT {
            let (pairs, step) = self.pairs.stream(first);
            PairRows { pairs, step, ..PairRows::NONE }
        } else {
            let row = |t: usize| &self.f32[(first + t).min(self.f32.len() / cols - 1) * cols..][..cols];
            PairRows { f32: std::array::from_fn(|t| &row(t).as_chunks().0[..cols / 2]), ..PairRows::NONE }
        }
    }
}

/// Adds to the sum of each row and panel the row's pair `k`, of bfloat16 of a chunk, times the panel's vector of weights.
#[inline(always)]
fn fma_pairs<S: Simd, const T: usize, const P: usize>(
    s: S,
    x: &PairRows<'_, T>,
    k: usize,
    w: &[S::I; P],
    sums: &mut [[S::F; T]; P],
) {
    if S::BF16_DOT {
        unrolled!(t < T, {
            let pair = s.splat4(&x.pairs[PAIR_CHUNK * t + k]);
            unrolled!(p < P, {
                sums[p][t] = s.bf16_dot(sums[p][t], w[p], pair);
            });
        });
    } else {
        let high = s.splat_i(0xffff_0000_u32.cast_signed());
        for p in 0..P {
            let (even, odd) = (s.cast_f(s.shl::<16>(w[p])), s.cast_f(s.and(w[p], high)));
            for t in 0..T {
                let [first, second] = x.f32[t][k];
                sums[p][t] = s.fma(even, s.splat(first), sums[p][t]);
                sums[p][t] = s.fma(odd, s.splat(second), sums[p][t]);
            }
        }
    }
}

/// [`fma_pairs`] of one panel.
#[inline(always)]
fn fma_pair<S: Simd, const T: usize>(s: S, x: &PairRows<'_, T>, k: usize, w: S::I, sums: &mut [S::F; T]) {
    fma_pairs(s, x, k, &[w], std::array::from_mut(sums));
}

/// The most rows for which [`Dict12Rows`] takes less time than [`Dict12Blocked`], though it makes weights of the twelve bits once a tile: half of the
/// time for 16, three quarters for 32 (Zen 5).
const DECODE_TILE_MAX_M: usize = 64;

/// bfloat16 weights in twelve bits times rows, tile by tile.
struct Dict12Rows<'a>(Bf16Rows<'a>);

impl MicroKernel for Dict12Rows<'_> {
    const DOT_KIND: DotKind = DotKind::Bf16;
    type Unit = Self;
    const MR: usize = 8;
    const PAIRS: bool = true;
    // All tiers that have such weights take panels in pairs.
    const SUMS: usize = 1;
    fn row_bytes(cols: usize) -> usize {
        Bf16Rows::row_bytes(cols)
    }
    #[inline(always)]
    fn register_tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let rows = self.0.rows::<S, T>(cols, first);
        let mut k = 0;
        let mut sums = [[s.splat(0.0); T]; P];
        let mut readers = [bf16_dict12::Reader::new(panels[0], S::LANES, cols); P];
        for p in 1..P {
            readers[p] = bf16_dict12::Reader::new(panels[p], S::LANES, cols);
        }
        const { assert!(bf16_dict12::GROUP_PAIRS == PAIR_CHUNK) };
        let bytes = bf16_dict12::group_bytes(S::LANES);
        // What lies behind this panel is already being read.
        let (mut bytes_left, wrap_skip) = (panels[0].len(), (P - 1) * panels[0].len());
        for k_block in 0..cols.div_ceil(bf16_dict12::K_BLOCK) {
            let mut exceptions = [bf16_dict12::Exceptions::NONE; P];
            let mut groups = [&panels[0][..0]; P];
            for p in 0..P {
                exceptions[p] = readers[p].exceptions(k_block, S::LANES);
                groups[p] = readers[p].groups(k_block, S::LANES);
            }
            let count = groups[0].len() / bytes;
            let mut at = 0;
            while at < count {
                // Between exceptions nothing is looked for, and sums stay in registers.
                let mut next = count;
                for p in 0..P {
                    next = next.min(exceptions[p].group);
                }
                // In a damaged file they may not be in order.
                next = next.max(at);
                sums = fma_groups(
                    s,
                    &readers,
                    &groups,
                    at..next,
                    &rows,
                    &mut k,
                    &mut bytes_left,
                    wrap_skip,
                    sums,
                );
                if next < count {
                    let x = rows.chunk::<S>(k);
                    k += PAIR_CHUNK;
                    for p in 0..P {
                        let group = &groups[p][next * bytes..][..bytes];
                        let weights = readers[p].decode_pairs_exact(s, group, next, &mut exceptions[p]);
                        for j in 0..PAIR_CHUNK {
                            fma_pair(s, &x, j, weights[j], &mut sums[p]);
                        }
                    }
                    bytes_left -= bytes;
                }
                at = next + 1;
            }
        }
        sums
    }
}

/// `sums` and the products of the groups `range`, which have no exceptions, with the next columns of `x`. Asks for groups that come later:
/// behind the `bytes_left` bytes of the panels from the next group on, `wrap_skip` bytes are left out.
#[inline(always)]
fn fma_groups<S: Simd, const T: usize, const P: usize>(
    s: S,
    readers: &[bf16_dict12::Reader<'_>; P],
    groups: &[&[u8]; P],
    range: Range<usize>,
    rows: &PairRows<'_, T>,
    k: &mut usize,
    bytes_left: &mut usize,
    wrap_skip: usize,
    mut sums: [[S::F; T]; P],
) -> [[S::F; T]; P] {
    let bytes = const { bf16_dict12::group_bytes(S::LANES) };
    for group in range {
        let prefetch = const { unpack::prefetch_distance::<S, P>() };
        let prefetch = if prefetch < *bytes_left { prefetch } else { prefetch + wrap_skip };
        *bytes_left -= bytes;
        let x = rows.chunk::<S>(*k);
        *k += PAIR_CHUNK;
        unrolled!(p < P, {
            let group = &groups[p][group * bytes..][..bytes];
            for line in 0..bytes.div_ceil(64) {
                s.prefetch(group, 64 * line + prefetch);
            }
            let weights = readers[p].decode_pairs(s, group);
            for j in 0..PAIR_CHUNK {
                fma_pair(s, &x, j, weights[j], &mut sums[p]);
            }
        });
    }
    sums
}

/// Panels whose pieces are near together. Two, because eight sums at a time leave a CPU that starts two products a cycle waiting for the one
/// before.
const NR_PANELS: usize = 2;

/// A piece of each of these panels as plain pairs, for the widest registers: their vectors of the same columns side by side.
#[repr(align(64))]
struct DecodedKBlock([u8; NR_PANELS * bf16_dict12::k_block_bytes(MAX_LANES)]);

/// Sums of a row of these panels.
type RowAccumulators = [f32; NR_PANELS * MAX_LANES];

/// The most rows that walk over a piece before the next one.
const SPILL_ROWS: usize = 256;

/// Sums of rows between one piece and the next.
#[repr(align(64))]
struct AccumulatorSpill([RowAccumulators; SPILL_ROWS]);

/// bfloat16 weights in twelve bits times many rows: rows walk over a piece of two panels that is near, and between their tiles, part by
/// part, the next piece is brought near, so that nothing waits for it. Sums wait for the next piece side by side, bit for bit; in the output
/// they would lie a row apart, and have left the caches by then.
struct Dict12Blocked<'w, 'a> {
    work: &'w mut Work<'a>,
    x: Bf16Rows<'w>,
}

/// A piece of the panels from `panel` on, and the first of the rows that walk over it.
#[derive(Clone, Copy)]
struct KBlock {
    panel: usize,
    row: usize,
    k_block: usize,
}

impl Job for Dict12Blocked<'_, '_> {
    type Out = ();
    const DOT_KIND: DotKind = DotKind::Bf16;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let [now, next_buffer] = &mut [const { DecodedKBlock([0; _]) }; 2];
        let (mut now, mut next_buffer) = (now, next_buffer);
        let mut spill = AccumulatorSpill([[0.0; _]; _]);
        let mut step = KBlock { panel: 0, row: 0, k_block: 0 };
        decode_into(s, &mut self.decoders::<S>(step), usize::MAX, now);
        loop {
            let next = self.next_block(step);
            let mut decoders = next.map(|next| self.decoders::<S>(next));
            let end = self.work.rows.min(step.row + SPILL_ROWS);
            let mut t = step.row;
            while t < end {
                let spill = &mut spill.0[t - step.row..];
                t += match (end - t).min(S::MR) {
                    1 => self.rows::<S, 1>(s, now, step, t, spill),
                    2..4 => self.rows::<S, 2>(s, now, step, t, spill),
                    8.. if const { S::MR >= 8 } => self.rows::<S, 8>(s, now, step, t, spill),
                    _ => self.rows::<S, 4>(s, now, step, t, spill),
                };
                if let Some(decoders) = &mut decoders {
                    decode_into(
                        s,
                        decoders,
                        bf16_dict12::K_BLOCK_GROUPS * (t - step.row) / (end - step.row),
                        next_buffer,
                    );
                }
            }
            let Some(next) = next else { return };
            step = next;
            std::mem::swap(&mut now, &mut next_buffer);
        }
    }
}

/// Brings groups of the panels near until `to` of them are.
#[inline(always)]
fn decode_into<S: Simd>(
    s: S,
    decoders: &mut [bf16_dict12::PanelDecoder<'_>; NR_PANELS],
    to: usize,
    now: &mut DecodedKBlock,
) {
    for p in 0..NR_PANELS {
        decoders[p].prefetch(s, to);
        decoders[p].decode_into(s, to, NR_PANELS, &mut now.0[4 * S::LANES * p..]);
    }
}

impl<'a> Dict12Blocked<'_, 'a> {
    /// What comes after `step`.
    #[inline(always)]
    fn next_block(&self, step: KBlock) -> Option<KBlock> {
        let Work { cols, weights, rows, .. } = *self.work;
        if (step.k_block + 1) * bf16_dict12::K_BLOCK < cols {
            return Some(KBlock { k_block: step.k_block + 1, ..step });
        }
        if step.row + SPILL_ROWS < rows {
            return Some(KBlock { row: step.row + SPILL_ROWS, k_block: 0, ..step });
        }
        let panel = step.panel + NR_PANELS;
        (panel < weights.count).then_some(KBlock { panel, row: 0, k_block: 0 })
    }

    /// The weights of `step`, from their first on; a last panel without a neighbour is its own.
    #[inline(always)]
    fn decoders<S: Simd>(&self, step: KBlock) -> [bf16_dict12::PanelDecoder<'a>; NR_PANELS] {
        let Work { cols, weights, .. } = *self.work;
        let panel = |p: usize| weights.panel((step.panel + p).min(weights.count - 1));
        std::array::from_fn(|p| bf16_dict12::PanelDecoder::new(panel(p), S::LANES, cols, step.k_block))
    }

    /// Adds the products of `step`'s piece with rows `first` to `first + T - 1` to `spill`; those of the last piece go to the output.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(
        &mut self,
        s: S,
        now: &DecodedKBlock,
        step: KBlock,
        first: usize,
        spill: &mut [RowAccumulators],
    ) -> usize {
        const P: usize = NR_PANELS;
        let KBlock { panel, k_block, .. } = step;
        let cols = self.work.cols;
        let x = self.x.rows::<S, T>(cols, first);
        let spill = &mut spill[..T];
        let mut sums = [[s.splat(0.0); T]; P];
        if k_block > 0 {
            unrolled!(t < T, {
                unrolled!(p < P, {
                    sums[p][t] = s.load(&spill[t][p * S::LANES..]);
                });
            });
        }
        let k = k_block * bf16_dict12::K_BLOCK / 2;
        let count = (cols / 2 - k).min(bf16_dict12::K_BLOCK / 2);
        let last = k + count == cols / 2;
        let panels = P.min(self.work.weights.count - panel);
        if const { S::PREFETCH_GEMM } && last {
            self.work.prefetch_output(s, first..first + T, panel..panel + panels);
        }
        sums = fma_k_block(s, now, &x, k..k + count, sums);
        unrolled!(t < T, {
            unrolled!(p < P, {
                if !last {
                    s.store(sums[p][t], &mut spill[t][p * S::LANES..]);
                } else if p < panels {
                    self.work.store(s, first + t, (panel + p) * S::LANES, sums[p][t]);
                }
            });
        });
        T
    }
}

/// `sums` and the products of the pairs `pairs` of `x`, of whole chunks, with what is near. By value, so that sums stay in registers.
#[inline(always)]
fn fma_k_block<S: Simd, const T: usize>(
    s: S,
    now: &DecodedKBlock,
    x: &PairRows<'_, T>,
    pairs: Range<usize>,
    mut sums: [[S::F; T]; NR_PANELS],
) -> [[S::F; T]; NR_PANELS] {
    const { assert!(bf16_dict12::K_MULTIPLE.is_multiple_of(2 * PAIR_CHUNK)) };
    for (k, vectors) in
        pairs.step_by(PAIR_CHUNK).zip(now.0.chunks_exact(4 * S::LANES * NR_PANELS * PAIR_CHUNK))
    {
        let x = x.chunk::<S>(k);
        unrolled!(k < PAIR_CHUNK, {
            let mut weights = [s.splat_i(0); NR_PANELS];
            unrolled!(p < NR_PANELS, {
                weights[p] = s.load_bytes(&vectors[4 * S::LANES * (k * NR_PANELS + p)..]);
            });
            fma_pairs(s, &x, k, &weights, &mut sums);
        });
    }
    sums
}
