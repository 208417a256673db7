//! The memory that a model needs, computed before anything is loaded.

use crate::error::Error;
use crate::locate::{self, EncoderFormat, PackedWeight};
use crate::scratch::Scratch;
use crate::source::Source;
use crate::spec::{Layer, Spec};
use cpu::Tier;
use kernels::{BLOCK_TOKENS, KvDtype, KvPool, KvShape, Precision, StateShape};
use weights::Opened;

/// The memory that serving a model takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Packed weights.
    pub weights: u64,
    /// The KV cache of all sequences together.
    pub kv: u64,
    /// Buffers of the forward pass.
    pub scratch: u64,
}

impl MemoryNeed {
    /// The sum of weights, KV cache and scratch, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.scratch)
    }
}

impl Spec {
    /// The shape of a KV cache of `blocks` blocks for this model.
    #[must_use]
    pub fn kv_shape(&self, blocks: usize, dtype: KvDtype) -> KvShape {
        let own = self.layers.iter().filter(|layer| layer.has_own_keys());
        KvShape { layers: own.map(|layer| self.heads_of(layer)).collect(), blocks, dtype }
    }

    /// Bytes of the KV cache that attention in layer `index` reads of each token that it sees; 0 for a recurrent layer.
    #[must_use]
    pub fn kv_layer_bytes(&self, index: usize, dtype: KvDtype) -> usize {
        match self.layers[index].mixer.is_attention() {
            true => self.kv_shape(1, dtype).layer_bytes(self.kv_layer(index)).div_ceil(BLOCK_TOKENS),
            false => 0,
        }
    }

    /// The shape of a pool of `states` recurrent states for this model.
    #[must_use]
    pub fn state_shape(&self, states: usize) -> StateShape {
        let floats = self.layers.iter().map(Layer::state_floats).sum();
        StateShape { states: if floats == 0 { 0 } else { states }, floats }
    }

    /// A KV cache of `blocks` blocks for this model, with `states` recurrent states if it has such layers.
    ///
    /// # Errors
    /// A head that is too wide, or no memory.
    pub fn kv_pool(&self, blocks: usize, dtype: KvDtype, states: usize) -> Result<KvPool, kernels::Error> {
        KvPool::with_states(self.kv_shape(blocks, dtype), self.state_shape(states))
    }

    /// Bytes of the KV cache for one token, over all layers.
    #[must_use]
    pub fn kv_bytes_per_token(&self, dtype: KvDtype) -> usize {
        self.kv_shape(1, dtype).block_bytes().div_ceil(BLOCK_TOKENS)
    }

    /// The memory for `weight_bytes` of weights, a KV cache of `kv_tokens` tokens (all sequences together, rounded up
    /// to blocks), and batches of at most `rows` rows, of which `logit_rows` get logits.
    #[must_use]
    pub fn memory(
        &self,
        weight_bytes: u64,
        kv_tokens: usize,
        dtype: KvDtype,
        rows: usize,
        logit_rows: usize,
    ) -> MemoryNeed {
        let blocks = kv_tokens.div_ceil(BLOCK_TOKENS) as u64;
        MemoryNeed {
            weights: weight_bytes,
            kv: blocks.saturating_mul(self.kv_shape(1, dtype).block_bytes() as u64),
            scratch: Scratch::bytes(self, rows, logit_rows),
        }
    }

    /// The weights of this file with their sizes in memory. No weight is read.
    ///
    /// # Errors
    /// As [`Spec::weight_bytes`].
    pub fn packed_weights(
        &self,
        opened: &Opened,
        tier: Tier,
        precision: Precision,
    ) -> Result<Vec<PackedWeight>, Error> {
        let source = Source::new(opened)?;
        let found = locate::locate_weights(opened, &source, self)?;
        Ok(found.iter().map(|weight| weight.packed(tier, precision)).collect())
    }

    /// Bytes of this file's weights after packing. No weight is read, but missing and unused tensors and wrong shapes
    /// are found.
    ///
    /// # Errors
    /// Missing or unused tensors, by name; a tensor of a wrong shape or an unsupported type.
    pub fn weight_bytes(&self, opened: &Opened, tier: Tier, precision: Precision) -> Result<u64, Error> {
        let source = Source::new(opened)?;
        let found = locate::locate_weights(opened, &source, self)?;
        Ok(found.iter().map(|weight| weight.packed_bytes(tier, precision, EncoderFormat::File)).sum())
    }

    /// As [`Spec::weight_bytes`], for [`Model::load_encoder`](crate::Model::load_encoder) with this format.
    ///
    /// # Errors
    /// As [`Spec::weight_bytes`].
    pub fn encoder_bytes(
        &self,
        opened: &Opened,
        tier: Tier,
        precision: Precision,
        format: EncoderFormat,
    ) -> Result<u64, Error> {
        let source = Source::new(opened)?;
        let found = locate::locate_weights(opened, &source, self)?;
        Ok(found.iter().map(|weight| weight.packed_bytes(tier, precision, format)).sum())
    }
}
