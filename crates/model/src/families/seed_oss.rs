//! Seed-OSS: Llama with biases on query, key and value; other biases are options.

use crate::error::Error;
use crate::source::{Defaults, Key, Source};
use crate::spec::{Biases, Spec};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        kv_heads: Some(8),
        head_dim: (!source.is_gguf()).then_some(128),
        context: Some(524_288),
        ..Defaults::default()
    };
    let mut spec = source.decoder("seed_oss", &defaults)?;
    let flag = |name, default| Ok::<_, Error>(source.flag(Key("", name))?.unwrap_or(default));
    spec.biases = match source.is_gguf() {
        true => source.biases(0),
        false => Biases {
            qkv: flag(&["attention_bias"], true)?,
            out: flag(&["attention_out_bias"], false)?,
            feed: flag(&["mlp_bias"], false)?,
            ..Biases::default()
        },
    };
    Ok(spec)
}
