//! A decoder-only transformer, described as data: the spec, its loader and its forward pass.
//!
//! A decoder is `x = x + inside(f(before(x)))`, where `f` is attention or feed-forward and an absent norm is the
//! identity. A [`Spec`] holds the widths, norms, rope, windows, caps and experts of one model; a file in
//! [`families`] reads them from a GGUF's metadata or from a Hugging Face `config.json`. The loader fills
//! [`Spec::weights`] through the name maps, and [`Model::forward`] runs any of them on a ragged batch of rows. The
//! dimensions of published models are in [`shapes`], for benchmarks with random weights.
//!
//! Deliberately absent: a forward pass for each family, tokenizers, sampling, and threads (`cpu::Pool` has them).
//! `forward` does not allocate: every buffer is in [`Scratch`], which is sized once.

mod cost;
mod error;
mod experts;
pub mod families;
mod forward;
mod load;
mod locate;
mod memory;
mod mlp;
mod names;
mod packed;
mod rope;
mod scratch;
pub mod shapes;
mod source;
mod spec;
mod tensors;

pub use error::Error;
pub use forward::Batch;
pub use load::Model;
pub use locate::PackedWeight;
pub use memory::MemoryNeed;
pub use packed::{PackedCache, PackedCacheReport};
pub use rope::{Rope, RopeScaling};
pub use scratch::Scratch;
pub use source::Source;
pub use spec::{Biases, FeedForward, Layer, LayerWeight, Norm, NormKind, Spec, WeightDecl, WeightRole};
