//! Qwen2 and Qwen2.5: Llama with biases on query, key and value; some layers may have a sliding window.

use crate::error::Error;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.decoder("qwen2", &Defaults::default())?;
    spec.biases.qkv = true;
    windows(source, &mut spec)?;
    Ok(spec)
}

/// Reads which layers have a sliding window: `use_sliding_window`, then `layer_types` or `max_window_layers`.
pub(super) fn windows(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let on = source.flag(Key("use_sliding_window", &["use_sliding_window"]))?.unwrap_or(false);
    let Some(window) = source.size(WINDOW)?.filter(|_| on && !source.is_gguf()) else { return Ok(()) };
    let first = source.size(Key("", &["max_window_layers"]))?.unwrap_or(28);
    let listed = source.sliding_layers(spec.layers.len())?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let slides = listed.as_ref().map_or(index >= first, |list| list[index]);
        layer.window = slides.then_some(window);
    }
    Ok(())
}
