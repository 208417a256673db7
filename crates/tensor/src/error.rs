use crate::Dtype;

/// What can be wrong with a run of encoded weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The count of weights is not a multiple of the block.
    #[error("{dtype}: {weights} weights are not whole blocks of {}", dtype.block_weights())]
    NotWholeBlocks {
        /// The format.
        dtype: Dtype,
        /// Weights asked for.
        weights: usize,
    },
    /// Bytes and weights do not match.
    #[error("{dtype}: {weights} weights take {need} bytes, {have} were given")]
    WrongLength {
        /// The format.
        dtype: Dtype,
        /// Weights asked for.
        weights: usize,
        /// Bytes they take.
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// A value that the format cannot hold.
    #[error("{dtype}: weight {index} is {value}, only finite numbers can be quantized")]
    NotFinite {
        /// The format.
        dtype: Dtype,
        /// Where.
        index: usize,
        /// The value as text.
        value: String,
    },
    /// Not a name of a format.
    #[error("'{name}' is not a tensor format; supported: {}", Dtype::supported())]
    UnknownFormat {
        /// The name given.
        name: String,
    },
}
