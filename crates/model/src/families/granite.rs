//! Granite 3 and 4 (dense): Llama with factors on embeddings, attention scores, residual additions and logits.

use super::llama;
use crate::error::Error;
use crate::source::{Key, Source};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = llama::read(source)?;
    spec.family = "granite";
    multipliers(source, &mut spec)?;
    Ok(spec)
}

/// The factors, and the switch of rope.
pub(super) fn multipliers(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let factor = |key| source.float(key).map(|f| f.unwrap_or(1.0));
    spec.embedding_scale = factor(Key("embedding_scale", &["embedding_multiplier"]))?;
    spec.residual_scale = factor(Key("residual_scale", &["residual_multiplier"]))?;
    spec.attention_scale = factor(Key("attention.scale", &["attention_multiplier"]))?;
    spec.logit_scale = 1.0 / factor(Key("logit_scale", &["logits_scaling"]))?;
    // GGUF files without the switch have rope.
    if !source.flag(Key("rope.scaling.finetuned", &[]))?.unwrap_or(true) {
        spec.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    Ok(())
}
