use tensor::Dtype;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes do not hold `rows` × `cols` weights.
    #[error("a {rows} × {cols} matrix of {dtype:?} needs {need} bytes, not {got}")]
    Bytes {
        /// Output width.
        rows: usize,
        /// Input width.
        cols: usize,
        /// The weight format.
        dtype: Dtype,
        /// Bytes that such a matrix has.
        need: u64,
        /// Bytes that were given.
        got: usize,
    },
    /// A row is not a whole number of the format's blocks.
    #[error("rows of {cols} weights are not a whole number of {dtype:?} blocks of {block}")]
    RowLength {
        /// Input width.
        cols: usize,
        /// The weight format.
        dtype: Dtype,
        /// Weights in a block.
        block: usize,
    },
    /// Bytes that are not this matrix packed in this layout.
    #[error("{got} bytes of panels of {layout:?} do not match a {rows} × {cols} matrix of {dtype:?}")]
    Panels {
        /// Output width.
        rows: usize,
        /// Input width.
        cols: usize,
        /// The weight format in the model's file.
        dtype: Dtype,
        /// The layout that the panels are said to have.
        layout: String,
        /// Bytes that were given.
        got: usize,
    },
    /// A weight is NaN or infinite.
    #[error(transparent)]
    Weights(tensor::Error),
    /// The system has no memory for the packed matrix or cache.
    #[error("no memory for {bytes} bytes: {source}")]
    Memory {
        /// Bytes needed.
        bytes: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A size that the kernels are not built for.
    #[error("{what} is {value}, above the limit of {limit}")]
    Limit {
        /// The thing.
        what: &'static str,
        /// Its size.
        value: usize,
        /// The largest size.
        limit: usize,
    },
}
