//! The norms of a model: their kind, and their place in a layer.

/// Where the norms of a layer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlace {
    /// Pre-norm: `x + f(norm(x))`.
    Pre,
    /// Sandwich norm: `x + norm(f(norm(x)))` (Gemma 2 and 3).
    Sandwich,
    /// Post-norm: `norm(x + f(x))` (BERT).
    Post,
    /// Norm of the output only: `x + norm(f(x))` (OLMo 2, EXAONE 4).
    After,
}

impl NormPlace {
    /// Whether the inputs of attention and feed-forward are normalised.
    pub(crate) fn before(self) -> bool {
        matches!(self, NormPlace::Pre | NormPlace::Sandwich)
    }

    /// Whether there are norms after attention and after feed-forward.
    pub(crate) fn after(self) -> bool {
        self != NormPlace::Pre
    }
}

/// The kind and parameters of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// RMS norm or layer norm.
    pub kind: NormKind,
    /// The epsilon that is added to the variance.
    pub eps: f32,
    /// Whether the norm has a bias.
    pub bias: bool,
    /// Whether the file stores the weight minus 1 (Gemma in safetensors).
    pub plus_one: bool,
}

/// The kind of a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// RMS norm: root mean square, with a weight.
    Rms,
    /// Layer norm: mean and variance, with a weight.
    Layer,
}
