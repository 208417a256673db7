//! Gemma 3 (text): five sliding layers to each global one, a rotary table for each kind, normalised queries and keys.

use super::{gemma, gemma2};
use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{NormPlace, QkNorm, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        head_dim: Some(256),
        heads: Some(8),
        kv_heads: Some(4),
        context: Some(131_072),
        width: Some(2304),
        feed: Some(9216),
        layers: Some(26),
        rope_base: 1_000_000.0,
        tied: true,
        ..Defaults::default()
    };
    let mut spec = gemma::shared(source, "gemma3", &defaults)?;
    spec.norm_place = NormPlace::Sandwich;
    spec.qk_norm = QkNorm::Head;
    spec.logit_soft_cap =
        source.float(Key("final_logit_softcapping", &["final_logit_softcapping"]))?.filter(|&c| c > 0.0);
    spec.attention_scale = gemma2::attention_scale(source, &spec, 62)?;
    let window = source.size(WINDOW)?.or((!source.is_gguf()).then_some(4096)).filter(|&w| w > 0);
    let Some(window) = window else { return Ok(spec) };
    spec.ropes.push(source.local_rope(spec.head_dim, 10_000.0)?);
    let slides = source.sliding_pattern(spec.layers.len(), 6)?;
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        if slides {
            layer.window = Some(window);
            layer.rope = Some(1);
        }
    }
    Ok(spec)
}
