//! Causal attention over blocks of keys and values, with an online softmax (Milakov and Gimelshein, 2018).
//!
//! A task takes some rows of the batch and one key-value head; the queries that share the head are computed together
//! in tiles of up to eight or sixteen, so that keys and values are read once for the tile. A query walks the blocks of its own
//! sequence in order of position, so its result depends on nothing else.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use cpu::lanes::amx::Amx;
use cpu::lanes::{Job, Products, Simd, dispatch};
use cpu::{Cut, Tile, TileOf};

use crate::Compute;
use crate::eight::Eight;
use crate::elementwise::tanh;
use crate::kv::{BLOCK_TOKENS, KvDtype, KvPool};
use crate::registers::MOST_LANES;
use crate::stored::{Floats, Half, Kept, Pair, Single};
#[cfg(target_arch = "x86_64")]
use crate::tiles;

/// The widest head that the kernels take.
pub const MAX_HEAD_DIM: usize = 512;

/// Queries computed together.
pub(crate) const TILE: usize = 8;

/// Queries of prompts computed together where registers are few: as many as leave room for two registers of keys.
const FEWER: usize = 6;

/// The most that any way of keeping keys and values computes together.
const MOST: usize = 16;

/// The rows of one sequence in a batch.
#[derive(Clone, Debug)]
pub struct SeqRows<'a> {
    /// Which rows of the batch.
    pub rows: Range<usize>,
    /// The position of the first of them; the others follow.
    pub first_position: usize,
    /// The sequence's blocks, in order of position, the rows' own included.
    pub blocks: &'a [u32],
}

/// `out = softmax(scale · q kᵀ) v`, causal, for each row over its own sequence. `q` and `out` are
/// `[rows, heads · head_dim]`, each group of `heads / kv_heads` query heads sharing a key-value head.
///
/// With `window`, a row sees the last `window` positions only, its own included. With `soft_cap`, scores pass
/// `cap · tanh(score / cap)` first. Keys and values of the rows must have been written.
///
/// # Panics
/// When shapes do not fit, or a block table is shorter than its sequence.
pub fn attention(
    c: &Compute,
    kv: &KvPool,
    layer: usize,
    q: &[f32],
    heads: usize,
    seqs: &[SeqRows<'_>],
    window: Option<usize>,
    scale: f32,
    soft_cap: Option<f32>,
    out: &mut [f32],
) {
    let shape = kv.shape();
    let group = heads / shape.kv_heads;
    assert_eq!(group * shape.kv_heads, heads, "{heads} heads over {} key-value heads", shape.kv_heads);
    let cols = heads * shape.head_dim;
    assert!(q.len() == out.len() && q.len().is_multiple_of(cols), "queries of {cols}");
    let seen = seqs.iter().all(|s| s.first_position + s.rows.len() <= s.blocks.len() * BLOCK_TOKENS);
    assert!(seen, "a block table shorter than its sequence");
    let rows_a_task = if q.len() / cols > 4 * TILE { 32 } else { (TILE / group).max(1) };
    let out = [Some(Cut { data: out, row_len: cols, tile_cols: group * shape.head_dim })];
    c.pool.tiles_mut(out, rows_a_task, &|TileOf { row, col: head, .. }, mut out| {
        let first = row * rows_a_task;
        let rows = first..first + out.rows();
        for seq in seqs.iter().filter(|s| s.rows.start < rows.end && s.rows.end > rows.start) {
            let part = seq.rows.start.max(rows.start)..seq.rows.end.min(rows.end);
            let head = Head { kv, layer, head, group, window, scale, soft_cap };
            let out = &mut out;
            // A job for each type, because one with all of them takes the compiler minutes.
            match shape.dtype {
                KvDtype::F32 => dispatch(
                    c.tier,
                    Attend::<Floats<Single>> { head, q, cols, seq, part, first, out, with: () },
                ),
                KvDtype::F16 => {
                    dispatch(
                        c.tier,
                        Attend::<Floats<Half>> { head, q, cols, seq, part, first, out, with: () },
                    );
                }
                KvDtype::Bf16 => {
                    #[cfg(target_arch = "x86_64")]
                    if let Some(with) = Amx::of(c.tier).filter(|_| tiles::fits(shape.head_dim)) {
                        // Not for every tier: only this one's registers are beside tiles.
                        let lanes = with.lanes();
                        lanes.call(Attend::<tiles::Tiled> { head, q, cols, seq, part, first, out, with });
                        continue;
                    }
                    dispatch(
                        c.tier,
                        Attend::<Floats<Pair>> { head, q, cols, seq, part, first, out, with: () },
                    );
                }
                KvDtype::Q8_0 => {
                    dispatch(c.tier, Attend::<Eight> { head, q, cols, seq, part, first, out, with: () });
                }
            }
        }
    });
}

/// One key-value head and how to attend to it.
struct Head<'a> {
    kv: &'a KvPool,
    layer: usize,
    head: usize,
    group: usize,
    window: Option<usize>,
    scale: f32,
    soft_cap: Option<f32>,
}

struct Attend<'a, 'o, K: Kept> {
    head: Head<'a>,
    q: &'a [f32],
    cols: usize,
    seq: &'a SeqRows<'a>,
    /// Rows of the batch to compute.
    part: Range<usize>,
    /// The batch row of the output tile's first row.
    first: usize,
    out: &'a mut Tile<'o, f32>,
    with: K::With,
}

/// A query: where it lies, and what it may see.
#[derive(Clone, Copy, Default)]
struct Query {
    row: usize,
    head_in_group: usize,
    position: usize,
}

impl<K: Kept> Job for Attend<'_, '_, K> {
    type Out = ();
    const PRODUCTS: Products = K::PRODUCTS;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let group = self.head.group;
        let total = self.part.len() * group;
        // Only of prompts, which multiply longer than they read: few rows should read keys and values as seldom as can be.
        let fewer = self.part.len() > TILE && const { K::EVERY_TILE && S::TILE == TILE };
        let most = if fewer { FEWER } else { K::MOST.min(S::TILE) };
        let mut at = 0;
        while at < total {
            let count = most.min(total - at);
            // Tiles of a size go together, so that room for them is cleared once.
            let tiles = at..at + if count == most { (total - at) / most * most } else { count };
            at = tiles.end;
            match count {
                1 => self.tiles::<S, 1>(s, tiles, count),
                _ if const { S::TILE < 4 } => self.tiles::<S, 2>(s, tiles, count),
                2 => self.tiles::<S, 2>(s, tiles, count),
                3 if K::EVERY_TILE => self.tiles::<S, 3>(s, tiles, count),
                3 | 4 => self.tiles::<S, 4>(s, tiles, count),
                5 if K::EVERY_TILE => self.tiles::<S, 5>(s, tiles, count),
                6 if K::EVERY_TILE => self.tiles::<S, 6>(s, tiles, count),
                7 if K::EVERY_TILE => self.tiles::<S, 7>(s, tiles, count),
                9.. if const { K::MOST == 16 } => self.tiles::<S, 16>(s, tiles, count),
                _ => self.tiles::<S, 8>(s, tiles, count),
            }
        }
    }
}

/// Begins at a cache line, so that no register of it lies in two.
#[repr(align(64))]
pub(crate) struct OnLines<T>(pub(crate) T);

/// What a tile of queries works in.
struct Room<K: Kept, const N: usize> {
    ready: K::Queries<N>,
    sums: OnLines<[[f32; MAX_HEAD_DIM]; N]>,
}

/// The queries `those` in tiles of `count`, at most `N`, which is what they are multiplied as.
struct Tiles<'j, 'a, 'o, K: Kept, const N: usize> {
    attend: &'j mut Attend<'a, 'o, K>,
    those: Range<usize>,
    count: usize,
}

impl<K: Kept, const N: usize> Job for Tiles<'_, '_, '_, K, N> {
    type Out = ();
    const PRODUCTS: Products = K::PRODUCTS;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.attend.each_tile::<S, N>(s, self.those, self.count);
    }
}

impl<K: Kept> Attend<'_, '_, K> {
    /// Runs [`Tiles`], a job of its own: all of them in one would take the compiler more than twice as long.
    #[inline(always)]
    fn tiles<S: Simd, const N: usize>(&mut self, s: S, those: Range<usize>, count: usize) {
        s.call_beside::<K, _>(Tiles::<K, N> { attend: self, those, count });
    }

    #[inline(always)]
    fn each_tile<S: Simd, const N: usize>(&mut self, s: S, those: Range<usize>, count: usize) {
        let several = those.len() > count;
        let mut room = Room { ready: K::room::<N>(), sums: OnLines([[0.0f32; MAX_HEAD_DIM]; N]) };
        for at in those.step_by(count) {
            let mut queries = [Query::default(); N];
            for (i, query) in queries.iter_mut().enumerate() {
                // One that is not there is the last again.
                let i = at + i.min(count - 1);
                let row = self.part.start + i / self.head.group;
                let position = self.seq.first_position + (row - self.seq.rows.start);
                *query = Query { row, head_in_group: i % self.head.group, position };
            }
            self.tile::<S, N>(s, &queries, several, &mut room);
        }
    }

    /// Computes a tile, one of `several` of its size.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(
        &mut self,
        s: S,
        queries: &[Query; N],
        several: bool,
        room: &mut Room<K, N>,
    ) {
        let shape = self.head.kv.shape();
        let (dim, wide) = (shape.head_dim, shape.value_dim());
        let q: [&[f32]; N] = std::array::from_fn(|i| {
            let head = self.head.head * self.head.group + queries[i].head_in_group;
            &self.q[queries[i].row * self.cols + head * dim..][..dim]
        });
        let kept = K::begin(self.with, N);
        let Room { ready, sums } = room;
        kept.queries::<S, N>(s, q, ready);
        for i in 0..N {
            sums.0[i][..wide].fill(0.0);
        }
        let mut running = Running { top: [f32::NEG_INFINITY; MOST], totals: [[0.0; MOST_LANES]; N] };
        let lowest = |p: usize| self.head.window.map_or(0, |w| (p + 1).saturating_sub(w));
        let start = lowest(queries[0].position) / BLOCK_TOKENS;
        let last = queries[N - 1].position;
        let (kv, head) = (self.head.kv, self.head.layer * shape.kv_heads + self.head.head);
        let blocks = &self.seq.blocks[..=last / BLOCK_TOKENS];
        let mut cell = kv.start(head, blocks[start]);
        // Behind its last block a thread mostly goes on with the next head.
        let beyond = match self.head.head + 1 < shape.kv_heads {
            true => kv.start(head + 1, blocks[start]),
            false => cell,
        };
        // The next tile's queries and room for this one's results are asked for meanwhile, some with each block. A tile alone, or a small
        // one of an answer, is of rows that were just written.
        let per_block = match several && const { N > TILE / 2 } {
            true => N.div_ceil(blocks.len() - start),
            false => 0,
        };
        let further = match N.is_multiple_of(self.head.group) {
            true => N / self.head.group * self.cols,
            false => N * dim,
        } * size_of::<f32>();
        for b in start..blocks.len() {
            let (keys, values) = kv.cell(cell);
            for i in (b - start) * per_block..N.min((b + 1 - start) * per_block) {
                let at = queries[i].head_in_group * dim;
                let out = &self.out.row(queries[i].row - self.first)[at..at + dim];
                s.prefetch_all_far(q[i], further);
                s.prefetch_all_far(out, 0);
            }
            let base = b * BLOCK_TOKENS;
            // How much further the next block lies, wrapping round.
            let next = blocks.get(b + 1).map_or(beyond, |&next| kv.start(head, next));
            let ahead = next.wrapping_sub(cell);
            cell = next;
            let mut scores = OnLines([[0.0; BLOCK_TOKENS]; N]);
            kept.add_scores::<S, N>(s, ready, keys, dim, ahead, &mut scores.0);
            // A query that sees nothing of this block keeps its state bit for bit.
            let sees: [Range<usize>; N] = std::array::from_fn(|i| {
                let p = queries[i].position;
                let end = (p + 1).clamp(base, base + BLOCK_TOKENS) - base;
                lowest(p).clamp(base, base + end) - base..end
            });
            let shrink = running.weigh(s, &mut scores.0, &sees, &self.head);
            for i in 0..N {
                if shrink[i] != 1.0 {
                    sums.0[i][..wide].iter_mut().for_each(|v| *v *= shrink[i]);
                }
            }
            // Positions past the tile's last were never written by this sequence: their values are not read.
            let written = (last + 1 - base).min(BLOCK_TOKENS);
            kept.add_values::<S, N>(s, &scores.0, values, wide, written, ahead, &mut sums.0);
        }
        for i in 0..N {
            let at = queries[i].head_in_group * dim;
            let out = &mut self.out.row(queries[i].row - self.first)[at..at + dim];
            let inverse = 1.0 / s.sum(s.load(&running.totals[i]));
            out.iter_mut().zip(&sums.0[i]).for_each(|(o, v)| *o = v * inverse);
        }
    }
}

/// The softmax of a tile's queries so far.
#[repr(align(64))]
struct Running<const N: usize> {
    /// The weights relative to the largest score, summed in lanes.
    totals: [[f32; MOST_LANES]; N],
    /// The largest score of each.
    top: [f32; MOST],
}

impl<const N: usize> Running<N> {
    /// Turns the scores of each query into weights relative to its largest so far, zero outside what it `sees`; returns the factors by
    /// which earlier sums shrink.
    #[inline(always)]
    fn weigh<S: Simd>(
        &mut self,
        s: S,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
        sees: &[Range<usize>; N],
        head: &Head<'_>,
    ) -> [f32; MOST] {
        const { assert!(N <= MOST && MOST.is_multiple_of(S::LANES)) };
        let before = self.top;
        let scale = s.splat(head.scale);
        for i in 0..N {
            for part in scores[i].chunks_exact_mut(S::LANES) {
                let mut v = s.mul(s.load(part), scale);
                if let Some(cap) = head.soft_cap {
                    v = s.mul(s.splat(cap), tanh(s, s.mul(v, s.splat(1.0 / cap))));
                }
                s.store(v, part);
            }
            // Nearly every block is seen whole.
            if sees[i].len() < BLOCK_TOKENS {
                hide(&mut scores[i], &sees[i], f32::NEG_INFINITY);
            }
            let mut most = s.load(&scores[i]);
            for part in scores[i].chunks_exact(S::LANES) {
                most = s.max(most, s.load(part));
            }
            self.top[i] = self.top[i].max(s.max_lane(most));
        }
        // Of all queries at a time. Mostly of none, but to foresee which costs more than to work it out for many.
        let mut shrink = [1.0; MOST];
        if N > TILE / 2 || before[..N] != self.top[..N] {
            for at in (0..N).step_by(S::LANES) {
                let less = s.sub(s.load(&before[at..]), s.load(&self.top[at..]));
                s.store(s.exp(less), &mut shrink[at..]);
            }
            for i in 0..N {
                if before[i] == self.top[i] {
                    shrink[i] = 1.0;
                }
            }
        }
        for i in 0..N {
            if sees[i].is_empty() {
                scores[i] = [0.0; BLOCK_TOKENS];
                continue;
            }
            let top = s.splat(self.top[i]);
            for part in scores[i].chunks_exact_mut(S::LANES) {
                let v = s.exp(s.sub(s.load(part), top));
                s.store(v, part);
            }
            if sees[i].len() < BLOCK_TOKENS {
                hide(&mut scores[i], &sees[i], 0.0);
            }
            let mut total = s.mul(s.load(&self.totals[i]), s.splat(shrink[i]));
            for part in scores[i].chunks_exact(S::LANES) {
                total = s.add(total, s.load(part));
            }
            s.store(total, &mut self.totals[i]);
        }
        shrink
    }
}

/// Sets all scores to `with` but those that are seen.
#[inline(always)]
fn hide(scores: &mut [f32; BLOCK_TOKENS], sees: &Range<usize>, with: f32) {
    // Written so that the compiler takes a register of them at a time.
    for (at, score) in scores.iter_mut().enumerate() {
        let seen = (at >= sees.start) & (at < sees.end);
        *score = if seen { *score } else { with };
    }
}
