//! Llama 2 and 3.x, and models of the same architecture: SmolLM2, TinyLlama, Mistral with its sliding window.

use crate::error::Error;
use crate::mixture::Router;
use crate::source::{Defaults, Key, Source, WINDOW};
use crate::spec::Spec;
use kernels::Pairing;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = body(source, "llama", &Defaults::default())?;
    if source.gguf_has_experts()? {
        experts(source, &mut spec)?;
    }
    let window = source.size(WINDOW)?.filter(|&w| w > 0);
    let listed = source.sliding_layers(spec.layers.len())?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        layer.window = window.filter(|_| listed.as_ref().is_none_or(|list| list[index]));
    }
    Ok(spec)
}

/// Gives all layers experts as wide as the feed-forward that the file declares (Mixtral, which a GGUF calls Llama).
pub(super) fn experts(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let mixture = source.mixture(spec.feed_width(), Router::SOFTMAX)?;
    source.spread(spec, mixture, |_| true);
    Ok(())
}

/// The spec without windows, which models share whose GGUF files are converted as those of Llama.
pub(super) fn body(source: &Source, family: &'static str, defaults: &Defaults) -> Result<Spec, Error> {
    let mut spec = source.decoder(family, defaults)?;
    if source.is_gguf() {
        // The converter permutes the rows of query and key so that adjacent dimensions rotate together.
        spec.pairing = Pairing::Adjacent;
        spec.biases = source.biases(0);
    } else {
        let attention = source.flag(Key("", &["attention_bias"]))?.unwrap_or(false);
        spec.biases.qkv = attention;
        spec.biases.out = attention;
        spec.biases.feed = source.flag(Key("", &["mlp_bias"]))?.unwrap_or(false);
    }
    Ok(spec)
}
