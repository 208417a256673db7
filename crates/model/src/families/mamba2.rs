//! What the hybrids with Mamba-2 layers share: the dimensions of such a layer.

use crate::error::Error;
use crate::mixer::{Mamba2, Mamba2Factors};
use crate::source::{HIDDEN_ACT, Key, RawValue, Source};
use kernels::Activation;

const KERNEL: Key = Key("ssm.conv_kernel", &["mamba_d_conv", "conv_kernel"]);
const STATE: Key = Key("ssm.state_size", &["mamba_d_state", "ssm_state_size"]);
const GROUPS: Key = Key("ssm.group_count", &["mamba_n_groups", "n_groups"]);
const HEADS: Key = Key("ssm.time_step_rank", &["mamba_n_heads", "mamba_num_heads"]);
const INNER: Key = Key("ssm.inner_size", &[]);
const HEAD_DIM: Key = Key("", &["mamba_d_head", "mamba_head_dim"]);
const EXPAND: Key = Key("", &["mamba_expand", "expand"]);
const WIDTH: Key = Key("", &["mamba_d_ssm"]);
const CONV_BIAS: Key = Key("", &["mamba_conv_bias", "use_conv_bias"]);

/// The values of a family's configuration class, for keys that `config.json` leaves out.
pub(super) struct Defaults {
    pub(super) heads: usize,
    /// Width of a head; `None` for that which follows from the width of all.
    pub(super) head_dim: Option<usize>,
    /// Width of all heads; `None` for `expand` times the model's.
    pub(super) inner: Option<usize>,
    pub(super) groups: usize,
    pub(super) state_dim: usize,
}

/// The dimensions of the Mamba-2 layers, of which `first` is one, in a model of `width`.
pub(super) fn read(
    source: &Source,
    width: usize,
    first: usize,
    defaults: &Defaults,
) -> Result<Mamba2, Error> {
    let heads = need(source, HEADS, defaults.heads)?;
    let head_dim = match source.is_gguf() {
        true => gguf_head_dim(source, heads)?,
        false => head_dim(source, width, heads, defaults)?,
    };
    Ok(Mamba2 {
        heads,
        head_dim,
        groups: need(source, GROUPS, defaults.groups)?,
        state_dim: need(source, STATE, defaults.state_dim)?,
        kernel: need(source, KERNEL, 4)?,
        conv_bias: conv_bias(source, first)?,
        steps: source.step_limits()?,
        norm: true,
        factors: Mamba2Factors::ONE,
        log_rates: !source.is_gguf(),
    })
}

/// Refuses another activation function than that of Mamba-2, which the key means too.
pub(super) fn refuse_activation(source: &Source, activation: Activation) -> Result<(), Error> {
    if activation == Activation::Silu {
        return Ok(());
    }
    let found = source.text(HIDDEN_ACT)?.unwrap_or_default();
    Err(source.bad(HIDDEN_ACT, found, "silu, the activation function of Mamba-2".into()))
}

/// A dimension that a GGUF must have.
fn need(source: &Source, key: Key, default: usize) -> Result<usize, Error> {
    source.need(key, Some(default).filter(|_| !source.is_gguf()))
}

fn gguf_head_dim(source: &Source, heads: usize) -> Result<usize, Error> {
    let inner = source.need(INNER, None)?;
    if heads == 0 || !inner.is_multiple_of(heads) {
        return Err(source.bad(INNER, inner, format!("a multiple of the {heads} heads")));
    }
    Ok(inner / heads)
}

fn head_dim(source: &Source, width: usize, heads: usize, defaults: &Defaults) -> Result<usize, Error> {
    if let Some(default) = defaults.head_dim {
        return source.need(HEAD_DIM, Some(default));
    }
    let told = source.size(WIDTH)?.or(defaults.inner.filter(|_| !source.is_null(WIDTH.1[0])));
    let inner = match told {
        Some(inner) => inner,
        None => source.need(EXPAND, Some(2))?.saturating_mul(width),
    };
    if heads == 0 || !inner.is_multiple_of(heads) {
        return Err(source.bad(HEADS, heads, format!("a divisor of the inner width {inner}")));
    }
    let auto = matches!(source.raw(HEAD_DIM), Some(RawValue::Other(text)) if text.contains("auto"));
    let head_dim = if auto { inner / heads } else { source.need(HEAD_DIM, Some(inner / heads))? };
    if head_dim != inner / heads {
        let expected = format!("{}: {heads} heads are {inner} wide", inner / heads);
        return Err(source.bad(HEAD_DIM, head_dim, expected));
    }
    Ok(head_dim)
}

/// Whether the convolution has a bias: in a GGUF if there is one, or no convolution at all (a shape).
fn conv_bias(source: &Source, first: usize) -> Result<bool, Error> {
    if source.is_gguf() {
        let has = |what: &str| source.has(&format!("blk.{first}.ssm_conv1d.{what}"));
        return Ok(has("bias") || !has("weight"));
    }
    Ok(source.flag(CONV_BIAS)?.unwrap_or(true))
}
