//! Qwen3.5 and 3.6 with experts: the dense models' mixers, experts in every layer and a shared one with a gate.

use super::qwen35;
use crate::error::Error;
use crate::mixture::{Router, SharedExpert};
use crate::source::{EXPERT_WIDTH, Key, Source};
use crate::spec::Spec;

const SHARED: Key = Key("", &["shared_expert_intermediate_size"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = qwen35::shared(source, "qwen35moe")?;
    let mut mixture = source.mixture(source.need(EXPERT_WIDTH, None)?, Router::SOFTMAX)?;
    mixture.shared = match source.is_gguf() {
        true => source.gguf_shared(spec.layers.len(), true)?,
        false => Some(SharedExpert { width: source.need(SHARED, Some(512))?, gated: true }),
    };
    source.spread(&mut spec, mixture, |_| true);
    Ok(spec)
}
