//! Many rows times panels of weights, in an order that seldom reads what is far away.
//!
//! Sixteen panels of weights and up to 512 rows are one block of sums, which stays in the second-level cache while `k` goes by in
//! pieces of [`K_BLOCK`]. For each piece a pair of panels is made tiles, in the first-level cache, and all rows walk over them,
//! 32 at a time. Sums leave the tiles between pieces and come back bit for bit, so a row's result is that of any other order
//! that takes `k` tile after tile: of one row alone, too.

use std::cell::Cell;
use std::ops::Range;

use cpu::simd::amx::{Amx, ROWS, Tiles};
use cpu::simd::{Job, Simd};

use super::bf16::{Accumulators, BLOCKED_MIN_M, TILE_BYTES, multiply};
use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::gemm::work::Work;

/// Columns of a tile of weights.
pub(super) const TILE_COLS: usize = 2 * PAIRS;

/// Columns that are made tiles at a time: two panels of them are 16 KiB.
pub(super) const K_BLOCK: usize = 256;

/// Tiles of a piece of a panel.
const TILES: usize = K_BLOCK / TILE_COLS;

/// Rows of a block.
const BLOCK_ROWS: usize = 512;

/// Bytes of rows that stay in the second-level cache beside sums and weights.
const L2_ROW_BYTES: usize = 3 << 19;

/// Panels of a block: what a task should have, so that its rows are not read from afar more often than they are worth.
pub(crate) const BLOCK_PANELS: usize = 16;

/// Panels of a block of few rows.
const SMALL_M_PANELS: usize = 2;

/// A piece of a panel as tiles, one after the other.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct DecodedKBlock(pub(super) [[u8; TILE_BYTES]; TILES]);

/// Weights that can be made tiles, of bfloat16 unless they say otherwise.
pub(super) trait Weights {
    /// Makes tile number `tile` of those of `panel`, of `cols` columns, from column `from` on, a multiple of [`K_BLOCK`]; nothing where
    /// the panel has ended.
    fn decode_into<S: Simd>(
        &self,
        s: S,
        panel: &[u8],
        cols: usize,
        from: usize,
        tile: usize,
        decoded: &mut DecodedKBlock,
    );
    /// `C += A · B`
    #[inline(always)]
    fn dot<const C: usize, const A: usize, const B: usize>(&self, tiles: &Tiles) {
        tiles.dot_bf16::<C, A, B>();
    }
    /// What makes results of the sums of row `row`: a factor and then another, since both together may be no number.
    #[inline(always)]
    fn descale(&self, _row: usize) -> [f32; 2] {
        [1.0; 2]
    }
    /// Where those columns lie in a panel, if they are to be asked for while tiles multiply; nothing if [`Weights::decode_into`] asks by itself.
    fn byte_range(_lanes: usize, _cols: usize, _from: usize) -> Range<usize> {
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
    amx.lanes().call_in_unit::<H, _>(Blocked { amx, work, pairs, first, weights });
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
    static SUMS: Cell<Vec<Accumulators>> = const { Cell::new(Vec::new()) };
}

impl<W: Weights> Job for Blocked<'_, '_, W> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let tiles = Tiles::new(self.amx, ROWS, 4 * PAIRS);
        let rows = self.work.out.rows();
        // From a whole tile on: rows before the first are computed and dropped.
        for from in (self.first / ROWS * ROWS..rows).step_by(BLOCK_ROWS) {
            let end = rows.min(from + BLOCK_ROWS);
            if end - from < BLOCKED_MIN_M {
                // Few rows read the weights in the order in which they lie.
                self.loop_m(
                    s,
                    &tiles,
                    from,
                    end,
                    SMALL_M_PANELS,
                    &mut [Accumulators::ZERO; BLOCKED_MIN_M / ROWS * SMALL_M_PANELS],
                );
            } else {
                let mut sums = SUMS.take();
                sums.resize(BLOCK_ROWS / ROWS * BLOCK_PANELS, Accumulators::ZERO);
                self.loop_m(s, &tiles, from, end, BLOCK_PANELS, &mut sums);
                SUMS.set(sums);
            }
        }
    }
}

/// Rows and panels whose sums stay near: a tile of sums for each panel, `width` of them for each tile of rows.
#[derive(Clone, Copy)]
struct OutputBlock {
    from: usize,
    end: usize,
    panel: usize,
    count: usize,
    width: usize,
}

impl OutputBlock {
    /// Where the sums of a tile of rows with the panels from the area's `at`-th on begin.
    fn slot(self, row: usize, at: usize) -> usize {
        (row - self.from) / ROWS * self.width + at
    }
}

/// A piece of two panels: the first of them, and its first column.
#[derive(Clone, Copy)]
struct KBlock {
    panel: usize,
    k: usize,
}

/// The tiles of a piece of two panels, one panel after the other.
type DecodedPair = [DecodedKBlock; 2];

/// Tiles of a pair.
const PAIR_TILES: usize = 2 * TILES;

/// A tile of rows.
type Rows = [[i8; 4]; ROWS * PAIRS];

impl<W: Weights> Blocked<'_, '_, W> {
    /// The rows `from` to before `end` times all panels, `width` at a time.
    #[inline(always)]
    fn loop_m<S: Simd>(
        &mut self,
        s: S,
        tiles: &Tiles,
        from: usize,
        end: usize,
        width: usize,
        sums: &mut [Accumulators],
    ) {
        let panels = self.work.weights.count;
        // The pair that is multiplied and, of many rows, the next one, which is made meanwhile.
        let decoded = &mut [const { [DecodedKBlock([[0; TILE_BYTES]; TILES]); 2] }; 2];
        let [now, next] = decoded;
        let (mut now, mut next) = (now, next);
        let prefetch_ahead = width != SMALL_M_PANELS;
        if prefetch_ahead {
            self.decode_into(s, KBlock { panel: 0, k: 0 }, 0..PAIR_TILES, now);
        }
        for panel in (0..panels).step_by(width) {
            let output = OutputBlock { from, end, panel, count: width.min(panels - panel), width };
            let mut pending = None;
            for k in (0..self.work.cols).step_by(K_BLOCK) {
                for at in (0..output.count).step_by(2) {
                    if !prefetch_ahead {
                        self.decode_into(s, KBlock { panel: panel + at, k }, 0..PAIR_TILES, now);
                    }
                    match output.count - at {
                        1 => self.k_block::<S, 1>(s, tiles, output, at, k, now, next, sums, &mut pending),
                        _ => self.k_block::<S, 2>(s, tiles, output, at, k, now, next, sums, &mut pending),
                    }
                    std::mem::swap(&mut now, &mut next);
                }
            }
            flush(tiles, &mut pending, width, sums);
            self.put(s, sums, output);
        }
    }

    /// Makes some of the tiles of a pair.
    #[inline(always)]
    fn decode_into<S: Simd>(&self, s: S, k_block: KBlock, tiles: Range<usize>, pair: &mut DecodedPair) {
        let Work { weights, cols, .. } = *self.work;
        for tile in tiles {
            let (i, tile) = (tile / (PAIR_TILES / 2), tile % (PAIR_TILES / 2));
            if k_block.panel + i < weights.count {
                self.weights.decode_into(
                    s,
                    weights.panel(k_block.panel + i),
                    cols,
                    k_block.k,
                    tile,
                    &mut pair[i],
                );
            }
        }
    }

    /// Asks for what some tiles of the same panels are made of a piece later, or of the panels of the next area.
    #[inline(always)]
    fn prefetch_next_k_block<S: Simd>(&self, s: S, k_block: KBlock, tiles: Range<usize>) {
        let more = k_block.k + K_BLOCK < self.work.cols;
        let (k, skip) = if more { (k_block.k + K_BLOCK, 0) } else { (0, BLOCK_PANELS) };
        for tile in tiles {
            let panel = k_block.panel + skip + tile / TILES;
            s.prefetch_span_l2(self.share::<S>(KBlock { panel, k }, tile % TILES, TILES), 0);
        }
    }

    /// Part `part` of `parts` of what the first panel of `k_block` is made of; nothing where there is no such panel.
    #[inline(always)]
    fn share<S: Simd>(&self, k_block: KBlock, part: usize, parts: usize) -> &[u8] {
        let Work { weights, cols, .. } = *self.work;
        if k_block.panel >= weights.count {
            return &[];
        }
        let byte_range = W::byte_range(S::LANES, cols, k_block.k);
        let share = byte_range.len() / parts;
        &weights.panel(k_block.panel)[byte_range][part * share..][..share]
    }

    /// The piece after that of the area's panels from `at` on.
    #[inline(always)]
    fn next_k_block(&self, output: OutputBlock, at: usize, k: usize) -> Option<KBlock> {
        if at + 2 < output.count {
            Some(KBlock { panel: output.panel + at + 2, k })
        } else if k + K_BLOCK < self.work.cols {
            Some(KBlock { panel: output.panel, k: k + K_BLOCK })
        } else if output.panel + output.width < self.work.weights.count {
            Some(KBlock { panel: output.panel + output.width, k: 0 })
        } else {
            None
        }
    }

    /// Adds what the columns from `k` on give: the area's `P` panels from `at` on times all of its rows.
    #[inline(always)]
    fn k_block<S: Simd, const P: usize>(
        &mut self,
        s: S,
        tiles: &Tiles,
        output: OutputBlock,
        at: usize,
        k: usize,
        now: &DecodedPair,
        next: &mut DecodedPair,
        sums: &mut [Accumulators],
        pending: &mut Option<usize>,
    ) {
        let after = self.next_k_block(output, at, k);
        let share = PAIR_TILES.div_ceil((output.end - output.from).div_ceil(2 * ROWS));
        for (i, row) in (output.from..output.end).step_by(2 * ROWS).enumerate() {
            let work = match after {
                Some(k_block) if output.width != SMALL_M_PANELS => {
                    Overlap::Decode(k_block, i * share..(i + 1) * share, &mut *next)
                }
                Some(k_block) => Overlap::Prefetch(k_block),
                None => Overlap::Nothing,
            };
            if output.width != SMALL_M_PANELS {
                self.prefetch_rows_and_output(s, output, at, k, row);
            }
            let slot = output.slot(row, at);
            match output.end - row {
                ..=ROWS => {
                    self.block::<S, 1, P>(s, tiles, now, row, k, slot, output.width, sums, pending, work)
                }
                _ => self.block::<S, 2, P>(s, tiles, now, row, k, slot, output.width, sums, pending, work),
            }
        }
    }

    /// Asks for what two tiles of rows from `row` on are about to need: a share of where the sums with two panels will be written, and
    /// of the rows' next piece where they are too many to be in the second-level cache.
    #[inline(always)]
    fn prefetch_rows_and_output<S: Simd>(
        &mut self,
        s: S,
        output: OutputBlock,
        at: usize,
        k: usize,
        row: usize,
    ) {
        let (cols, rows) = (self.work.cols, self.work.out.rows());
        let (k_block, k_blocks) = (k / K_BLOCK, cols.div_ceil(K_BLOCK));
        let share = |k_block: usize| output.end.min(row + 2 * ROWS * k_block / k_blocks);
        for row in share(k_block)..share(k_block + 1) {
            let out = self.work.out.row(row);
            for panel in 0..2 {
                if let Some(out) = out.get((output.panel + at + panel) * S::LANES..) {
                    s.prefetch_l2(out, 0);
                }
            }
        }
        let a_row = cols.div_ceil(TILE_COLS) * PAIRS;
        if 4 * rows * a_row > L2_ROW_BYTES && row + 2 * ROWS <= output.end {
            for row in [row, row + ROWS] {
                let tile = row * a_row + ((k + K_BLOCK) / TILE_COLS + at / 2) * ROWS * PAIRS;
                if let Some(tile) = self.pairs.get(tile..tile + ROWS * PAIRS) {
                    s.prefetch_span_l2(tile, 0);
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
        decoded: &DecodedPair,
        row: usize,
        k: usize,
        slot: usize,
        width: usize,
        sums: &mut [Accumulators],
        pending: &mut Option<usize>,
        mut overlap: Overlap<'_>,
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
        let first_k_block = k == 0;
        let count = K_BLOCK.min(cols - k).div_ceil(TILE_COLS);
        if const { G == 2 && P == 2 } && steps[G - 1] == ROWS * PAIRS && count == TILES {
            let x = [x[0].as_chunks().0, x[G - 1].as_chunks().0];
            if let [Some(first), Some(second)] = x.map(|x| x.first_chunk()) {
                return self.full_block(
                    s,
                    tiles,
                    decoded,
                    [first, second],
                    first_k_block,
                    slot,
                    width,
                    sums,
                    pending,
                    overlap,
                );
            }
        }
        flush(tiles, pending, width, sums);
        load_accumulators::<0>(tiles, sums, first_k_block, slot);
        match const { (G, P) } {
            (2, 2) => {
                load_accumulators::<1>(tiles, sums, first_k_block, slot + 1);
                load_accumulators::<2>(tiles, sums, first_k_block, slot + width);
                load_accumulators::<3>(tiles, sums, first_k_block, slot + width + 1);
            }
            (2, _) => load_accumulators::<1>(tiles, sums, first_k_block, slot + width),
            (_, 2) => load_accumulators::<1>(tiles, sums, first_k_block, slot + 1),
            _ => {}
        }
        for at in 0..count {
            let (mut now, mut w): ([&[[i8; 4]]; G], [&[u8]; P]) = ([&[]; G], [&[]; P]);
            for g in 0..G {
                now[g] = &x[g][at * steps[g]..];
            }
            for p in 0..P {
                w[p] = &decoded[p].0[at];
            }
            multiply(tiles, &self.weights, now, w);
            self.advance(s, &mut overlap, at, count);
        }
        tiles.store_full_c::<0>(&mut sums[slot].0);
        match const { (G, P) } {
            (2, 2) => {
                tiles.store_full_c::<1>(&mut sums[slot + 1].0);
                tiles.store_full_c::<2>(&mut sums[slot + width].0);
                tiles.store_full_c::<3>(&mut sums[slot + width + 1].0);
            }
            (2, _) => tiles.store_full_c::<1>(&mut sums[slot + width].0),
            (_, 2) => tiles.store_full_c::<1>(&mut sums[slot + 1].0),
            _ => {}
        }
    }

    /// A whole piece of two tiles of rows times two panels. Its sums stay in the tiles, until those of the next such block come.
    #[inline(always)]
    fn full_block<S: Simd>(
        &self,
        s: S,
        tiles: &Tiles,
        decoded: &DecodedPair,
        x: [&[Rows; TILES]; 2],
        first_k_block: bool,
        slot: usize,
        width: usize,
        sums: &mut [Accumulators],
        pending: &mut Option<usize>,
        mut overlap: Overlap<'_>,
    ) {
        let was = pending.replace(slot);
        let [b0, b1] = [&decoded[0].0, &decoded[1].0];
        // Sums of the block before leave each tile just before those of this one come: the other three have work meanwhile.
        tiles.load_full_a::<0, _>(&x[0][0]);
        tiles.load_full_b::<0, _>(&b0[0]);
        exchange::<0>(tiles, sums, was, first_k_block, slot, width);
        self.weights.dot::<0, 0, 0>(tiles);
        tiles.load_full_b::<1, _>(&b1[0]);
        exchange::<1>(tiles, sums, was, first_k_block, slot, width);
        self.weights.dot::<1, 0, 1>(tiles);
        tiles.load_full_a::<1, _>(&x[1][0]);
        exchange::<2>(tiles, sums, was, first_k_block, slot, width);
        self.weights.dot::<2, 1, 0>(tiles);
        exchange::<3>(tiles, sums, was, first_k_block, slot, width);
        self.weights.dot::<3, 1, 1>(tiles);
        self.advance(s, &mut overlap, 0, TILES);
        for at in 1..TILES {
            tiles.load_full_a::<0, _>(&x[0][at]);
            tiles.load_full_b::<0, _>(&b0[at]);
            self.weights.dot::<0, 0, 0>(tiles);
            tiles.load_full_b::<1, _>(&b1[at]);
            self.weights.dot::<1, 0, 1>(tiles);
            tiles.load_full_a::<1, _>(&x[1][at]);
            self.weights.dot::<2, 1, 0>(tiles);
            self.weights.dot::<3, 1, 1>(tiles);
            self.advance(s, &mut overlap, at, TILES);
        }
    }

    /// Does its share of what else there is to do, after step `at` of `count`.
    #[inline(always)]
    fn advance<S: Simd>(&self, s: S, overlap: &mut Overlap<'_>, at: usize, count: usize) {
        match overlap {
            Overlap::Decode(k_block, tiles, pair) => {
                let from = (tiles.start + at * tiles.len() / count).min(PAIR_TILES);
                let end = (tiles.start + (at + 1) * tiles.len() / count).min(PAIR_TILES);
                self.decode_into(s, *k_block, from..end, pair);
                self.prefetch_next_k_block(s, *k_block, from..end);
            }
            Overlap::Prefetch(k_block) => {
                for panel in k_block.panel..k_block.panel + 2 {
                    for line in self.share::<S>(KBlock { panel, k: k_block.k }, at, count).chunks(64) {
                        s.prefetch(line, 0);
                    }
                }
            }
            Overlap::Nothing => {}
        }
    }

    /// Writes the sums of an area to the output.
    #[inline(always)]
    fn put<S: Simd>(&mut self, s: S, sums: &[Accumulators], output: OutputBlock) {
        for row in output.from.max(self.first)..output.end {
            let of = &sums[output.slot(row, 0)..][..output.count];
            let row_descale = self.weights.descale(row);
            for (i, sums) in of.iter().enumerate() {
                let sums = s.load(&sums.0[(row - output.from) % ROWS]);
                let sums = s.mul(s.mul(sums, s.splat(row_descale[0])), s.splat(row_descale[1]));
                self.work.store(s, row, (output.panel + i) * S::LANES, sums);
            }
        }
    }
}

/// What is done while tiles multiply.
enum Overlap<'a> {
    /// Make these tiles of the next piece.
    Decode(KBlock, Range<usize>, &'a mut DecodedPair),
    /// Ask for what the next piece is made of.
    Prefetch(KBlock),
    Nothing,
}

/// Where the sums of tile `C` lie, of a block whose first are at `slot`: two panels, then those of the next tile of rows.
#[inline(always)]
const fn of<const C: usize>(slot: usize, width: usize) -> usize {
    slot + C % 2 + C / 2 * width
}

/// Puts the sums of tile `C` of the block at `pending` where they belong, and takes those of the one at `slot`.
#[inline(always)]
fn exchange<const C: usize>(
    tiles: &Tiles,
    sums: &mut [Accumulators],
    pending: Option<usize>,
    first_k_block: bool,
    slot: usize,
    width: usize,
) {
    if let Some(pending) = pending {
        tiles.store_full_c::<C>(&mut sums[of::<C>(pending, width)].0);
    }
    load_accumulators::<C>(tiles, sums, first_k_block, of::<C>(slot, width));
}

/// Takes the sums at `slot` into tile `C`.
#[inline(always)]
fn load_accumulators<const C: usize>(tiles: &Tiles, sums: &[Accumulators], first_k_block: bool, slot: usize) {
    if first_k_block {
        tiles.zero::<C>();
    } else {
        tiles.load_full_c::<C>(&sums[slot].0);
    }
}

/// Puts what is left in the tiles where it belongs.
#[inline(always)]
fn flush(tiles: &Tiles, pending: &mut Option<usize>, width: usize, sums: &mut [Accumulators]) {
    if let Some(slot) = pending.take() {
        tiles.store_full_c::<0>(&mut sums[of::<0>(slot, width)].0);
        tiles.store_full_c::<1>(&mut sums[of::<1>(slot, width)].0);
        tiles.store_full_c::<2>(&mut sums[of::<2>(slot, width)].0);
        tiles.store_full_c::<3>(&mut sums[of::<3>(slot, width)].0);
    }
}
