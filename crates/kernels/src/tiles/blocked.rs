//! Many rows times panels of weights, in an order that seldom reads what is far away.
//!
//! Sixteen panels of weights and up to 512 rows are one block of sums, which stays in the second-level cache while `k` goes by in
//! pieces of [`DEPTH`]. For each piece a pair of panels is made tiles, in the first-level cache, and all rows walk over them,
//! 32 at a time. Sums leave the tiles between pieces and come back bit for bit, so a row's result is that of any other order
//! that takes `k` tile after tile: of one row alone, too.

use std::cell::Cell;

use cpu::lanes::amx::{Amx, ROWS, Tiles};
use cpu::lanes::{Job, Simd};

use super::brains::{MANY, Sums, multiply};
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

/// `f32`s of memory that a tile of weights takes.
pub(super) const TILE: usize = 16 * PAIRS;

/// A piece of a panel as tiles, one after the other, pairs of bfloat16 seen as `f32`.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Near(pub(super) [f32; DEPTH / TILE_COLS * TILE]);

/// Weights that can be made tiles of bfloat16.
pub(super) trait Weights: Copy {
    /// Makes tiles of the columns of `panel` from `from` on, a multiple of [`DEPTH`], as far as `near` and the panel go.
    fn bring<S: Simd>(self, s: S, panel: &[u8], from: usize, near: &mut Near);
}

/// Computes the rows of `work` from `first` on. `pairs` are all rows as they lie in tiles, and a tile's worth of whatever after
/// them.
pub(super) fn blocked<W: Weights>(
    amx: Amx,
    work: &mut Work<'_>,
    pairs: &[[i8; 4]],
    first: usize,
    weights: W,
) {
    amx.lanes().call(Blocked { amx, work, pairs, first, weights });
}

struct Blocked<'w, 'a, W> {
    amx: Amx,
    work: &'w mut Work<'a>,
    pairs: &'w [[i8; 4]],
    first: usize,
    weights: W,
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
        let (rows, panels) = (self.work.out.rows(), self.work.out.cols().div_ceil(S::LANES));
        let mut sums = SUMS.take();
        sums.resize(SPAN / ROWS * WIDTH, Sums::ZERO);
        let mut near = [const { Near([0.0; DEPTH / TILE_COLS * TILE]) }; 2];
        // From a whole tile on: rows before the first are computed and dropped.
        for from in (self.first / ROWS * ROWS..rows).step_by(SPAN) {
            let end = rows.min(from + SPAN);
            // Few rows read the weights in the order in which they lie.
            let width = if end - from < MANY { 2 } else { WIDTH };
            for p in (0..panels).step_by(width) {
                let count = width.min(panels - p);
                for k in (0..self.work.cols).step_by(DEPTH) {
                    for at in (0..count).step_by(2) {
                        let sums = &mut sums[at..];
                        for (near, p) in near.iter_mut().zip(p + at..p + count) {
                            let Work { data, panel_bytes, .. } = *self.work;
                            self.weights.bring(s, &data[p * panel_bytes..][..panel_bytes], k, near);
                        }
                        match count - at {
                            1 => self.piece::<1>(&tiles, [&near[0]], k, from, end, sums),
                            _ => self.piece::<2>(&tiles, near.each_ref(), k, from, end, sums),
                        }
                    }
                }
                self.put(s, &sums, p, count, from, end);
            }
        }
        SUMS.set(sums);
    }
}

impl<W: Weights> Blocked<'_, '_, W> {
    /// Adds what the columns from `k` on give: `P` panels times the rows `from` to before `end`. The sums of a tile of rows with
    /// each panel lie [`WIDTH`] after those of the tile before.
    #[inline(always)]
    fn piece<const P: usize>(
        &self,
        tiles: &Tiles,
        near: [&Near; P],
        k: usize,
        from: usize,
        end: usize,
        sums: &mut [Sums],
    ) {
        let mut row = from;
        for sums in sums.chunks_mut(2 * WIDTH).take((end - from).div_ceil(2 * ROWS)) {
            match end - row {
                ..=ROWS => self.block::<1, P>(tiles, &near, row, k, sums),
                _ => self.block::<2, P>(tiles, &near, row, k, sums),
            }
            row += 2 * ROWS;
        }
    }

    /// One piece of `G` tiles of rows times `P` of panels.
    #[inline(always)]
    fn block<const G: usize, const P: usize>(
        &self,
        tiles: &Tiles,
        near: &[&Near; P],
        row: usize,
        k: usize,
        sums: &mut [Sums],
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
        let second = WIDTH;
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
                    tiles.load_c::<2>(sums[second].0.as_flattened(), 16);
                    tiles.load_c::<3>(sums[second + 1].0.as_flattened(), 16);
                }
                (2, _) => tiles.load_c::<1>(sums[second].0.as_flattened(), 16),
                (_, 2) => tiles.load_c::<1>(sums[1].0.as_flattened(), 16),
                _ => {}
            }
        }
        for at in 0..DEPTH.min(cols - k).div_ceil(TILE_COLS) {
            let (mut now, mut w): ([&[[i8; 4]]; G], [&[f32]; P]) = ([&[]; G], [&[]; P]);
            for g in 0..G {
                now[g] = &x[g][at * steps[g]..];
            }
            for p in 0..P {
                w[p] = &near[p].0[at * TILE..];
            }
            multiply(tiles, now, w);
        }
        tiles.store_c::<0>(sums[0].0.as_flattened_mut(), 16);
        match (G, P) {
            (2, 2) => {
                tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16);
                tiles.store_c::<2>(sums[second].0.as_flattened_mut(), 16);
                tiles.store_c::<3>(sums[second + 1].0.as_flattened_mut(), 16);
            }
            (2, _) => tiles.store_c::<1>(sums[second].0.as_flattened_mut(), 16),
            (_, 2) => tiles.store_c::<1>(sums[1].0.as_flattened_mut(), 16),
            _ => {}
        }
    }

    /// Writes the sums of `count` panels from `p` on with the rows `from` to before `end` to the output.
    #[inline(always)]
    fn put<S: Simd>(&mut self, s: S, sums: &[Sums], p: usize, count: usize, from: usize, end: usize) {
        for row in from.max(self.first)..end {
            let of = &sums[(row - from) / ROWS * WIDTH..][..count];
            for (i, sums) in of.iter().enumerate() {
                self.work.put(s, row, (p + i) * S::LANES, s.load(&sums.0[(row - from) % ROWS]));
            }
        }
    }
}
