//! The spec of a model: everything in which decoders differ, and the list of weights that follows from it.

mod alt_up;
mod attention;
mod check;
mod factors;
mod layer_weights;
mod norms;
mod positions;
mod prediction;
mod prediction_layer;

use crate::heads::Heads;
use crate::mixer::Mixer;
use crate::mixture::Mixture;
use crate::name_table::Names;
use crate::rope::Rope;
use crate::weight_role::{WeightDecl, WeightRole, decl, put_if};
use kernels::{Activation, KvHeads, Pairing};

pub use alt_up::AltUp;
pub(crate) use alt_up::MAX_STREAMS;
pub use attention::{KvSource, QkNorm, QueryTemperature};
pub use factors::LayerFactors;
pub use norms::{Norm, NormKind, NormPlace};
pub use positions::{Direction, Positions};
pub use prediction::Prediction;

/// The dimensions and options of one decoder-only transformer.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The family's name as a GGUF spells it, for example `llama`.
    pub family: &'static str,
    /// Tokens in the vocabulary: rows of the embedding and of the head.
    pub vocab: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Tokens of context: what the file declares, or less after [`Spec::limit_context`].
    pub context: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads of layers without [`Layer::heads`]; divides `heads`.
    pub kv_heads: usize,
    /// Size of one head in layers without [`Layer::heads`].
    pub head_dim: usize,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// The kind and epsilon of every norm of the model.
    pub norm: Norm,
    /// Where the norms of a layer are.
    pub norm_place: NormPlace,
    /// Whether the token embeddings are normalised before the first layer.
    pub embedding_norm: bool,
    /// Whether the hidden states are normalised after the last layer.
    pub final_norm: bool,
    /// Whether attention and feed-forward read the same normalised input and are added together (Phi-2).
    pub parallel: bool,
    /// The RMS norm of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether values are normalised too, head by head and without a weight.
    pub value_norm: bool,
    /// Width of the embedding that each layer has of a token, beside that of the model; 0 for none.
    pub per_layer_width: usize,
    /// Tokens that have such an embedding; later ones have that of the first.
    pub per_layer_vocab: usize,
    /// The residual streams, where there is more than the usual one.
    pub alt_up: Option<AltUp>,
    /// Whether the output of each layer is multiplied by a number of its own.
    pub layer_scale: bool,
    /// The factor on queries by their position.
    pub query_temperature: Option<QueryTemperature>,
    /// Whether the query projection gives, after each head's query, a gate of its output: `sigmoid(gate) · attention`.
    pub attention_gate: bool,
    /// The file's layers that predict further tokens.
    pub prediction: Prediction,
    /// Whether each query head has an attention sink, a score without a value.
    pub sinks: bool,
    /// Which projections have a bias.
    pub biases: Biases,
    /// The activation function of the feed-forward.
    pub activation: Activation,
    /// Whether the feed-forward is `down(act(gate x) * up x)` (gated) or `down(act(up x))`.
    pub gated: bool,
    /// Which dimensions of a head rotate together, in this file.
    pub pairing: Pairing,
    /// The rotary tables; [`Layer::rope`] is an index.
    pub ropes: Vec<Rope>,
    /// What an encoder's positions attend to; decoders are causal.
    pub direction: Direction,
    /// How positions enter beside rope.
    pub positions: Positions,
    /// Rows of the token type embedding; 0 for a model without token types.
    pub token_types: usize,
    /// The factor on attention scores.
    pub attention_scale: f32,
    /// The cap of attention scores: `cap * tanh(score / cap)`.
    pub attention_soft_cap: Option<f32>,
    /// The cap of logits: `cap * tanh(logit / cap)`.
    pub logit_soft_cap: Option<f32>,
    /// Factors on parts of all layers.
    pub factors: LayerFactors,
    /// The factor on embeddings.
    pub embedding_scale: f32,
    /// The factor on the outputs of attention and feed-forward before they are added to the residual.
    pub residual_scale: f32,
    /// The factor on logits.
    pub logit_scale: f32,
    /// The language model's output head.
    pub lm_head: LmHead,
    /// What an encoder makes of the last hidden states; none for a model that only generates.
    pub encoder: Option<Box<Heads>>,
    /// The tensor names of a Hugging Face directory, for families that do not have those of Llama.
    pub(crate) names: Option<&'static Names>,
}

/// The output head of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LmHead {
    /// There is none.
    None,
    /// The head is the embedding.
    Tied,
    /// The head has weights of its own.
    Own,
}

/// One layer: a mixer and a feed-forward, or one of them.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What mixes the positions; the window and rope are those of attention.
    pub mixer: Mixer,
    /// Sliding window: a position attends to itself and the `window - 1` before it, in a bidirectional model to those at
    /// a distance of at most `window`; `None` for full attention.
    pub window: Option<usize>,
    /// Index into [`Spec::ropes`]; `None` for a layer without rope.
    pub rope: Option<usize>,
    /// The key and value heads of attention where they are not the spec's.
    pub heads: Option<KvHeads>,
    /// Where the keys and values of attention are from.
    pub kv: KvSource,
    /// The feed-forward of this layer.
    pub feed: FeedForward,
    /// The limit above which a gate counts, in standard deviations above the mean of the row's gates: the activation is
    /// of what exceeds the limit, or of 0. `None` where gates are taken as they are.
    pub gate_cutoff: Option<f32>,
    /// Whether the input of attention is normalised where the model is pre-norm; not in ModernBERT's first layer, whose
    /// embeddings just were.
    pub attention_norm: bool,
}

/// The feed-forward of a layer: dense, a mixture of experts, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// There is none: the layer is a mixer alone, as in Nemotron-H.
    None,
    /// One feed-forward for every row.
    Dense {
        /// Rows of gate and up.
        width: usize,
    },
    /// Mixture of experts: a router picks some of them for each row.
    Experts(Mixture),
}

/// Which projections have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Whether query, key and value projections have a bias.
    pub qkv: bool,
    /// Whether the attention output projection has a bias.
    pub out: bool,
    /// Whether all feed-forward projections have a bias.
    pub feed: bool,
    /// Whether the down projection has a bias although the others have none.
    pub down: bool,
    /// Whether the output head has a bias.
    pub head: bool,
}

impl Spec {
    /// Limits the context to `tokens`. Call this before loading: LongRoPE chooses its factors by the context.
    pub fn limit_context(&mut self, tokens: usize) {
        self.context = self.context.min(tokens.max(1));
    }

    /// The key and value heads of a layer.
    #[must_use]
    pub fn heads_of(&self, layer: &Layer) -> KvHeads {
        layer.heads.unwrap_or(KvHeads { kv_heads: self.kv_heads, head_dim: self.head_dim })
    }

    /// Width of all query heads of a layer together.
    #[must_use]
    pub fn query_width_of(&self, layer: &Layer) -> usize {
        self.heads * self.heads_of(layer).head_dim
    }

    /// Width of all query heads together, in the widest layer.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.layers.iter().map(|layer| self.query_width_of(layer)).max().unwrap_or(0)
    }

    /// Rows of a layer's query projection: queries, and gates if there are some.
    #[must_use]
    pub fn query_rows_of(&self, layer: &Layer) -> usize {
        self.query_width_of(layer) * if self.attention_gate { 2 } else { 1 }
    }

    /// Whether sequences have recurrent states.
    #[must_use]
    pub fn has_states(&self) -> bool {
        self.layers.iter().any(|layer| layer.state_floats() > 0)
    }

    /// Layers with keys and values of their own, which are those of the KV cache.
    #[must_use]
    pub fn kv_layers(&self) -> usize {
        self.layers.iter().filter(|layer| layer.has_own_keys()).count()
    }

    /// The layer of the KV cache that attention in layer `index` reads.
    #[must_use]
    pub fn kv_layer(&self, index: usize) -> usize {
        let from = match self.layers[index].kv {
            KvSource::Layer(earlier) => earlier,
            KvSource::Own | KvSource::OneProjection => index,
        };
        self.layers[..from].iter().filter(|layer| layer.has_own_keys()).count()
    }

    /// The last layer that keeps something of a row for later rows: keys and values, or a state.
    #[must_use]
    pub fn last_kept_layer(&self) -> usize {
        let keeps = |layer: &Layer| layer.has_own_keys() || layer.state_floats() > 0;
        self.layers.iter().rposition(keeps).unwrap_or(0)
    }

    /// Width of all key heads together, which equals that of all value heads, in the widest layer.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.layers.iter().map(|layer| self.heads_of(layer).width()).max().unwrap_or(0)
    }

    /// The widest feed-forward of any layer: of one expert, or of that which all rows use, where there are experts.
    #[must_use]
    pub fn feed_width(&self) -> usize {
        self.layers.iter().map(|l| l.feed.widest()).max().unwrap_or(0)
    }

    /// The largest `(count, used)` of any layer's experts; zeros for a dense model.
    #[must_use]
    pub fn experts(&self) -> (usize, usize) {
        self.layers.iter().fold((0, 0), |(count, used), layer| match layer.feed {
            FeedForward::None | FeedForward::Dense { .. } => (count, used),
            FeedForward::Experts(mixture) => (count.max(mixture.count), used.max(mixture.used)),
        })
    }

    /// The number of parameters of the whole model.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.weights().iter().map(|w| w.shape.iter().map(|&n| n as u64).product::<u64>()).sum()
    }

    /// Every weight of the model with its shape, once, in the order of the forward pass.
    #[must_use]
    pub fn weights(&self) -> Vec<WeightDecl> {
        let mut all = self.input_weights();
        for (index, layer) in self.layers.iter().enumerate() {
            self.layer_weights(layer, &mut |part, shape| {
                all.push(decl(WeightRole::Layer(index, part), shape))
            });
        }
        self.prediction_weights(&mut all);
        for stream in 1..self.alt_up.map_or(1, |alt_up| alt_up.streams) {
            all.push(decl(WeightRole::StreamMerge(stream), &[self.width, self.width]));
        }
        let width: &[usize] = &[self.width];
        put_if(&mut all, self.final_norm, WeightRole::FinalNorm, width);
        put_if(&mut all, self.final_norm && self.norm.bias, WeightRole::FinalNormBias, width);
        put_if(&mut all, self.lm_head == LmHead::Own, WeightRole::Head, &[self.vocab, self.width]);
        put_if(&mut all, self.biases.head, WeightRole::HeadBias, &[self.vocab]);
        if let Some(heads) = &self.encoder {
            heads_weights(heads, &mut all);
        }
        all
    }

    /// The weights of the embeddings and of relative positions.
    fn input_weights(&self) -> Vec<WeightDecl> {
        let (width, bias) = (self.width, self.norm.bias);
        let mut all = vec![decl(WeightRole::Embedding, &[self.vocab, width])];
        if let Some((rows, _)) = self.positions.learned() {
            all.push(decl(WeightRole::Position, &[rows, width]));
        }
        let per_layer = self.layers.len() * self.per_layer_width;
        let per_layer_table: &[usize] = &[self.per_layer_vocab, per_layer];
        put_if(&mut all, per_layer > 0, WeightRole::PerLayerEmbedding, per_layer_table);
        put_if(&mut all, per_layer > 0, WeightRole::PerLayerProjection, &[per_layer, width]);
        put_if(&mut all, per_layer > 0, WeightRole::PerLayerNorm, &[self.per_layer_width]);
        for stream in 1..self.alt_up.map_or(1, |alt_up| alt_up.streams) {
            all.push(decl(WeightRole::StreamProjection(stream), &[width, width]));
        }
        put_if(&mut all, self.token_types > 0, WeightRole::TokenType, &[self.token_types, width]);
        put_if(&mut all, self.embedding_norm, WeightRole::EmbeddingNorm, &[width]);
        put_if(&mut all, self.embedding_norm && bias, WeightRole::EmbeddingNormBias, &[width]);
        match self.positions {
            Positions::Buckets { buckets, .. } => {
                all.push(decl(WeightRole::RelativeBias, &[buckets, self.heads]));
            }
            Positions::Disentangled { norm, .. } => {
                all.push(decl(WeightRole::Relative, &[self.positions.relative_rows(), width]));
                put_if(&mut all, norm, WeightRole::RelativeNorm, &[width]);
                put_if(&mut all, norm, WeightRole::RelativeNormBias, &[width]);
            }
            _ => {}
        }
        all
    }
}

impl Layer {
    /// A layer of attention over all positions, with the first rotary table.
    pub(crate) fn attention(feed: FeedForward) -> Layer {
        Layer {
            mixer: Mixer::Attention,
            window: None,
            rope: Some(0),
            heads: None,
            kv: KvSource::Own,
            feed,
            gate_cutoff: None,
            attention_norm: true,
        }
    }

    /// Whether the layer writes keys and values.
    pub(crate) fn has_own_keys(&self) -> bool {
        self.mixer.is_attention() && !matches!(self.kv, KvSource::Layer(_))
    }

    /// Values that the layer keeps of a sequence in its recurrent state; 0 for attention.
    #[must_use]
    pub fn state_floats(&self) -> usize {
        self.mixer.state_floats()
    }
}

impl FeedForward {
    /// Rows of gate and up (of one expert if there are experts).
    #[must_use]
    pub fn width(&self) -> usize {
        match *self {
            FeedForward::None => 0,
            FeedForward::Dense { width } | FeedForward::Experts(Mixture { width, .. }) => width,
        }
    }

    /// Rows of gate and up of all that a row uses.
    #[must_use]
    pub fn active_width(&self) -> usize {
        match self {
            FeedForward::None => 0,
            FeedForward::Dense { width } => *width,
            FeedForward::Experts(mixture) => mixture.active_width(),
        }
    }

    /// Rows of gate and up, the most of what is computed at once.
    fn widest(&self) -> usize {
        match self {
            FeedForward::None => 0,
            FeedForward::Dense { width } => *width,
            FeedForward::Experts(mixture) => {
                mixture.shared.map_or(0, |shared| shared.width).max(mixture.width)
            }
        }
    }
}

/// Appends the weights of all stacks of an encoder's heads.
fn heads_weights(heads: &Heads, all: &mut Vec<WeightDecl>) {
    for (index, linear) in heads.linears.iter().enumerate() {
        all.push(decl(WeightRole::Task(index), &[linear.rows, linear.cols]));
        put_if(all, linear.bias.is_some(), WeightRole::TaskBias(index), &[linear.rows]);
    }
    for (index, norm) in heads.norms.iter().enumerate() {
        all.push(decl(WeightRole::TaskNorm(index), &[norm.width]));
        put_if(all, norm.bias.is_some(), WeightRole::TaskNormBias(index), &[norm.width]);
    }
}
