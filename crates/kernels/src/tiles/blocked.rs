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

/// Tiles of a piece of a panel.
const TILES: usize = DEPTH / TILE_COLS;

/// Rows of a block.
const SPAN: usize = 512;

/// Bytes of rows that stay in the second-level cache beside sums and weights.
const NEAR_ROWS: usize = 3 << 19;

/// Panels of a block: what a task should have, so that its rows are not read from afar more often than they are worth.
pub(crate) const WIDTH: usize = 16;

/// Panels of a block of few rows.
const FEW: usize = 2;

/// A piece of a panel as tiles, one after the other.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Near(pub(super) [[u8; TILE_BYTES]; TILES]);

/// Weights that can be made tiles, of bfloat16 unless they say otherwise.
pub(super) trait Weights {
    /// Makes tile number `tile` of those of `panel`, of `cols` columns, from column `from` on, a multiple of [`DEPTH`]; nothing where
    /// the panel has ended.
    fn bring<S: Simd>(&self, s: S, panel: &[u8], cols: usize, from: usize, tile: usize, near: &mut Near);
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
    /// Where those columns lie in a panel, if they are to be asked for while tiles multiply; nothing if [`Weights::bring`] asks by itself.
    fn lies(_lanes: usize, _cols: usize, _from: usize) -> Range<usize> {
        0..0
    }
}

/// Computes the rows of `work` from `first` on. `pairs` are all rows as they lie in tiles, and a tile's worth of whatever after
/// them. Compiled with the module of `H`.
pub(super) fn blocked<H, W: Weights>(
    amx: Amx,
    weights: W,
    work: &mut Work<'_>,
    pairs: &[[i8; 4]],
    first: usize,
) {
    amx.lanes().call_beside::<H, _>(Blocked { amx, work, pairs, first, weights });
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

/// Rows and panels whose sums stay near: a tile of sums for each panel, `width` of them for each tile of rows.
#[derive(Clone, Copy)]
struct Area {
    from: usize,
    end: usize,
    panel: usize,
    count: usize,
    width: usize,
}

impl Area {
    /// Where the sums of a tile of rows with the panels from the area's `at`-th on begin.
    fn place(self, row: usize, at: usize) -> usize {
        (row - self.from) / ROWS * self.width + at
    }
}

/// A piece of two panels: the first of them, and its first column.
#[derive(Clone, Copy)]
struct Piece {
    panel: usize,
    k: usize,
}

/// The tiles of a piece of two panels, one panel after the other.
type Pair = [Near; 2];

/// Tiles of a pair.
const PAIR: usize = 2 * TILES;

/// A tile of rows.
type Rows = [[i8; 4]; ROWS * PAIRS];

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
        // The pair that is multiplied and, of many rows, the next one, which is made meanwhile.
        let near = &mut [const { [Near([[0; TILE_BYTES]; TILES]); 2] }; 2];
        let [now, next] = near;
        let (mut now, mut next) = (now, next);
        let ahead = width != FEW;
        if ahead {
            self.bring(s, Piece { panel: 0, k: 0 }, 0..PAIR, now);
        }
        for panel in (0..panels).step_by(width) {
            let area = Area { from, end, panel, count: width.min(panels - panel), width };
            let mut left = None;
            for k in (0..self.work.cols).step_by(DEPTH) {
                for at in (0..area.count).step_by(2) {
                    if !ahead {
                        self.bring(s, Piece { panel: panel + at, k }, 0..PAIR, now);
                    }
                    match area.count - at {
                        1 => self.piece::<S, 1>(s, tiles, area, at, k, now, next, sums, &mut left),
                        _ => self.piece::<S, 2>(s, tiles, area, at, k, now, next, sums, &mut left),
                    }
                    std::mem::swap(&mut now, &mut next);
                }
            }
            leave(tiles, &mut left, width, sums);
            self.put(s, sums, area);
        }
    }

    /// Makes some of the tiles of a pair.
    #[inline(always)]
    fn bring<S: Simd>(&self, s: S, piece: Piece, tiles: Range<usize>, pair: &mut Pair) {
        let Work { weights, cols, .. } = *self.work;
        for tile in tiles {
            let (i, tile) = (tile / (PAIR / 2), tile % (PAIR / 2));
            if piece.panel + i < weights.count {
                self.weights.bring(s, weights.panel(piece.panel + i), cols, piece.k, tile, &mut pair[i]);
            }
        }
    }

    /// Asks for what some tiles of the same panels are made of a piece later, or of the panels of the next area.
    #[inline(always)]
    fn ask_later<S: Simd>(&self, s: S, piece: Piece, tiles: Range<usize>) {
        let more = piece.k + DEPTH < self.work.cols;
        let (k, skip) = if more { (piece.k + DEPTH, 0) } else { (0, WIDTH) };
        for tile in tiles {
            let panel = piece.panel + skip + tile / TILES;
            s.prefetch_all_far(self.share::<S>(Piece { panel, k }, tile % TILES, TILES), 0);
        }
    }

    /// Part `part` of `parts` of what the first panel of `piece` is made of; nothing where there is no such panel.
    #[inline(always)]
    fn share<S: Simd>(&self, piece: Piece, part: usize, parts: usize) -> &[u8] {
        let Work { weights, cols, .. } = *self.work;
        if piece.panel >= weights.count {
            return &[];
        }
        let lies = W::lies(S::LANES, cols, piece.k);
        let share = lies.len() / parts;
        &weights.panel(piece.panel)[lies][part * share..][..share]
    }

    /// The piece after that of the area's panels from `at` on.
    #[inline(always)]
    fn after(&self, area: Area, at: usize, k: usize) -> Option<Piece> {
        if at + 2 < area.count {
            Some(Piece { panel: area.panel + at + 2, k })
        } else if k + DEPTH < self.work.cols {
            Some(Piece { panel: area.panel, k: k + DEPTH })
        } else if area.panel + area.width < self.work.weights.count {
            Some(Piece { panel: area.panel + area.width, k: 0 })
        } else {
            None
        }
    }

    /// Adds what the columns from `k` on give: the area's `P` panels from `at` on times all of its rows.
    #[inline(always)]
    fn piece<S: Simd, const P: usize>(
        &mut self,
        s: S,
        tiles: &Tiles,
        area: Area,
        at: usize,
        k: usize,
        now: &Pair,
        next: &mut Pair,
        sums: &mut [Sums],
        left: &mut Option<usize>,
    ) {
        let after = self.after(area, at, k);
        let share = PAIR.div_ceil((area.end - area.from).div_ceil(2 * ROWS));
        for (i, row) in (area.from..area.end).step_by(2 * ROWS).enumerate() {
            let work = match after {
                Some(piece) if area.width != FEW => {
                    Meanwhile::Bring(piece, i * share..(i + 1) * share, &mut *next)
                }
                Some(piece) => Meanwhile::Ask(piece),
                None => Meanwhile::Nothing,
            };
            if area.width != FEW {
                self.ask(s, area, at, k, row);
            }
            let place = area.place(row, at);
            match area.end - row {
                ..=ROWS => self.block::<S, 1, P>(s, tiles, now, row, k, place, area.width, sums, left, work),
                _ => self.block::<S, 2, P>(s, tiles, now, row, k, place, area.width, sums, left, work),
            }
        }
    }

    /// Asks for what two tiles of rows from `row` on are about to need: a share of where the sums with two panels will be written, and
    /// of the rows' next piece where they are too many to be in the second-level cache.
    #[inline(always)]
    fn ask<S: Simd>(&mut self, s: S, area: Area, at: usize, k: usize, row: usize) {
        let (cols, rows) = (self.work.cols, self.work.out.rows());
        let (piece, pieces) = (k / DEPTH, cols.div_ceil(DEPTH));
        let share = |piece: usize| area.end.min(row + 2 * ROWS * piece / pieces);
        for row in share(piece)..share(piece + 1) {
            let out = self.work.out.row(row);
            for panel in 0..2 {
                if let Some(out) = out.get((area.panel + at + panel) * S::LANES..) {
                    s.prefetch_far(out, 0);
                }
            }
        }
        let a_row = cols.div_ceil(TILE_COLS) * PAIRS;
        if 4 * rows * a_row > NEAR_ROWS && row + 2 * ROWS <= area.end {
            for row in [row, row + ROWS] {
                let tile = row * a_row + ((k + DEPTH) / TILE_COLS + at / 2) * ROWS * PAIRS;
                if let Some(tile) = self.pairs.get(tile..tile + ROWS * PAIRS) {
                    s.prefetch_all_far(tile, 0);
                }
            }
        }
    }

    /// One piece of `G` tiles of rows times `P` of panels.
    #[inline(always)]
    fn block<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        tiles: &Tiles,
        near: &Pair,
        row: usize,
        k: usize,
        place: usize,
        width: usize,
        sums: &mut [Sums],
        left: &mut Option<usize>,
        mut meanwhile: Meanwhile<'_>,
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
        let fresh = k == 0;
        let count = DEPTH.min(cols - k).div_ceil(TILE_COLS);
        if const { G == 2 && P == 2 } && steps[G - 1] == ROWS * PAIRS && count == TILES {
            let x = [x[0].as_chunks().0, x[G - 1].as_chunks().0];
            if let [Some(first), Some(second)] = x.map(|x| x.first_chunk()) {
                return self.whole(
                    s,
                    tiles,
                    near,
                    [first, second],
                    fresh,
                    place,
                    width,
                    sums,
                    left,
                    meanwhile,
                );
            }
        }
        leave(tiles, left, width, sums);
        take::<0>(tiles, sums, fresh, place);
        match const { (G, P) } {
            (2, 2) => {
                take::<1>(tiles, sums, fresh, place + 1);
                take::<2>(tiles, sums, fresh, place + width);
                take::<3>(tiles, sums, fresh, place + width + 1);
            }
            (2, _) => take::<1>(tiles, sums, fresh, place + width),
            (_, 2) => take::<1>(tiles, sums, fresh, place + 1),
            _ => {}
        }
        for at in 0..count {
            let (mut now, mut w): ([&[[i8; 4]]; G], [&[u8]; P]) = ([&[]; G], [&[]; P]);
            for g in 0..G {
                now[g] = &x[g][at * steps[g]..];
            }
            for p in 0..P {
                w[p] = &near[p].0[at];
            }
            multiply(tiles, &self.weights, now, w);
            self.advance(s, &mut meanwhile, at, count);
        }
        tiles.store_whole_c::<0>(&mut sums[place].0);
        match const { (G, P) } {
            (2, 2) => {
                tiles.store_whole_c::<1>(&mut sums[place + 1].0);
                tiles.store_whole_c::<2>(&mut sums[place + width].0);
                tiles.store_whole_c::<3>(&mut sums[place + width + 1].0);
            }
            (2, _) => tiles.store_whole_c::<1>(&mut sums[place + width].0),
            (_, 2) => tiles.store_whole_c::<1>(&mut sums[place + 1].0),
            _ => {}
        }
    }

    /// A whole piece of two tiles of rows times two panels. Its sums stay in the tiles, until those of the next such block come.
    #[inline(always)]
    fn whole<S: Simd>(
        &self,
        s: S,
        tiles: &Tiles,
        near: &Pair,
        x: [&[Rows; TILES]; 2],
        fresh: bool,
        place: usize,
        width: usize,
        sums: &mut [Sums],
        left: &mut Option<usize>,
        mut meanwhile: Meanwhile<'_>,
    ) {
        let was = left.replace(place);
        let [b0, b1] = [&near[0].0, &near[1].0];
        // Sums of the block before leave each tile just before those of this one come: the other three have work meanwhile.
        tiles.load_whole_a::<0, _>(&x[0][0]);
        tiles.load_whole_b::<0, _>(&b0[0]);
        change::<0>(tiles, sums, was, fresh, place, width);
        self.weights.dot::<0, 0, 0>(tiles);
        tiles.load_whole_b::<1, _>(&b1[0]);
        change::<1>(tiles, sums, was, fresh, place, width);
        self.weights.dot::<1, 0, 1>(tiles);
        tiles.load_whole_a::<1, _>(&x[1][0]);
        change::<2>(tiles, sums, was, fresh, place, width);
        self.weights.dot::<2, 1, 0>(tiles);
        change::<3>(tiles, sums, was, fresh, place, width);
        self.weights.dot::<3, 1, 1>(tiles);
        self.advance(s, &mut meanwhile, 0, TILES);
        for at in 1..TILES {
            tiles.load_whole_a::<0, _>(&x[0][at]);
            tiles.load_whole_b::<0, _>(&b0[at]);
            self.weights.dot::<0, 0, 0>(tiles);
            tiles.load_whole_b::<1, _>(&b1[at]);
            self.weights.dot::<1, 0, 1>(tiles);
            tiles.load_whole_a::<1, _>(&x[1][at]);
            self.weights.dot::<2, 1, 0>(tiles);
            self.weights.dot::<3, 1, 1>(tiles);
            self.advance(s, &mut meanwhile, at, TILES);
        }
    }

    /// Does its share of what else there is to do, after step `at` of `count`.
    #[inline(always)]
    fn advance<S: Simd>(&self, s: S, meanwhile: &mut Meanwhile<'_>, at: usize, count: usize) {
        match meanwhile {
            Meanwhile::Bring(piece, tiles, pair) => {
                let from = (tiles.start + at * tiles.len() / count).min(PAIR);
                let end = (tiles.start + (at + 1) * tiles.len() / count).min(PAIR);
                self.bring(s, *piece, from..end, pair);
                self.ask_later(s, *piece, from..end);
            }
            Meanwhile::Ask(piece) => {
                for panel in piece.panel..piece.panel + 2 {
                    for line in self.share::<S>(Piece { panel, k: piece.k }, at, count).chunks(64) {
                        s.prefetch(line, 0);
                    }
                }
            }
            Meanwhile::Nothing => {}
        }
    }

    /// Writes the sums of an area to the output.
    #[inline(always)]
    fn put<S: Simd>(&mut self, s: S, sums: &[Sums], area: Area) {
        for row in area.from.max(self.first)..area.end {
            let of = &sums[area.place(row, 0)..][..area.count];
            let undo = self.weights.undo(row);
            for (i, sums) in of.iter().enumerate() {
                let sums = s.load(&sums.0[(row - area.from) % ROWS]);
                let sums = s.mul(s.mul(sums, s.splat(undo[0])), s.splat(undo[1]));
                self.work.put(s, row, (area.panel + i) * S::LANES, sums);
            }
        }
    }
}

/// What is done while tiles multiply.
enum Meanwhile<'a> {
    /// Make these tiles of the next piece.
    Bring(Piece, Range<usize>, &'a mut Pair),
    /// Ask for what the next piece is made of.
    Ask(Piece),
    Nothing,
}

/// Where the sums of tile `C` lie, of a block whose first are at `place`: two panels, then those of the next tile of rows.
#[inline(always)]
const fn of<const C: usize>(place: usize, width: usize) -> usize {
    place + C % 2 + C / 2 * width
}

/// Puts the sums of tile `C` of the block at `left` where they belong, and takes those of the one at `place`.
#[inline(always)]
fn change<const C: usize>(
    tiles: &Tiles,
    sums: &mut [Sums],
    left: Option<usize>,
    fresh: bool,
    place: usize,
    width: usize,
) {
    if let Some(left) = left {
        tiles.store_whole_c::<C>(&mut sums[of::<C>(left, width)].0);
    }
    take::<C>(tiles, sums, fresh, of::<C>(place, width));
}

/// Takes the sums at `place` into tile `C`.
#[inline(always)]
fn take<const C: usize>(tiles: &Tiles, sums: &[Sums], fresh: bool, place: usize) {
    if fresh {
        tiles.zero::<C>();
    } else {
        tiles.load_whole_c::<C>(&sums[place].0);
    }
}

/// Puts what is left in the tiles where it belongs.
#[inline(always)]
fn leave(tiles: &Tiles, left: &mut Option<usize>, width: usize, sums: &mut [Sums]) {
    if let Some(place) = left.take() {
        tiles.store_whole_c::<0>(&mut sums[of::<0>(place, width)].0);
        tiles.store_whole_c::<1>(&mut sums[of::<1>(place, width)].0);
        tiles.store_whole_c::<2>(&mut sums[of::<2>(place, width)].0);
        tiles.store_whole_c::<3>(&mut sums[of::<3>(place, width)].0);
    }
}
