//! What can be wrong with a model file or with a batch: each names the thing, the value and the limit.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file's architecture has no family here.
    #[error("unknown model family {found:?}; supported: {supported}")]
    UnknownFamily {
        /// The name in the file.
        found: String,
        /// The names known, joined by commas.
        supported: String,
    },
    /// No published shape has this name.
    #[error("unknown shape {found:?}; known: {known}")]
    UnknownShape {
        /// The name asked for.
        found: String,
        /// The names known, joined by commas.
        known: String,
    },
    /// No recipe of formats has this name.
    #[error("unknown format {found:?} of a shape; known: {known}")]
    UnknownRecipe {
        /// The name asked for.
        found: String,
        /// The names known, joined by commas.
        known: String,
    },
    /// A metadata key that the family needs is absent.
    #[error("the model's metadata has no {key}")]
    MissingKey {
        /// The key as the file's format spells it.
        key: String,
    },
    /// A metadata value is of the wrong type or out of range.
    #[error("metadata {key} is {value}; expected {expected}")]
    BadValue {
        /// The key as the file's format spells it.
        key: String,
        /// What the file says.
        value: String,
        /// What would do.
        expected: String,
    },
    /// A tensor has another shape than the metadata implies.
    #[error("tensor {name} has shape {found:?}; the metadata implies {expected:?}")]
    Shape {
        /// The tensor's name in the file.
        name: String,
        /// Its shape there, outermost first.
        found: Vec<usize>,
        /// The shape that the spec declares.
        expected: Vec<usize>,
    },
    /// A batch that cannot be run: a row, token or block out of range.
    #[error("bad batch: {what} is {value}, the limit is {limit}")]
    Batch {
        /// The thing out of range.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The largest that would do, or the number expected.
        limit: usize,
    },
    /// Tensors are missing or left over.
    #[error(transparent)]
    Ledger(#[from] weights::ledger::Error),
    /// A weight is not a finite number.
    #[error("tensor {name}: {source}")]
    Weights {
        /// The tensor's name in the file.
        name: String,
        /// Which weight.
        source: tensor::Error,
    },
    /// A tensor that the model needs is of a type that is not computed with.
    #[error("tensor {name} is of type {found}, which cannot be computed with; supported: {supported}")]
    TensorType {
        /// The tensor's name in the file.
        name: String,
        /// The type that the file declares for the tensor.
        found: &'static str,
        /// Types that would do, separated by commas.
        supported: String,
    },
    /// The weights were quantized into a form of another program's.
    #[error(
        "the weights are quantized by {method} ({told}), which cannot be computed with; \
         take the model's original weights, or a GGUF file of it"
    )]
    Quantized {
        /// The method, as the folder names it.
        method: String,
        /// What tells so: a key or a tensor.
        told: String,
    },
    /// A GGUF file that holds something else than a model.
    #[error("the file is {what}, not a model: {advice}")]
    NotAModel {
        /// What it holds.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// A vector (a norm's weight, a bias, rope factors) is stored in a format that no writer uses for vectors.
    #[error(
        "tensor {name} is a vector of {found}, which cannot be computed with; supported for vectors: F32, F16, BF16"
    )]
    VectorFormat {
        /// The tensor's name in the file.
        name: String,
        /// Its format.
        found: &'static str,
    },
    /// The system has no memory for the weights.
    #[error("no memory for {bytes} bytes of weights: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A weight could not be packed.
    #[error("tensor {name}: {source}")]
    Pack {
        /// The tensor's name in the file.
        name: String,
        /// Why.
        source: kernels::Error,
    },
}
