//! One forward pass over a ragged batch of rows, the same for every family.
//!
//! A row's result depends on its own sequence only: norms, rope and activations work row by row, a matrix product
//! sums each row in one order whatever the batch, attention reads the row's own blocks, and experts add to a row in
//! ascending order of expert. Nothing is allocated here.

use crate::alt_up;
use crate::batch::Batch;
use crate::blocks::{AttentionWeights, Block, FeedWeights, Mamba2Weights, MixerWeights, NormWeights};
use crate::delta_net::delta_net;
use crate::error::Error;
use crate::experts::{self, MixtureInput};
use crate::experts_beside::{self, BesideInput};
use crate::latent_attention::{LatentRows, latent_attention};
use crate::load::Model;
use crate::mamba2::mamba2;
use crate::mlp::{MlpBuffers, bias, feed_forward};
use crate::per_layer;
use crate::qkv::{gated_qkv, qkv, temper};
use crate::residual::{add_residual, norm, post_norm};
use crate::scratch::Scratch;
use crate::short_conv::short_conv;
use crate::wanted;
use kernels::{Activation, AttentionParams, BLOCK_TOKENS, Compute, KvPool, Mask, SeqRows};

/// The rows that a layer computes: all of the batch, or those of which logits are wanted.
#[derive(Clone, Copy)]
struct Rows<'a> {
    count: usize,
    /// The first `decode` rows are decode rows.
    decode: usize,
    sequences: &'a [SeqRows<'a>],
}

impl<'a> Rows<'a> {
    /// All rows of a batch.
    fn all(batch: &Batch<'a>) -> Rows<'a> {
        Rows { count: batch.tokens.len(), decode: batch.decode_rows, sequences: batch.sequences }
    }
}

impl Model {
    /// Runs the batch: writes every row to the KV cache, and returns logits `[want.len(), vocab]`.
    /// The logits of a row whose hidden state is not finite are NaN.
    ///
    /// # Errors
    /// A token outside the vocabulary, rows or blocks out of range, or more rows than `scratch` holds.
    pub fn forward<'s>(
        &self,
        compute: &Compute,
        batch: &Batch,
        kv: &mut KvPool,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [f32], Error> {
        self.forward_unless(compute, batch, kv, scratch, &|| false).map(Option::unwrap_or_default)
    }

    /// As [`Model::forward`], unless `stop`, which is asked before each layer, becomes true: then there are no logits, and
    /// keys, values and states are written in part.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub fn forward_unless<'s>(
        &self,
        compute: &Compute,
        batch: &Batch,
        kv: &mut KvPool,
        scratch: &'s mut Scratch,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<&'s [f32]>, Error> {
        batch.check(&self.spec, kv, scratch)?;
        self.assign_slots(batch, scratch);
        self.embed(compute, batch, scratch);
        let (all, last) = (Rows::all(batch), self.spec.last_kept_layer());
        for layer in 0..last {
            if stop() {
                return Ok(None);
            }
            self.mix(compute, layer, all, false, kv, scratch);
            self.finish_layer(compute, layer, all, scratch);
        }
        if self.spec.predicts() {
            return Ok(Some(self.logits_beside_hidden(compute, batch, scratch)));
        }
        if !self.last_layers(compute, last, batch, kv, scratch) {
            return Ok(Some(&[]));
        }
        if let Some(projections) = &self.streams {
            alt_up::merge(compute, &self.spec, projections, batch.want.len(), scratch);
        }
        self.last_norm(compute, self.final_norm.as_ref(), batch.want.len(), scratch);
        Ok(Some(self.head(compute, batch.want.len(), scratch)))
    }

    /// Computes layer `last`, which is the last one that keeps something of a row, and those after it. Of the wanted rows
    /// only, which are the first ones then; false if there are none.
    pub(crate) fn last_layers(
        &self,
        compute: &Compute,
        last: usize,
        batch: &Batch,
        kv: &mut KvPool,
        scratch: &mut Scratch,
    ) -> bool {
        self.mix(compute, last, Rows::all(batch), batch.want.is_empty(), kv, scratch);
        if batch.want.is_empty() {
            return false;
        }
        // The last keys and values are written, and states advanced: from here on only rows with logits are computed.
        wanted::compact(&self.spec, last, batch.want, scratch);
        let mut sequences = wanted::emptied(std::mem::take(&mut scratch.wanted));
        wanted::sequences(batch.sequences, batch.want, &mut sequences);
        let decode = batch.want.partition_point(|row| *row < batch.decode_rows);
        let rows = Rows { count: batch.want.len(), decode, sequences: &sequences };
        self.finish_layer(compute, last, rows, scratch);
        for layer in last + 1..self.blocks.len() {
            self.mix(compute, layer, rows, false, kv, scratch);
            self.finish_layer(compute, layer, rows, scratch);
        }
        scratch.wanted = wanted::emptied(sequences);
        true
    }

    /// Whether prefill rows have other numerics than decode rows when [`Compute::prompt_tiles`] is set, so that their
    /// KV cache differs.
    #[must_use]
    pub fn prefill_numerics_differ(&self) -> bool {
        let inputs = self.per_layer.iter().map(|inputs| &inputs.projection);
        let streams = self.streams.iter().flat_map(|streams| &streams.widen);
        inputs.chain(streams).any(|matrix| matrix.activations().q8_decode_bf16_prefill)
            || self.blocks.iter().any(Block::prefill_numerics_differ)
    }

    /// Sets each row's rotation by its position, and its slot in the KV cache.
    pub(crate) fn assign_slots(&self, batch: &Batch, scratch: &mut Scratch) {
        for sequence in batch.sequences {
            for (step, row) in sequence.rows.clone().enumerate() {
                let position = sequence.first_position + step;
                let block = sequence.blocks[position / BLOCK_TOKENS];
                scratch.slots[row] = (block, (position % BLOCK_TOKENS) as u32);
                for (table, (inv_freq, mscale)) in scratch.ropes.iter_mut().zip(&self.ropes) {
                    table.set_row(row, position, inv_freq, *mscale);
                }
            }
        }
    }

    /// Fills the residual stream with embeddings, and computes what each layer gets of the tokens beside them.
    fn embed(&self, compute: &Compute, batch: &Batch, scratch: &mut Scratch) {
        let (spec, tokens) = (&self.spec, batch.tokens);
        let x = &mut scratch.x[..tokens.len() * spec.width];
        self.embedding.rows_into(compute, tokens, x);
        if spec.embedding_scale != 1.0 {
            kernels::scale(compute, x, spec.embedding_scale);
        }
        if let Some(inputs) = &self.per_layer {
            per_layer::inputs(compute, spec, inputs, tokens, batch.decode_rows, scratch);
        }
        if let Some(projections) = &self.streams {
            alt_up::widen(compute, spec, projections, (tokens.len(), batch.decode_rows), scratch);
        }
    }

    /// Asks for the matrices on the disk that are read after `layer`: those of the next one, or the head and those of the
    /// first one in the next pass.
    fn read_ahead(&self, layer: usize) {
        let next = self.blocks.get(layer + 1);
        next.unwrap_or(&self.blocks[0]).read_ahead();
        if next.is_none() {
            self.head.as_ref().unwrap_or(&self.embedding).read_ahead();
        }
    }

    /// The layer's mixer, up to its output projection: attention over keys and values, or a recurrence over states. If
    /// nothing is wanted of the layer, only its keys, values and states are.
    fn mix(
        &self,
        compute: &Compute,
        layer: usize,
        rows: Rows<'_>,
        nothing_wanted: bool,
        kv: &mut KvPool,
        scratch: &mut Scratch,
    ) {
        let (spec, block) = (&self.spec, &self.blocks[layer]);
        let Rows { count, decode, sequences } = rows;
        self.read_ahead(layer);
        if matches!(block.mixer, MixerWeights::None) {
            return;
        }
        if let Some((streams, weights)) = spec.alt_up.zip(block.alt_up.as_ref()) {
            alt_up::predict(compute, spec, streams, weights, (count, decode), scratch);
        }
        self.set_mixer_input(compute, block, count, decode, scratch);
        match &block.mixer {
            MixerWeights::None => {}
            MixerWeights::DeltaNet(weights) => {
                delta_net(compute, spec, weights, sequences, count, kv.states_mut(), scratch);
            }
            MixerWeights::ShortConv(weights) => {
                short_conv(compute, weights, sequences, count, kv.states_mut(), scratch);
            }
            MixerWeights::Mamba2(weights) => {
                mamba2(compute, spec, weights, sequences, count, kv.states_mut(), scratch);
            }
            MixerWeights::Latent(weights) => {
                let rows = LatentRows { count, decode, sequences, keys_only: nothing_wanted };
                latent_attention(compute, spec, weights, layer, rows, kv, scratch);
            }
            MixerWeights::AttentionAndMamba2(both) => {
                let (attention, recurrent) = &**both;
                mamba2(compute, spec, recurrent, sequences, count, kv.states_mut(), scratch);
                if !nothing_wanted {
                    self.project_beside(compute, recurrent, count, decode, scratch);
                }
                // The projection took the place of the layer's input.
                self.set_mixer_input(compute, block, count, decode, scratch);
                self.project_qkv(compute, attention, layer, count, kv, scratch);
                if !nothing_wanted {
                    self.attention(compute, attention, layer, rows, kv, scratch);
                }
            }
            MixerWeights::Attention(weights) => {
                self.project_qkv(compute, weights, layer, count, kv, scratch);
                if !nothing_wanted {
                    self.attention(compute, weights, layer, rows, kv, scratch);
                }
            }
        }
    }

    /// The output projection of Mamba-2 beside attention.
    fn project_beside(
        &self,
        compute: &Compute,
        weights: &Mamba2Weights,
        rows: usize,
        decode_rows: usize,
        scratch: &mut Scratch,
    ) {
        let Some(matrix) = &weights.out else { return };
        let Scratch { beside, attention_out, activations, .. } = scratch;
        let (beside, cols) = (&mut beside[..rows * self.spec.width], matrix.cols());
        activations.set(compute, &attention_out[..rows * cols], cols, matrix.activations(), decode_rows);
        kernels::matmul(compute, matrix, activations, beside);
        if weights.shape.factors.out != 1.0 {
            kernels::scale(compute, beside, weights.shape.factors.out);
        }
    }

    /// The norm of the mixer's input, in the formats of its projections.
    fn set_mixer_input(
        &self,
        compute: &Compute,
        block: &Block,
        rows: usize,
        decode_rows: usize,
        scratch: &mut Scratch,
    ) {
        let spec = &self.spec;
        let Scratch { x, h, activations, .. } = scratch;
        let (width, formats) = (spec.width, block.mixer.formats());
        let (x, h) = (&x[..rows * width], &mut h[..rows * width]);
        match &block.attention_norm {
            // The feed-forward, or LAuReL, reads these norms too.
            Some(weights) if spec.parallel || block.alt_up.is_some() => {
                norm(spec, weights).rows(compute, x, h);
                activations.set(compute, h, width, formats, decode_rows);
            }
            Some(weights) => {
                activations.set_normed(compute, norm(spec, weights), x, h, formats, decode_rows);
            }
            None => activations.set(compute, x, width, formats, decode_rows),
        }
    }

    /// Projections of query, key and value with their biases, norms and rope; key and value go to the KV cache.
    fn project_qkv(
        &self,
        compute: &Compute,
        weights: &AttentionWeights,
        layer: usize,
        rows: usize,
        kv: &mut KvPool,
        scratch: &mut Scratch,
    ) {
        let spec = &self.spec;
        let Scratch { q, k, v, mixed, attention_out, ropes, slots, activations, .. } = scratch;
        let (q_width, kv_width) = (spec.heads * weights.heads.head_dim, weights.heads.width());
        let (q, k, v) = (&mut q[..rows * q_width], &mut k[..rows * kv_width], &mut v[..rows * kv_width]);
        let turned = spec.layers[layer].rope.map(|index| &ropes[index]);
        if spec.attention_gate {
            let both = &mut mixed[..rows * 2 * q_width];
            let gates = (both, &mut attention_out[..rows * q_width]);
            gated_qkv(compute, spec, weights, activations, turned, (q, &mut *k, &mut *v), gates);
        } else {
            qkv(compute, spec, weights, activations, turned, (q, &mut *k, &mut *v));
        }
        if weights.keys.is_some() {
            kv.write(compute, weights.kv_layer, k, v, &slots[..rows]);
        }
    }

    /// Attention of each row over its sequence, times its gate if it has one.
    fn attention(
        &self,
        compute: &Compute,
        weights: &AttentionWeights,
        layer: usize,
        rows: Rows<'_>,
        kv: &KvPool,
        scratch: &mut Scratch,
    ) {
        let spec = &self.spec;
        let q_width = spec.heads * weights.heads.head_dim;
        let used = rows.count * q_width;
        let params = AttentionParams {
            layer: weights.kv_layer,
            heads: spec.heads,
            mask: Mask::Causal { window: spec.layers[layer].window },
            scale: spec.attention_scale,
            soft_cap: spec.attention_soft_cap,
            bias: None,
            sinks: weights.sinks.as_deref(),
        };
        let Scratch { q, mixed, attention_out, .. } = scratch;
        let (q, out) = (&mut q[..used], &mut attention_out[..used]);
        if let Some(temperature) = spec.query_temperature {
            temper(compute, temperature, rows.sequences, q, q_width);
        }
        if spec.attention_gate {
            let attended = &mut mixed[..used];
            kernels::attention(compute, kv, params, q, rows.sequences, attended);
            kernels::gated(compute, Activation::Sigmoid, out, attended);
        } else {
            kernels::attention(compute, kv, params, q, rows.sequences, out);
        }
    }

    /// The layer after its mixer: output projection and feed-forward, each added to the residual, and what the layer
    /// does to its output.
    fn finish_layer(&self, compute: &Compute, layer: usize, rows: Rows<'_>, scratch: &mut Scratch) {
        let (spec, block) = (&self.spec, &self.blocks[layer]);
        let Rows { count, decode, .. } = rows;
        self.add_mixed(compute, block, count, decode, scratch);
        if let Some((streams, weights)) = spec.alt_up.zip(block.alt_up.as_ref()) {
            alt_up::add_laurel(compute, spec, &weights.laurel, (count, decode), scratch);
            self.add_feed_forward(compute, block, count, decode, scratch);
            let own = (&**weights, block.per_layer.as_ref(), layer);
            return alt_up::correct(compute, spec, streams, own, (count, decode), scratch);
        }
        self.add_feed_forward(compute, block, count, decode, scratch);
        if let Some(weights) = &block.per_layer {
            per_layer::add(compute, spec, weights, layer, (count, decode), scratch);
        }
        if block.scale != 1.0 {
            kernels::scale(compute, &mut scratch.x[..count * spec.width], block.scale);
        }
    }

    /// The output projection of the mixer, added to the residual.
    fn add_mixed(
        &self,
        compute: &Compute,
        block: &Block,
        rows: usize,
        decode_rows: usize,
        scratch: &mut Scratch,
    ) {
        let Some(projection) = &block.out else { return };
        let (spec, width) = (&self.spec, self.spec.width);
        let Scratch { x, out, attention_out, beside, activations, .. } = scratch;
        let (x, out) = (&mut x[..rows * width], &mut out[..rows * width]);
        let (matrix, cols) = (&projection.matrix, projection.matrix.cols());
        activations.set(compute, &attention_out[..rows * cols], cols, matrix.activations(), decode_rows);
        kernels::matmul(compute, matrix, activations, out);
        bias(compute, projection, out);
        if let MixerWeights::AttentionAndMamba2(_) = &block.mixer {
            kernels::scale(compute, out, spec.factors.attention);
            kernels::add(compute, out, &beside[..rows * width]);
        }
        post_norm(compute, spec, block.attention_post_norm.as_ref(), out);
        add_residual(compute, spec, x, out);
    }

    /// The feed-forward, added to the residual.
    fn add_feed_forward(
        &self,
        compute: &Compute,
        block: &Block,
        rows: usize,
        decode_rows: usize,
        scratch: &mut Scratch,
    ) {
        let spec = &self.spec;
        let width = spec.width;
        let Scratch { x, h, out, gate, up, beside, activations, routing, .. } = scratch;
        let (x, h, out) = (&mut x[..rows * width], &mut h[..rows * width], &mut out[..rows * width]);
        match &block.feed {
            FeedWeights::None => return,
            FeedWeights::Dense(mlp) => {
                match &block.feed_norm {
                    Some(weights) => {
                        activations.set_normed(compute, norm(spec, weights), x, h, mlp.formats, decode_rows);
                    }
                    // Beside attention the feed-forward reads the norm of the layer's input.
                    None => {
                        let input = if spec.parallel { &*h } else { &*x };
                        activations.set(compute, input, width, mlp.formats, decode_rows);
                    }
                }
                feed_forward(compute, spec, mlp, decode_rows, &mut MlpBuffers { gate, up, activations }, out);
            }
            FeedWeights::Experts(weights) => {
                if let Some(weights) = &block.feed_norm {
                    norm(spec, weights).rows(compute, x, h);
                }
                let buffers = &mut MlpBuffers { gate, up, activations };
                if let Some(parts) = weights.beside.as_ref().zip(weights.shared.as_ref()) {
                    let sums = &mut beside[..rows * width];
                    let input = BesideInput { x, h, decode_rows, sums };
                    experts_beside::add(compute, spec, weights, parts, input, buffers, routing, out);
                } else {
                    let input = MixtureInput { h, decode_rows };
                    experts::mixture(compute, spec, weights, input, buffers, routing, out);
                }
            }
        }
        if spec.factors.feed != 1.0 {
            kernels::scale(compute, out, spec.factors.feed);
        }
        post_norm(compute, spec, block.feed_post_norm.as_ref(), out);
        add_residual(compute, spec, x, out);
    }

    /// The last norm of the first `rows` rows.
    pub(crate) fn last_norm(
        &self,
        compute: &Compute,
        weights: Option<&NormWeights>,
        rows: usize,
        scratch: &mut Scratch,
    ) {
        let Scratch { x, h, .. } = scratch;
        let (x, h) = (&x[..rows * self.spec.width], &mut h[..rows * self.spec.width]);
        match weights {
            Some(weights) => norm(&self.spec, weights).rows(compute, x, h),
            None => h.copy_from_slice(x),
        }
    }

    /// The output head, for the first `rows` rows of normalised hidden states.
    pub(crate) fn head<'s>(&self, compute: &Compute, rows: usize, scratch: &'s mut Scratch) -> &'s [f32] {
        let spec = &self.spec;
        let Scratch { h, logits, activations, .. } = scratch;
        let h = &h[..rows * spec.width];
        let logits = &mut logits[..rows * spec.vocab];
        if rows == 0 {
            return logits;
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        activations.set(compute, h, spec.width, head.activations(), rows);
        kernels::matmul(compute, head, activations, logits);
        if let Some(head_bias) = &self.head_bias {
            kernels::add_bias(compute, logits, head_bias);
        }
        if spec.logit_scale != 1.0 {
            kernels::scale(compute, logits, spec.logit_scale);
        }
        if let Some(cap) = spec.logit_soft_cap {
            kernels::soft_cap(compute, logits, cap);
        }
        // Eight-bit activations cannot hold a NaN and would turn it into plausible logits.
        for (row, logits) in h.chunks_exact(spec.width).zip(logits.chunks_exact_mut(spec.vocab)) {
            if row.iter().any(|v| !v.is_finite()) {
                logits.fill(f32::NAN);
            }
        }
        logits
    }
}
