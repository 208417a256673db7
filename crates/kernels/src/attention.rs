//! Causal attention over blocks of keys and values, with an online softmax (Milakov and Gimelshein, 2018).
//!
//! A task takes some rows of the batch and one key-value head; the queries that share the head are computed together
//! in tiles of up to eight, so that keys and values are read once for the tile. A query walks the blocks of its own
//! sequence in order of position, so its result depends on nothing else.

use std::ops::Range;

use cpu::Tile;
use cpu::lanes::{Job, Simd, dispatch};

use crate::Compute;
use crate::elementwise::tanh;
use crate::kv::{BLOCK_TOKENS, KvDtype, KvPool, pair};
use crate::stored::{Half, Single, Stored};

/// The widest head that the kernels take.
pub const MAX_HEAD_DIM: usize = 512;

/// Queries computed together.
const TILE: usize = 8;

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
    c.pool.tiles_mut(out, cols, rows_a_task, group * shape.head_dim, &|tile_row, head, mut out| {
        let first = tile_row * rows_a_task;
        let rows = first..first + out.rows();
        for seq in seqs.iter().filter(|s| s.rows.start < rows.end && s.rows.end > rows.start) {
            let part = seq.rows.start.max(rows.start)..seq.rows.end.min(rows.end);
            let head = Head { kv, cells: kv.head(layer, head), head, group, window, scale, soft_cap };
            dispatch(c.tier, Attend { head, q, cols, seq, part, first, out: &mut out });
        }
    });
}

/// One key-value head and how to attend to it.
struct Head<'a> {
    kv: &'a KvPool,
    cells: &'a [u8],
    head: usize,
    group: usize,
    window: Option<usize>,
    scale: f32,
    soft_cap: Option<f32>,
}

struct Attend<'a, 'o> {
    head: Head<'a>,
    q: &'a [f32],
    cols: usize,
    seq: &'a SeqRows<'a>,
    /// Rows of the batch to compute.
    part: Range<usize>,
    /// The batch row of the output tile's first row.
    first: usize,
    out: &'a mut Tile<'o, f32>,
}

/// A query: where it lies, and what it may see.
#[derive(Clone, Copy, Default)]
struct Query {
    row: usize,
    head_in_group: usize,
    position: usize,
}

impl Job for Attend<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let group = self.head.group;
        let total = self.part.len() * group;
        let mut at = 0;
        while at < total {
            let count = TILE.min(total - at);
            let mut queries = [Query::default(); TILE];
            for (i, query) in queries[..count].iter_mut().enumerate() {
                let row = self.part.start + (at + i) / group;
                let position = self.seq.first_position + (row - self.seq.rows.start);
                *query = Query { row, head_in_group: (at + i) % group, position };
            }
            match count {
                1 => self.tile::<S, 1>(s, &queries),
                2 => self.tile::<S, 2>(s, &queries),
                3 => self.tile::<S, 3>(s, &queries),
                4 => self.tile::<S, 4>(s, &queries),
                5 => self.tile::<S, 5>(s, &queries),
                6 => self.tile::<S, 6>(s, &queries),
                7 => self.tile::<S, 7>(s, &queries),
                _ => self.tile::<S, 8>(s, &queries),
            }
            at += count;
        }
    }
}

impl Attend<'_, '_> {
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(&mut self, s: S, queries: &[Query; TILE]) {
        let shape = self.head.kv.shape();
        let (dim, wide) = (shape.head_dim, shape.value_dim());
        let q: [&[f32]; N] = std::array::from_fn(|i| {
            let head = self.head.head * self.head.group + queries[i].head_in_group;
            &self.q[queries[i].row * self.cols + head * dim..][..dim]
        });
        let half = dim.div_ceil(2);
        let mut pairs = [[0u32; MAX_HEAD_DIM / 2]; N];
        if shape.dtype == KvDtype::Bf16 {
            for i in 0..N {
                for (d, out) in pairs[i][..half].iter_mut().enumerate() {
                    *out = pair(q[i][d], if half + d < dim { q[i][half + d] } else { 0.0 });
                }
            }
        }
        let mut sums = [[0.0f32; MAX_HEAD_DIM]; N];
        let (mut top, mut total) = ([f32::NEG_INFINITY; N], [0.0f32; N]);
        let lowest = |p: usize| self.head.window.map_or(0, |w| (p + 1).saturating_sub(w));
        let start = lowest(queries[0].position) / BLOCK_TOKENS;
        let last = queries[N - 1].position;
        for b in start..=last / BLOCK_TOKENS {
            let (keys, values) = self.head.kv.block(self.head.cells, self.seq.blocks[b]);
            let base = b * BLOCK_TOKENS;
            let mut scores = match shape.dtype {
                KvDtype::F16 => scores::<S, Half, N>(s, &q, keys),
                KvDtype::F32 => scores::<S, Single, N>(s, &q, keys),
                KvDtype::Bf16 => scores_bf16::<S, N>(s, &pairs, half, keys),
            };
            for i in 0..N {
                let p = queries[i].position;
                // A query that sees nothing of this block keeps its state bit for bit.
                let sees = lowest(p).max(base)..(p + 1).min(base + BLOCK_TOKENS);
                if sees.is_empty() {
                    scores[i] = [0.0; BLOCK_TOKENS];
                    continue;
                }
                let sees = sees.start - base..sees.end - base;
                let shrink = soften(s, &mut scores[i], sees, &self.head, &mut top[i], &mut total[i]);
                if shrink != 1.0 {
                    sums[i][..wide].iter_mut().for_each(|v| *v *= shrink);
                }
            }
            // Positions past the tile's last were never written by this sequence: their values are not read.
            let count = (last + 1 - base).min(BLOCK_TOKENS);
            match shape.dtype {
                KvDtype::F16 => weigh::<S, Half, N>(s, &scores, values, wide, count, &mut sums),
                KvDtype::F32 => weigh::<S, Single, N>(s, &scores, values, wide, count, &mut sums),
                KvDtype::Bf16 => weigh_bf16::<S, N>(s, &scores, values, wide, count, &mut sums),
            }
        }
        for i in 0..N {
            let at = queries[i].head_in_group * dim;
            let out = &mut self.out.row(queries[i].row - self.first)[at..at + dim];
            let inverse = 1.0 / total[i];
            out.iter_mut().zip(&sums[i]).for_each(|(o, v)| *o = v * inverse);
        }
    }
}

/// Whether two registers of keys or values are walked together: their sums do not wait for each other, which few queries
/// need, and many have room for where registers are many.
const fn two<S: Simd, const N: usize>() -> bool {
    N <= 4 || S::TILE > TILE
}

/// The products of each query with the 32 keys of a block.
#[inline(always)]
fn scores<S: Simd, K: Stored, const N: usize>(
    s: S,
    q: &[&[f32]; N],
    keys: &[u8],
) -> [[f32; BLOCK_TOKENS]; N] {
    let mut out = [[0.0; BLOCK_TOKENS]; N];
    let mut at = 0;
    while at < BLOCK_TOKENS {
        if two::<S, N>() && at + 2 * S::LANES <= BLOCK_TOKENS {
            score_strip::<S, K, N, 2>(s, q, keys, at, &mut out);
            at += 2 * S::LANES;
        } else {
            score_strip::<S, K, N, 1>(s, q, keys, at, &mut out);
            at += S::LANES;
        }
    }
    out
}

/// The products with the keys of `U` registers, from key `at` on.
#[inline(always)]
fn score_strip<S: Simd, K: Stored, const N: usize, const U: usize>(
    s: S,
    q: &[&[f32]; N],
    keys: &[u8],
    at: usize,
    out: &mut [[f32; BLOCK_TOKENS]; N],
) {
    let dim = q[0].len();
    let mut sums = [[s.splat(0.0); U]; N];
    for (d, row) in keys.chunks_exact(BLOCK_TOKENS * K::BYTES).enumerate().take(dim) {
        let mut key = [s.splat(0.0); U];
        for u in 0..U {
            key[u] = K::load(s, &row[(at + u * S::LANES) * K::BYTES..]);
        }
        for i in 0..N {
            let q = s.splat(q[i][d]);
            for u in 0..U {
                sums[i][u] = s.fma(key[u], q, sums[i][u]);
            }
        }
    }
    for i in 0..N {
        for u in 0..U {
            s.store(sums[i][u], &mut out[i][at + u * S::LANES..]);
        }
    }
}

/// [`scores`] with keys and queries as pairs of bfloat16, `half` of them.
#[inline(always)]
fn scores_bf16<S: Simd, const N: usize>(
    s: S,
    q: &[[u32; MAX_HEAD_DIM / 2]; N],
    half: usize,
    keys: &[u8],
) -> [[f32; BLOCK_TOKENS]; N] {
    let mut out = [[0.0; BLOCK_TOKENS]; N];
    for at in (0..BLOCK_TOKENS).step_by(2 * S::LANES) {
        let mut sums = [[s.splat(0.0); 2]; N];
        for (d, row) in keys.chunks_exact(4 * BLOCK_TOKENS).enumerate().take(half) {
            let key = [s.load_bytes(&row[4 * at..]), s.load_bytes(&row[4 * (at + S::LANES)..])];
            for i in 0..N {
                let q = s.splat_i(q[i][d].cast_signed());
                sums[i] = [s.bf16_dot(sums[i][0], key[0], q), s.bf16_dot(sums[i][1], key[1], q)];
            }
        }
        for i in 0..N {
            s.store(sums[i][0], &mut out[i][at..]);
            s.store(sums[i][1], &mut out[i][at + S::LANES..]);
        }
    }
    out
}

/// Turns the scores of one query into weights relative to the largest so far, zero outside `sees`; returns the
/// factor by which earlier sums shrink.
#[inline(always)]
fn soften<S: Simd>(
    s: S,
    scores: &mut [f32; BLOCK_TOKENS],
    sees: Range<usize>,
    head: &Head<'_>,
    top: &mut f32,
    total: &mut f32,
) -> f32 {
    let scale = s.splat(head.scale);
    for part in scores.chunks_exact_mut(S::LANES) {
        let mut v = s.mul(s.load(part), scale);
        if let Some(cap) = head.soft_cap {
            v = s.mul(s.splat(cap), tanh(s, s.mul(v, s.splat(1.0 / cap))));
        }
        s.store(v, part);
    }
    // Nearly every block is seen whole.
    let whole = sees.len() == BLOCK_TOKENS;
    if !whole {
        hide(scores, &sees, f32::NEG_INFINITY);
    }
    let mut most = s.load(scores);
    for part in scores.chunks_exact(S::LANES) {
        most = s.max(most, s.load(part));
    }
    let new_top = top.max(s.max_lane(most));
    let mut sum = s.splat(0.0);
    for part in scores.chunks_exact_mut(S::LANES) {
        let v = s.exp(s.sub(s.load(part), s.splat(new_top)));
        s.store(v, part);
    }
    if !whole {
        hide(scores, &sees, 0.0);
    }
    for part in scores.chunks_exact(S::LANES) {
        sum = s.add(sum, s.load(part));
    }
    let shrink = if *top == new_top { 1.0 } else { (*top - new_top).exp() };
    *total = *total * shrink + s.sum(sum);
    *top = new_top;
    shrink
}

fn hide(scores: &mut [f32; BLOCK_TOKENS], sees: &Range<usize>, with: f32) {
    scores[..sees.start].fill(with);
    scores[sees.end..].fill(with);
}

/// Adds the first `count` values of a block, weighted, to the sums of each query.
#[inline(always)]
fn weigh<S: Simd, V: Stored, const N: usize>(
    s: S,
    weights: &[[f32; BLOCK_TOKENS]; N],
    values: &[u8],
    wide: usize,
    count: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    let mut at = 0;
    while at < wide {
        if two::<S, N>() && at + 2 * S::LANES <= wide {
            weigh_strip::<S, V, N, 2>(s, weights, values, wide, count, at, sums);
            at += 2 * S::LANES;
        } else {
            weigh_strip::<S, V, N, 1>(s, weights, values, wide, count, at, sums);
            at += S::LANES;
        }
    }
}

/// The same for `U` registers of a value, from dimension `at` on.
#[inline(always)]
fn weigh_strip<S: Simd, V: Stored, const N: usize, const U: usize>(
    s: S,
    weights: &[[f32; BLOCK_TOKENS]; N],
    values: &[u8],
    wide: usize,
    count: usize,
    at: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    let mut all = [[s.splat(0.0); U]; N];
    for i in 0..N {
        for u in 0..U {
            all[i][u] = s.load(&sums[i][at + u * S::LANES..]);
        }
    }
    for (p, row) in values.chunks_exact(wide * V::BYTES).take(count).enumerate() {
        let mut value = [s.splat(0.0); U];
        for u in 0..U {
            value[u] = V::load(s, &row[(at + u * S::LANES) * V::BYTES..]);
        }
        for i in 0..N {
            let weight = s.splat(weights[i][p]);
            for u in 0..U {
                all[i][u] = s.fma(value[u], weight, all[i][u]);
            }
        }
    }
    for i in 0..N {
        for u in 0..U {
            s.store(all[i][u], &mut sums[i][at + u * S::LANES..]);
        }
    }
}

/// [`weigh`] with values and weights as pairs of bfloat16: position `p` with `p + 16`.
#[inline(always)]
fn weigh_bf16<S: Simd, const N: usize>(
    s: S,
    weights: &[[f32; BLOCK_TOKENS]; N],
    values: &[u8],
    wide: usize,
    count: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    const HALF: usize = BLOCK_TOKENS / 2;
    let mut pairs = [[0u32; HALF]; N];
    for i in 0..N {
        for (p, out) in pairs[i].iter_mut().enumerate() {
            *out = pair(weights[i][p], weights[i][p + HALF]);
        }
    }
    let mut at = 0;
    while at < wide {
        if at + 2 * S::LANES <= wide {
            weigh_bf16_strip::<S, N, 2>(s, &pairs, values, wide, count.min(HALF), at, sums);
            at += 2 * S::LANES;
        } else {
            weigh_bf16_strip::<S, N, 1>(s, &pairs, values, wide, count.min(HALF), at, sums);
            at += S::LANES;
        }
    }
}

/// The same for `U` registers of a value, from dimension `at` on, and the first `count` pairs.
#[inline(always)]
fn weigh_bf16_strip<S: Simd, const N: usize, const U: usize>(
    s: S,
    pairs: &[[u32; BLOCK_TOKENS / 2]; N],
    values: &[u8],
    wide: usize,
    count: usize,
    at: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    let mut all = [[s.splat(0.0); U]; N];
    for i in 0..N {
        for u in 0..U {
            all[i][u] = s.load(&sums[i][at + u * S::LANES..]);
        }
    }
    for (p, row) in values.chunks_exact(4 * wide).take(count).enumerate() {
        let mut value = [s.splat_i(0); U];
        for u in 0..U {
            value[u] = s.load_bytes(&row[4 * (at + u * S::LANES)..]);
        }
        for i in 0..N {
            let weight = s.splat_i(pairs[i][p].cast_signed());
            for u in 0..U {
                all[i][u] = s.bf16_dot(all[i][u], value[u], weight);
            }
        }
    }
    for i in 0..N {
        for u in 0..U {
            s.store(all[i][u], &mut sums[i][at + u * S::LANES..]);
        }
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
