//! Every buffer that `forward` writes, sized once from the spec and the largest batch.

use crate::latent_scratch::HeadBuffers;
use crate::mixer::Mixer;
use crate::mixture::Mixture;
use crate::routing::Routing;
use crate::spec::{FeedForward, Layer, Spec};
use cpu::AlignedVec;
use kernels::{Activations, RopeTable, SeqRows};

/// The buffers of a forward pass. One pass at a time uses them.
pub struct Scratch {
    pub(crate) max_rows: usize,
    pub(crate) max_logit_rows: usize,
    /// The residual stream `[rows, width]`.
    pub(crate) x: AlignedVec<f32>,
    /// The normalised hidden state, later the output of attention or feed-forward `[rows, width]`.
    pub(crate) h: AlignedVec<f32>,
    /// The output of attention or feed-forward, before it is added to the residual `[rows, width]`.
    pub(crate) out: AlignedVec<f32>,
    /// Queries `[rows, heads * head_dim]`.
    pub(crate) q: AlignedVec<f32>,
    /// The output of attention or recurrence `[rows, heads * head_dim]`; before that, its gate.
    pub(crate) attention_out: AlignedVec<f32>,
    /// What a recurrent layer convolves, later its output `[rows, channels]`; of latent attention the queries' latent.
    pub(crate) mixer_in: AlignedVec<f32>,
    /// Convolved rows `[rows, channels]`; where attention is gated, queries with their gates, later its output; of latent
    /// attention queries before they are brought to the latent, later its output.
    pub(crate) mixed: AlignedVec<f32>,
    /// The decay of each value head's state `[rows, value_heads]`.
    pub(crate) decay: Vec<f32>,
    /// The gain of each value head `[rows, value_heads]`.
    pub(crate) gain: Vec<f32>,
    /// Keys `[rows, kv_heads * head_dim]`.
    pub(crate) k: AlignedVec<f32>,
    /// Values `[rows, kv_heads * head_dim]`.
    pub(crate) v: AlignedVec<f32>,
    /// The gate projection, then its product with `up` `[rows, feed_width]`.
    pub(crate) gate: AlignedVec<f32>,
    /// The up projection `[rows, feed_width]`.
    pub(crate) up: AlignedVec<f32>,
    /// What each layer gets of a row beside its input `[rows, layers * per_layer_width]`.
    pub(crate) per_layer: AlignedVec<f32>,
    /// Residual streams where there are several, those of a row one after the other `[rows, streams * width]`.
    pub(crate) streams: AlignedVec<f32>,
    /// What the router of the streams gives `[rows, streams]`.
    pub(crate) modalities: Vec<f32>,
    /// The output of Mamba-2 beside attention, or the sums of experts beside a feed-forward `[rows, width]`.
    pub(crate) beside: AlignedVec<f32>,
    /// The last hidden states, from which further tokens are predicted `[rows, width]`; empty for other models.
    pub(crate) hidden: AlignedVec<f32>,
    /// Embeddings and hidden states side by side, the input of that prediction `[rows, 2 * width]`.
    pub(crate) joined: AlignedVec<f32>,
    /// Logits `[logit_rows, vocab]`.
    pub(crate) logits: AlignedVec<f32>,
    /// Cosines and sines of each row's position, for each of the spec's ropes.
    pub(crate) ropes: Vec<RopeTable>,
    /// The KV cache slot of each row: block, and position in the block.
    pub(crate) slots: Vec<(u32, u32)>,
    /// The memory of the list of wanted rows by sequence; empty between passes.
    pub(crate) wanted: Vec<SeqRows<'static>>,
    /// The quantized input of the current matrix product.
    pub(crate) activations: Activations,
    /// The buffers of latent attention's products by head.
    pub(crate) heads: HeadBuffers,
    /// The assignment of rows to experts.
    pub(crate) routing: Routing,
}

impl Scratch {
    /// Allocates for batches of at most `max_rows` rows, of which at most `max_logit_rows` get logits.
    #[must_use]
    pub fn new(spec: &Spec, max_rows: usize, max_logit_rows: usize) -> Scratch {
        let (rows, logit_rows) = (max_rows.max(1), max_logit_rows.max(1));
        let floats = |cols: usize| AlignedVec::new(rows * cols);
        let (q, kv, feed) = (spec.query_width(), spec.kv_width(), feed_width(spec));
        Scratch {
            max_rows: rows,
            max_logit_rows: logit_rows,
            x: floats(spec.width),
            h: floats(spec.width),
            out: floats(spec.width),
            q: floats(q),
            attention_out: floats(out_width(spec)),
            mixer_in: floats(channels(spec)),
            mixed: floats(mixed_width(spec)),
            decay: vec![0.0; rows * factors(spec)],
            gain: vec![0.0; rows * factors(spec)],
            k: floats(kv),
            v: floats(kv),
            gate: floats(feed),
            up: floats(feed),
            per_layer: floats(spec.layers.len() * spec.per_layer_width),
            streams: floats(streams(spec) * spec.width),
            modalities: vec![0.0; rows * streams(spec)],
            beside: floats(beside_width(spec)),
            hidden: floats(joined_width(spec) / 2),
            joined: floats(joined_width(spec)),
            logits: AlignedVec::new(logit_rows * spec.vocab),
            ropes: spec.ropes.iter().map(|r| RopeTable::new(rows, r.rotary_dim / 2)).collect(),
            slots: vec![(0, 0); rows],
            wanted: Vec::with_capacity(logit_rows),
            activations: Activations::new(rows, widest(spec)),
            heads: HeadBuffers::new(spec, rows),
            routing: Routing::new(spec, rows),
        }
    }

    /// Bytes that [`Scratch::new`] allocates.
    #[must_use]
    pub fn bytes(spec: &Spec, max_rows: usize, max_logit_rows: usize) -> u64 {
        let (rows, logit_rows) = (max_rows.max(1) as u64, max_logit_rows.max(1) as u64);
        let rotary: usize = spec.ropes.iter().map(|r| r.rotary_dim).sum();
        let mut floats = 3 * spec.width + spec.query_width() + 2 * spec.kv_width() + 2 * feed_width(spec);
        floats += out_width(spec) + channels(spec) + mixed_width(spec) + 2 * factors(spec);
        floats += spec.layers.len() * spec.per_layer_width + beside_width(spec) + rotary + 2;
        floats += streams(spec) * (spec.width + 1) + joined_width(spec) / 2 * 3;
        // Two 8-bit halves with their scales and sums take 4 bytes a value, bf16 2, f32 4.
        let activations = 10 * rows * widest(spec).next_multiple_of(32) as u64;
        let floats = rows * floats as u64 + logit_rows * spec.vocab as u64;
        4 * floats + activations + HeadBuffers::bytes(spec, rows) + Routing::bytes(spec, rows)
    }
}

/// The largest K of any matrix of the model.
fn widest(spec: &Spec) -> usize {
    let within = spec.layers.iter().map(|layer| layer.mixer.widest_within()).max().unwrap_or(0);
    spec.width.max(out_width(spec)).max(feed_width(spec)).max(within).max(joined_width(spec))
}

/// Columns of [`Scratch::joined`].
fn joined_width(spec: &Spec) -> usize {
    if spec.predicts() { 2 * spec.width } else { 0 }
}

/// The most columns of a feed-forward, of a layer's own embeddings, or of a low-rank map.
fn feed_width(spec: &Spec) -> usize {
    let rank = spec.alt_up.map_or(0, |alt_up| alt_up.laurel_rank);
    spec.feed_width().max(spec.per_layer_width).max(rank)
}

/// Residual streams that are kept beside [`Scratch::x`].
fn streams(spec: &Spec) -> usize {
    spec.alt_up.map_or(0, |alt_up| alt_up.streams)
}

/// Columns of [`Scratch::beside`].
fn beside_width(spec: &Spec) -> usize {
    let experts = |layer: &Layer| matches!(layer.feed, FeedForward::Experts(Mixture { beside: true, .. }));
    let mixers = |layer: &Layer| matches!(layer.mixer, Mixer::AttentionAndMamba2(_));
    if spec.layers.iter().any(|layer| experts(layer) || mixers(layer)) { spec.width } else { 0 }
}

/// The widest output of attention or recurrence.
fn out_width(spec: &Spec) -> usize {
    let attention = spec.query_width();
    spec.layers.iter().map(|layer| layer.mixer.widest_out(attention)).fold(attention, usize::max)
}

/// The most channels of a convolution.
fn channels(spec: &Spec) -> usize {
    spec.layers.iter().map(|layer| layer.mixer.channels()).max().unwrap_or(0)
}

/// Columns of [`Scratch::mixed`].
fn mixed_width(spec: &Spec) -> usize {
    let gated = if spec.attention_gate { 2 * spec.query_width() } else { 0 };
    spec.layers.iter().map(|layer| layer.mixer.mixed_width()).fold(gated, usize::max)
}

/// The most value heads of a recurrent layer.
fn factors(spec: &Spec) -> usize {
    spec.layers.iter().map(|layer| layer.mixer.factors()).max().unwrap_or(0)
}
