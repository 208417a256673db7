//! SmolLM3: Llama with layers without rope, every fourth of them.

use super::llama;
use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        tied: true,
        rope_base: 2_000_000.0,
        kv_heads: Some(4),
        context: Some(32_768),
        ..Defaults::default()
    };
    let mut spec = llama::body(source, "smollm3", &defaults)?;
    let count = spec.layers.len();
    let without_rope = source.layers_without_rope(count, 4)?;
    let on = source.flag(Key("", &["use_sliding_window"]))?.unwrap_or(false);
    let window = source.size(WINDOW)?.filter(|&w| w > 0 && on);
    let slides = source.sliding_layers(count)?.unwrap_or_else(|| without_rope.clone());
    for ((layer, without_rope), slides) in spec.layers.iter_mut().zip(without_rope).zip(slides) {
        layer.window = window.filter(|_| slides);
        if without_rope {
            layer.rope = None;
        }
    }
    Ok(spec)
}
