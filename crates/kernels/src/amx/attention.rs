//! Attention over a bf16 KV cache in AMX tiles. A block's keys are laid out as the B tile wants them, 16 pairs of
//! dimensions × 16 positions, and so are its values, 16 pairs of positions × 16 dimensions. As for weights, any number
//! of queries uses tiles.

use cpu::simd::amx::{Amx, ROWS, Tiles};
use cpu::simd::{DotKind, Simd};

use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::kv_block::BLOCK_TOKENS;
use crate::kv_block::{CacheAligned, MAX_HEAD_DIM};
use crate::kv_layout::{Bf16Pair, KvFormat, factors, set_factors};

/// Rows of a block's values: pairs of positions half a block apart.
const VALUE_ROWS: usize = BLOCK_TOKENS / 2;

/// Whether keys `head_dim` wide are whole tiles.
pub(crate) fn head_dim_fits(head_dim: usize) -> bool {
    head_dim.is_multiple_of(2 * PAIRS)
}

/// The KV cache in bf16, multiplied in AMX tiles.
pub(crate) struct AmxBf16 {
    tiles: Tiles,
}

impl KvFormat for AmxBf16 {
    const DOT_KIND: DotKind = DotKind::F32;
    type Token = Amx;
    const MAX_QUERIES: usize = ROWS;
    const ALL_TILE_SIZES: bool = false;
    type Queries<const N: usize> = CacheAligned<[[u32; MAX_HEAD_DIM / 2]; N]>;

    fn begin(amx: Amx, queries: usize) -> AmxBf16 {
        AmxBf16 { tiles: Tiles::new(amx, queries, 4 * PAIRS) }
    }

    fn scratch<const N: usize>() -> Self::Queries<N> {
        CacheAligned([[0; MAX_HEAD_DIM / 2]; N])
    }

    #[inline(always)]
    fn queries<S: Simd, const N: usize>(&self, _: S, q: [&[f32]; N], ready: &mut Self::Queries<N>) {
        set_factors::<Bf16Pair, N, _>(q, &mut ready.0);
    }

    #[inline(always)]
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Self::Queries<N>,
        keys: &[u8],
        dim: usize,
        prefetch_ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    ) {
        const { assert!(BLOCK_TOKENS == 32 && N <= ROWS) };
        let row = 4 * BLOCK_TOKENS;
        let tiles = &self.tiles;
        tiles.zero::<0>();
        tiles.zero::<1>();
        for (at, keys) in keys[..dim / 2 * row].chunks_exact(PAIRS * row).enumerate() {
            let (first, second) = keys.split_at(keys.len() / 2);
            // Into L2: in L1 it would have to stay while this block is computed, and be evicted.
            s.prefetch_span_l2(first, prefetch_ahead);
            tiles.load_a::<0, _>(queries.0.as_flattened(), MAX_HEAD_DIM / 2, 4 * PAIRS * at);
            tiles.load_b::<0, _>(keys, row);
            tiles.dot_bf16::<0, 0, 0>();
            s.prefetch_span_l2(second, prefetch_ahead);
            tiles.load_b::<1, _>(&keys[row / 2..], row);
            tiles.dot_bf16::<1, 0, 1>();
        }
        let scores = scores.as_flattened_mut();
        tiles.store_c::<0>(scores, BLOCK_TOKENS);
        tiles.store_c::<1>(&mut scores[BLOCK_TOKENS / 2..], BLOCK_TOKENS);
    }

    #[inline(always)]
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        stride: usize,
        written: usize,
        prefetch_ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        const { assert!(VALUE_ROWS == PAIRS) };
        let factors: CacheAligned<[[u32; PAIRS]; N]> =
            CacheAligned(factors::<Bf16Pair, N, _>(weights.each_ref().map(|row| row.as_slice())));
        let next_block = NextBlock { values, prefetch_ahead };
        self.tiles.load_a::<0, _>(factors.0.as_flattened(), PAIRS, 0);
        if written >= VALUE_ROWS {
            self.add_weighted(s, next_block, values, stride, sums);
        } else {
            // Unwritten values must not be read: zero times NaN is not zero.
            let mut rows = [0; VALUE_ROWS * MAX_HEAD_DIM * 4];
            rows[..written * stride * 4].copy_from_slice(&values[..written * stride * 4]);
            self.add_weighted(s, next_block, &rows, stride, sums);
        }
    }
}

impl AmxBf16 {
    /// Adds the values, `stride` pairs a row, times the attention weights in tile A 0. Prefetches the next block in
    /// parts between the tiles: all at once they would fill the load queue.
    #[inline(always)]
    fn add_weighted<S: Simd, const N: usize>(
        &self,
        s: S,
        next_block: NextBlock<'_>,
        values: &[u8],
        stride: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        let sums = sums.as_flattened_mut();
        for at in (0..stride).step_by(ROWS) {
            let part = VALUE_ROWS * 4 * at..VALUE_ROWS * 4 * stride.min(at + ROWS);
            s.prefetch_span_l2(&next_block.values[part], next_block.prefetch_ahead);
            let (values, sums) = (&values[4 * at..], &mut sums[at..]);
            // Four accumulators in turn, to hide latency.
            match at / ROWS % 4 {
                0 => self.add::<0>(values, stride, sums),
                1 => self.add::<1>(values, stride, sums),
                2 => self.add::<2>(values, stride, sums),
                _ => self.add::<3>(values, stride, sums),
            }
        }
    }

    #[inline(always)]
    fn add<const C: usize>(&self, values: &[u8], stride: usize, sums: &mut [f32]) {
        let tiles = &self.tiles;
        tiles.load_c::<C>(sums, MAX_HEAD_DIM);
        tiles.load_b::<0, _>(values, 4 * stride);
        tiles.dot_bf16::<C, 0, 0>();
        tiles.store_c::<C>(sums, MAX_HEAD_DIM);
    }
}

/// A block of values, and the distance to the next one, which is prefetched.
#[derive(Clone, Copy)]
struct NextBlock<'a> {
    values: &'a [u8],
    prefetch_ahead: usize,
}
