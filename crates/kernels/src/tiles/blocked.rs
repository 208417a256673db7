//! Many rows times panels of weights, in an order that seldom reads what is far away.
//!
//! Sixteen panels of weights and up to 512 rows are one block of sums, which stays in the second-level cache while `k` goes by in
//! pieces of [`DEPTH`]. For each piece a pair of panels is made tiles, in the first-level cache, and all rows walk over them,
//! 32 at a time. Sums leave the tiles between pieces and come back bit for bit, so a row's result is that of any other order
//! that takes `k` tile after tile: of one row alone, too.

use std::cell::Cell;
use std::ops::Range;

use cpu::lanes::amx::{Amx, ROWS, Tiles};
use cpu::lanes::{Job, Simd};

use super::brains::{MANY, Sums, TILE_BYTES, multiply};
use crate::activations::TILE_PAIRS as PAIRS;
use crate::matmul::Work;

/// Columns of a tile of weights.
pub(super) const TILE_COLS: usize = 2 * PAIRS;

/// Columns that are made tiles at a time: two panels of them are 16 KiB.
pub(super) const DEPTH: usize = 256;

/// Rows of a block.
const SPAN: usize = 512;

/// Panels of a block: what a task should have, so that its rows are not read from afar more often than they are worth.
pub(crate) const WIDTH: usize = 16;

/// Panels of a block of few rows.
const FEW: usize = 2;

/// A piece of a panel as tiles, one after the other.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Near(pub(super) [u8; DEPTH / TILE_COLS * TILE_BYTES]);

/// Weights that can be made tiles, of bfloat16 unless they say otherwise.
pub(super) trait Weights {
    /// Makes tiles of the columns of `panel` of `cols` from `from` on, a multiple of [`DEPTH`], as far as `near` and the panel go.
    fn bring<S: Simd>(&self, s: S, panel: &[u8], cols: usize, from: usize, near: &mut Near);
    /// `C += A · B`
    #[inline(always)]
    fn dot<const C: usize, const A: usize, const B: usize>(&self, tiles: &Tiles) {
        tiles.dot_bf16::<C, A, B>();
    }
    /// What makes results of the sums of row `row`: a factor and then another, since both together may be no number.
    #[inline(always)]
    fn undo(&self, _row: usize) -> [f32; 2] {
        [1.0; 2]
    }
    /// Where those columns lie in a panel, if few rows should ask for them while they multiply the ones before.
    fn lies(_lanes: usize, _cols: usize, _from: usize) -> Range<usize> {
        0..0
    }
}

/// Computes the rows of `work` from `first` on. `pairs` are all rows as they lie in tiles, and a tile's worth of whatever after
/// them.
pub(super) fn blocked<W: Weights>(
    amx: Amx,
    weights: W,
    work: &mut Work<'_>,
    pairs: &[[i8; 4]],
    first: usize,
) {
    amx.lanes().call(Blocked { amx, work, pairs, first, weights });
}

/// The work of [`blocked`], for registers that the weights choose.
pub(super) struct Blocked<'w, 'a, W> {
    pub(super) amx: Amx,
    pub(super) work: &'w mut Work<'a>,
    pub(super) pairs: &'w [[i8; 4]],
    pub(super) first: usize,
    pub(super) weights: W,
}

thread_local! {
    /// The sums of a block, kept for the next one.
    static SUMS: Cell<Vec<Sums>> = const { Cell::new(Vec::new()) };
}

impl<W: Weights> Job for Blocked<'_, '_, W> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let tiles = Tiles::new(self.amx, ROWS, 4 * PAIRS);
        let rows = self.work.out.rows();
        // From a whole tile on: rows before the first are computed and dropped.
        for from in (self.first / ROWS * ROWS..rows).step_by(SPAN) {
            let end = rows.min(from + SPAN);
            if end - from < MANY {
                // Few rows read the weights in the order in which they lie.
                self.walk(s, &tiles, from, end, FEW, &mut [Sums::ZERO; MANY / ROWS * FEW]);
            } else {
                let mut sums = SUMS.take();
                sums.resize(SPAN / ROWS * WIDTH, Sums::ZERO);
                self.walk(s, &tiles, from, end, WIDTH, &mut sums);
                SUMS.set(sums);
            }
        }
    }
}

impl<W: Weights> Blocked<'_, '_, W> {
    /// The rows `from` to before `end` times all panels, `width` at a time.
    #[inline(always)]
    fn walk<S: Simd>(
        &mut self,
        s: S,
        tiles: &Tiles,
        from: usize,
        end: usize,
        width: usize,
        sums: &mut [Sums],
    ) {
        let panels = self.work.weights.count;
        let mut near = [const { Near([0; DEPTH / TILE_COLS * TILE_BYTES]) }; 2];
        for p in (0..panels).step_by(width) {
            let count = width.min(panels - p);
            for k in (0..self.work.cols).step_by(DEPTH) {
                for at in (0..count).step_by(2) {
                    let sums = &mut sums[at..];
                    for (near, p) in near.iter_mut().zip(p + at..p + count) {
                        self.weights.bring(s, self.work.weights.panel(p), self.work.cols, k, near);
                    }
                    let next =
                        if width == FEW { [0, 1].map(|i| self.next::<S>(p + i, k)) } else { [&[][..]; 2] };
                    match count - at {
                        1 => self.piece::<S, 1>(s, tiles, [&near[0]], k, from, end, width, sums, [next[0]]),
                        _ => self.piece::<S, 2>(s, tiles, near.each_ref(), k, from, end, width, sums, next),
                    }
                }
            }
            self.put(s, sums, p, count, from, end, width);
        }
    }

    /// What few rows read after the columns from `k` on of panel `p`.
    #[inline(always)]
    fn next<S: Simd>(&self, p: usize, k: usize) -> &[u8] {
        let Work { weights, cols, .. } = *self.work;
        let (p, k) = if k + DEPTH < cols { (p, k + DEPTH) } else { (p + FEW, 0) };
        if p < weights.count { &weights.panel(p)[W::lies(S::LANES, cols, k)] } else { &[] }
    }

    /// Adds what the columns from `k` on give: `P` panels times the rows `from` to before `end`. The sums of a tile of rows with
    /// each panel lie `stride` after those of the tile before. Meanwhile asks for `next`.
    #[inline(always)]
    fn piece<S: Simd, const P: usize>(
        &self,
        s: S,
        tiles: &Tiles,
        near: [&Near; P],
        k: usize,
        from: usize,
        end: usize,
        stride: usize,
        sums: &mut [Sums],
        next: [&[u8]; P],
    ) {
        let mut row = from;
        for sums in sums.chunks_mut(2 * stride).take((end - from).div_ceil(2 * ROWS)) {
            match end - row {
                ..=ROWS => self.block::<S, 1, P>(s, tiles, &near, row, k, stride, sums, next),
                _ => self.block::<S, 2, P>(s, tiles, &near, row, k, stride, sums, next),
            }
            row += 2 * ROWS;
        }
    }

    /// One piece of `G` tiles of rows times `P` of panels.
    #[inline(always)]
    fn block<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        tiles: &Tiles,
        near: &[&Near; P],
        row: usize,
        k: usize,
        stride: usize,
        sums: &mut [Sums],
        next: [&[u8]; P],
    ) {
        let (cols, rows) = (self.work.cols, self.work.out.rows());
        let a_row = cols.div_ceil(TILE_COLS) * PAIRS;
        let mut x: [&[[i8; 4]]; G] = [&[]; G];
        let mut steps = [0; G];
        for g in 0..G {
            let row = row + g * ROWS;
            // Fewer rows in the last ones: the rest of a tile is what comes after them, and its sums are dropped.
            steps[g] = ROWS.min(rows - row) * PAIRS;
            x[g] = &self.pairs[row * a_row + k / TILE_COLS * steps[g]..];
        }
        if k == 0 {
            tiles.zero::<0>();
            tiles.zero::<1>();
            tiles.zero::<2>();
            tiles.zero::<3>();
        } else {
            tiles.load_c::<0>(sums[0].0.as_flattened(), 16);
            match (G, P) {
                (2, 2) => {
                    tiles.load_c::<1>(sums[1].0.as_flattened(), 16);
                    tiles.load_c::<2>(sums[stride].0.as_flattened(), 16);
                    tiles.load_c::<3>(sums[stride + 1].0.as_flattened(), 16);
                }
                (2, _) => tiles.load_c::<1>(sums[stride].0.as_flattened(), 16),
                (_, 2) => tiles.load_c::<1>(sums[1].0.as_flattened(), 16),
                _ => {}
            }
        }
        let count = DEPTH.min(cols - k).div_ceil(TILE_COLS);
        for at in 0..count {
            for p in 0..P {
                let share = next[p].len() / count;
                for line in next[p][at * share..][..share].chunks(64) {
                    s.prefetch(line, 0);
                }
            }
            let (mut now, mut w): ([&[[i8; 4]]; G], [&[u8]; P]) = ([&[]; G], [&[]; P]);
            for g in 0..G {
                now[g] = &x[g][at * steps[g]..];
            }
            for p in 0..P {
                w[p] = &near[p].0[at * TILE_BYTES..];
            }
            multiply(tiles, &self.weights, now, w);
        }
        tiles.store_c::<0>(sums[0].0.as_flattened_mut(), 16);
        match (G, P) {
            (2, 2) => {
                tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16);
                tiles.store_c::<2>(sums[stride].0.as_flattened_mut(), 16);
                tiles.store_c::<3>(sums[stride + 1].0.as_flattened_mut(), 16);
            }
            (2, _) => tiles.store_c::<1>(sums[stride].0.as_flattened_mut(), 16),
            (_, 2) => tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16),
            _ => {}
        }
    }

    /// Writes the sums of `count` panels from `p` on with the rows `from` to before `end` to the output.
    #[inline(always)]
    fn put<S: Simd>(
        &mut self,
        s: S,
        sums: &[Sums],
        p: usize,
        count: usize,
        from: usize,
        end: usize,
        stride: usize,
    ) {
        for row in from.max(self.first)..end {
            let of = &sums[(row - from) / ROWS * stride..][..count];
            let undo = self.weights.undo(row);
            for (i, sums) in of.iter().enumerate() {
                let sums = s.load(&sums.0[(row - from) % ROWS]);
                let sums = s.mul(s.mul(sums, s.splat(undo[0])), s.splat(undo[1]));
                self.work.put(s, row, (p + i) * S::LANES, sums);
            }
        }
    }
}
