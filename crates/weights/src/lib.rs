//! Model files: opens GGUF and Hugging Face models as metadata and memory-mapped tensors, and downloads models.
//!
//! A model on disk is a GGUF file (single or split) or a Hugging Face directory. Both open to [`Opened`]: metadata, and
//! named tensors that borrow from the mapped file. Files are untrusted: every length, count, offset, alignment and type
//! is checked against the file's size before use. This crate does no arithmetic on weights.

pub mod catalog;
mod diagnose;
mod element;
pub mod fetch;
pub mod gguf;
pub mod huggingface;
pub mod ledger;
mod magic;
pub mod opened;
pub mod packed;
pub mod safetensors;
pub mod store;

pub use element::Element;
pub use ledger::Ledger;
pub use opened::{
    Error, Metadata, ModelFormat, Opened, PlacedTensor, Repacked, Tensor, TensorBytes, TensorInfo, open,
};
