//! EXAONE 4: norms of outputs only, normalised heads; in the model with sliding layers, global ones have no rope.

use crate::error::Error;
use crate::source::{Defaults, Source, WINDOW};
use crate::spec::{NormPlace, QkNorm, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { eps: Some(1e-5), context: Some(2048), ..Defaults::default() };
    let mut spec = source.decoder("exaone4", &defaults)?;
    spec.norm_place = NormPlace::After;
    spec.qk_norm = QkNorm::Head;
    // Null in config.json means no sliding window; an absent key means the default.
    let default = (!source.is_gguf() && !source.is_null("sliding_window")).then_some(4096);
    let Some(window) = source.size(WINDOW)?.or(default).filter(|&w| w > 0) else { return Ok(spec) };
    let slides = source.sliding_pattern(spec.layers.len(), 4)?;
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        layer.window = slides.then_some(window);
        layer.rope = slides.then_some(0);
    }
    Ok(spec)
}
