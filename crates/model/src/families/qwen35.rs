//! Qwen3.5 and 3.6, the dense text models: three layers of gated DeltaNet to each one of attention, whose output is
//! gated; a quarter of each head rotates.
//!
//! Their vision towers are not built; the tensors are left unread. So is the block that predicts further tokens, unless
//! [`Spec::keep_prediction`] asks for it.

use crate::error::Error;
use crate::mixer::{DeltaNet, Mixer};
use crate::source::{Defaults, Key, Source};
use crate::spec::{QkNorm, Spec};

const KERNEL: Key = Key("ssm.conv_kernel", &["linear_conv_kernel_dim"]);
const KEY_DIM: Key = Key("ssm.state_size", &["linear_key_head_dim"]);
const KEY_HEADS: Key = Key("ssm.group_count", &["linear_num_key_heads"]);
const VALUE_HEADS: Key = Key("ssm.time_step_rank", &["linear_num_value_heads"]);
const INNER: Key = Key("ssm.inner_size", &[]);
const VALUE_DIM: Key = Key("", &["linear_value_head_dim"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    shared(source, "qwen35", &DEFAULTS)
}

/// The defaults of the configuration class, which the sparse models share.
pub(super) const DEFAULTS: Defaults = Defaults {
    head_dim: Some(256),
    partial_rotary: 0.25,
    rope_base: 10_000_000.0,
    feed: Some(0),
    ..Defaults::NONE
};

/// What the dense and the sparse models share.
pub(super) fn shared(source: &Source, family: &'static str, defaults: &Defaults) -> Result<Spec, Error> {
    let mut spec = source.decoder(family, defaults)?;
    source.leave_out_prediction(&mut spec)?;
    spec.qk_norm = QkNorm::Head;
    spec.attention_gate = source.flag(Key("", &["attn_output_gate"]))?.unwrap_or(true);
    spec.biases.qkv = source.flag(Key("", &["attention_bias"]))?.unwrap_or(false);
    spec.biases.out = spec.biases.qkv;
    // The weights of norms are stored minus 1, but for that of the DeltaNet's output.
    spec.norm.plus_one = !source.is_gguf();
    let net = delta_net(source)?;
    let recurrent = source.recurrent_layers(spec.layers.len())?;
    for (layer, recurrent) in spec.layers.iter_mut().zip(recurrent) {
        if recurrent {
            layer.mixer = Mixer::DeltaNet(net);
        }
    }
    Ok(spec)
}

fn delta_net(source: &Source) -> Result<DeltaNet, Error> {
    let key_dim = source.need(KEY_DIM, None)?;
    let value_heads = source.need(VALUE_HEADS, None)?;
    let value_dim = if source.is_gguf() {
        let inner = source.need(INNER, None)?;
        if value_heads == 0 || !inner.is_multiple_of(value_heads) {
            return Err(source.bad(INNER, inner, format!("a multiple of the {value_heads} value heads")));
        }
        inner / value_heads
    } else {
        source.need(VALUE_DIM, None)?
    };
    Ok(DeltaNet {
        key_heads: source.need(KEY_HEADS, None)?,
        value_heads,
        key_dim,
        value_dim,
        kernel: source.need(KERNEL, Some(4))?,
        // The converter puts the value heads of a key head apart, and stores rates.
        tiled: source.is_gguf(),
        log_rates: !source.is_gguf(),
    })
}
