//! Qwen3.5 and 3.6 with experts: the dense models' mixers, experts in every layer and a shared one with a gate.

use super::{qwen2moe, qwen35};
use crate::error::Error;
use crate::mixture::Router;
use crate::source::{EXPERT_WIDTH, Source};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = qwen35::shared(source, "qwen35moe", &qwen35::DEFAULTS)?;
    let mut mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, Router::SOFTMAX)?;
    mixture.shared = qwen2moe::gated_expert(source, spec.layers.len(), 512)?;
    source.spread(&mut spec, mixture, |_| true);
    Ok(spec)
}
