//! Qwen3-Next: the mixers of Qwen3.5 with projections that are fused by key head, and experts with a shared one.

use super::{qwen2moe, qwen3moe, qwen35};
use crate::error::Error;
use crate::mixer::Mixer;
use crate::mixture::Router;
use crate::source::{Defaults, EXPERT_WIDTH, Source};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { rope_base: 10_000.0, feed: Some(5632), ..qwen35::DEFAULTS };
    let mut spec = qwen35::shared(source, "qwen3next", &defaults)?;
    for layer in &mut spec.layers {
        // The converter leaves the value heads where they are.
        if let Mixer::DeltaNet(net) = &mut layer.mixer {
            net.tiled = false;
        }
    }
    let width = source.need(EXPERT_WIDTH, (!source.is_gguf()).then_some(512))?;
    let mut mixture = source.mixture(width, Router::SOFTMAX)?;
    mixture.shared = qwen2moe::gated_expert(source, spec.layers.len(), 512)?;
    qwen3moe::sparse_layers(source, &mut spec, mixture)?;
    Ok(spec)
}
