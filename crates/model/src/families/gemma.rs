//! Gemma 1: embeddings scaled by the root of the width, GELU, norm weights stored less one in safetensors.

use crate::error::Error;
use crate::source::{Defaults, Source};
use crate::spec::Spec;
use kernels::Activation;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    shared(source, "gemma", &Defaults { head_dim: Some(256), tied: true, ..Defaults::default() })
}

/// What all three Gemmas have.
pub(super) fn shared(source: &Source, family: &'static str, defaults: &Defaults) -> Result<Spec, Error> {
    let mut spec = source.decoder(family, defaults)?;
    spec.embedding_scale = (spec.width as f32).sqrt();
    // Old configs say "gelu" and mean the tanh form.
    spec.activation = Activation::GeluTanh;
    spec.norm.plus_one = !source.is_gguf();
    Ok(spec)
}
