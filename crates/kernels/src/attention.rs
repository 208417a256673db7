//! Attention over the blocks of the KV cache, causal or in both directions, with an online softmax (Milakov and
//! Gimelshein, 2018).
//!
//! A task takes some rows of the batch and one KV head; the queries that share the head are computed in tiles of up to
//! 8, or 16 in AMX tiles, so that a tile reads the KV cache once. The loop over blocks is `Attend::tile`; what
//! multiplies is of the KV format: `kv_layout.rs` (`accumulate_operand`), `kv_q8.rs` (`add_dots`), `amx/attention.rs`.
//! What a row sees and the softmax are in `attention_head.rs`.
//! A query takes the blocks of its own sequence in order of position, so its result depends on nothing else.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use cpu::simd::amx::Amx;
use cpu::simd::{DotKind, Job, Simd, dispatch};
use cpu::{MatrixTiles, Tile, TileOf};

use crate::Compute;
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::attention_head::{AttentionParams, Head, OnlineSoftmax, Query};
use crate::kv::{KvPool, LayerCells};
use crate::kv_block::{BLOCK_TOKENS, CacheAligned, MAX_HEAD_DIM, SMALL_QUERY_TILE};
use crate::kv_layout::{Bf16Pair, F16, F32, KvFloat, KvFormat};
use crate::kv_q8::KvQ8;
use crate::kv_shape::KvDtype;
use crate::states::NO_STATE;
use crate::tune::tune;

/// Prefill queries of a tile where [`Tune::query_tile`](crate::tune::Tune) is [`SMALL_QUERY_TILE`] (AVX2, NEON): of 16
/// registers, as many as leave two for keys.
const PREFILL_QUERY_TILE: usize = 6;

/// The rows of a batch that belong to one sequence.
#[derive(Clone, Debug)]
pub struct SeqRows<'a> {
    /// The rows of the batch.
    pub rows: Range<usize>,
    /// The position of the first row; the others follow.
    pub first_position: usize,
    /// Positions whose keys and values are written, the rows' own included; more than that where a text is computed in
    /// parts and its rows see what follows them.
    pub keys: usize,
    /// The sequence's blocks, in order of position, those of all keys.
    pub blocks: &'a [u32],
    /// The sequence's recurrent state, after the positions before the first row; [`NO_STATE`](crate::NO_STATE) for a
    /// model without recurrent layers.
    pub state: u32,
}

impl<'a> SeqRows<'a> {
    /// Rows whose keys are the last that are written: of a decoder, or of a whole text.
    pub fn last(rows: Range<usize>, first_position: usize, blocks: &'a [u32]) -> SeqRows<'a> {
        let keys = first_position.saturating_add(rows.len());
        SeqRows { rows, first_position, keys, blocks, state: NO_STATE }
    }

    /// The same rows of a sequence with this recurrent state.
    #[must_use]
    pub fn with_state(self, state: u32) -> SeqRows<'a> {
        SeqRows { state, ..self }
    }
}

/// Computes `out = softmax(scale · q kᵀ + bias) v` for each row over what it sees of its own sequence. `q` and `out`
/// are `[rows, heads · head_dim]`; each group of `heads / kv_heads` query heads shares a KV head. Keys and values of
/// the rows and of all that they see must have been written.
///
/// # Panics
/// When shapes do not fit, a sequence has fewer keys than its rows need, or a block table is shorter than its sequence.
pub fn attention(
    c: &Compute,
    kv: &KvPool,
    params: AttentionParams<'_>,
    q: &[f32],
    seqs: &[SeqRows<'_>],
    out: &mut [f32],
) {
    let heads = params.heads;
    let LayerCells { kv_heads, shape, .. } = kv.layer(params.layer);
    let group = heads / kv_heads;
    assert_eq!(group * kv_heads, heads, "{heads} heads over {kv_heads} key-value heads");
    let cols = heads * shape.head_dim;
    assert!(q.len() == out.len() && q.len().is_multiple_of(cols), "queries of {cols}");
    assert!(params.sinks.is_none_or(|sinks| sinks.len() == heads), "a sink for each of {heads} heads");
    for SeqRows { rows, first_position, keys, blocks, .. } in seqs {
        assert!(
            first_position.saturating_add(rows.len()) <= *keys,
            "{keys} keys of rows {rows:?} from {first_position} on"
        );
        assert!(*keys <= blocks.len() * BLOCK_TOKENS, "a block table shorter than its sequence");
    }
    let rows_a_task =
        if q.len() / cols > 4 * SMALL_QUERY_TILE { 32 } else { (SMALL_QUERY_TILE / group).max(1) };
    let out = [Some(MatrixTiles { data: out, row_len: cols, tile_cols: group * shape.head_dim })];
    c.pool.tiles_mut(out, rows_a_task, &|TileOf { row, col: head, .. }, mut out| {
        let first = row * rows_a_task;
        let rows = first..first + out.rows();
        for seq in seqs.iter().filter(|s| s.rows.start < rows.end && s.rows.end > rows.start) {
            let part = seq.rows.start.max(rows.start)..seq.rows.end.min(rows.end);
            let head = Head::new(kv, head, &params, seq.keys);
            let out = &mut out;
            // A job for each format: one with all of them takes minutes to compile.
            match shape.dtype {
                KvDtype::F32 => dispatch(
                    c.tier,
                    Attend::<KvFloat<F32>> { head, q, cols, seq, part, first, out, token: () },
                ),
                KvDtype::F16 => {
                    dispatch(
                        c.tier,
                        Attend::<KvFloat<F16>> { head, q, cols, seq, part, first, out, token: () },
                    );
                }
                KvDtype::Bf16 => {
                    #[cfg(target_arch = "x86_64")]
                    if let Some(token) = Amx::for_tier(c.tier).filter(|_| amx::head_dim_fits(shape.head_dim))
                    {
                        // The token of the registers that accompany the tiles.
                        let avx512 = token.avx512();
                        avx512.call(Attend::<amx::AmxBf16> { head, q, cols, seq, part, first, out, token });
                        continue;
                    }
                    dispatch(
                        c.tier,
                        Attend::<KvFloat<Bf16Pair>> { head, q, cols, seq, part, first, out, token: () },
                    );
                }
                KvDtype::Q8_0 => {
                    dispatch(c.tier, Attend::<KvQ8> { head, q, cols, seq, part, first, out, token: () });
                }
            }
        }
    });
}

struct Attend<'a, 'o, K: KvFormat> {
    head: Head<'a>,
    q: &'a [f32],
    cols: usize,
    seq: &'a SeqRows<'a>,
    /// Rows of the batch to compute.
    part: Range<usize>,
    /// The batch row of the first row of the output tile.
    first: usize,
    out: &'a mut Tile<'o, f32>,
    token: K::Token,
}

impl<K: KvFormat> Job for Attend<'_, '_, K> {
    type Out = ();
    const DOT_KIND: DotKind = K::DOT_KIND;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let group = self.head.group;
        let total = self.part.len() * group;
        // Only prefill, which computes longer than it reads: few rows should read the KV cache as seldom as possible.
        let prefill = self.part.len() > SMALL_QUERY_TILE
            && const { K::ALL_TILE_SIZES && tune::<S>().query_tile == SMALL_QUERY_TILE };
        let most =
            if prefill { PREFILL_QUERY_TILE } else { K::MAX_QUERIES.min(const { tune::<S>().query_tile }) };
        let mut at = 0;
        while at < total {
            let count = most.min(total - at);
            // Tiles of one size together, so that their scratch is initialized once.
            let query_tiles = at..at + if count == most { (total - at) / most * most } else { count };
            at = query_tiles.end;
            match count {
                1 => self.query_tiles::<S, 1>(s, query_tiles, count),
                _ if const { tune::<S>().query_tile < 4 } => self.query_tiles::<S, 2>(s, query_tiles, count),
                2 => self.query_tiles::<S, 2>(s, query_tiles, count),
                3 if K::ALL_TILE_SIZES => self.query_tiles::<S, 3>(s, query_tiles, count),
                3 | 4 => self.query_tiles::<S, 4>(s, query_tiles, count),
                5 if K::ALL_TILE_SIZES => self.query_tiles::<S, 5>(s, query_tiles, count),
                6 if K::ALL_TILE_SIZES => self.query_tiles::<S, 6>(s, query_tiles, count),
                7 if K::ALL_TILE_SIZES => self.query_tiles::<S, 7>(s, query_tiles, count),
                9.. if const { K::MAX_QUERIES == 16 } => self.query_tiles::<S, 16>(s, query_tiles, count),
                _ => self.query_tiles::<S, 8>(s, query_tiles, count),
            }
        }
    }
}

/// Scratch of a tile of queries.
struct TileScratch<K: KvFormat, const N: usize> {
    queries_ready: K::Queries<N>,
    output: CacheAligned<[[f32; MAX_HEAD_DIM]; N]>,
}

/// The queries `range` in tiles of `count`, computed as `N`.
struct QueryTiles<'j, 'a, 'o, K: KvFormat, const N: usize> {
    attend: &'j mut Attend<'a, 'o, K>,
    range: Range<usize>,
    count: usize,
}

impl<K: KvFormat, const N: usize> Job for QueryTiles<'_, '_, '_, K, N> {
    type Out = ();
    const DOT_KIND: DotKind = K::DOT_KIND;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.attend.each_tile::<S, N>(s, self.range, self.count);
    }
}

impl<K: KvFormat> Attend<'_, '_, K> {
    /// Runs [`QueryTiles`] as a function of its own: all sizes in one take more than twice as long to compile.
    #[inline(always)]
    fn query_tiles<S: Simd, const N: usize>(&mut self, s: S, range: Range<usize>, count: usize) {
        s.call_in_unit::<K, _>(QueryTiles::<K, N> { attend: self, range, count });
    }

    #[inline(always)]
    fn each_tile<S: Simd, const N: usize>(&mut self, s: S, range: Range<usize>, count: usize) {
        let more_follow = range.len() > count;
        let mut scratch = TileScratch {
            queries_ready: K::scratch::<N>(),
            output: CacheAligned([[0.0f32; MAX_HEAD_DIM]; N]),
        };
        for at in range.step_by(count) {
            let mut queries = [Query::default(); N];
            for (i, query) in queries.iter_mut().enumerate() {
                // A missing query is the last one again.
                let i = at + i.min(count - 1);
                let row = self.part.start + i / self.head.group;
                let position = self.seq.first_position + (row - self.seq.rows.start);
                *query = Query { row, head_in_group: i % self.head.group, position };
            }
            self.tile::<S, N>(s, &queries, more_follow, &mut scratch);
        }
    }

    /// Computes one tile. `more_follow`: there are more of its size.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(
        &mut self,
        s: S,
        queries: &[Query; N],
        more_follow: bool,
        scratch: &mut TileScratch<K, N>,
    ) {
        let cells = self.head.cells;
        let (dim, value_dim) = (cells.shape.head_dim, cells.shape.value_dim());
        let q: [&[f32]; N] = std::array::from_fn(|i| {
            let head = self.head.head * self.head.group + queries[i].head_in_group;
            &self.q[queries[i].row * self.cols + head * dim..][..dim]
        });
        let format = K::begin(self.token, N);
        let TileScratch { queries_ready, output } = scratch;
        format.queries::<S, N>(s, q, queries_ready);
        for i in 0..N {
            output.0[i][..value_dim].fill(0.0);
        }
        let mut softmax = OnlineSoftmax::<N>::begin(self.head.sinks, queries);
        let seen: [Range<usize>; N] = std::array::from_fn(|i| self.head.visible(queries[i].position));
        let start = seen[0].start / BLOCK_TOKENS;
        // Positions are seen up to here, and written.
        let end = seen[N - 1].end;
        let (kv, head) = (self.head.kv, self.head.head);
        let cell_offset = |head: usize, block: u32| cells.of_block(block as usize).at(head);
        let blocks = &self.seq.blocks[..end.div_ceil(BLOCK_TOKENS)];
        let mut cell = cell_offset(head, blocks[start]);
        // After its last block a thread mostly goes on with the next head.
        let next_head_cell = match head + 1 < cells.kv_heads {
            true => cell_offset(head + 1, blocks[start]),
            false => cell,
        };
        // The queries and the output of the next tile are prefetched meanwhile, some with each block. Those of a single
        // tile, or of a small one of decode rows, were just written.
        let per_block = match more_follow && const { N > SMALL_QUERY_TILE / 2 } {
            true => N.div_ceil(blocks.len() - start),
            false => 0,
        };
        let next_tile_bytes = match N.is_multiple_of(self.head.group) {
            true => N / self.head.group * self.cols,
            false => N * dim,
        } * size_of::<f32>();
        for b in start..blocks.len() {
            let (keys, values) = kv.cell(cells, cell);
            for i in (b - start) * per_block..N.min((b + 1 - start) * per_block) {
                let at = queries[i].head_in_group * dim;
                let out = &self.out.row(queries[i].row - self.first)[at..at + dim];
                s.prefetch_span_l2(q[i], next_tile_bytes);
                s.prefetch_span_l2(out, 0);
            }
            let base = b * BLOCK_TOKENS;
            // The prefetch distance: to the next block, wrapping round.
            let next = blocks.get(b + 1).map_or(next_head_cell, |&next| cell_offset(head, next));
            let ahead = next.wrapping_sub(cell);
            cell = next;
            let mut scores = CacheAligned([[0.0; BLOCK_TOKENS]; N]);
            format.add_scores::<S, N>(s, queries_ready, keys, dim, ahead, &mut scores.0);
            // A query that sees nothing of this block keeps its state bit for bit.
            let visible: [Range<usize>; N] = std::array::from_fn(|i| {
                let end = seen[i].end.clamp(base, base + BLOCK_TOKENS) - base;
                seen[i].start.clamp(base, base + end) - base..end
            });
            let rescale = softmax.update(s, &mut scores.0, &visible, &self.head, (queries, base));
            for i in 0..N {
                if rescale[i] != 1.0 {
                    output.0[i][..value_dim].iter_mut().for_each(|v| *v *= rescale[i]);
                }
            }
            // Positions past that may never have been written by this sequence: their values are not read.
            let written = (end - base).min(BLOCK_TOKENS);
            format.add_values::<S, N>(s, &scores.0, values, value_dim, written, ahead, &mut output.0);
        }
        for i in 0..N {
            let at = queries[i].head_in_group * dim;
            let out = &mut self.out.row(queries[i].row - self.first)[at..at + dim];
            let inverse = 1.0 / s.reduce_sum(s.load(&softmax.totals[i]));
            out.iter_mut().zip(&output.0[i]).for_each(|(o, v)| *o = v * inverse);
        }
    }
}
