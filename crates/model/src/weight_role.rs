//! The roles of weights: what each tensor of a model is for, whatever its name in a file.

/// The role of a weight in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightRole {
    /// Token embedding `[vocab, width]`.
    Embedding,
    /// The last norm's weight `[width]`.
    FinalNorm,
    /// The last norm's bias `[width]`.
    FinalNormBias,
    /// The output head `[vocab, width]`, absent when tied.
    Head,
    /// The head's bias `[vocab]`.
    HeadBias,
    /// The embedding of tokens for every layer `[vocab, layers * per_layer_width]`, which stays in the file.
    PerLayerEmbedding,
    /// The projection of the embedding to what it adds for every layer `[layers * per_layer_width, width]`.
    PerLayerProjection,
    /// The norm of that projection, for each layer apart `[per_layer_width]`.
    PerLayerNorm,
    /// The projection of the embedding to a residual stream but the first, by its index `[width, width]`.
    StreamProjection(usize),
    /// The projection of a residual stream but the first to its part of the last hidden state, by its index
    /// `[width, width]`.
    StreamMerge(usize),
    /// Learned position embedding `[positions, width]`.
    Position,
    /// Token type embedding `[types, width]`.
    TokenType,
    /// The norm of the embeddings `[width]`.
    EmbeddingNorm,
    /// The bias of the embeddings' norm `[width]`.
    EmbeddingNormBias,
    /// Score bias by bucket of distance `[buckets, heads]`.
    RelativeBias,
    /// Relative position embedding of disentangled attention `[rows, width]`.
    Relative,
    /// The norm of the relative embedding `[width]`.
    RelativeNorm,
    /// The bias of the relative embedding's norm `[width]`.
    RelativeNormBias,
    /// A matrix of the encoder's heads, by its index in [`Heads::linears`](crate::heads::Heads::linears).
    Task(usize),
    /// The bias of such a matrix.
    TaskBias(usize),
    /// A norm of the encoder's heads, by its index in [`Heads::norms`](crate::heads::Heads::norms).
    TaskNorm(usize),
    /// The bias of such a norm.
    TaskNormBias(usize),
    /// A weight of a layer, by the layer's index.
    Layer(usize, LayerWeight),
}

impl WeightRole {
    /// Whether this is a table that is kept in f32, row by row: its rows are looked up, or it is too small to be packed.
    pub(crate) fn is_table(self) -> bool {
        matches!(
            self,
            WeightRole::Position
                | WeightRole::TokenType
                | WeightRole::RelativeBias
                | WeightRole::Relative
                | WeightRole::Layer(
                    _,
                    LayerWeight::Conv
                        | LayerWeight::ExpertGateBiases
                        | LayerWeight::ExpertUpBiases
                        | LayerWeight::ExpertDownBiases
                        | LayerWeight::StreamPrediction
                        | LayerWeight::StreamCorrection
                )
        )
    }

    /// Whether this matrix is neither packed nor copied: its rows are read from the mapped file as they are looked up.
    #[must_use]
    pub fn stays_in_file(self) -> bool {
        self == WeightRole::PerLayerEmbedding
    }

    /// Whether this matrix belongs to an encoder's heads, which are computed in f32.
    #[must_use]
    pub fn is_task(self) -> bool {
        matches!(self, WeightRole::Task(_))
    }

    /// Whether this matrix is the input of the block that predicts the token after the next.
    pub(crate) fn is_of_prediction(self) -> bool {
        matches!(self, WeightRole::Layer(_, LayerWeight::PredictionInput))
    }

    /// The usual value of a vector's weights: 1 for norms, a slow decay for recurrent states, 0 for biases.
    pub(crate) fn usual(self) -> f32 {
        match self {
            WeightRole::Layer(
                _,
                LayerWeight::MixerNorm
                | LayerWeight::Skip
                | LayerWeight::Scale
                | LayerWeight::RouterNorm
                | LayerWeight::ExpertScales
                | LayerWeight::ExpertsNorm
                | LayerWeight::ExpertsPostNorm
                | LayerWeight::SharedPostNorm
                | LayerWeight::StreamScale,
            ) => 1.0,
            WeightRole::Layer(_, LayerWeight::DecayRate) => -0.1,
            role if role.is_norm() => 1.0,
            _ => 0.0,
        }
    }

    /// Whether this is the weight of a norm.
    pub(crate) fn is_norm(self) -> bool {
        match self {
            WeightRole::FinalNorm | WeightRole::EmbeddingNorm | WeightRole::PerLayerNorm => true,
            WeightRole::Layer(_, part) => matches!(
                part,
                LayerWeight::AttentionNorm
                    | LayerWeight::FeedNorm
                    | LayerWeight::QueryNorm
                    | LayerWeight::KeyNorm
                    | LayerWeight::QueryLatentNorm
                    | LayerWeight::KvLatentNorm
                    | LayerWeight::AttentionPostNorm
                    | LayerWeight::FeedPostNorm
                    | LayerWeight::PerLayerPostNorm
                    | LayerWeight::StreamRouterNorm
                    | LayerWeight::LaurelNorm
                    | LayerWeight::PredictionEmbeddingNorm
                    | LayerWeight::PredictionHiddenNorm
                    | LayerWeight::PredictionNorm
            ),
            _ => false,
        }
    }
}

/// The role of a weight within its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the documentation; Spec::weights gives the shapes")]
pub enum LayerWeight {
    AttentionNorm,
    AttentionNormBias,
    Query,
    QueryBias,
    Key,
    KeyBias,
    Value,
    ValueBias,
    QueryNorm,
    KeyNorm,
    Sinks,
    Out,
    OutBias,
    AttentionPostNorm,
    AttentionPostNormBias,
    PositionKey,
    PositionKeyBias,
    PositionQuery,
    PositionQueryBias,
    FeedNorm,
    FeedNormBias,
    Gate,
    GateBias,
    Up,
    UpBias,
    Down,
    DownBias,
    FeedPostNorm,
    FeedPostNormBias,
    PerLayerGate,
    PerLayerOut,
    PerLayerPostNorm,
    StreamRouterNorm,
    StreamRouter,
    StreamPrediction,
    StreamCorrection,
    StreamScale,
    LaurelLeft,
    LaurelRight,
    LaurelNorm,
    Scale,
    Router,
    RouterBias,
    ExpertGate(usize),
    ExpertUp(usize),
    ExpertDown(usize),
    QueryLatent,
    QueryLatentNorm,
    KvLatent,
    KvLatentNorm,
    HeadKey(usize),
    HeadValue(usize),
    MixerInput,
    MixerGate,
    Beta,
    Alpha,
    TimeStep,
    Conv,
    ConvBias,
    DecayRate,
    TimeBias,
    Skip,
    MixerNorm,
    MixerOut,
    ExpertGateBiases,
    ExpertUpBiases,
    ExpertDownBiases,
    RouterNorm,
    ExpertScales,
    ExpertsNorm,
    ExpertsPostNorm,
    SharedPostNorm,
    SharedRouter,
    SharedGate,
    SharedUp,
    SharedDown,
    PredictionEmbeddingNorm,
    PredictionHiddenNorm,
    PredictionInput,
    PredictionNorm,
}

/// A weight of a spec: its role, and its shape `[rows, cols]` or `[cols]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightDecl {
    /// The weight's role in the model.
    pub role: WeightRole,
    /// `[rows, cols]`, or `[cols]` for a vector.
    pub shape: Vec<usize>,
}

/// Appends a weight if the model has it.
pub(crate) fn put_if(all: &mut Vec<WeightDecl>, there: bool, role: WeightRole, shape: &[usize]) {
    if there {
        all.push(decl(role, shape));
    }
}

pub(crate) fn decl(role: WeightRole, shape: &[usize]) -> WeightDecl {
    WeightDecl { role, shape: shape.to_vec() }
}
