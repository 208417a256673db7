//! Blocked AMX GEMM for many rows: cache blocking over M, N and K.
//!
//! An output block of [`BLOCK_PANELS`] panels × up to [`MC`] rows keeps its accumulators in the L2 cache while K advances by
//! K-blocks of [`K_BLOCK`] columns. For each K-block, a pair of panels is decoded into AMX tiles in the L1 cache, and all rows pass
//! over them, 32 at a time (2 × 2 tiles are the register tile). While the micro-kernel consumes a pair, the next one is decoded into
//! the other L1 buffer. Accumulators leave the tile registers between K-blocks and return bit for bit, so a row's result is the same
//! as in any other order that takes K tile by tile: for a single row, too.

use std::cell::Cell;
use std::ops::Range;

use cpu::simd::amx::{Amx, ROWS, Tiles};
use cpu::simd::{Job, Simd};

use super::tile::{
    Accumulators, BLOCKED_MIN_M, DecodedKBlock, K_BLOCK, TILE_BYTES, TILE_COLS, TILES, Weights, multiply,
};
use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::gemm::work::Work;
use crate::tune;
use crate::tune::amx::{L2_ACTIVATION_BYTES, MC, NC_PANELS as BLOCK_PANELS, NC_PANELS_SMALL_M};

/// Computes the rows of `work` from `first` on. `pairs` holds all rows in AMX tile order, followed by one tile of any values.
/// Compiled in the codegen unit of `U`.
pub(super) fn blocked<U, W: Weights>(
    amx: Amx,
    weights: W,
    work: &mut Work<'_>,
    pairs: &[[i8; 4]],
    first: usize,
) {
    amx.avx512().call_in_unit::<U, _>(BlockedGemm { amx, work, pairs, first, weights });
}

/// The job of [`blocked`], run with the token that the weights choose.
pub(super) struct BlockedGemm<'w, 'a, W> {
    pub(super) amx: Amx,
    pub(super) work: &'w mut Work<'a>,
    pub(super) pairs: &'w [[i8; 4]],
    pub(super) first: usize,
    pub(super) weights: W,
}

thread_local! {
    /// The accumulators of an output block, reused by the thread's next one.
    static ACCUMULATORS: Cell<Vec<Accumulators>> = const { Cell::new(Vec::new()) };
}

impl<W: Weights> Job for BlockedGemm<'_, '_, W> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let tiles = Tiles::new(self.amx, ROWS, 4 * PAIRS);
        let rows = self.work.out.rows();
        // From the start of a tile on: rows before `first` are computed and dropped.
        for from in (self.first / ROWS * ROWS..rows).step_by(MC) {
            let end = rows.min(from + MC);
            if end - from < BLOCKED_MIN_M {
                let saved = &mut [Accumulators::ZERO; BLOCKED_MIN_M / ROWS * NC_PANELS_SMALL_M];
                self.loop_n(s, &tiles, from, end, AccumulatorBuffer::new(saved, NC_PANELS_SMALL_M));
            } else {
                let mut saved = ACCUMULATORS.take();
                saved.resize(MC / ROWS * BLOCK_PANELS, Accumulators::ZERO);
                self.loop_n(s, &tiles, from, end, AccumulatorBuffer::new(&mut saved, BLOCK_PANELS));
                ACCUMULATORS.set(saved);
            }
        }
    }
}

/// Rows `from..end` × `count` panels from `panel` on. `width` is the number of panels of a full block.
#[derive(Clone, Copy)]
struct OutputBlock {
    from: usize,
    end: usize,
    panel: usize,
    count: usize,
    width: usize,
}

impl OutputBlock {
    /// The index in the accumulator buffer of the tile of `row` and the block's panel `at`.
    fn slot(self, row: usize, at: usize) -> usize {
        (row - self.from) / ROWS * self.width + at
    }
}

/// A K-block of two panels: the first panel, and the first column.
#[derive(Clone, Copy)]
struct KBlock {
    panel: usize,
    k: usize,
}

/// The decoded tiles of a K-block of two panels, one panel after the other.
type DecodedPair = [DecodedKBlock; 2];

/// Tiles of a pair.
const PAIR_TILES: usize = 2 * TILES;

/// A tile of rows.
type Rows = [[i8; 4]; ROWS * PAIRS];

impl<W: Weights> BlockedGemm<'_, '_, W> {
    /// Rows `from..end` × all panels, an output block at a time, and within it the K-blocks.
    #[inline(always)]
    fn loop_n<S: Simd>(
        &mut self,
        s: S,
        tiles: &Tiles,
        from: usize,
        end: usize,
        mut buffer: AccumulatorBuffer<'_>,
    ) {
        let (panels, width) = (self.work.weights.count, buffer.width);
        // Double buffer: the pair that is multiplied and, when M is large, the next one, which is decoded meanwhile.
        let decoded = &mut [const { [DecodedKBlock([[0; TILE_BYTES]; TILES]); 2] }; 2];
        let [now, next] = decoded;
        let (mut now, mut next) = (now, next);
        let double_buffered = width != NC_PANELS_SMALL_M;
        if double_buffered {
            self.decode_into(s, KBlock { panel: 0, k: 0 }, 0..PAIR_TILES, now);
        }
        for panel in (0..panels).step_by(width) {
            let output = OutputBlock { from, end, panel, count: width.min(panels - panel), width };
            for k in (0..self.work.cols).step_by(K_BLOCK) {
                for at in (0..output.count).step_by(2) {
                    if !double_buffered {
                        self.decode_into(s, KBlock { panel: panel + at, k }, 0..PAIR_TILES, now);
                    }
                    match output.count - at {
                        1 => self.loop_m::<S, 1>(s, tiles, output, at, k, now, next, &mut buffer),
                        _ => self.loop_m::<S, 2>(s, tiles, output, at, k, now, next, &mut buffer),
                    }
                    std::mem::swap(&mut now, &mut next);
                }
            }
            buffer.flush(tiles);
            self.store(s, buffer.saved, output);
        }
    }

    /// Decodes the tiles `tiles` of a pair of panels.
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

    /// Prefetches into L2 what `tiles` of the same panels are decoded from in the next K-block, or in the next output block.
    #[inline(always)]
    fn prefetch_next_k_block<S: Simd>(&self, s: S, k_block: KBlock, tiles: Range<usize>) {
        let more = k_block.k + K_BLOCK < self.work.cols;
        let (k, skip) = if more { (k_block.k + K_BLOCK, 0) } else { (0, BLOCK_PANELS) };
        for tile in tiles {
            let panel = k_block.panel + skip + tile / TILES;
            s.prefetch_span_l2(self.packed_part::<S>(KBlock { panel, k }, tile % TILES, TILES), 0);
        }
    }

    /// Part `part` of `parts` of the packed bytes of the first panel of `k_block`; empty past the last panel.
    #[inline(always)]
    fn packed_part<S: Simd>(&self, k_block: KBlock, part: usize, parts: usize) -> &[u8] {
        let Work { weights, cols, .. } = *self.work;
        if k_block.panel >= weights.count {
            return &[];
        }
        let byte_range = W::byte_range(S::LANES, cols, k_block.k);
        let share = byte_range.len() / parts;
        &weights.panel(k_block.panel)[byte_range][part * share..][..share]
    }

    /// The K-block that follows column `k` of the output block's panels from `at` on.
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

    /// One K-block, from column `k` on: all rows of the output block × its `P` panels from `at` on.
    #[inline(always)]
    fn loop_m<S: Simd, const P: usize>(
        &mut self,
        s: S,
        tiles: &Tiles,
        output: OutputBlock,
        at: usize,
        k: usize,
        now: &DecodedPair,
        next: &mut DecodedPair,
        buffer: &mut AccumulatorBuffer<'_>,
    ) {
        let after = self.next_k_block(output, at, k);
        let share = PAIR_TILES.div_ceil((output.end - output.from).div_ceil(2 * ROWS));
        for (i, row) in (output.from..output.end).step_by(2 * ROWS).enumerate() {
            let overlap = match after {
                Some(k_block) if output.width != NC_PANELS_SMALL_M => {
                    Overlap::Decode(k_block, i * share..(i + 1) * share, &mut *next)
                }
                Some(k_block) => Overlap::Prefetch(k_block),
                None => Overlap::Nothing,
            };
            if output.width != NC_PANELS_SMALL_M {
                self.prefetch_rows_and_output(s, output, at, k, row);
            }
            let slot = output.slot(row, at);
            match output.end - row {
                ..=ROWS => self.block::<S, 1, P>(s, tiles, now, row, k, slot, buffer, overlap),
                _ => self.block::<S, 2, P>(s, tiles, now, row, k, slot, buffer, overlap),
            }
        }
    }

    /// Prefetches into L2, for two tiles of rows from `row` on: a share of the output that two panels will write, and the rows' next
    /// K-block where the activations exceed [`L2_ACTIVATION_BYTES`].
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
        if 4 * rows * a_row > L2_ACTIVATION_BYTES && row + 2 * ROWS <= output.end {
            for row in [row, row + ROWS] {
                let tile = row * a_row + ((k + K_BLOCK) / TILE_COLS + at / 2) * ROWS * PAIRS;
                if let Some(tile) = self.pairs.get(tile..tile + ROWS * PAIRS) {
                    s.prefetch_span_l2(tile, 0);
                }
            }
        }
    }

    /// `G` tiles of rows × `P` panels over one K-block; a full 2 × 2 block goes to [`BlockedGemm::full_block`].
    #[inline(always)]
    fn block<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        tiles: &Tiles,
        decoded: &DecodedPair,
        row: usize,
        k: usize,
        slot: usize,
        buffer: &mut AccumulatorBuffer<'_>,
        mut overlap: Overlap<'_>,
    ) {
        let (cols, rows) = (self.work.cols, self.work.out.rows());
        let a_row = cols.div_ceil(TILE_COLS) * PAIRS;
        let mut x: [&[[i8; 4]]; G] = [&[]; G];
        let mut steps = [0; G];
        for g in 0..G {
            let row = row + g * ROWS;
            // A last tile of fewer rows is filled up by what follows them in memory; those accumulators are dropped.
            steps[g] = ROWS.min(rows - row) * PAIRS;
            x[g] = &self.pairs[row * a_row + k / TILE_COLS * steps[g]..];
        }
        let first_k_block = k == 0;
        let count = K_BLOCK.min(cols - k).div_ceil(TILE_COLS);
        if const { G == 2 && P == 2 } && steps[G - 1] == ROWS * PAIRS && count == TILES {
            let x = [x[0].as_chunks().0, x[G - 1].as_chunks().0];
            if let [Some(first), Some(second)] = x.map(|x| x.first_chunk()) {
                let x = [first, second];
                return self.full_block(s, tiles, decoded, x, first_k_block, slot, buffer, overlap);
            }
        }
        buffer.flush(tiles);
        let width = buffer.width;
        buffer.load::<0>(tiles, first_k_block, slot);
        match const { (G, P) } {
            (2, 2) => {
                buffer.load::<1>(tiles, first_k_block, slot + 1);
                buffer.load::<2>(tiles, first_k_block, slot + width);
                buffer.load::<3>(tiles, first_k_block, slot + width + 1);
            }
            (2, _) => buffer.load::<1>(tiles, first_k_block, slot + width),
            (_, 2) => buffer.load::<1>(tiles, first_k_block, slot + 1),
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
        let sums = &mut *buffer.saved;
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

    /// The micro-kernel for large M: two full tiles of rows × two panels over one K-block. Its accumulators stay in the
    /// tile registers until those of the next such block are loaded.
    #[inline(always)]
    fn full_block<S: Simd>(
        &self,
        s: S,
        tiles: &Tiles,
        decoded: &DecodedPair,
        x: [&[Rows; TILES]; 2],
        first_k_block: bool,
        slot: usize,
        buffer: &mut AccumulatorBuffer<'_>,
        mut overlap: Overlap<'_>,
    ) {
        let before = buffer.pending.replace(slot);
        let [b0, b1] = [&decoded[0].0, &decoded[1].0];
        // Each accumulator tile is stored just before its next contents are loaded, while the other three multiply.
        tiles.load_full_a::<0, _>(&x[0][0]);
        tiles.load_full_b::<0, _>(&b0[0]);
        buffer.exchange::<0>(tiles, before, first_k_block, slot);
        self.weights.dot::<0, 0, 0>(tiles);
        tiles.load_full_b::<1, _>(&b1[0]);
        buffer.exchange::<1>(tiles, before, first_k_block, slot);
        self.weights.dot::<1, 0, 1>(tiles);
        tiles.load_full_a::<1, _>(&x[1][0]);
        buffer.exchange::<2>(tiles, before, first_k_block, slot);
        self.weights.dot::<2, 1, 0>(tiles);
        buffer.exchange::<3>(tiles, before, first_k_block, slot);
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

    /// Does the share of the overlapped work that belongs after tile `at` of `count`.
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
                    for line in self.packed_part::<S>(KBlock { panel, k: k_block.k }, at, count).chunks(64) {
                        tune::prefetch(s, line, 0);
                    }
                }
            }
            Overlap::Nothing => {}
        }
    }

    /// Writes the accumulators of an output block to the output.
    #[inline(always)]
    fn store<S: Simd>(&mut self, s: S, saved: &[Accumulators], output: OutputBlock) {
        for row in output.from.max(self.first)..output.end {
            let row_tiles = &saved[output.slot(row, 0)..][..output.count];
            let row_descale = self.weights.descale(row);
            for (i, sums) in row_tiles.iter().enumerate() {
                let sums = s.load(&sums.0[(row - output.from) % ROWS]);
                let sums = s.mul(s.mul(sums, s.splat(row_descale[0])), s.splat(row_descale[1]));
                self.work.store(s, row, (output.panel + i) * S::LANES, sums);
            }
        }
    }
}

/// What is done between the multiplications of a block.
enum Overlap<'a> {
    /// Decode these tiles of the next K-block.
    Decode(KBlock, Range<usize>, &'a mut DecodedPair),
    /// Prefetch the packed bytes of the next K-block.
    Prefetch(KBlock),
    /// Nothing: this is the last K-block.
    Nothing,
}

/// The accumulators of an output block in memory, a tile for each 16 rows and panel, and which of them are still in tile registers.
struct AccumulatorBuffer<'a> {
    saved: &'a mut [Accumulators],
    /// The slot of the first of four accumulators that are in registers only.
    pending: Option<usize>,
    /// Panels of an output block: tiles of rows are so many slots apart.
    width: usize,
}

impl<'a> AccumulatorBuffer<'a> {
    fn new(saved: &'a mut [Accumulators], width: usize) -> AccumulatorBuffer<'a> {
        AccumulatorBuffer { saved, pending: None, width }
    }

    /// The slot of accumulator tile `C` of the block at `slot`: two panels of one tile of rows, then those of the next.
    #[inline(always)]
    const fn slot_of<const C: usize>(&self, slot: usize) -> usize {
        slot + C % 2 + C / 2 * self.width
    }

    /// Stores accumulator tile `C` of the block at `before`, and loads that of the block at `slot`.
    #[inline(always)]
    fn exchange<const C: usize>(
        &mut self,
        tiles: &Tiles,
        before: Option<usize>,
        first_k_block: bool,
        slot: usize,
    ) {
        if let Some(before) = before {
            let at = self.slot_of::<C>(before);
            tiles.store_full_c::<C>(&mut self.saved[at].0);
        }
        self.load::<C>(tiles, first_k_block, self.slot_of::<C>(slot));
    }

    /// Loads accumulator tile `C` from `slot`; zeros in the first K-block.
    #[inline(always)]
    fn load<const C: usize>(&self, tiles: &Tiles, first_k_block: bool, slot: usize) {
        if first_k_block {
            tiles.zero::<C>();
        } else {
            tiles.load_full_c::<C>(&self.saved[slot].0);
        }
    }

    /// Stores the accumulators that are still in registers.
    #[inline(always)]
    fn flush(&mut self, tiles: &Tiles) {
        if let Some(slot) = self.pending.take() {
            let at = [slot, slot + 1, slot + self.width, slot + self.width + 1];
            tiles.store_full_c::<0>(&mut self.saved[at[0]].0);
            tiles.store_full_c::<1>(&mut self.saved[at[1]].0);
            tiles.store_full_c::<2>(&mut self.saved[at[2]].0);
            tiles.store_full_c::<3>(&mut self.saved[at[3]].0);
        }
    }
}
