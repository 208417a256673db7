//! The buffers of an encoder's pass over a batch of texts, and how far it has come.

use crate::relative::ProductBuffers;
use crate::spec::{Positions, Spec};
use cpu::AlignedVec;
use kernels::{
    Activations, BLOCK_TOKENS, DisentangledBias, KvDtype, KvHeads, KvPool, KvShape, PositionScores,
    RelativeIndex, RopeTable,
};
use std::ops::Range;

/// Rows that are projected and fed forward together. More would not make products faster, and less memory for a long
/// text's intermediate values stays in the caches.
const CHUNK: usize = 256;

/// Texts of a batch of `tokens` tokens: as many as have 8 tokens each.
const TOKENS_A_TEXT: usize = 8;

/// The buffers of a pass over a batch of texts, and its progress. A batch with more tokens than [`EncodePass::new`] was
/// given makes them grow, until the next batch that needs less.
pub struct EncodePass {
    /// Rows for which there is room without growing.
    step_tokens: usize,
    /// Rows of a chunk.
    pub(crate) chunk_rows: usize,
    kv_dtype: KvDtype,
    /// Rows for which the buffers have room now.
    capacity: usize,
    pub(crate) progress: Progress,
    pub(crate) tokens: Vec<u32>,
    pub(crate) types: Vec<u8>,
    /// Each row's position in its text.
    pub(crate) positions: Vec<u32>,
    /// The KV cache slot of each row: block, and position in the block.
    pub(crate) slots: Vec<(u32, u32)>,
    pub(crate) texts: Vec<TextRows>,
    /// 0, 1, 2, …: the block table of all texts.
    pub(crate) blocks: Vec<u32>,
    /// The residual stream `[rows, width]`, at the end the last hidden states.
    pub(crate) x: AlignedVec<f32>,
    /// Queries of all rows in the present layer `[rows, heads * head_dim]`.
    pub(crate) q: AlignedVec<f32>,
    /// Keys and values of all rows in the present layer.
    pub(crate) kv: KvPool,
    pub(crate) chunk: ChunkBuffers,
    pub(crate) relative: Option<RelativeScores>,
}

/// Where the rows of a text are.
#[derive(Clone, Debug)]
pub(crate) struct TextRows {
    pub(crate) rows: Range<usize>,
    pub(crate) first_block: usize,
    /// The first tokens, which are not pooled.
    pub(crate) skip: usize,
}

/// What is computed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Embeddings of the rows from `row` on.
    Embed { row: usize },
    /// Queries, keys and values of the rows from `row` on.
    Project { layer: usize, row: usize },
    /// Attention and feed-forward of the rows from `row` on.
    Attend { layer: usize, row: usize },
    /// The last norm of the rows from `row` on.
    Finish { row: usize },
    /// All hidden states are there.
    Done,
}

/// The buffers of a chunk.
pub(crate) struct ChunkBuffers {
    pub(crate) h: AlignedVec<f32>,
    pub(crate) out: AlignedVec<f32>,
    pub(crate) attention_out: AlignedVec<f32>,
    pub(crate) k: AlignedVec<f32>,
    pub(crate) v: AlignedVec<f32>,
    pub(crate) gate: AlignedVec<f32>,
    pub(crate) up: AlignedVec<f32>,
    pub(crate) ropes: Vec<RopeTable>,
    pub(crate) activations: Activations,
}

/// The products of disentangled attention, `[heads, capacity, span]` each, of content to position and position to content;
/// empty if the model has none.
pub(crate) struct RelativeScores {
    pub(crate) c2p: Vec<f32>,
    pub(crate) p2c: Vec<f32>,
    /// For each row of a chunk, the first row of its text in the batch.
    pub(crate) first_rows: Vec<u32>,
    pub(crate) buffers: ProductBuffers,
}

impl EncodePass {
    /// Buffers for batches of `step_tokens` tokens of at most `step_tokens / 8` texts.
    ///
    /// # Errors
    /// No memory, or a head size beyond the kernels' limit.
    pub fn new(spec: &Spec, step_tokens: usize, kv_dtype: KvDtype) -> Result<EncodePass, kernels::Error> {
        let rows = step_tokens.max(1);
        let chunk = CHUNK.min(rows);
        let floats = |cols: usize| AlignedVec::new(chunk * cols);
        let (q, kv, feed) = (spec.query_width(), spec.kv_width(), spec.feed_width());
        let widest = spec.width.max(q).max(feed);
        let mut pass = EncodePass {
            step_tokens: rows,
            chunk_rows: chunk,
            kv_dtype,
            capacity: 0,
            progress: Progress::Done,
            tokens: Vec::new(),
            types: Vec::new(),
            positions: Vec::new(),
            slots: Vec::new(),
            texts: Vec::new(),
            blocks: Vec::new(),
            x: AlignedVec::new(0),
            q: AlignedVec::new(0),
            kv: KvPool::new(kv_shape(spec, 1, kv_dtype))?,
            chunk: ChunkBuffers {
                h: floats(spec.width),
                out: floats(spec.width),
                attention_out: floats(q),
                k: floats(kv),
                v: floats(kv),
                gate: floats(if spec.gated { feed } else { 0 }),
                up: floats(feed),
                ropes: spec.ropes.iter().map(|r| RopeTable::new(chunk, r.rotary_dim / 2)).collect(),
                activations: Activations::new(chunk, widest),
            },
            relative: None,
        };
        pass.resize(spec, rows, blocks_for(rows))?;
        Ok(pass)
    }

    /// Bytes that [`EncodePass::new`] allocates.
    #[must_use]
    pub fn bytes(spec: &Spec, step_tokens: usize, kv_dtype: KvDtype) -> u64 {
        let rows = step_tokens.max(1);
        let chunk = CHUNK.min(rows);
        let (q, kv, feed) = (spec.query_width(), spec.kv_width(), spec.feed_width());
        let span = spec.positions.relative_rows();
        let widest = spec.width.max(q).max(feed).next_multiple_of(32);
        let whole = spec.width + q + if span > 0 { 2 * spec.heads * span } else { 0 };
        let part = 2 * spec.width + q + 2 * kv + feed + if spec.gated { feed } else { 0 };
        let blocks = kv_shape(spec, blocks_for(rows), kv_dtype).block_bytes() * blocks_for(rows);
        (4 * (rows * whole + chunk * part) + 12 * chunk * widest + blocks) as u64
    }

    /// The tokens of a batch for which there is room without growing.
    #[must_use]
    pub fn step_tokens(&self) -> usize {
        self.step_tokens
    }

    /// Computes at most so many rows together from now on, so that others may compute sooner between two chunks; it
    /// changes no number. At most 256, and at least 1.
    pub fn set_chunk_rows(&mut self, rows: usize) {
        self.chunk_rows = rows.clamp(1, CHUNK.min(self.step_tokens));
    }

    /// Rows for which there is room now.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Rows of the present batch.
    pub(crate) fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Makes room for a batch of so many rows in so many blocks; gives back what an unusually large one took.
    pub(crate) fn fit(&mut self, spec: &Spec, rows: usize, blocks: usize) -> Result<(), kernels::Error> {
        let usual = (self.step_tokens, blocks_for(self.step_tokens));
        let want = (rows.max(usual.0), blocks.max(usual.1));
        if (self.capacity, self.blocks.len()) != want {
            self.resize(spec, want.0, want.1)?;
        }
        Ok(())
    }

    fn resize(&mut self, spec: &Spec, rows: usize, blocks: usize) -> Result<(), kernels::Error> {
        // The old buffers go first: two sizes at once would double the memory.
        (self.x, self.q, self.relative) = (AlignedVec::new(0), AlignedVec::new(0), None);
        self.kv = KvPool::new(kv_shape(spec, 1, self.kv_dtype))?;
        self.kv = KvPool::new(kv_shape(spec, blocks, self.kv_dtype))?;
        self.x = AlignedVec::new(rows * spec.width);
        self.q = AlignedVec::new(rows * spec.query_width());
        self.blocks = (0..u32::try_from(blocks).unwrap_or(u32::MAX)).collect();
        if let Positions::Disentangled { c2p, p2c, .. } = spec.positions {
            let scores = |used: bool| {
                vec![0.0; if used { rows * spec.heads * spec.positions.relative_rows() } else { 0 }]
            };
            let buffers = ProductBuffers::new(spec, CHUNK.min(self.step_tokens));
            let first_rows = Vec::with_capacity(CHUNK.min(self.step_tokens));
            self.relative = Some(RelativeScores { c2p: scores(c2p), p2c: scores(p2c), first_rows, buffers });
        }
        self.capacity = rows;
        Ok(())
    }
}

/// Blocks for a batch of `tokens` tokens: full ones, and one partly filled for each text.
fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS) + tokens.div_ceil(TOKENS_A_TEXT)
}

/// The keys and values of one layer: those of the next layer take their place.
fn kv_shape(spec: &Spec, blocks: usize, dtype: KvDtype) -> KvShape {
    KvShape::alike(1, KvHeads { kv_heads: spec.kv_heads, head_dim: spec.head_dim }, blocks, dtype)
}

impl RelativeScores {
    /// Notes for each row of a chunk where its text begins.
    pub(crate) fn set_first_rows(&mut self, texts: &[TextRows], chunk: &Range<usize>) {
        self.first_rows.clear();
        for text in texts {
            let inside = text.rows.start.max(chunk.start)..text.rows.end.min(chunk.end);
            self.first_rows.extend(inside.map(|_| text.rows.start as u32));
        }
    }

    /// The bias of scores of the chunk that begins at batch row `first`.
    pub(crate) fn bias<'s>(
        &'s self,
        index: &'s RelativeIndex,
        first: usize,
        capacity: usize,
    ) -> DisentangledBias<'s> {
        let span = index.embeddings();
        let scores = |values: &'s [f32], first: usize| {
            let values = values.get(first * span..).filter(|values| !values.is_empty());
            values.map(|values| PositionScores { values, row_stride: span, head_stride: capacity * span })
        };
        DisentangledBias {
            index,
            query_scores: scores(&self.c2p, first),
            key_scores: scores(&self.p2c, 0),
            first_key_rows: &self.first_rows,
        }
    }
}
