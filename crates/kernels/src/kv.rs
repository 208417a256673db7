//! KV cache: keys and values of past tokens, in blocks that sequences own by number (block tables are the engine's).
//!
//! A *cell* is one block of one layer and one KV head: [`BLOCK_TOKENS`] positions. Keys are transposed, `[head_dim,
//! 32]`, so that a register holds one dimension of many positions and scores need no horizontal sums; values are `[32,
//! value_dim]`. In bf16, two operands of a dot product share 32 bits: a key's dimension `d` with `d + head_dim / 2`,
//! and the value of position `p` with that of `p + 16`; keys are `[head_dim / 2, 32]` pairs and values `[16,
//! value_dim]`. In 8 bits four share 32 bits: [`crate::kv_q8`].

use cpu::simd::{Job, Simd, dispatch};
use cpu::{Pages, Strided};

use crate::bf16::pair;
use crate::kv_block::BLOCK_TOKENS;
use crate::kv_block::MAX_HEAD_DIM;
use crate::kv_layout::{Bf16Pair, DotOperand};
use crate::kv_shape::{CellShape, KvDtype, KvShape};
use crate::states::{StatePool, StateShape};
use crate::{Compute, Error, kv_q8, tune};

/// Blocks whose cells of one head are adjacent in memory: 16 KiB pieces are read at two thirds of the bandwidth, 256
/// KiB pieces at nine tenths (docs/lab/kv-cache-and-attention.md#decision-39). Where pages are large, memory is taken
/// by the group; which sequence owns which of its blocks does not matter.
const BLOCK_GROUP: usize = 16;

/// The cells of one layer, computed once.
#[derive(Clone, Copy)]
pub(crate) struct LayerCells {
    pub(crate) kv_heads: usize,
    pub(crate) shape: CellShape,
    /// Blocks of the pool.
    blocks: usize,
    /// Bytes of a block over all layers.
    block_bytes: usize,
    /// Bytes that a block has of the layers before.
    before: usize,
    /// Bytes of a cell.
    bytes: usize,
    /// Bytes of the keys of a cell.
    key_bytes: usize,
}

impl LayerCells {
    /// The cells of each layer of a pool.
    fn of_pool(shape: &KvShape) -> Vec<LayerCells> {
        let (blocks, block_bytes) = (shape.blocks, shape.block_bytes());
        let mut before = 0;
        let of_layer = |(kv_heads, shape): (usize, CellShape)| {
            let (bytes, key_bytes) = (shape.bytes(), shape.key_bytes());
            let cells = LayerCells { kv_heads, shape, blocks, block_bytes, before, bytes, key_bytes };
            before += kv_heads * bytes;
            cells
        };
        shape.cells().map(of_layer).collect()
    }

    /// The cells of a block, head by head.
    #[inline]
    pub(crate) fn of_block(self, block: usize) -> Strided {
        let group = block / BLOCK_GROUP * BLOCK_GROUP;
        let in_group = BLOCK_GROUP.min(self.blocks - group);
        let layer = group * self.block_bytes + in_group * self.before;
        Strided { start: layer + (block - group) * self.bytes, stride: in_group * self.bytes }
    }
}

/// The KV cache of all sequences: `[group, layer, head, block of the group]` cells.
pub struct KvPool {
    shape: KvShape,
    layers: Vec<LayerCells>,
    pages: Pages,
    /// The rows that are being written, by block.
    runs: Vec<Run>,
    /// The cells of each run's block.
    run_cells: Vec<Strided>,
    /// What recurrent layers keep instead of keys and values.
    states: StatePool,
}

/// Consecutive rows of one block.
#[derive(Clone, Copy)]
struct Run {
    block: usize,
    first: usize,
    rows: usize,
}

impl KvPool {
    /// Reserves the pool; physical memory is taken as blocks are first written.
    ///
    /// # Errors
    /// For a head wider than [`MAX_HEAD_DIM`], or without memory.
    pub fn new(shape: KvShape) -> Result<KvPool, Error> {
        KvPool::with_states(shape, StateShape::default())
    }

    /// As [`KvPool::new`], with recurrent states.
    ///
    /// # Errors
    /// As [`KvPool::new`].
    pub fn with_states(shape: KvShape, states: StateShape) -> Result<KvPool, Error> {
        shape.check()?;
        let bytes = shape.block_bytes() as u128 * shape.blocks as u128;
        let memory = |source| Error::Memory { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), source };
        let len = usize::try_from(bytes).map_err(|_| memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let pages = Pages::new(len).map_err(memory)?;
        // Most steps touch fewer blocks.
        let (runs, run_cells) = (Vec::with_capacity(512), Vec::with_capacity(512));
        let layers = LayerCells::of_pool(&shape);
        Ok(KvPool { shape, layers, pages, runs, run_cells, states: StatePool::new(states)? })
    }

    /// The shape of the pool.
    pub fn shape(&self) -> &KvShape {
        &self.shape
    }

    /// The recurrent states beside it.
    pub fn states(&self) -> &StatePool {
        &self.states
    }

    /// The recurrent states beside it, to be changed.
    pub fn states_mut(&mut self) -> &mut StatePool {
        &mut self.states
    }

    /// Reserved bytes, without recurrent states.
    pub fn bytes(&self) -> usize {
        self.pages.len()
    }

    /// Stores keys and values of rows, `[rows, kv_heads · head_dim]`: row `r` goes to `(block, offset)` = `slots[r]`.
    /// Rows of one block are consecutive.
    ///
    /// # Panics
    /// When shapes do not fit, a slot is outside the pool, or rows of one block are not consecutive.
    pub fn write(&mut self, c: &Compute, layer: usize, k: &[f32], v: &[f32], slots: &[(u32, u32)]) {
        let all = self.layers[layer];
        let (dim, cols) = (all.shape.head_dim, all.kv_heads * all.shape.head_dim);
        assert!(
            k.len() == slots.len() * cols && v.len() == k.len(),
            "keys and values of {} rows",
            slots.len()
        );
        assert!(slots.iter().all(|s| (s.0 as usize) < all.blocks && (s.1 as usize) < BLOCK_TOKENS), "slots");
        self.runs.clear();
        for (first, rows) in runs(slots) {
            self.runs.push(Run { block: slots[first].0 as usize, first, rows });
        }
        self.runs.sort_unstable_by_key(|run| run.block);
        let runs = &self.runs;
        self.run_cells.clear();
        self.run_cells.extend(runs.iter().map(|run| all.of_block(run.block)));
        let cells = &mut self.pages[..];
        let write = |i: usize, head: usize, cell: &mut [u8]| {
            let Run { first, rows, .. } = runs[i];
            for r in first..first + rows {
                let row = r * cols + head * dim..r * cols + (head + 1) * dim;
                let (k, v) = (&k[row.clone()], &v[row]);
                let (offset, prefetch) = (slots[r].1 as usize, r == first);
                let job = Write { cell, k, v, offset, prefetch, shape: all.shape };
                dispatch(c.tier, job);
            }
        };
        // One thread writes a few rows of a small model: handing tasks to others would take longer.
        if k.len() < PARALLEL_MIN_VALUES {
            for (i, head_cells) in self.run_cells.iter().enumerate() {
                for head in 0..all.kv_heads {
                    write(i, head, &mut cells[head_cells.at(head)..][..all.bytes]);
                }
            }
        } else {
            // Head by head, as attention reads: a thread's cells are then in its cache.
            c.pool.pieces_mut(cells, &self.run_cells, all.kv_heads, all.bytes, &write);
        }
    }

    /// Copies a block, for a sequence that leaves a shared one (copy on write).
    ///
    /// # Panics
    /// When a block is outside the pool.
    pub fn copy_block(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize, to as usize);
        assert!(from < self.shape.blocks && to < self.shape.blocks, "blocks {from} and {to}");
        for layer in &self.layers {
            let (from, to) = (layer.of_block(from), layer.of_block(to));
            for head in 0..layer.kv_heads {
                self.pages.copy_within(from.at(head)..from.at(head) + layer.bytes, to.at(head));
            }
        }
    }

    /// The cells of a layer.
    #[inline]
    pub(crate) fn layer(&self, layer: usize) -> LayerCells {
        self.layers[layer]
    }

    /// Keys and values of the cell at `start`, which is one of `layer`.
    #[inline]
    pub(crate) fn cell(&self, layer: LayerCells, start: usize) -> (&[u8], &[u8]) {
        self.pages[start..][..layer.bytes].split_at(layer.key_bytes)
    }
}

/// Key values below which one thread writes them. Each pair of values touches a cache line of its own, which comes from
/// memory.
const PARALLEL_MIN_VALUES: usize = 512;

/// First row and length of each run of rows in one block.
fn runs(slots: &[(u32, u32)]) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    slots.chunk_by(|a, b| a.0 == b.0).map(move |run| {
        first += run.len();
        (first - run.len(), run.len())
    })
}

struct Write<'a> {
    cell: &'a mut [u8],
    k: &'a [f32],
    v: &'a [f32],
    offset: usize,
    /// Whether to prefetch the cell.
    prefetch: bool,
    shape: CellShape,
}

impl Job for Write<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Write { cell, k, v, offset, prefetch, shape } = self;
        let (keys, values) = cell.split_at_mut(shape.key_bytes());
        if prefetch {
            // A key is spread over as many cache lines as the block has rows of keys: prefetched together, they arrive
            // together.
            let row = if shape.dtype == KvDtype::F16 { 2 * BLOCK_TOKENS } else { 4 * BLOCK_TOKENS };
            for keys in keys.chunks_exact(row) {
                tune::prefetch(s, keys, row / BLOCK_TOKENS * offset);
            }
        }
        match shape.dtype {
            KvDtype::F32 => {
                for (d, k) in k.iter().enumerate() {
                    let at = (d * BLOCK_TOKENS + offset) * 4;
                    keys[at..at + 4].copy_from_slice(&k.to_le_bytes());
                }
                let row = &mut values[offset * shape.value_dim() * 4..];
                for (out, v) in row.chunks_exact_mut(4).zip(v) {
                    out.copy_from_slice(&v.to_le_bytes());
                }
            }
            KvDtype::F16 => {
                let mut put = |d: usize, bits: u16| {
                    let at = (d * BLOCK_TOKENS + offset) * 2;
                    keys[at..at + 2].copy_from_slice(&bits.to_le_bytes());
                };
                each_f16(s, k, &mut put);
                let row = &mut values[offset * shape.value_dim() * 2..];
                each_f16(s, v, &mut |d, bits| row[2 * d..2 * d + 2].copy_from_slice(&bits.to_le_bytes()));
            }
            KvDtype::Bf16 => {
                // First all pairs, vectorized; then each to its cache line.
                let mut pairs = [0; MAX_HEAD_DIM.div_ceil(2)];
                let pairs = &mut pairs[..shape.key_dim() / 2];
                Bf16Pair::factors(k, pairs);
                for (row, pair) in keys.as_chunks_mut::<{ 4 * BLOCK_TOKENS }>().0.iter_mut().zip(pairs) {
                    row.as_chunks_mut().0[offset] = pair.to_le_bytes();
                }
                let row = &mut values[offset % (BLOCK_TOKENS / 2) * shape.value_dim() * 4..];
                let pairs = row.as_chunks_mut::<4>().0.iter_mut().zip(v);
                if offset < BLOCK_TOKENS / 2 {
                    // The other half is a later position's: its stale bits must not reach any result.
                    pairs.for_each(|(pair_at, v)| *pair_at = pair(*v, 0.0).to_le_bytes());
                } else {
                    // Written as whole pairs, so that it is vectorized.
                    pairs.for_each(|(pair_at, v)| {
                        let first = u32::from_le_bytes(*pair_at) & 0xffff;
                        *pair_at = (first | pair(0.0, *v)).to_le_bytes();
                    });
                }
            }
            KvDtype::Q8_0 => {
                kv_q8::write_key(s, k, keys, shape.key_dim(), offset);
                kv_q8::write_value(s, v, values, shape.value_dim(), offset);
            }
        }
    }
}

/// Calls `put(index, half-precision bits)` for each value.
#[inline(always)]
fn each_f16<S: Simd>(s: S, x: &[f32], put: &mut impl FnMut(usize, u16)) {
    for (i, part) in x.chunks(S::LANES).enumerate() {
        let (mut padded, mut bits) = ([0.0; 64], [0u16; 64]);
        padded[..part.len()].copy_from_slice(part);
        s.store_f16(s.load(&padded), &mut bits);
        for j in 0..part.len() {
            put(i * S::LANES + j, bits[j]);
        }
    }
}
