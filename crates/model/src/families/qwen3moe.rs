//! Qwen3 with experts: softmax over all experts, top-k for each row, weights renormalised to sum to 1.

use super::qwen3;
use crate::error::Error;
use crate::mixture::{Mixture, Router};
use crate::source::{EXPERT_WIDTH, Key, Source};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = qwen3::read(source)?;
    spec.family = "qwen3moe";
    // GGUF files do not store whether weights are renormalised; every published model does it.
    let router = Router { renormalise: source.is_gguf(), ..Router::SOFTMAX };
    let mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, router)?;
    sparse_layers(source, &mut spec, mixture)?;
    Ok(spec)
}

/// Gives the mixture to every `decoder_sparse_step`th layer that is not in `mlp_only_layers`.
pub(super) fn sparse_layers(source: &Source, spec: &mut Spec, mixture: Mixture) -> Result<(), Error> {
    let step = source.size(Key("", &["decoder_sparse_step"]))?.unwrap_or(1).max(1);
    let dense = source.sizes(Key("", &["mlp_only_layers"]))?;
    source.spread(spec, mixture, |index| !dense.contains(&index) && (index + 1).is_multiple_of(step));
    Ok(())
}
