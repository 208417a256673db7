//! Gemma 1: embeddings scaled by the root of the width, GELU, norm weights stored minus 1 in safetensors.

use crate::error::Error;
use crate::source::{Defaults, HIDDEN_ACT, Key, Source};
use crate::spec::Spec;
use kernels::Activation;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    shared(source, "gemma", &Defaults { head_dim: Some(256), tied: true, ..Defaults::default() })
}

/// `hidden_activation` decides; Gemma 1 also has `hidden_act`, whose "gelu" means the tanh form, as transformers takes
/// it.
fn activation(source: &Source) -> Result<Activation, Error> {
    let own = source.activation(Key("", &["hidden_activation"]))?;
    let old = source.activation(HIDDEN_ACT)?.map(|old| match old {
        Activation::Gelu => Activation::GeluTanh,
        other => other,
    });
    Ok(own.or(old).unwrap_or(Activation::GeluTanh))
}

/// The spec that all three Gemma generations share.
pub(super) fn shared(source: &Source, family: &'static str, defaults: &Defaults) -> Result<Spec, Error> {
    let mut spec = source.decoder(family, defaults)?;
    spec.embedding_scale = (spec.width as f32).sqrt();
    spec.activation = Activation::GeluTanh;
    if !source.is_gguf() {
        spec.activation = activation(source)?;
        let attention = source.flag(Key("", &["attention_bias"]))?.unwrap_or(false);
        (spec.biases.qkv, spec.biases.out) = (attention, attention);
    }
    spec.norm.plus_one = !source.is_gguf();
    Ok(spec)
}
