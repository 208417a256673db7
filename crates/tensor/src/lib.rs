//! What the bytes of a weight mean.
//!
//! A format is its block layout and the scalar code that reads and writes it: `format/<name>.rs` is the definition that
//! every fast kernel is tested against, bit-exact with the `gguf` Python package. [`repack`] writes what other libraries
//! quantized as blocks of these formats. Absent on purpose: unsafe code, I/O,
//! threads, and anything that multiplies matrices.

mod dtype;
mod error;
pub mod format;
mod parse;
pub mod repack;

pub use dtype::Dtype;
pub use error::Error;
pub use format::{
    BlockShape, SuperScales, block_shape, check_finite, codes, dequantize, quantize, sub_scales,
};
