//! What an encoder makes of the last hidden states: pooled vectors, classes, sparse weights, vectors of tokens.
//!
//! A [`Heads`] is data like the [`Spec`](crate::Spec): each output is a pooling and a [`Stack`] of linear maps, norms and
//! activations, whose tensors are named here because they differ by class and not by family. `read` fills it from
//! a sentence-transformers directory, from the class that `config.json` names, or from the keys of a GGUF.

mod classes;
mod gguf;
pub(crate) mod read;
mod sentence;
mod tensors;

use kernels::Activation;

/// The outputs of an encoder. An output that the model does not have is `None`.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// One vector for a text.
    pub dense: Option<Dense>,
    /// Logits of labels for a text.
    pub classifier: Option<Classifier>,
    /// Logits of labels for each token.
    pub token_classifier: Option<Classifier>,
    /// Weights of vocabulary entries for a text.
    pub sparse: Option<Sparse>,
    /// A vector for each token, for late interaction (ColBERT).
    pub multi_vector: Option<MultiVector>,
    /// Logits of two tokens after the last one of a text, for causal rerankers.
    pub token_logits: Option<TokenLogits>,
    /// Texts that go before an input, by name.
    pub prompts: Vec<(String, String)>,
    /// The name of the prompt that is used where none is asked for.
    pub default_prompt: Option<String>,
    /// Whether a prompt's tokens are pooled.
    pub pools_prompt: bool,
    /// Most tokens of a text, special tokens included, if fewer than the context.
    pub max_tokens: Option<usize>,
    /// The numbers of dimensions for which the model was trained (Matryoshka); empty if it does not say so.
    pub matryoshka: Vec<usize>,
    /// Whether texts are lower-cased before they are tokenized, whatever the tokenizer does.
    pub lower_case: bool,
    /// The matrices of all stacks.
    pub linears: Vec<HeadLinear>,
    /// The norms of all stacks.
    pub norms: Vec<HeadNorm>,
}

/// One vector for a text: pooled hidden states through a stack.
#[derive(Clone, Debug)]
pub struct Dense {
    /// How hidden states are pooled; several are joined one after another.
    pub pooling: Vec<Pooling>,
    /// The sentence-transformers `Dense` modules.
    pub stack: Stack,
    /// Numbers of the vector.
    pub width: usize,
    /// Whether the vector is scaled to length 1.
    pub normalize: bool,
}

/// How the hidden states of a text become one vector (sentence-transformers' `Pooling`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// That of the first token.
    Cls,
    /// The largest of each dimension.
    Max,
    /// The mean.
    Mean,
    /// The sum divided by the square root of the count.
    MeanSqrtLen,
    /// The mean with weights 1, 2, 3, … by position.
    WeightedMean,
    /// That of the last token.
    Last,
}

impl Pooling {
    /// The usual name: `cls`, `max`, `mean`, `mean_sqrt_len`, `weightedmean` or `lasttoken`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pooling::Cls => "cls",
            Pooling::Max => "max",
            Pooling::Mean => "mean",
            Pooling::MeanSqrtLen => "mean_sqrt_len",
            Pooling::WeightedMean => "weightedmean",
            Pooling::Last => "lasttoken",
        }
    }
}

/// Logits of labels.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// How a text's hidden states are pooled; [`Pooling::Cls`] for a classifier of tokens, which does not pool.
    pub pooling: Pooling,
    /// From hidden states to logits.
    pub stack: Stack,
    /// The labels by index.
    pub labels: Vec<String>,
    /// What makes scores of logits where the request asks for no other.
    pub activation: ScoreActivation,
}

/// What makes scores of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreActivation {
    /// Nothing.
    Identity,
    /// The logistic function of each logit.
    Sigmoid,
    /// The softmax over the labels.
    Softmax,
}

/// Weights of vocabulary entries.
#[derive(Clone, Debug)]
pub enum Sparse {
    /// SPLADE (Formal et al. 2021): the maximum over the tokens of `log(1 + relu(logit))`, with the logits of a masked
    /// language model: the stack, then the embedding's rows, then the bias of
    /// [`HeadBias`](crate::weight_role::WeightRole::HeadBias).
    MaskedLm {
        /// The transform before the output embedding.
        stack: Stack,
        /// Whether the logarithm is taken twice (`log1p_relu`).
        twice: bool,
        /// Whether tokens are summed in place of taking their maximum.
        sum: bool,
    },
    /// bge-m3: each token's entry has the largest `relu(weight)` of its occurrences.
    Lexical {
        /// From a hidden state to one number.
        stack: Stack,
        /// The special tokens, which have no weight.
        unused: Vec<u32>,
    },
}

/// A vector for each token.
#[derive(Clone, Debug)]
pub struct MultiVector {
    /// From a hidden state to a vector.
    pub stack: Stack,
    /// Numbers of a vector.
    pub width: usize,
    /// Whether the first token is left out (bge-m3).
    pub skips_first: bool,
}

/// The logits of two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLogits {
    /// The token that means relevant.
    pub yes: u32,
    /// The token that means irrelevant.
    pub no: u32,
}

/// Linear maps, norms and activations, one after another.
#[derive(Clone, Debug, Default)]
pub struct Stack(pub Vec<Step>);

/// A step of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A matrix with an optional bias: an index into [`Heads::linears`].
    Linear(usize),
    /// A layer norm: an index into [`Heads::norms`].
    Norm(usize),
    /// An activation function.
    Activation(Activation),
}

/// A matrix of a stack.
#[derive(Clone, Debug)]
pub struct HeadLinear {
    /// The tensor's name.
    pub weight: String,
    /// The bias's name; none without a bias.
    pub bias: Option<String>,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
}

/// A layer norm of a stack.
#[derive(Clone, Debug)]
pub struct HeadNorm {
    /// The name of the weight's tensor.
    pub weight: String,
    /// The name of the bias's tensor; none without a bias.
    pub bias: Option<String>,
    /// Columns.
    pub width: usize,
    /// The epsilon that is added to the variance.
    pub eps: f32,
}

impl Heads {
    /// Whether the model has any output of an encoder.
    #[must_use]
    pub fn any(&self) -> bool {
        self.dense.is_some()
            || self.classifier.is_some()
            || self.token_classifier.is_some()
            || self.sparse.is_some()
            || self.multi_vector.is_some()
            || self.token_logits.is_some()
    }
}
