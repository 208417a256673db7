//! Hunyuan, dense: Llama with heads normalised after rope, whose base is stretched by a fixed factor.

use crate::error::Error;
use crate::source::{Defaults, Key, Source};
use crate::spec::{QkNorm, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { eps: Some(1e-5), context: Some(2048), ntk_alpha: true, ..Defaults::default() };
    let mut spec = source.decoder("hunyuan-dense", &defaults)?;
    spec.qk_norm = QkNorm::HeadAfterRope;
    let bias = match source.is_gguf() {
        true => source.biases(0).qkv,
        false => source.flag(Key("", &["attention_bias"]))?.unwrap_or(false),
    };
    (spec.biases.qkv, spec.biases.out) = (bias, bias);
    Ok(spec)
}
