//! Phi-3, Phi-4 and Phi-4-mini: fused projections (split by the name maps), LongRoPE, partial rope, a sliding window.

use crate::error::Error;
use crate::source::{Defaults, Source, WINDOW};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let eps = (!source.is_gguf()).then_some(1e-5);
    let defaults = Defaults { context: Some(4096), eps, ..Defaults::default() };
    let mut spec = source.decoder("phi3", &defaults)?;
    // Zero in a GGUF means no sliding window.
    let window = source.size(WINDOW)?.filter(|&w| w > 0);
    spec.layers.iter_mut().for_each(|layer| layer.window = window);
    Ok(spec)
}
