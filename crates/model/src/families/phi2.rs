//! Phi-1 to Phi-2: parallel attention and feed-forward, layer norm, biases everywhere, partial rope.

use crate::error::Error;
use crate::source::{Defaults, HIDDEN_ACT, Key, Source};
use crate::spec::{Biases, NormKind, Spec};
use kernels::Activation;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { norm: NormKind::Layer, partial_rotary: 0.5, ..Defaults::default() };
    let mut spec = source.decoder("phi2", &defaults)?;
    let qk = Key("", &["qk_layernorm"]);
    if source.flag(qk)?.unwrap_or(false) {
        return Err(source.bad(qk, true, "false: no published model has it".into()));
    }
    spec.parallel = true;
    spec.gated = false;
    spec.activation = source.activation(HIDDEN_ACT)?.unwrap_or(Activation::GeluTanh);
    spec.biases = Biases { qkv: true, out: true, feed: true, down: true, head: true };
    Ok(spec)
}
