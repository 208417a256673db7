//! Qwen3, dense: queries and keys are normalised head by head, no biases.

use super::qwen2;
use crate::error::Error;
use crate::source::{Defaults, Key, Source};
use crate::spec::{QkNorm, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.decoder("qwen3", &Defaults { head_dim: Some(128), ..Defaults::default() })?;
    spec.qk_norm = QkNorm::Head;
    spec.biases.qkv = source.flag(Key("", &["attention_bias"]))?.unwrap_or(false);
    spec.biases.out = spec.biases.qkv;
    qwen2::windows(source, &mut spec)?;
    Ok(spec)
}
