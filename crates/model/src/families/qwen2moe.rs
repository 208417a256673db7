//! Qwen 1.5 and 2 with experts: a shared expert beside them, weighed by a gate of its own.

use super::{qwen2, qwen3moe};
use crate::error::Error;
use crate::mixture::{Router, SharedExpert};
use crate::source::{EXPERT_WIDTH, Key, Source};
use crate::spec::Spec;

const SHARED: Key = Key("", &["shared_expert_intermediate_size"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = qwen2::read(source)?;
    spec.family = "qwen2moe";
    if !source.is_gguf() {
        spec.biases.qkv = source.flag(Key("", &["qkv_bias"]))?.unwrap_or(true);
    }
    let router = Router { renormalise: false, ..Router::SOFTMAX };
    let mut mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, router)?;
    mixture.shared = gated_expert(source, spec.layers.len(), 5632)?;
    qwen3moe::sparse_layers(source, &mut spec, mixture)?;
    Ok(spec)
}

/// The shared expert with its gate; `width` is the default of the family's configuration class.
pub(super) fn gated_expert(
    source: &Source,
    layers: usize,
    width: usize,
) -> Result<Option<SharedExpert>, Error> {
    match source.is_gguf() {
        true => source.gguf_shared(layers, true),
        false => Ok(Some(SharedExpert { width: source.need(SHARED, Some(width))?, gated: true })),
    }
}
