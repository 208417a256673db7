//! Granite 3 and 4 (dense): Llama with factors on embeddings, attention scores, residual additions and logits.

use super::llama;
use crate::error::Error;
use crate::source::{Defaults, Key, Source};
use crate::spec::{FeedForward, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = match source.class() {
        Some("GraniteMoeHybridForCausalLM") => without_mamba(source)?,
        _ => llama::read(source)?,
    };
    spec.family = "granite";
    let factor = |key| source.float(key).map(|f| f.unwrap_or(1.0));
    spec.embedding_scale = factor(Key("embedding_scale", &["embedding_multiplier"]))?;
    spec.residual_scale = factor(Key("residual_scale", &["residual_multiplier"]))?;
    spec.attention_scale = factor(Key("attention.scale", &["attention_multiplier"]))?;
    spec.logit_scale = 1.0 / factor(Key("logit_scale", &["logits_scaling"]))?;
    // Granite's switch of rope; GGUF files without it have rope.
    if !source.flag(Key("rope.scaling.finetuned", &[]))?.unwrap_or(true) {
        spec.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    Ok(spec)
}

/// Granite 4.0 without Mamba layers and without experts, in the class of those with.
fn without_mamba(source: &Source) -> Result<Spec, Error> {
    const LAYER_TYPES: Key = Key("", &["layer_types"]);
    const EXPERTS: Key = Key("", &["num_local_experts"]);
    let kinds = source.texts(LAYER_TYPES)?;
    if let Some(other) = kinds.iter().find(|kind| !matches!(kind.as_str(), "attention" | "full_attention")) {
        return Err(source.bad(LAYER_TYPES, other, "attention: Mamba layers are not built".into()));
    }
    let experts = source.size(EXPERTS)?.unwrap_or(8);
    if experts != 0 {
        return Err(source.bad(EXPERTS, experts, "0: this family has no experts here".into()));
    }
    let mut spec = llama::body(source, "granite", &Defaults::default())?;
    if kinds.len() != spec.layers.len() {
        let expected = format!("one for each of the {} layers", spec.layers.len());
        return Err(source.bad(LAYER_TYPES, kinds.len(), expected));
    }
    let width = source.need(Key("", &["shared_intermediate_size"]), Some(1024))?;
    let rope = source.text(Key("", &["position_embedding_type"]))? == Some("rope");
    for layer in &mut spec.layers {
        layer.feed = FeedForward::Dense { width };
        layer.rope = layer.rope.filter(|_| rope);
    }
    Ok(spec)
}
