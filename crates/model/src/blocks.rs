//! The weights of a loaded model, layer by layer.

use crate::latent::LatentAttention;
use crate::mixer::{DeltaNet, Mamba2, ShortConv};
use crate::mixture::Mixture;
use kernels::{ActFormats, DistanceBias, KvHeads, Matrix, RelativeIndex};

/// The weights that only encoders have.
#[derive(Default)]
pub(crate) struct EncoderWeights {
    /// Learned positions `[rows, width]`.
    pub(crate) position: Option<Vec<f32>>,
    /// Token types `[types, width]`.
    pub(crate) token_type: Option<Vec<f32>>,
    pub(crate) embedding_norm: Option<NormWeights>,
    /// Score biases by key minus query.
    pub(crate) bias: Option<DistanceBias>,
    /// Which relative embedding is that of a distance (DeBERTa).
    pub(crate) relative_index: Option<RelativeIndex>,
    /// The matrices of the heads, by their index.
    pub(crate) linears: Vec<Linear>,
    /// The norms of the heads, by their index.
    pub(crate) norms: Vec<NormWeights>,
}

/// The projections of relative positions in a layer, `[rows, head_dim]` for each head (DeBERTa).
pub(crate) struct RelativeProjections {
    pub(crate) keys: Vec<Matrix>,
    pub(crate) queries: Vec<Matrix>,
}

/// The weights of one transformer block (layer).
pub(crate) struct Block {
    pub(crate) attention_norm: Option<NormWeights>,
    pub(crate) relative: Option<RelativeProjections>,
    /// The projections of relative positions to keys and queries, until [`Block::relative`] is computed.
    pub(crate) position_key: Option<Linear>,
    pub(crate) position_query: Option<Linear>,
    pub(crate) mixer: MixerWeights,
    /// The output projection of the mixer.
    pub(crate) out: Option<Linear>,
    pub(crate) attention_post_norm: Option<NormWeights>,
    pub(crate) feed_norm: Option<NormWeights>,
    pub(crate) feed: FeedWeights,
    pub(crate) feed_post_norm: Option<NormWeights>,
    /// What adds the layer's own embedding of a token.
    pub(crate) per_layer: Option<PerLayerWeights>,
    /// What predicts and corrects residual streams.
    pub(crate) alt_up: Option<Box<AltUpWeights>>,
    /// The factor on the layer's output.
    pub(crate) scale: f32,
}

/// The weights of a layer of several residual streams.
pub(crate) struct AltUpWeights {
    /// The norm of the router's input.
    pub(crate) router_norm: NormWeights,
    /// `[streams, width]`
    pub(crate) router: Matrix,
    /// `[streams * streams, streams]`: from the router's output to the factors of each stream in the prediction of each.
    pub(crate) prediction: Vec<f32>,
    /// `[streams, streams]`: from the router's output to the factor of each stream's correction, less 1.
    pub(crate) correction: Vec<f32>,
    /// The factor on each column of the corrected stream that gates the layer's own embedding.
    pub(crate) scale: Option<Vec<f32>>,
    pub(crate) laurel: LaurelWeights,
}

/// The weights of a low-rank map beside attention.
pub(crate) struct LaurelWeights {
    /// `[rank, width]`
    pub(crate) left: Matrix,
    /// `[width, rank]`
    pub(crate) right: Matrix,
    pub(crate) norm: NormWeights,
}

/// The weights that add a layer's own embedding of a token to its output.
pub(crate) struct PerLayerWeights {
    /// The gate of the embedding `[per_layer_width, width]`.
    pub(crate) gate: Matrix,
    /// `[width, per_layer_width]`
    pub(crate) out: Matrix,
    pub(crate) norm: NormWeights,
}

/// The weights around the layer that predicts the token after the next.
pub(crate) struct PredictionWeights {
    /// The norm of the next token's embedding.
    pub(crate) embedding_norm: NormWeights,
    /// The norm of the last hidden state.
    pub(crate) hidden_norm: NormWeights,
    /// From both, side by side, to the layer's input `[width, 2 * width]`.
    pub(crate) input: Matrix,
    /// The norm of the layer's output, before the head.
    pub(crate) norm: NormWeights,
}

/// The weights of what mixes the positions of a layer.
pub(crate) enum MixerWeights {
    None,
    Attention(Box<AttentionWeights>),
    Latent(Box<LatentWeights>),
    DeltaNet(Box<DeltaNetWeights>),
    ShortConv(Box<ShortConvWeights>),
    Mamba2(Box<Mamba2Weights>),
    AttentionAndMamba2(Box<(AttentionWeights, Mamba2Weights)>),
}

/// The weights of Mamba-2 before its output projection.
pub(crate) struct Mamba2Weights {
    pub(crate) shape: Mamba2,
    /// The gate of the output `[inner_width, width]`.
    pub(crate) gate: Matrix,
    /// What is convolved `[channels, width]`.
    pub(crate) input: Matrix,
    /// The steps in time `[heads, width]`.
    pub(crate) step: Matrix,
    pub(crate) formats: ActFormats,
    /// `[kernel, channels]`
    pub(crate) conv: Vec<f32>,
    /// `[channels]`
    pub(crate) conv_bias: Option<Vec<f32>>,
    /// `[heads]`: the negative decay rates.
    pub(crate) rates: Vec<f32>,
    /// `[heads]`
    pub(crate) time_bias: Vec<f32>,
    /// `[heads]`: the share of a head's input in its output.
    pub(crate) skip: Vec<f32>,
    /// `[inner_width]`
    pub(crate) norm: Option<Vec<f32>>,
    /// The output projection beside that of attention.
    pub(crate) out: Option<Matrix>,
    /// The layer's first value in a state.
    pub(crate) state: usize,
}

/// The weights of a short convolution before its output projection.
pub(crate) struct ShortConvWeights {
    pub(crate) shape: ShortConv,
    /// Gates and input `[3 * channels, width]`.
    pub(crate) input: Matrix,
    /// `[kernel, channels]`
    pub(crate) conv: Vec<f32>,
    /// The layer's first value in a state.
    pub(crate) state: usize,
}

/// The weights of attention before its output projection.
pub(crate) struct AttentionWeights {
    pub(crate) heads: KvHeads,
    pub(crate) query: Linear,
    pub(crate) query_norm: Option<Vec<f32>>,
    /// Keys and values, unless they are an earlier layer's.
    pub(crate) keys: Option<KeyWeights>,
    pub(crate) formats: ActFormats,
    /// The sink of each query head.
    pub(crate) sinks: Option<Vec<f32>>,
    /// The layer of the KV cache.
    pub(crate) kv_layer: usize,
}

/// The weights of latent attention before its output projection.
pub(crate) struct LatentWeights {
    pub(crate) shape: LatentAttention,
    /// The projection to the queries' latent `[query_rank, width]`, and its norm, if they have one.
    pub(crate) query_latent: Option<(Matrix, Vec<f32>)>,
    /// Queries `[heads * query_dim, query_rank or width]`.
    pub(crate) query: Matrix,
    /// The latent of keys and values, and what rotates of the key `[rank + rotary, width]`.
    pub(crate) latent: Matrix,
    /// `[rank]`
    pub(crate) latent_norm: Vec<f32>,
    /// What brings each head's query to the latent `[rank, plain]`.
    pub(crate) keys: Vec<Matrix>,
    /// Each head's values of the latent `[value_dim, rank]`.
    pub(crate) values: Vec<Matrix>,
    /// The formats of the projections of the layer's input.
    pub(crate) formats: ActFormats,
    /// The layer of the KV cache.
    pub(crate) kv_layer: usize,
}

/// The weights of keys and values.
pub(crate) struct KeyWeights {
    pub(crate) key: Linear,
    pub(crate) key_norm: Option<Vec<f32>>,
    /// `None` where a value is its key before norm and rope.
    pub(crate) value: Option<Linear>,
    /// The weight of the values' norm `[head_dim]`.
    pub(crate) value_norm: Option<Vec<f32>>,
}

/// The weights of a gated DeltaNet before its output projection.
pub(crate) struct DeltaNetWeights {
    pub(crate) shape: DeltaNet,
    /// Queries, keys and values `[channels, width]`.
    pub(crate) input: Matrix,
    /// The gate of the output `[values_width, width]`.
    pub(crate) gate: Matrix,
    /// `[value_heads, width]`: of the gains.
    pub(crate) beta: Matrix,
    /// `[value_heads, width]`: of the decays.
    pub(crate) alpha: Matrix,
    pub(crate) formats: ActFormats,
    /// `[kernel, channels]`
    pub(crate) conv: Vec<f32>,
    /// `[value_heads]`: the negative decay rates.
    pub(crate) rates: Vec<f32>,
    /// `[value_heads]`
    pub(crate) time_bias: Vec<f32>,
    /// `[value_dim]`
    pub(crate) norm: Vec<f32>,
    /// The layer's first value in a state.
    pub(crate) state: usize,
}

impl MixerWeights {
    /// The formats of the input's projections.
    pub(crate) fn formats(&self) -> ActFormats {
        match self {
            MixerWeights::None => ActFormats::default(),
            MixerWeights::Attention(attention) => attention.formats,
            MixerWeights::Latent(latent) => latent.formats,
            MixerWeights::DeltaNet(net) => net.formats,
            MixerWeights::ShortConv(conv) => conv.input.activations(),
            MixerWeights::Mamba2(net) => net.formats,
            MixerWeights::AttentionAndMamba2(both) => both.0.formats | both.1.formats,
        }
    }

    /// The weights of attention: all that encoders have.
    ///
    /// # Panics
    /// For a recurrent layer.
    pub(crate) fn attention(&self) -> &AttentionWeights {
        match self {
            MixerWeights::Attention(attention) => attention,
            _ => unreachable!("encoders have attention only"),
        }
    }
}

/// A norm's weight, and its bias if it is a layer norm.
pub(crate) struct NormWeights {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

/// A matrix `[rows, cols]` with an optional bias `[rows]`.
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// The feed-forward weights of a block.
pub(crate) enum FeedWeights {
    /// The block has none.
    None,
    /// One feed-forward for all rows.
    Dense(Box<Mlp>),
    /// A router and its experts.
    Experts(Box<MixtureWeights>),
}

/// The weights of a mixture of experts.
pub(crate) struct MixtureWeights {
    pub(crate) mixture: Mixture,
    pub(crate) router: Matrix,
    /// A value for each expert, if the router has a bias.
    pub(crate) router_bias: Option<Vec<f32>>,
    pub(crate) experts: Vec<Mlp>,
    pub(crate) shared: Option<Shared>,
    /// What a mixture beside the layer's own feed-forward has; [`Mixture::beside`].
    pub(crate) beside: Option<BesideWeights>,
    /// The formats in which the router and what all rows use read their input.
    pub(crate) formats: ActFormats,
}

/// The vectors of a mixture beside the layer's own feed-forward.
pub(crate) struct BesideWeights {
    /// The norm of the router's input.
    pub(crate) router_norm: NormWeights,
    /// The factor on the weight of each expert.
    pub(crate) scales: Vec<f32>,
    /// The norm of the experts' input.
    pub(crate) experts_norm: NormWeights,
    /// The norm of their output.
    pub(crate) experts_post_norm: NormWeights,
    /// The norm of the feed-forward's output.
    pub(crate) shared_post_norm: NormWeights,
}

/// The expert that every row uses, and the projection `[1, width]` whose sigmoid weighs its output.
pub(crate) struct Shared {
    pub(crate) mlp: Mlp,
    pub(crate) gate: Option<Matrix>,
}

/// The matrices of a feed-forward: gate (if gated), up and down, with their activation formats.
pub(crate) struct Mlp {
    pub(crate) gate: Option<Linear>,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) formats: ActFormats,
    /// [`Layer::gate_cutoff`](crate::spec::Layer::gate_cutoff).
    pub(crate) cutoff: Option<f32>,
}

impl Block {
    /// Asks the system to read the layer's matrices that are on the disk, but for the experts', which not all rows need.
    pub(crate) fn read_ahead(&self) {
        match &self.mixer {
            MixerWeights::None => {}
            MixerWeights::Attention(attention) => attention.read_ahead(),
            MixerWeights::Latent(latent) => latent.matrices().for_each(Matrix::read_ahead),
            MixerWeights::DeltaNet(net) => {
                [&net.input, &net.gate, &net.beta, &net.alpha].into_iter().for_each(Matrix::read_ahead);
            }
            MixerWeights::ShortConv(conv) => conv.input.read_ahead(),
            MixerWeights::Mamba2(net) => net.read_ahead(),
            MixerWeights::AttentionAndMamba2(both) => {
                both.0.read_ahead();
                both.1.read_ahead();
            }
        }
        self.out.iter().for_each(|out| out.matrix.read_ahead());
        if let Some(own) = &self.per_layer {
            own.gate.read_ahead();
            own.out.read_ahead();
        }
        self.alt_up.iter().for_each(|streams| streams.matrices().into_iter().for_each(Matrix::read_ahead));
        match &self.feed {
            FeedWeights::None => {}
            FeedWeights::Dense(mlp) => mlp.read_ahead(),
            FeedWeights::Experts(mixture) => {
                mixture.router.read_ahead();
                if let Some(shared) = &mixture.shared {
                    shared.mlp.read_ahead();
                    shared.gate.iter().for_each(Matrix::read_ahead);
                }
            }
        }
    }

    pub(crate) fn prefill_numerics_differ(&self) -> bool {
        let differs = |matrix: &Matrix| matrix.activations().q8_decode_bf16_prefill;
        let mlp = |mlp: &Mlp| mlp.formats.q8_decode_bf16_prefill || differs(&mlp.down.matrix);
        let feed = match &self.feed {
            FeedWeights::None => false,
            FeedWeights::Dense(dense) => mlp(dense),
            FeedWeights::Experts(weights) => {
                let shared = weights.shared.as_ref();
                differs(&weights.router)
                    || weights.experts.iter().any(mlp)
                    || shared
                        .is_some_and(|shared| mlp(&shared.mlp) || shared.gate.as_ref().is_some_and(differs))
            }
        };
        let beside = match &self.mixer {
            MixerWeights::AttentionAndMamba2(both) => both.1.out.as_ref().is_some_and(differs),
            MixerWeights::Latent(latent) => latent.matrices().any(differs),
            _ => false,
        };
        let out = beside || self.out.as_ref().is_some_and(|out| differs(&out.matrix));
        let own = self.per_layer.as_ref().is_some_and(|own| differs(&own.gate) || differs(&own.out));
        let streams = self.alt_up.as_ref().is_some_and(|streams| streams.matrices().into_iter().any(differs));
        self.mixer.formats().q8_decode_bf16_prefill || out || feed || own || streams
    }
}

impl AltUpWeights {
    fn matrices(&self) -> [&Matrix; 3] {
        [&self.router, &self.laurel.left, &self.laurel.right]
    }
}

impl MixtureWeights {
    pub(crate) fn new(
        mixture: Mixture,
        (router, router_bias): (Matrix, Option<Vec<f32>>),
        experts: Vec<Mlp>,
        shared: Option<Shared>,
        beside: Option<BesideWeights>,
    ) -> MixtureWeights {
        let mut formats = router.activations();
        if let Some(shared) = &shared {
            formats = formats | shared.mlp.formats;
            formats = shared.gate.iter().fold(formats, |formats, gate| formats | gate.activations());
        }
        MixtureWeights { mixture, router, router_bias, experts, shared, beside, formats }
    }
}

impl AttentionWeights {
    fn read_ahead(&self) {
        self.query.matrix.read_ahead();
        if let Some(keys) = &self.keys {
            keys.key.matrix.read_ahead();
            keys.value.iter().for_each(|value| value.matrix.read_ahead());
        }
    }
}

impl LatentWeights {
    fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let down = self.query_latent.iter().map(|(matrix, _)| matrix);
        down.chain([&self.query, &self.latent]).chain(&self.keys).chain(&self.values)
    }
}

impl Mamba2Weights {
    fn read_ahead(&self) {
        [&self.input, &self.gate, &self.step].into_iter().chain(&self.out).for_each(Matrix::read_ahead);
    }
}

impl Mlp {
    /// Asks the system to read the matrices that are on the disk.
    pub(crate) fn read_ahead(&self) {
        self.gate.iter().for_each(|gate| gate.matrix.read_ahead());
        self.up.matrix.read_ahead();
        self.down.matrix.read_ahead();
    }

    pub(crate) fn new(gate: Option<Linear>, up: Linear, down: Linear) -> Mlp {
        let mut formats = up.matrix.activations();
        if let Some(gate) = &gate {
            formats = formats | gate.matrix.activations();
        }
        Mlp { gate, up, down, formats, cutoff: None }
    }
}
