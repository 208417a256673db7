//! What an encoder computes, as its files say.

use std::sync::Arc;

/// The heads of an encoder, and the prompts of its inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncoderHeads {
    /// The pooled vector of a text.
    pub dense: Option<DenseHead>,
    /// A vector for each token.
    pub tokens: Option<TokenVectors>,
    /// Whether there are weights of vocabulary entries.
    pub sparse: bool,
    /// The classifier of texts and pairs. With one label it scores: a cross-encoder.
    pub classifier: Option<ClassifierHead>,
    /// The labels of tokens by index; empty without a token classifier.
    pub token_labels: Arc<[String]>,
    /// Texts that are put before inputs.
    pub prompts: EncoderPrompts,
}

/// The pooled vector of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseHead {
    /// Numbers of a vector.
    pub width: usize,
    /// Whether the model's file says that vectors are scaled to length 1.
    pub normalize: bool,
    /// Which shorter vectors it was trained for.
    pub short: ShortVectors,
}

/// The first numbers of a vector that a model was trained to be of use by themselves (Matryoshka representation
/// learning, Kusupati et al., 2022).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ShortVectors {
    /// None.
    #[default]
    None,
    /// Any number of them.
    Any,
    /// These numbers of them.
    Of(Vec<usize>),
}

/// A vector for each token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenVectors {
    /// Numbers of a vector.
    pub width: usize,
    /// Whether the vectors are scaled to length 1.
    pub normalize: bool,
    /// Whether they are those of a multi-vector head (ColBERT), which pairs are scored by; else the last hidden
    /// states.
    pub late_interaction: bool,
}

/// A classifier of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifierHead {
    /// The labels by index.
    pub labels: Arc<[String]>,
    /// From logits to scores.
    pub activation: Activation,
}

/// From logits to scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Scores are logits.
    Identity,
    /// Each score by itself, in 0..1.
    Sigmoid,
    /// Probabilities of labels of which one is true.
    Softmax,
}

/// Texts that are put before inputs, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncoderPrompts {
    /// Names and texts.
    pub texts: Vec<(String, String)>,
    /// Name of the prompt of requests that name none.
    pub default: Option<String>,
    /// Whether the prompt's tokens are left out of pooling.
    pub unpooled: bool,
}

impl EncoderHeads {
    /// Names of the operations that the model supports (`inference::Operation::name`).
    pub fn operations(&self) -> Vec<&'static str> {
        let embeds = self.dense.is_some() || self.tokens.is_some() || self.sparse;
        let compares = self.dense.is_some() || self.scores_tokens() || self.ranks();
        let all = [
            (embeds, "embed"),
            (compares, "rerank"),
            (self.classifier.is_some(), "classify"),
            (!self.token_labels.is_empty(), "classify_tokens"),
            (compares, "score"),
            (true, "tokenize"),
        ];
        all.into_iter().filter(|(can, _)| *can).map(|(_, name)| name).collect()
    }

    /// Whether the model is a cross-encoder: one score for a pair.
    pub fn ranks(&self) -> bool {
        self.classifier.as_ref().is_some_and(|classifier| classifier.labels.len() == 1)
    }

    /// Whether pairs are scored by the vectors of their tokens.
    pub(crate) fn scores_tokens(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.late_interaction)
    }
}

impl EncoderPrompts {
    /// The prompt of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}
