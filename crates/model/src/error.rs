//! Errors of model files and of batches. Each names the tensor, key or limit that is at fault.

/// Why a model cannot be read, loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file's architecture is not in [`crate::families::FAMILIES`].
    #[error("unknown model family {found:?}; supported: {supported}")]
    UnknownFamily {
        /// The architecture as the file names it.
        found: String,
        /// The supported names, joined by commas.
        supported: String,
    },
    /// No published shape has this name.
    #[error("unknown shape {found:?}; known: {known}")]
    UnknownShape {
        /// The requested name.
        found: String,
        /// The known names, joined by commas.
        known: String,
    },
    /// No recipe of formats has this name.
    #[error("unknown format {found:?} of a shape; known: {known}")]
    UnknownRecipe {
        /// The requested name.
        found: String,
        /// The known names, joined by commas.
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
        /// The value in the file.
        value: String,
        /// The values that are accepted.
        expected: String,
    },
    /// A tensor has another shape than the metadata implies.
    #[error("tensor {name} has shape {found:?}; the metadata implies {expected:?}")]
    Shape {
        /// The tensor's name in the file.
        name: String,
        /// The tensor's shape in the file, outermost dimension first.
        found: Vec<usize>,
        /// The shape that the spec declares.
        expected: Vec<usize>,
    },
    /// A batch that cannot be run: a row, token or block out of range.
    #[error("bad batch: {what} is {value}, the limit is {limit}")]
    Batch {
        /// The thing out of range.
        what: &'static str,
        /// The value in the batch.
        value: usize,
        /// The largest accepted value, or the expected number.
        limit: usize,
    },
    /// The file lacks tensors, or has tensors that the model does not use.
    #[error(transparent)]
    Ledger(#[from] weights::ledger::Error),
    /// A weight is NaN or infinite.
    #[error("tensor {name}: {source}")]
    Weights {
        /// The tensor's name in the file.
        name: String,
        /// The index of the weight, and its value.
        source: tensor::Error,
    },
    /// A tensor of the model has a type that no kernel supports.
    #[error("tensor {name} is of type {found}, which cannot be computed with; supported: {supported}")]
    TensorType {
        /// The tensor's name in the file.
        name: String,
        /// The type that the file declares for the tensor.
        found: &'static str,
        /// The supported types, separated by commas.
        supported: String,
    },
    /// The weights were quantized by another library (GPTQ, AWQ, bitsandbytes, …).
    #[error(
        "the weights are quantized by {method} ({told}), which cannot be computed with; \
         take the model's original weights, or a GGUF file of it"
    )]
    Quantized {
        /// The quantization method, as `config.json` or the tensor names tell it.
        method: String,
        /// The key or tensor by which the method was recognized.
        told: String,
    },
    /// A GGUF file that is not a language model: a LoRA adapter, a vision projector, an importance matrix, or a
    /// vocabulary without weights.
    #[error("the file is {what}, not a model: {advice}")]
    NotAModel {
        /// What the file holds.
        what: String,
        /// What the user can do instead.
        advice: &'static str,
    },
    /// A vector (a norm's weight, a bias, rope factors) is stored in a format that no writer uses for vectors.
    #[error(
        "tensor {name} is a vector of {found}, which cannot be computed with; supported for vectors: F32, F16, BF16"
    )]
    VectorFormat {
        /// The tensor's name in the file.
        name: String,
        /// The tensor's format.
        found: &'static str,
    },
    /// A part of an encoder after its layers (a pooling, a module, a classifier) is not understood.
    #[error("{what}: {problem}")]
    Head {
        /// The part, as the file names it.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Packed weights that are to stay on the disk cannot be written or read there.
    #[error("packed weights: {0}")]
    PackedCache(#[from] weights::packed::Error),
    /// Weights are to stay on the disk, and the model has no folder for them.
    #[error("weights can stay on the disk only for a model that was read from files in a folder")]
    NoPlaceOnDisk,
    /// The system has no memory for the weights.
    #[error("no memory for {bytes} bytes of weights: {source}")]
    Memory {
        /// The size of the allocation that failed, in bytes.
        bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// A weight that another library quantized has a value that no format here holds.
    #[error("tensor {name}: {source}")]
    Repack {
        /// The weight's name.
        name: String,
        /// The place and the value.
        source: tensor::repack::Error,
    },
    /// A weight could not be packed.
    #[error("tensor {name}: {source}")]
    Pack {
        /// The tensor's name in the file.
        name: String,
        /// Why packing failed.
        source: kernels::Error,
    },
}

/// Refuses a value that is out of range; `expected` says what is accepted.
///
/// # Errors
/// [`Error::BadValue`] unless `ok`.
pub(crate) fn require(ok: bool, key: &str, value: impl ToString, expected: &str) -> Result<(), Error> {
    if ok {
        return Ok(());
    }
    Err(Error::BadValue { key: key.to_owned(), value: value.to_string(), expected: expected.to_owned() })
}
