//! OLMo 2 and 3: norms of outputs only, queries and keys normalised over all heads. OLMo 3 has three sliding layers to
//! each global one, and scales the rope of the global layers only.

use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::{NormPlace, QkNorm, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let third = source.names().iter().any(|name| name.starts_with("Olmo3") || *name == "olmo3");
    let rope_base = if third { 500_000.0 } else { 10_000.0 };
    let defaults = Defaults { eps: Some(1e-5), context: Some(2048), rope_base, ..Defaults::default() };
    let mut spec = source.decoder("olmo2", &defaults)?;
    spec.norm_place = NormPlace::After;
    spec.qk_norm = QkNorm::Full;
    spec.biases.qkv = match source.is_gguf() {
        true => source.biases(0).qkv,
        false => source.flag(Key("", &["attention_bias"]))?.unwrap_or(false),
    };
    spec.biases.out = spec.biases.qkv;
    let window = match source.is_gguf() {
        true => source.size(WINDOW)?.filter(|&w| w > 0),
        // OLMo 2 has no such key.
        false if third && !source.is_null("sliding_window") => Some(source.size(WINDOW)?.unwrap_or(4096)),
        false => None,
    };
    let Some(window) = window else { return Ok(spec) };
    spec.ropes.push(source.local_rope(spec.head_dim, spec.ropes[0].base)?);
    let slides = source.sliding_pattern(spec.layers.len(), 4)?;
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        if slides {
            layer.window = Some(window);
            layer.rope = Some(1);
        }
    }
    Ok(spec)
}
