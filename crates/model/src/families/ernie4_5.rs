//! ERNIE 4.5, dense: Llama whose heads rotate by adjacent dimensions, with biases as an option.

use crate::error::Error;
use crate::source::{Defaults, Key, Source};
use crate::spec::{Biases, Spec};
use kernels::Pairing;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        tied: true,
        eps: Some(1e-5),
        rope_base: 500_000.0,
        kv_heads: Some(2),
        head_dim: (!source.is_gguf()).then_some(128),
        context: Some(131_072),
        ..Defaults::default()
    };
    let mut spec = source.decoder("ernie4_5", &defaults)?;
    // In both formats: the converter does not permute the rows of this family.
    spec.pairing = Pairing::Adjacent;
    spec.biases = if source.is_gguf() {
        source.biases(0)
    } else {
        let all = source.flag(Key("", &["use_bias"]))?.unwrap_or(false);
        Biases { qkv: all, out: all, feed: all, ..Biases::default() }
    };
    Ok(spec)
}
