//! Phi-3, Phi-4 and Phi-4-mini: fused maps (split by the name maps), long rope, part of a head may rotate, a window.

use crate::error::Error;
use crate::source::{Defaults, Source, WINDOW};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.decoder("phi3", &Defaults { context: Some(4096), ..Defaults::default() })?;
    // Zero in a GGUF says that there is none.
    let window = source.size(WINDOW)?.filter(|&w| w > 0);
    spec.layers.iter_mut().for_each(|layer| layer.window = window);
    Ok(spec)
}
