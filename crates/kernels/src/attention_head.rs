//! What the queries of a KV head see, and their online softmax, block by block.

use std::ops::Range;

use cpu::simd::Simd;

use crate::attention_bias::ScoreBias;
use crate::elementwise::tanh;
use crate::kv::{KvPool, LayerCells};
use crate::kv_block::{BLOCK_TOKENS, SMALL_QUERY_TILE};
use crate::partial::MAX_LANES;

/// The most queries of a tile in any KV format.
pub(crate) const MAX_QUERIES: usize = 16;

/// The positions that a row sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Its own and those before it.
    Causal {
        /// Sliding window: the last `window` positions only, its own included.
        window: Option<usize>,
    },
    /// All of its sequence.
    Bidirectional {
        /// Local attention: positions at a distance of at most `reach` only, before it and after it.
        reach: Option<usize>,
    },
}

/// The parameters of attention in one layer.
#[derive(Clone, Copy, Debug)]
pub struct AttentionParams<'a> {
    /// The layer of the KV cache.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// The positions that a row sees.
    pub mask: Mask,
    /// The factor of the scores.
    pub scale: f32,
    /// Scores pass `cap · tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// Added to the scores after all that.
    pub bias: Option<&'a dyn ScoreBias>,
    /// Attention sinks, `[heads]`: a score of each head that takes its share of the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
}

/// One KV head and how to attend to it.
pub(crate) struct Head<'a> {
    pub(crate) kv: &'a KvPool,
    pub(crate) cells: LayerCells,
    pub(crate) head: usize,
    pub(crate) group: usize,
    /// The most positions before its own that a row sees.
    before: usize,
    /// The most positions after its own that a row sees, at most `keys`.
    after: usize,
    /// The sequence's positions.
    keys: usize,
    scale: f32,
    soft_cap: Option<f32>,
    bias: Option<&'a dyn ScoreBias>,
    /// The sinks of the heads of the group.
    pub(crate) sinks: Option<&'a [f32]>,
}

impl<'a> Head<'a> {
    pub(crate) fn new(kv: &'a KvPool, head: usize, params: &AttentionParams<'a>, keys: usize) -> Head<'a> {
        let AttentionParams { layer, heads, mask, scale, soft_cap, bias, sinks } = *params;
        let (before, after) = match mask {
            Mask::Causal { window } => (window.map_or(usize::MAX, |window| window.saturating_sub(1)), 0),
            Mask::Bidirectional { reach } => {
                (reach.unwrap_or(usize::MAX), reach.map_or(keys, |r| r.min(keys)))
            }
        };
        let cells = kv.layer(layer);
        let group = heads / cells.kv_heads;
        let sinks = sinks.map(|sinks| &sinks[head * group..][..group]);
        Head { kv, cells, head, group, before, after, keys, scale, soft_cap, bias, sinks }
    }

    /// The positions that the row at `position` sees.
    #[inline(always)]
    pub(crate) fn visible(&self, position: usize) -> Range<usize> {
        position.saturating_sub(self.before)..(position + self.after + 1).min(self.keys)
    }

    /// Adds the bias to the scores of the keys from `base` on that are `visible`. Not inlined: those without a bias
    /// would be compiled to more.
    #[inline(never)]
    fn add_bias(
        &self,
        bias: &dyn ScoreBias,
        query: Query,
        base: usize,
        visible: &Range<usize>,
        scores: &mut [f32; BLOCK_TOKENS],
    ) {
        if !visible.is_empty() {
            let head = self.head * self.group + query.head_in_group;
            let first_key = base + visible.start;
            bias.add(head, query.row, query.position, first_key, &mut scores[visible.clone()]);
        }
    }
}

/// A query of a tile.
#[derive(Clone, Copy, Default)]
pub(crate) struct Query {
    pub(crate) row: usize,
    pub(crate) head_in_group: usize,
    pub(crate) position: usize,
}

/// Online softmax of a tile of queries: running maximum and sum.
#[repr(align(64))]
pub(crate) struct OnlineSoftmax<const N: usize> {
    /// The sums of weights, in lanes.
    pub(crate) totals: [[f32; MAX_LANES]; N],
    /// The running maximum of each query's scores.
    max: [f32; MAX_QUERIES],
}

impl<const N: usize> OnlineSoftmax<N> {
    /// The state before the first block. A sink is as a score that has been seen: the maximum, with a weight of one.
    #[inline(always)]
    pub(crate) fn begin(sinks: Option<&[f32]>, queries: &[Query; N]) -> OnlineSoftmax<N> {
        let mut softmax =
            OnlineSoftmax { max: [f32::NEG_INFINITY; MAX_QUERIES], totals: [[0.0; MAX_LANES]; N] };
        if let Some(sinks) = sinks {
            softmax.set_sinks(sinks, queries);
        }
        softmax
    }

    /// Not inlined: attention without sinks would be compiled to more.
    #[inline(never)]
    fn set_sinks(&mut self, sinks: &[f32], queries: &[Query; N]) {
        for (i, query) in queries.iter().enumerate() {
            self.max[i] = sinks[query.head_in_group];
            self.totals[i][0] = 1.0;
        }
    }

    /// Turns the scores of `queries` and the block from position `base` on into weights relative to the running
    /// maximum, zero where not `visible`; returns the factors that rescale earlier sums.
    #[inline(always)]
    pub(crate) fn update<S: Simd>(
        &mut self,
        s: S,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
        visible: &[Range<usize>; N],
        head: &Head<'_>,
        (queries, base): (&[Query; N], usize),
    ) -> [f32; MAX_QUERIES] {
        const { assert!(N <= MAX_QUERIES && MAX_QUERIES.is_multiple_of(S::LANES)) };
        let before = self.max;
        let scale = s.splat(head.scale);
        for i in 0..N {
            for part in scores[i].chunks_exact_mut(S::LANES) {
                let mut v = s.mul(s.load(part), scale);
                if let Some(cap) = head.soft_cap {
                    v = s.mul(s.splat(cap), tanh(s, s.mul(v, s.splat(1.0 / cap))));
                }
                s.store(v, part);
            }
            if let Some(bias) = head.bias {
                head.add_bias(bias, queries[i], base, &visible[i], &mut scores[i]);
            }
            // Nearly every block is visible as a whole.
            if visible[i].len() < BLOCK_TOKENS {
                apply_mask(&mut scores[i], &visible[i], f32::NEG_INFINITY);
            }
            let mut most = s.load(&scores[i]);
            for part in scores[i].chunks_exact(S::LANES) {
                most = s.max(most, s.load(part));
            }
            self.max[i] = self.max[i].max(s.reduce_max(most));
        }
        // All queries at a time. Mostly none changes, but predicting that costs more than computing it for many.
        let mut rescale = [1.0; MAX_QUERIES];
        if N > SMALL_QUERY_TILE / 2 || before[..N] != self.max[..N] {
            for at in (0..N).step_by(S::LANES) {
                let delta = s.sub(s.load(&before[at..]), s.load(&self.max[at..]));
                s.store(s.exp(delta), &mut rescale[at..]);
            }
            for i in 0..N {
                if before[i] == self.max[i] {
                    rescale[i] = 1.0;
                }
            }
        }
        for i in 0..N {
            if visible[i].is_empty() {
                scores[i] = [0.0; BLOCK_TOKENS];
                continue;
            }
            let max = s.splat(self.max[i]);
            for part in scores[i].chunks_exact_mut(S::LANES) {
                let v = s.exp(s.sub(s.load(part), max));
                s.store(v, part);
            }
            if visible[i].len() < BLOCK_TOKENS {
                apply_mask(&mut scores[i], &visible[i], 0.0);
            }
            let mut total = s.mul(s.load(&self.totals[i]), s.splat(rescale[i]));
            for part in scores[i].chunks_exact(S::LANES) {
                total = s.add(total, s.load(part));
            }
            s.store(total, &mut self.totals[i]);
        }
        rescale
    }
}

/// Sets the scores outside `visible` to `masked`.
#[inline(always)]
fn apply_mask(scores: &mut [f32; BLOCK_TOKENS], visible: &Range<usize>, masked: f32) {
    // Written so that it is vectorized.
    for (at, score) in scores.iter_mut().enumerate() {
        let seen = (at >= visible.start) & (at < visible.end);
        *score = if seen { *score } else { masked };
    }
}
