//! The shape of a KV cache: its format, the heads of its layers, and the bytes that follow.

use cpu::Tier;
use cpu::simd::{has_bf16_dot, has_tiles};

use crate::kv_block::{BLOCK_TOKENS, MAX_HEAD_DIM};
use crate::{Error, kv_q8};

/// A storage format of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvDtype {
    /// `f32`, for exactness tests.
    F32,
    /// IEEE half precision.
    F16,
    /// bf16, for tiers with its dot product; queries and attention weights are then rounded to it too.
    Bf16,
    /// 8 bits: keys with a scale for each 32 dimensions, as ggml's Q8_0, values with one for each head.
    Q8_0,
}

impl KvDtype {
    /// All formats.
    pub const ALL: [KvDtype; 4] = [KvDtype::F32, KvDtype::F16, KvDtype::Bf16, KvDtype::Q8_0];

    /// Bytes of a stored value, scales aside.
    fn bytes(self) -> usize {
        match self {
            KvDtype::F32 => 4,
            KvDtype::F16 | KvDtype::Bf16 => 2,
            KvDtype::Q8_0 => 1,
        }
    }

    /// The usual name.
    pub fn name(self) -> &'static str {
        match self {
            KvDtype::F32 => "f32",
            KvDtype::F16 => "f16",
            KvDtype::Bf16 => "bf16",
            KvDtype::Q8_0 => "q8_0",
        }
    }

    /// The fastest for serving on `tier`.
    pub fn fastest(tier: Tier) -> KvDtype {
        if multiplies_bf16(tier) { KvDtype::Bf16 } else { KvDtype::F16 }
    }
}

/// Whether `tier` has a bf16 dot product, in registers or in AMX tiles.
pub(crate) fn multiplies_bf16(tier: Tier) -> bool {
    has_tiles(tier) || has_bf16_dot(tier)
}

/// The heads of keys and values in one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHeads {
    /// How many there are.
    pub kv_heads: usize,
    /// The width of each.
    pub head_dim: usize,
}

impl KvHeads {
    /// The width of all heads together.
    #[must_use]
    pub fn width(self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// The shape of a KV cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// The heads of each layer with a KV cache.
    pub layers: Vec<KvHeads>,
    /// Blocks.
    pub blocks: usize,
    /// The storage format.
    pub dtype: KvDtype,
}

impl KvShape {
    /// The shape of `layers` layers with the same heads.
    #[must_use]
    pub fn alike(layers: usize, heads: KvHeads, blocks: usize, dtype: KvDtype) -> KvShape {
        KvShape { layers: vec![heads; layers], blocks, dtype }
    }

    /// The cells of each layer.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (usize, CellShape)> {
        let cell = |heads: &KvHeads| CellShape { head_dim: heads.head_dim, dtype: self.dtype };
        self.layers.iter().map(move |heads| (heads.kv_heads, cell(heads)))
    }

    /// Bytes of one block over all layers and heads.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.cells().map(|(heads, cell)| heads * cell.bytes()).sum()
    }

    /// Bytes that one block has of layer `layer`.
    ///
    /// # Panics
    /// When there is no such layer.
    #[must_use]
    pub fn layer_bytes(&self, layer: usize) -> usize {
        let KvHeads { kv_heads, head_dim } = self.layers[layer];
        kv_heads * CellShape { head_dim, dtype: self.dtype }.bytes()
    }

    /// Refuses heads that are too wide, or nothing.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fits = |heads: &&KvHeads| (1..=MAX_HEAD_DIM).contains(&heads.head_dim);
        match self.layers.iter().find(|heads| !fits(heads)) {
            Some(heads) => Err(Error::Limit { what: "head_dim", value: heads.head_dim, limit: MAX_HEAD_DIM }),
            None => Ok(()),
        }
    }
}

/// The shape of a cell: one block of one head.
#[derive(Clone, Copy)]
pub(crate) struct CellShape {
    pub(crate) head_dim: usize,
    pub(crate) dtype: KvDtype,
}

impl CellShape {
    /// The value rows' stride: `head_dim` rounded up to whole registers of any tier, or pairs of them.
    pub(crate) fn value_dim(self) -> usize {
        self.head_dim.next_multiple_of(if self.dtype == KvDtype::Q8_0 { 32 } else { 16 })
    }

    /// Dimensions of a stored key: a multiple of those that share 32 bits.
    pub(crate) fn key_dim(self) -> usize {
        match self.dtype {
            KvDtype::F32 | KvDtype::F16 => self.head_dim,
            KvDtype::Bf16 => self.head_dim.next_multiple_of(2),
            KvDtype::Q8_0 => self.head_dim.next_multiple_of(4),
        }
    }

    /// Bytes of the keys of a cell.
    pub(crate) fn key_bytes(self) -> usize {
        let scales = if self.dtype == KvDtype::Q8_0 { kv_q8::key_scale_bytes(self.key_dim()) } else { 0 };
        BLOCK_TOKENS * self.key_dim() * self.dtype.bytes() + scales
    }

    /// Bytes of the values of a cell.
    fn value_bytes(self) -> usize {
        let scales = if self.dtype == KvDtype::Q8_0 { kv_q8::VALUE_SCALE_BYTES } else { 0 };
        BLOCK_TOKENS * self.value_dim() * self.dtype.bytes() + scales
    }

    /// Bytes of a cell: the keys, then the values.
    pub(crate) fn bytes(self) -> usize {
        self.key_bytes() + self.value_bytes()
    }
}
