//! Matrix products: `out[t, r] = Σ_k x[t, k] · w[r, k]`, written once for all formats, tiers and numbers of rows.
//!
//! Where rows are many, each thread has its own of them. A task owns some panels of the output and walks its input rows over each panel, in
//! tiles of up to eight rows that share the unpacked weights, and as many rows at a time as stay in the second-level cache. Few rows walk over several
//! panels of plain floats at once, and on some tiers any rows over pairs of quantized ones or of those in twelve bits. The sum of one output runs over `k` in the same order in every tile size, so a row's
//! result does not depend on the batch.

use std::array::from_ref;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use cpu::lanes::amx::{Amx, AmxFp16};
#[cfg(target_arch = "x86_64")]
use cpu::lanes::has_half_tiles;
use cpu::lanes::has_tiles;
use cpu::lanes::{Job, Products, Simd, dispatch, dispatch_beside, dispatch_twos_beside, short_quads};
use cpu::{Cut, Tier, Tile, TileOf};

use crate::activations::{Activations, BLOCK, Block, CHUNK, GROUP, Grouped, GroupedPairs};
use crate::matrix::{Layout, Matrix, with_format};
use crate::registers::{self, MOST_LANES};
use crate::stored::{Half, Single, Stored};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
use crate::unpack::codes::Codes;
use crate::unpack::scales::Scales;
use crate::unpack::{self, Ahead, Format, QUADS, SUB};
use crate::{Compute, twelve, twos};

/// The most matrices that [`matmul_group`] takes.
pub const MAX_GROUP: usize = 4;

/// A task should be worth its hand-over: some microseconds of reading.
const TASK_BYTES: usize = 32 << 10;

/// Bytes of input rows that are walked over all panels of a task before the next ones: half of a second-level cache, the other half is the
/// panels'.
pub(crate) const ROWS_BYTES: usize = 512 << 10;

/// How far ahead of their product rows are asked for where they are many, in bytes: the first panels that they walk over find them far away,
/// and the hardware's own prefetch falls behind.
const FURTHER: usize = 16 << 10;

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
    let mut outs: [Option<Cut<'_, f32>>; MAX_GROUP] = [const { None }; MAX_GROUP];
    let mut panels = [0; MAX_GROUP];
    let spans = jobs.iter().map(|(w, _)| spans(w, x, c.pool.threads())).min().unwrap_or(1);
    let rows = x.rows.div_ceil(spans).next_multiple_of(GROUP);
    for (i, (w, out)) in jobs.iter_mut().enumerate() {
        assert_eq!(w.cols, x.cols, "weights of {} columns times rows of {}", w.cols, x.cols);
        assert_eq!(w.tier, c.tier, "weights packed for {} used on {}", w.tier, c.tier);
        assert_eq!(out.len(), x.rows * w.rows, "output of {} × {}", x.rows, w.rows);
        panels[i] = panels_a_task(w, x, c.pool.threads(), spans);
        matrices[i] = Some(w);
        outs[i] = Some(Cut { data: out, row_len: w.rows, tile_cols: panels[i] * w.lanes });
    }
    c.pool.tiles_mut(outs, rows, &|TileOf { matrix: i, row, col }, out| {
        if let Some(w) = matrices[i] {
            product(w, col * panels[i], x, row * rows, out);
        }
    });
}

/// Rows from which on each thread has its own: reading the weights once for each takes little beside multiplying so many, and what is
/// quantized, multiplied and added by the thread that wrote it need not come from another core's cache (docs/decisions/0051).
const OWN_ROWS: usize = 64;

/// Spans that the rows are cut into, one after the other in the order of tasks.
fn spans(w: &Matrix, x: &Activations, threads: usize) -> usize {
    // In tiles what is made of the weights once serves all rows, and weights that are not quantized are too many to read more than once.
    let whole = has_tiles(w.tier) || !matches!(w.layout, Layout::Quantized(_));
    if whole { 1 } else { (x.rows / OWN_ROWS).clamp(1, threads) }
}

fn panels_a_task(w: &Matrix, x: &Activations, threads: usize, spans: usize) -> usize {
    let panels = w.rows.div_ceil(w.lanes);
    let block = block_panels(w, x).min(panels.div_ceil(2 * threads));
    let worth = TASK_BYTES.div_ceil(w.panel_bytes.max(1)).max(block);
    // Whole pairs.
    if threads == 1 {
        panels
    } else {
        panels.div_ceil((threads * 8).div_ceil(spans)).max(worth).next_multiple_of(2)
    }
    .max(1)
}

/// Panels that share what is read of the rows, where many are multiplied in tiles.
#[cfg(target_arch = "x86_64")]
fn block_panels(w: &Matrix, x: &Activations) -> usize {
    let in_tiles = match w.layout {
        Layout::Quantized(_) if has_half_tiles(w.tier) => x.rows,
        Layout::Quantized(_) => x.rows - x.narrow,
        Layout::Bf16 | Layout::Twelve => x.rows,
        Layout::F32 | Layout::F16 => 0,
    };
    if has_tiles(w.tier) && in_tiles >= tiles::MANY { tiles::WIDTH } else { 0 }
}

#[cfg(not(target_arch = "x86_64"))]
fn block_panels(_: &Matrix, _: &Activations) -> usize {
    0
}

/// Fills `out` from the panels that start at `panel` and the rows that start at `first`.
fn product(w: &Matrix, panel: usize, x: &Activations, first: usize, out: Tile<'_, f32>) {
    let weights = Panels {
        data: &w.data[panel * w.panel_bytes..],
        panel_bytes: w.panel_bytes,
        count: out.cols().div_ceil(w.lanes),
    };
    #[cfg(target_arch = "x86_64")]
    if let Layout::Quantized(dtype) = w.layout
        && let Some(amx) = AmxFp16::of(w.tier)
    {
        let work = &mut Work { weights, cols: w.cols, parts: 1, rows: x.rows, out };
        return with_format!(dtype, F => tiles::halved::<F>(amx, work, x.halves(), w.lift()), ());
    }
    let quantized = matches!(w.layout, Layout::Quantized(_));
    let fine = w.fine && quantized;
    assert!(!quantized || fine == x.fine, "rows in another precision");
    let parts = if fine { 2 } else { 1 };
    let rows = if quantized { x.narrow - first } else { x.rows - first }.min(out.rows());
    let work = &mut Work { weights, cols: w.cols, parts, rows, out };
    match w.layout {
        Layout::Quantized(dtype) => with_format!(dtype, F => {
            if rows > 0 {
                let (work, x) = (&mut *work, x.quantized().from(parts * first));
                if parts * rows <= Quantized::<F, true>::TILE {
                    in_eight_bits::<F, true>(w.tier, work, x, fine);
                } else {
                    in_eight_bits::<F, false>(w.tier, work, x, fine);
                }
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::of(w.tier).filter(|_| rows < x.rows) {
                tiles::widened::<F>(amx, work, &x.bf16, rows);
            }
        }, ()),
        Layout::F32 => dispatch(w.tier, Product { work, x: floats::<Single>(&x.f32) }),
        Layout::F16 => dispatch(w.tier, Product { work, x: floats::<Half>(&x.f32) }),
        Layout::Bf16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::of(w.tier) {
                return tiles::brains(amx, work, &x.bf16);
            }
            dispatch(w.tier, Product { work, x: Brains { f32: &x.f32, pairs: x.pairs() } });
        }
        Layout::Twelve => {
            #[cfg(target_arch = "x86_64")]
            if let Some(amx) = Amx::of(w.tier) {
                return tiles::twelves(amx, work, &x.bf16);
            }
            let x = Brains { f32: &x.f32, pairs: x.pairs() };
            if rows <= BY_TILES {
                dispatch(w.tier, Product { work, x: Twelves(x) });
            } else {
                dispatch(w.tier, Pieces { work, x });
            }
        }
    }
}

fn in_eight_bits<F: Format, const FEW: bool>(tier: Tier, work: &mut Work<'_>, rows: Grouped<'_>, fine: bool) {
    let x = Quantized::<F, FEW> { rows, format: Default::default() };
    let mut product = Product { work, x };
    // Rows in sixteen bits have other steps.
    if !fine {
        product = match dispatch_twos_beside::<F, _>(tier, product) {
            Ok(()) => return,
            Err(product) => product,
        };
    }
    dispatch_beside::<F, _>(tier, product);
}

fn floats<W>(rows: &[f32]) -> Floats<'_, W> {
    Floats { rows, stored: Default::default() }
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
    parts: usize,
    /// Rows to compute, from the first.
    rows: usize,
    pub(crate) out: Tile<'a, f32>,
}

impl Work<'_> {
    /// Asks for the lines of the output that the sums of these rows and panels will go to.
    #[inline(always)]
    fn prefetch_out<S: Simd>(&mut self, s: S, rows: Range<usize>, panels: Range<usize>) {
        for row in rows {
            let out = self.out.row(row);
            for p in panels.clone() {
                s.prefetch_out(&mut out[p * S::LANES..]);
            }
        }
    }

    /// Writes `sums` to row `t` of the output, from its column `at` on; less than a register at the end of a row.
    #[inline(always)]
    pub(crate) fn put<S: Simd>(&mut self, s: S, t: usize, at: usize, sums: S::F) {
        registers::store(s, sums, self.out.row(t), at);
    }
}

/// Input rows in the form that one weight layout multiplies.
trait Rows {
    /// As of a [`Job`].
    const PRODUCTS: Products;
    /// The type that the product is compiled beside, see [`Simd::call_beside`].
    type Home;
    /// The most rows that are worth a tile together.
    const TILE: usize;
    /// Whether panels go in pairs where [`Simd::PAIRS`] says so.
    const PAIRS: bool = false;
    /// Whether they are so few that panels go in pairs only where [`Simd::FEW_AHEAD`] says so.
    const FEW: bool = false;
    /// Below how many rows they do where [`Simd::SHORT`] says so.
    const SHORT: usize = 0;
    /// Sums at a time that keep the multipliers busy: with fewer, a product waits for the one before it.
    const SUMS: usize;
    /// Whether many rows are asked for ahead where [`Simd::MANY_AHEAD`] says so.
    const AHEAD: bool = false;
    /// Bytes of an input row.
    fn row_bytes(cols: usize) -> usize;
    /// The products of rows `first` to `first + T - 1` with panels, a lane for each weight row; of rows that there are not, anything.
    fn tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P];
}

struct Product<'w, 'a, R> {
    work: &'w mut Work<'a>,
    x: R,
}

/// Columns of the output whose sums are written together.
const STAGED: usize = 256;

/// Sums of a few rows, on their way to the output. Between one product and the next so many weights are read that the lines of the output
/// are no longer near, and writing to one of each row after every pair of panels costs a sixth of the time; so rows are written in longer
/// pieces.
#[repr(align(64))]
struct Staged([[f32; STAGED]; GROUP]);

impl Staged {
    /// The sums of row `row` and panel `p`.
    #[inline(always)]
    fn get<S: Simd>(&self, s: S, row: usize, p: usize) -> S::F {
        s.load(&self.0[row % GROUP][p * S::LANES % STAGED..])
    }

    #[inline(always)]
    fn put<S: Simd>(&mut self, s: S, row: usize, p: usize, sums: S::F) {
        s.store(sums, &mut self.0[row % GROUP][p * S::LANES % STAGED..]);
    }
}

impl<R: Rows> Job for Product<'_, '_, R> {
    type Out = ();
    const PRODUCTS: Products = R::PRODUCTS;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.work.parts * self.work.rows;
        let panels = self.work.weights.count;
        // Where rows are asked for ahead, reading them again takes less than what more of them displace.
        let bytes = const { if S::MANY_AHEAD && R::AHEAD { ROWS_BYTES / 2 } else { ROWS_BYTES } };
        let chunk = (bytes / R::row_bytes(self.work.cols)).max(16) / 16 * 16;
        for first in (0..rows).step_by(chunk) {
            let end = rows.min(first + chunk);
            if const { R::PAIRS && S::PAIRS && (!R::FEW || S::FEW_AHEAD) }
                || (S::SHORT && end - first < R::SHORT)
            {
                if !S::PAIRS || !(2..=GROUP).contains(&self.work.rows) {
                    for p in (0..panels).step_by(2) {
                        self.walk::<S, 2>(s, p, first, end, None);
                    }
                    continue;
                }
                let mut staged = Staged([[0.0; STAGED]; GROUP]);
                for from in (0..panels).step_by(STAGED / S::LANES) {
                    let to = panels.min(from + STAGED / S::LANES);
                    for p in (from..to).step_by(2) {
                        self.walk::<S, 2>(s, p, first, end, Some(&mut staged));
                    }
                    for row in 0..self.work.rows {
                        for p in from..to {
                            self.work.put(s, row, p * S::LANES, staged.get(s, row, p));
                        }
                    }
                }
                continue;
            }
            // With few rows, panels side by side.
            let few = R::SUMS.min(S::TILE) / (end - first);
            let few = if const { S::FLOAT_PAIRS && R::SUMS > 1 } { few.max(2) } else { few };
            let mut p = 0;
            while p < panels {
                p += match few.min(panels - p) {
                    4.. if const { R::SUMS >= 4 } => self.walk::<S, 4>(s, p, first, end, None),
                    2.. if const { R::SUMS >= 2 } => self.walk::<S, 2>(s, p, first, end, None),
                    _ => self.walk::<S, 1>(s, p, first, end, None),
                };
            }
        }
    }
}

/// [`Product::sums`].
struct SumsOf<'p, 'w, 'a, 's, R, const T: usize, const P: usize> {
    product: &'p mut Product<'w, 'a, R>,
    p: usize,
    first: usize,
    staged: Option<&'s mut Staged>,
}

impl<R: Rows, const T: usize, const P: usize> Job for SumsOf<'_, '_, '_, '_, R, T, P> {
    type Out = usize;
    const PRODUCTS: Products = R::PRODUCTS;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        self.product.sums::<S, T, P>(s, self.p, self.first, self.staged)
    }
}

impl<R: Rows> Product<'_, '_, R> {
    /// Walks the rows from `first` to before `end` over `P` panels from `p` on.
    #[inline(always)]
    fn walk<S: Simd, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        end: usize,
        mut staged: Option<&mut Staged>,
    ) -> usize {
        let mut t = first;
        while t < end {
            // A tile of more rows than are left takes less than reading the weights a second time for a smaller one. Where multiplying
            // takes longest, that is so for three rows of four and for seven of eight.
            let worth = if S::PAIRS { 5 } else { 7 };
            t += match (end - t).min(R::TILE).min(S::TILE) {
                // Constants, so that tiles that are never taken are not compiled.
                left if const { (P == 1 || R::PAIRS) && S::TILE >= 8 && R::TILE >= 8 } && left >= worth => {
                    self.rows::<S, 8, P>(s, p, t, staged.as_deref_mut())
                }
                3.. if const { S::TILE >= 4 && R::TILE >= 4 } => {
                    self.rows::<S, 4, P>(s, p, t, staged.as_deref_mut())
                }
                2.. => self.rows::<S, 2, P>(s, p, t, staged.as_deref_mut()),
                _ => self.rows::<S, 1, P>(s, p, t, staged.as_deref_mut()),
            };
        }
        P
    }

    #[inline(always)]
    fn rows<S: Simd, const T: usize, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        staged: Option<&mut Staged>,
    ) -> usize {
        // A job of its own: in one with all sizes the registers of one depend on the others, and the compiler takes twice as long.
        if const { T > 2 } {
            return s.call_beside::<R::Home, _>(SumsOf::<R, T, P> { product: self, p, first, staged });
        }
        self.sums::<S, T, P>(s, p, first, staged)
    }

    #[inline(always)]
    fn sums<S: Simd, const T: usize, const P: usize>(
        &mut self,
        s: S,
        p: usize,
        first: usize,
        mut staged: Option<&mut Staged>,
    ) -> usize {
        let Work { cols, parts, .. } = *self.work;
        // A last one without a neighbour is its own.
        let count = P.min(self.work.weights.count - p);
        let panels = std::array::from_fn(|i| self.work.weights.panel(p + i.min(count - 1)));
        if const { S::MANY_AHEAD && R::AHEAD && T == GROUP } && staged.is_none() {
            let (first, rows) = (first / parts, self.work.rows);
            self.work.prefetch_out(s, first..rows.min(first + T / parts), p..p + count);
        }
        let sums = self.x.tile::<S, T, P>(s, panels, cols, first);
        for i in 0..count {
            for t in 0..(T / parts).min(self.work.rows - first / parts) {
                let sums = &sums[i];
                // Tiles hold an even number of rows when each output row has two.
                let sum = if parts == 2 { s.add(sums[2 * t], sums[(2 * t + 1) % T]) } else { sums[t] };
                let row = first / parts + t;
                match &mut staged {
                    Some(staged) => staged.put(s, row, p + i, sum),
                    None => self.work.put(s, row, (p + i) * S::LANES, sum),
                }
            }
        }
        T
    }
}

/// Quantized weights times rows in eight bits. Of one or two rows, `FEW`, the product is compiled by itself: what is asked for ahead
/// there would move the registers of larger tiles to the stack (measured: a sixth of a prompt).
struct Quantized<'a, F, const FEW: bool> {
    rows: Grouped<'a>,
    format: std::marker::PhantomData<F>,
}

impl<F: Format, const FEW: bool> Rows for Quantized<'_, F, FEW> {
    const PRODUCTS: Products = Products::Bytes;
    type Home = F;
    const TILE: usize = if FEW { 2 } else { GROUP };
    const PAIRS: bool = true;
    const FEW: bool = FEW;
    const SHORT: usize = match (unpack::in_turn::<F>(), unpack::heavy::<F>()) {
        (true, _) if FEW => 0,
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
    fn tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        _: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        const { assert!(SUB == BLOCK && T <= GROUP) };
        // Tiles begin at multiples of their own size, so that one lies in one group.
        let (rows, step) = self.rows.stream(first);
        let mut sums = [[s.splat(0.0); T]; P];
        if const { S::TWOS } {
            if const { T * P <= GROUP } {
                return twos::tile::<S, F, FEW, T, P>(s, self.rows, panels, first);
            }
            // Panels one after the other, where what they need together does not find room in registers.
            for p in 0..P {
                [sums[p]] = twos::tile::<S, F, FEW, T, 1>(s, self.rows, [panels[p]], first);
            }
            return sums;
        }
        // Those of one group are near.
        let many = self.rows.count() > GROUP;
        let bytes = unpack::block_bytes::<F>(S::LANES);
        let mut others = panels.map(|panel| panel.chunks_exact(bytes));
        let mut left = panels[0].len();
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
                if const { S::MANY_AHEAD && T == GROUP } && many {
                    s.prefetch_all_far(x, FURTHER);
                }
                // What lies behind this panel is already being read.
                let ahead = Ahead::of::<S, F>(blocks, i, left, (P - 1) * panels[0].len());
                if const { S::SHORT && !FEW && unpack::in_turn::<F>() } {
                    ahead.ask::<S, F>(s, 0, 1);
                    // Of two panels by four rows: more sums do not fit into sixteen registers.
                    match (T, P) {
                        (8, 2) => {
                            multiply_in_turn::<S, F, 4, T, P>(s, &heads, &blocks, i, x, 0, &mut sums);
                            multiply_in_turn::<S, F, 4, T, P>(s, &heads, &blocks, i, x, 4, &mut sums);
                        }
                        _ => multiply_in_turn::<S, F, T, T, P>(s, &heads, &blocks, i, x, 0, &mut sums),
                    }
                    continue;
                }
                let mut u = [unpack::unpack::<S, F>(s, heads[0], blocks[0], i); P];
                for p in 1..P {
                    u[p] = unpack::unpack::<S, F>(s, heads[p], blocks[p], i);
                }
                let ahead = (T >= 4 || (FEW && S::FEW_AHEAD)).then_some(ahead);
                if const { S::PAIRS || (S::SIGNS && F::Codes::WIDE) } {
                    multiply::<S, F, T, P>(s, &u, x, ahead, &mut sums);
                } else {
                    if let Some(ahead) = ahead {
                        ahead.ask::<S, F>(s, 0, 1);
                    }
                    for p in 0..P {
                        unrolled!(t < T, {
                            if const { unpack::in_bytes::<S, F>() } {
                                sums[p][t] = add_scaled::<S, F>(s, &u[p], &x[t], sums[p][t]);
                            } else {
                                let mut sum = [[sums[p][t]]];
                                multiply::<S, F, 1, 1>(s, from_ref(&u[p]), &x[t..], None, &mut sum);
                                sums[p][t] = sum[0][0];
                            }
                        });
                    }
                }
            }
            left -= bytes;
        }
        sums
    }
}

/// Adds to `sums` 32 weights of each lane's row, of `P` panels, times the 32 activations of each of `T` rows. Of several, a quad
/// of all rows and panels is multiplied after the other: a product waits for the one before it of the same row and panel, and a CPU
/// looks ahead only so far; and a quad of activations is read once for all panels. A quad of weights is read when it is multiplied, and
/// what is asked for ahead is spread over them.
#[inline(always)]
fn multiply<S: Simd, F: Format, const T: usize, const P: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; P],
    x: &[Block],
    ahead: Option<Ahead<'_, P>>,
    sums: &mut [[S::F; T]; P],
) {
    // Of both halves, each times its weights' scale: multiplied by the step of the activations once for both.
    let mut scaled = [[s.splat(0.0); T]; P];
    multiply_half::<S, F, T, P, 0>(s, u, x, ahead, &mut scaled, sums);
    if const { F::Scales::GROUPS == 2 } {
        multiply_half::<S, F, T, P, 1>(s, u, x, ahead, &mut scaled, sums);
    }
}

/// The part of [`multiply`] with one scale.
#[inline(always)]
fn multiply_half<S: Simd, F: Format, const T: usize, const P: usize, const HALF: usize>(
    s: S,
    u: &[unpack::Unpacked<S>; P],
    x: &[Block],
    ahead: Option<Ahead<'_, P>>,
    scaled: &mut [[S::F; T]; P],
    sums: &mut [[S::F; T]; P],
) {
    let quads = QUADS / F::Scales::GROUPS;
    let mut dots = [[s.splat_i(0); T]; P];
    unrolled!(t < T, {
        let start = from_offset::<S, F, HALF>(s, &x[t]);
        for p in 0..P {
            dots[p][t] = start;
        }
    });
    if const { T == 1 && P == 1 } {
        if let Some(ahead) = ahead {
            ahead.ask::<S, F>(s, HALF, F::Scales::GROUPS);
        }
        dots[0][0] = match const { F::Scales::GROUPS } {
            1 => add_quads::<S, F, 8>(s, dots[0][0], &u[0], &x[0], 0),
            _ => add_quads::<S, F, 4>(s, dots[0][0], &u[0], &x[0], quads * HALF),
        };
    } else {
        // Those that share a register go after each other.
        let shared = const { if F::Codes::SHARED && F::Scales::GROUPS == 1 { 2 } else { 1 } };
        unrolled!(k < quads, {
            let j = if shared == 2 { k % 2 * 4 + k / 2 } else { quads * HALF + k };
            if let Some(ahead) = ahead
                && k % shared == 0
            {
                ahead.ask::<S, F>(s, (quads * HALF + k) / shared, QUADS / shared);
                dots[0][0] = s.once_asked(dots[0][0]);
            }
            let mut w = [s.splat_i(0); P];
            for p in 0..P {
                w[p] = F::Codes::quad(s, u[p].codes, j);
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

/// [`multiply`] where few registers are left ([`Simd::SHORT`]): a quad of all rows and panels is multiplied after the other, and products
/// of narrow codes are added in words, of as many quads as fit, before they are widened. Of rows `from` to `from + R - 1` of the tile.
#[inline(always)]
fn multiply_in_turn<S: Simd, F: Format, const R: usize, const T: usize, const P: usize>(
    s: S,
    heads: &[[S::F; 2]; P],
    blocks: &[&[u8]; P],
    i: usize,
    x: &[Block],
    from: usize,
    sums: &mut [[S::F; T]; P],
) {
    let x = &x[from..from + R];
    let halves = F::Scales::GROUPS == 2;
    let together =
        const { if F::Scales::GROUPS == 2 || F::Codes::WIDE { 2 } else { short_quads(F::Codes::BITS) } };
    let mut u = [unpack::unpack::<S, F>(s, heads[0], blocks[0], i); P];
    for p in 1..P {
        u[p] = unpack::unpack::<S, F>(s, heads[p], blocks[p], i);
    }
    let ones = s.splat_i(0x0001_0001);
    let mut dots = [[s.splat_i(0); R]; P];
    unrolled!(t < R, {
        if halves {
            let less = s.splat_i(x[t].plain().less_words);
            for p in 0..P {
                dots[p][t] = s.dot_words(s.splat_i(0), offset_words::<S, F>(s, u[p].bytes), less);
            }
        } else {
            let start = from_offset::<S, F, 0>(s, &x[t]);
            for p in 0..P {
                dots[p][t] = start;
            }
        }
    });
    if const { F::Codes::WIDE } {
        unrolled!(j < QUADS, {
            unrolled!(t < R, {
                let four = s.splat4(&x[t].q[4 * j..]);
                for p in 0..P {
                    dots[p][t] = s.dot_wide(dots[p][t], u[p].w[j], four);
                }
            });
        });
    } else if halves {
        unrolled!(pair < QUADS / 2, {
            let j = 2 * pair;
            unrolled!(t < R, {
                let (first, second) = (s.splat4(&x[t].q[4 * j..]), s.splat4(&x[t].q[4 * j + 4..]));
                for p in 0..P {
                    let short = s.add_short(s.splat_i(0), u[p].w[j], first);
                    let short = s.add_short(short, u[p].w[j + 1], second);
                    dots[p][t] = s.widen_short(dots[p][t], short, u[p].bytes[j / 4]);
                }
            });
        });
    } else {
        for chunk in 0..QUADS / together {
            let mut short = [[s.splat_i(0); R]; P];
            unrolled!(k < together, {
                // Those that share a register of nibbles after each other.
                let k = chunk * together + k;
                let j = k % 2 * 4 + k / 2;
                unrolled!(t < R, {
                    let four = s.splat4(&x[t].q[4 * j..]);
                    for p in 0..P {
                        short[p][t] = s.add_short(short[p][t], u[p].w[j], four);
                    }
                });
            });
            unrolled!(t < R, {
                for p in 0..P {
                    dots[p][t] = s.widen_short(dots[p][t], short[p][t], ones);
                }
            });
        }
    }
    unrolled!(t < R, {
        let scale = s.splat(x[t].plain().scale);
        for p in 0..P {
            let weights = if halves { u[p].factor } else { u[p].scale[0] };
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

/// [`multiply`] for one row and panel, where scales of the halves are integers ([`unpack::in_bytes`]): one sum for both halves.
#[inline(always)]
fn add_scaled<S: Simd, F: Format>(s: S, u: &unpack::Unpacked<S>, x: &Block, sum: S::F) -> S::F {
    let [first, second] = u.bytes;
    let mut dots =
        s.dot_words(s.splat_i(0), offset_words::<S, F>(s, u.bytes), s.splat_i(x.plain().less_words));
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
fn offset_words<S: Simd, F: Format>(s: S, [first, second]: [S::I; 2]) -> S::I {
    let (low, high) = match const { F::OFFSET } {
        4 => (s.shl::<2>(first), s.shl::<18>(second)),
        32 => (s.shl::<5>(first), s.shl::<21>(second)),
        other => unreachable!("offset {other}: that of a format with scales of 16 weights in bytes"),
    };
    s.or(s.and(low, s.splat_i(0xffff)), high)
}

/// What the products of `x`, or of its half `HALF` where there are scales of halves, start from, so that codes count from the format's zero.
#[inline(always)]
pub(crate) fn from_offset<S: Simd, F: Format, const HALF: usize>(s: S, x: &Block) -> S::I {
    match const { (F::Scales::GROUPS, unpack::offset::<S, F>()) } {
        (_, 0) => s.splat_i(0),
        (1, 8) => s.splat_i(x.plain().less_8),
        (1, 16) => s.shl::<1>(s.splat_i(x.plain().less_8)),
        (1, 128) => s.splat_i(x.plain().less_128),
        (2, 4) => s.splat_i(x.plain().less_half_32[HALF] >> 3),
        (2, 32) => s.splat_i(x.plain().less_half_32[HALF]),
        (scales, offset) => unreachable!("offset {offset} of codes with {scales} scales: no format's"),
    }
}

/// `acc` + quads `from` to `from + QUADS - 1` of the weights times those of the activations. No closure: it would be
/// compiled without the tier's instructions.
#[inline(always)]
fn add_quads<S: Simd, F: Format, const QUADS: usize>(
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
struct Floats<'a, W> {
    rows: &'a [f32],
    stored: std::marker::PhantomData<W>,
}

impl<W: Stored> Rows for Floats<'_, W> {
    const PRODUCTS: Products = Products::Floats;
    type Home = Self;
    const TILE: usize = 8;
    const SUMS: usize = 4;
    fn row_bytes(cols: usize) -> usize {
        4 * cols
    }
    #[inline(always)]
    fn tile<S: Simd, const T: usize, const P: usize>(
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
struct Brains<'a> {
    f32: &'a [f32],
    pairs: GroupedPairs<'a>,
}

impl Rows for Brains<'_> {
    const PRODUCTS: Products = Products::Pairs;
    type Home = Self;
    const TILE: usize = 8;
    const SUMS: usize = 8;
    fn row_bytes(cols: usize) -> usize {
        2 * cols
    }
    #[inline(always)]
    fn tile<S: Simd, const T: usize, const P: usize>(
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
            for from in (0..whole).step_by(CHUNK) {
                let x = x.chunk::<S>(from);
                for k in 0..CHUNK.min(whole - from) {
                    for i in 0..P {
                        let Some(weights) = vectors[i].next() else { return sums };
                        add_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
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
                add_pair(s, &x, k, s.load_bytes(weights), &mut sums[i]);
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
                add_pair(s, &x, 0, s.load_bytes(weights), &mut sums[i]);
            }
        }
        sums
    }
}

/// Rows as pairs of bfloat16 and of `f32`, of which one is empty.
#[derive(Clone, Copy)]
struct PairRows<'a, const T: usize> {
    /// [`CHUNK`] pairs of the first row, then those of the next; the next pairs of the first begin `step` pairs on.
    pairs: &'a [[i8; 4]],
    step: usize,
    f32: [&'a [[f32; 2]]; T],
}

impl<'a, const T: usize> PairRows<'a, T> {
    const NONE: PairRows<'static, T> = PairRows { pairs: &[], step: 0, f32: [&[]; T] };

    /// [`CHUNK`] pairs of each row from pair `from` on, a multiple of so many.
    #[inline(always)]
    fn chunk<S: Simd>(&self, from: usize) -> PairRows<'a, T> {
        let mut chunk = PairRows::NONE;
        if S::BF16_DOT {
            chunk.pairs = &self.pairs[from / CHUNK * self.step..][..CHUNK * T];
        } else {
            unrolled!(t < T, {
                chunk.f32[t] = &self.f32[t][from..][..CHUNK];
            });
        }
        chunk
    }
}

impl<'a> Brains<'a> {
    /// Rows `first` to `first + T - 1` in the form that is multiplied; in the other form they are empty.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(&self, cols: usize, first: usize) -> PairRows<'a, T> {
        // Tiles begin at multiples of their own size, so that one lies in one group.
        const { assert!(T <= GROUP) };
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
fn add_pairs<S: Simd, const T: usize, const P: usize>(
    s: S,
    x: &PairRows<'_, T>,
    k: usize,
    w: &[S::I; P],
    sums: &mut [[S::F; T]; P],
) {
    if S::BF16_DOT {
        unrolled!(t < T, {
            let pair = s.splat4(&x.pairs[CHUNK * t + k]);
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

/// [`add_pairs`] of one panel.
#[inline(always)]
fn add_pair<S: Simd, const T: usize>(s: S, x: &PairRows<'_, T>, k: usize, w: S::I, sums: &mut [S::F; T]) {
    add_pairs(s, x, k, &[w], std::array::from_mut(sums));
}

/// The most rows for which [`Twelves`] takes less time than [`Pieces`], though it makes weights of the twelve bits once a tile: half of the
/// time for 16, three quarters for 32 (Zen 5).
const BY_TILES: usize = 64;

/// bfloat16 weights in twelve bits times rows, tile by tile.
struct Twelves<'a>(Brains<'a>);

impl Rows for Twelves<'_> {
    const PRODUCTS: Products = Products::Pairs;
    type Home = Self;
    const TILE: usize = 8;
    const PAIRS: bool = true;
    // All tiers that have such weights take panels in pairs.
    const SUMS: usize = 1;
    fn row_bytes(cols: usize) -> usize {
        Brains::row_bytes(cols)
    }
    #[inline(always)]
    fn tile<S: Simd, const T: usize, const P: usize>(
        &self,
        s: S,
        panels: [&[u8]; P],
        cols: usize,
        first: usize,
    ) -> [[S::F; T]; P] {
        let rows = self.0.rows::<S, T>(cols, first);
        let mut k = 0;
        let mut sums = [[s.splat(0.0); T]; P];
        let mut readers = [twelve::Reader::new(panels[0], S::LANES, cols); P];
        for p in 1..P {
            readers[p] = twelve::Reader::new(panels[p], S::LANES, cols);
        }
        const { assert!(twelve::PAIRS == CHUNK) };
        let bytes = twelve::group_bytes(S::LANES);
        // What lies behind this panel is already being read.
        let (mut left, skip) = (panels[0].len(), (P - 1) * panels[0].len());
        for piece in 0..cols.div_ceil(twelve::PIECE) {
            let mut exceptions = [twelve::Exceptions::NONE; P];
            let mut groups = [&panels[0][..0]; P];
            for p in 0..P {
                exceptions[p] = readers[p].exceptions(piece, S::LANES);
                groups[p] = readers[p].groups(piece, S::LANES);
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
                sums = add_plain(s, &readers, &groups, at..next, &rows, &mut k, &mut left, skip, sums);
                if next < count {
                    let x = rows.chunk::<S>(k);
                    k += CHUNK;
                    for p in 0..P {
                        let group = &groups[p][next * bytes..][..bytes];
                        let weights = readers[p].pairs(s, group, next, &mut exceptions[p]);
                        for j in 0..CHUNK {
                            add_pair(s, &x, j, weights[j], &mut sums[p]);
                        }
                    }
                    left -= bytes;
                }
                at = next + 1;
            }
        }
        sums
    }
}

/// `sums` and the products of the groups `range`, which have no exceptions, with the next columns of `x`. Asks for groups that come later:
/// behind the `left` bytes of the panels from the next group on, `skip` bytes are left out.
#[inline(always)]
fn add_plain<S: Simd, const T: usize, const P: usize>(
    s: S,
    readers: &[twelve::Reader<'_>; P],
    groups: &[&[u8]; P],
    range: Range<usize>,
    rows: &PairRows<'_, T>,
    k: &mut usize,
    left: &mut usize,
    skip: usize,
    mut sums: [[S::F; T]; P],
) -> [[S::F; T]; P] {
    let bytes = const { twelve::group_bytes(S::LANES) };
    for group in range {
        let ahead = const { unpack::ahead::<S, P>() };
        let ahead = if ahead < *left { ahead } else { ahead + skip };
        *left -= bytes;
        let x = rows.chunk::<S>(*k);
        *k += CHUNK;
        unrolled!(p < P, {
            let group = &groups[p][group * bytes..][..bytes];
            for line in 0..bytes.div_ceil(64) {
                s.prefetch(group, 64 * line + ahead);
            }
            let weights = readers[p].plain_pairs(s, group);
            for j in 0..CHUNK {
                add_pair(s, &x, j, weights[j], &mut sums[p]);
            }
        });
    }
    sums
}

/// Panels whose pieces are near together. Two, because eight sums at a time leave a CPU that starts two products a cycle waiting for the one
/// before.
const TOGETHER: usize = 2;

/// A piece of each of these panels as plain pairs, for the widest registers: their vectors of the same columns side by side.
#[repr(align(64))]
struct Near([u8; TOGETHER * twelve::near_bytes(MOST_LANES)]);

/// Sums of a row of these panels.
type Sums = [f32; TOGETHER * MOST_LANES];

/// The most rows that walk over a piece before the next one.
const WAITING: usize = 256;

/// Sums of rows between one piece and the next.
#[repr(align(64))]
struct Waiting([Sums; WAITING]);

/// bfloat16 weights in twelve bits times many rows: rows walk over a piece of two panels that is near, and between their tiles, part by
/// part, the next piece is brought near, so that nothing waits for it. Sums wait for the next piece side by side, bit for bit; in the output
/// they would lie a row apart, and have left the caches by then.
struct Pieces<'w, 'a> {
    work: &'w mut Work<'a>,
    x: Brains<'w>,
}

/// A piece of the panels from `panel` on, and the first of the rows that walk over it.
#[derive(Clone, Copy)]
struct Step {
    panel: usize,
    row: usize,
    piece: usize,
}

impl Job for Pieces<'_, '_> {
    type Out = ();
    const PRODUCTS: Products = Products::Pairs;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let [near, later] = &mut [const { Near([0; _]) }; 2];
        let (mut near, mut later) = (near, later);
        let mut waiting = Waiting([[0.0; _]; _]);
        let mut step = Step { panel: 0, row: 0, piece: 0 };
        bring(s, &mut self.coming::<S>(step), usize::MAX, near);
        loop {
            let next = self.after(step);
            let mut coming = next.map(|next| self.coming::<S>(next));
            let end = self.work.rows.min(step.row + WAITING);
            let mut t = step.row;
            while t < end {
                let waiting = &mut waiting.0[t - step.row..];
                t += match (end - t).min(S::TILE) {
                    1 => self.rows::<S, 1>(s, near, step, t, waiting),
                    2..4 => self.rows::<S, 2>(s, near, step, t, waiting),
                    8.. if const { S::TILE >= 8 } => self.rows::<S, 8>(s, near, step, t, waiting),
                    _ => self.rows::<S, 4>(s, near, step, t, waiting),
                };
                if let Some(coming) = &mut coming {
                    bring(s, coming, twelve::PIECE_GROUPS * (t - step.row) / (end - step.row), later);
                }
            }
            let Some(next) = next else { return };
            step = next;
            std::mem::swap(&mut near, &mut later);
        }
    }
}

/// Brings groups of the panels near until `to` of them are.
#[inline(always)]
fn bring<S: Simd>(s: S, coming: &mut [twelve::Coming<'_>; TOGETHER], to: usize, near: &mut Near) {
    for p in 0..TOGETHER {
        coming[p].ask(s, to);
        coming[p].bring(s, to, TOGETHER, &mut near.0[4 * S::LANES * p..]);
    }
}

impl<'a> Pieces<'_, 'a> {
    /// What comes after `step`.
    #[inline(always)]
    fn after(&self, step: Step) -> Option<Step> {
        let Work { cols, weights, rows, .. } = *self.work;
        if (step.piece + 1) * twelve::PIECE < cols {
            return Some(Step { piece: step.piece + 1, ..step });
        }
        if step.row + WAITING < rows {
            return Some(Step { row: step.row + WAITING, piece: 0, ..step });
        }
        let panel = step.panel + TOGETHER;
        (panel < weights.count).then_some(Step { panel, row: 0, piece: 0 })
    }

    /// The weights of `step`, from their first on; a last panel without a neighbour is its own.
    #[inline(always)]
    fn coming<S: Simd>(&self, step: Step) -> [twelve::Coming<'a>; TOGETHER] {
        let Work { cols, weights, .. } = *self.work;
        let panel = |p: usize| weights.panel((step.panel + p).min(weights.count - 1));
        std::array::from_fn(|p| twelve::Coming::new(panel(p), S::LANES, cols, step.piece))
    }

    /// Adds the products of `step`'s piece with rows `first` to `first + T - 1` to `waiting`; those of the last piece go to the output.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(
        &mut self,
        s: S,
        near: &Near,
        step: Step,
        first: usize,
        waiting: &mut [Sums],
    ) -> usize {
        const P: usize = TOGETHER;
        let Step { panel, piece, .. } = step;
        let cols = self.work.cols;
        let x = self.x.rows::<S, T>(cols, first);
        let waiting = &mut waiting[..T];
        let mut sums = [[s.splat(0.0); T]; P];
        if piece > 0 {
            unrolled!(t < T, {
                unrolled!(p < P, {
                    sums[p][t] = s.load(&waiting[t][p * S::LANES..]);
                });
            });
        }
        let k = piece * twelve::PIECE / 2;
        let count = (cols / 2 - k).min(twelve::PIECE / 2);
        let last = k + count == cols / 2;
        let panels = P.min(self.work.weights.count - panel);
        if const { S::MANY_AHEAD } && last {
            self.work.prefetch_out(s, first..first + T, panel..panel + panels);
        }
        sums = add_near(s, near, &x, k..k + count, sums);
        unrolled!(t < T, {
            unrolled!(p < P, {
                if !last {
                    s.store(sums[p][t], &mut waiting[t][p * S::LANES..]);
                } else if p < panels {
                    self.work.put(s, first + t, (panel + p) * S::LANES, sums[p][t]);
                }
            });
        });
        T
    }
}

/// `sums` and the products of the pairs `pairs` of `x`, of whole chunks, with what is near. By value, so that sums stay in registers.
#[inline(always)]
fn add_near<S: Simd, const T: usize>(
    s: S,
    near: &Near,
    x: &PairRows<'_, T>,
    pairs: Range<usize>,
    mut sums: [[S::F; T]; TOGETHER],
) -> [[S::F; T]; TOGETHER] {
    const { assert!(twelve::STEP.is_multiple_of(2 * CHUNK)) };
    for (k, vectors) in pairs.step_by(CHUNK).zip(near.0.chunks_exact(4 * S::LANES * TOGETHER * CHUNK)) {
        let x = x.chunk::<S>(k);
        unrolled!(k < CHUNK, {
            let mut weights = [s.splat_i(0); TOGETHER];
            unrolled!(p < TOGETHER, {
                weights[p] = s.load_bytes(&vectors[4 * S::LANES * (k * TOGETHER + p)..]);
            });
            add_pairs(s, &x, k, &weights, &mut sums);
        });
    }
    sums
}
