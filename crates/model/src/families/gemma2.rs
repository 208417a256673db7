//! Gemma 2: norms on both sides of each part, a sliding window in every other layer, capped scores and logits.

use super::gemma;
use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{NormPlace, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { head_dim: Some(256), kv_heads: Some(4), tied: true, ..Defaults::default() };
    let mut spec = gemma::shared(source, "gemma2", &defaults)?;
    spec.norm_place = NormPlace::Sandwich;
    // Null means no cap; an absent key means the default.
    let cap = |key: Key, default| {
        let absent = if source.is_null(key.1[0]) { 0.0 } else { default };
        source.float(key).map(|c| c.unwrap_or(absent)).map(|c| (c > 0.0).then_some(c))
    };
    spec.attention_soft_cap = cap(Key("attn_logit_softcapping", &["attn_logit_softcapping"]), 50.0)?;
    spec.logit_soft_cap = cap(Key("final_logit_softcapping", &["final_logit_softcapping"]), 30.0)?;
    spec.attention_scale = attention_scale(source, &spec, 46)?;
    let window = source.size(WINDOW)?.unwrap_or(4096);
    let listed = source.sliding_layers(spec.layers.len())?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let slides = listed.as_ref().map_or(index.is_multiple_of(2), |list| list[index]);
        layer.window = slides.then_some(window);
    }
    Ok(spec)
}

/// The factor on attention scores, `1 / sqrt(query_pre_attn_scalar)`. A GGUF does not store the scalar: it is the head
/// size, except in the largest model (the one with `largest` layers), where it is width / heads.
pub(super) fn attention_scale(source: &Source, spec: &Spec, largest: usize) -> Result<f32, Error> {
    let implied = if spec.layers.len() == largest { spec.width / spec.heads } else { spec.head_dim };
    let scalar = source.float(Key("attention.query_pre_attn_scalar", &["query_pre_attn_scalar"]))?;
    let default = if source.is_gguf() { implied as f32 } else { 256.0 };
    Ok(1.0 / scalar.unwrap_or(default).sqrt())
}
