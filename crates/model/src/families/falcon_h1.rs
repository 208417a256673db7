//! Falcon-H1: attention and Mamba-2 side by side in each layer, with factors on most of their parts. A GGUF has the factors
//! in its weights.

use super::mamba2;
use crate::error::Error;
use crate::mixer::{Mamba2Factors, Mixer};
use crate::source::{Defaults, Key, Source};
use crate::spec::{LayerFactors, Spec};

const NORM: Key = Key("", &["mamba_rms_norm"]);
const NORM_FIRST: Key = Key("", &["mamba_norm_before_gate"]);
const OF_FEED: Key = Key("", &["mlp_multipliers"]);
const OF_MAMBA2: Key = Key("", &["ssm_multipliers"]);

const MAMBA2: mamba2::Defaults =
    mamba2::Defaults { heads: 128, head_dim: None, inner: Some(1024), groups: 1, state_dim: 256 };

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    for key in [Key("", &["projectors_bias"]), Key("", &["attention_bias"]), Key("", &["mlp_bias"])] {
        if source.flag(key)?.unwrap_or(false) {
            return Err(source.bad(key, true, "false: biases are not built for this family".into()));
        }
    }
    let defaults = Defaults { eps: Some(1e-5), kv_heads: Some(8), ..Defaults::default() };
    let mut spec = source.decoder("falcon-h1", &defaults)?;
    mamba2::refuse_activation(source, spec.activation)?;
    let mut net = mamba2::read(source, spec.width, 0, &MAMBA2)?;
    net.norm = has_norm(source)?;
    if !source.is_gguf() {
        net.factors = mamba2_factors(source)?;
        spec_factors(source, &mut spec)?;
    }
    spec.layers.iter_mut().for_each(|layer| layer.mixer = Mixer::AttentionAndMamba2(net));
    Ok(spec)
}

/// Whether the output of Mamba-2 is normalised after its gate.
fn has_norm(source: &Source) -> Result<bool, Error> {
    if source.is_gguf() {
        return Ok(source.has("blk.0.ssm_norm.weight"));
    }
    let norm = source.flag(NORM)?.unwrap_or(false);
    if norm && source.flag(NORM_FIRST)?.unwrap_or(true) {
        return Err(source.bad(NORM_FIRST, true, "false: a norm in front of the gate is not built".into()));
    }
    Ok(norm)
}

fn mamba2_factors(source: &Source) -> Result<Mamba2Factors, Error> {
    let all = factor(source, Key("", &["ssm_in_multiplier"]))?;
    let out = factor(source, Key("", &["ssm_out_multiplier"]))?;
    let [gate, input, write, read, step] =
        source.floats::<5>(OF_MAMBA2)?.unwrap_or([1.0; 5]).map(|f| all * f);
    Ok(Mamba2Factors { gate, input, write, read, step, out })
}

fn spec_factors(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let attention_in = factor(source, Key("", &["attention_in_multiplier"]))?;
    let key = factor(source, Key("", &["key_multiplier"]))?;
    // Both factors of a score have that of the input.
    spec.attention_scale *= attention_in * attention_in * key;
    let attention = attention_in * factor(source, Key("", &["attention_out_multiplier"]))?;
    let [gate, feed] = source.floats::<2>(OF_FEED)?.unwrap_or([1.0; 2]);
    spec.factors = LayerFactors { attention, gate, feed };
    spec.embedding_scale = factor(source, Key("", &["embedding_multiplier"]))?;
    spec.logit_scale = factor(source, Key("", &["lm_head_multiplier"]))?;
    Ok(())
}

fn factor(source: &Source, key: Key) -> Result<f32, Error> {
    Ok(source.float(key)?.unwrap_or(1.0))
}
