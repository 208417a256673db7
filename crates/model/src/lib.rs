//! A transformer, described as data: the spec, its loader, the forward pass of decoders and the pass of encoders.
//!
//! A decoder is `x = x + inside(f(before(x)))`, where `f` is attention or feed-forward and an absent norm is the
//! identity. A [`Spec`] holds the widths, norms, rope, windows, caps and experts of one model; a file in
//! [`families`] reads them from a GGUF's metadata or from a Hugging Face `config.json`. The loader fills
//! [`Spec::weights`] through the name maps, and [`Model::forward`] runs any of them on a ragged batch of rows.
//! An encoder is the same with other values; [`Model::begin`], [`Model::advance`] and [`Model::output`] compute its hidden
//! states layer by layer, and what its [`Heads`] make of them. The dimensions of published models are in [`shapes`], for benchmarks with random weights.
//!
//! Deliberately absent: a forward pass for each family, tokenizers, sampling, and threads (`cpu::Pool` has them).
//! `forward` does not allocate: every buffer is in [`Scratch`], which is sized once.

mod alt_up;
mod alt_up_names;
mod arrange;
mod batch;
mod blocks;
mod cost;
mod delta_net;
mod encode;
mod encode_scratch;
mod error;
mod expert_names;
mod experts;
mod experts_beside;
pub mod families;
mod forward;
pub mod heads;
mod latent;
mod latent_attention;
mod latent_names;
mod latent_scratch;
mod load;
mod load_attention;
mod load_streams;
mod locate;
mod mamba2;
mod memory;
mod mixer;
pub mod mixture;
mod mlp;
mod name_table;
mod names;
mod packed;
mod packing;
mod per_layer;
mod per_layer_names;
mod prediction;
mod prediction_names;
mod qkv;
mod recurrent_names;
mod relative;
mod repacked;
mod residence;
mod residual;
mod rope;
mod router;
mod routing;
mod row_table;
mod scratch;
pub mod shapes;
mod short_conv;
mod source;
mod spec;
mod tensor_location;
mod tensors;
mod wanted;
mod weight_role;

pub use batch::Batch;
pub use encode::{EncodeText, Want};
pub use encode_scratch::EncodePass;
pub use error::Error;
pub use heads::Heads;
pub use latent::LatentAttention;
pub use load::Model;
pub use locate::{EncoderFormat, PackedWeight};
pub use memory::MemoryNeed;
pub use mixer::{DeltaNet, Mamba2, Mamba2Factors, Mixer, ShortConv};
pub use mixture::Mixture;
pub use packed::{PackedCache, PackedCacheReport, PackedPlace};
pub use residence::Residence;
pub use rope::{Rope, RopeScaling};
pub use scratch::Scratch;
pub use source::Source;
pub use spec::{
    AltUp, Biases, Direction, FeedForward, KvSource, Layer, LayerFactors, LmHead, Norm, NormKind, NormPlace,
    Positions, Prediction, QkNorm, QueryTemperature, Spec,
};
pub use weight_role::{LayerWeight, WeightDecl, WeightRole};
