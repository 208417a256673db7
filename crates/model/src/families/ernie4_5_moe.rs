//! ERNIE 4.5 with experts: a bias that moves the choice of experts, shared experts, dense layers first.

use crate::error::Error;
use crate::mixture::{Router, RouterBias, SharedExpert};
use crate::source::{Defaults, EXPERT_WIDTH, Key, Source};
use crate::spec::{LmHead, Spec};
use kernels::Pairing;

const SHARED: Key = Key("", &["moe_num_shared_experts"]);
const INTERVAL: Key = Key("interleave_moe_layer_step", &["moe_layer_interval"]);
const LEAST_SUM: Key = Key("", &["moe_norm_min"]);
const LAST: Key = Key("", &["moe_layer_end_index"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        eps: Some(1e-5),
        rope_base: 500_000.0,
        context: Some(131_072),
        tied: true,
        ..Defaults::default()
    };
    let mut spec = source.decoder("ernie4_5-moe", &defaults)?;
    spec.pairing = Pairing::Adjacent;
    let biases = source.flag(Key("", &["use_bias"]))?.unwrap_or(false);
    (spec.biases.qkv, spec.biases.out, spec.biases.feed) = (biases, biases, biases);
    spec.biases.head = biases && spec.lm_head == LmHead::Own;
    // What the weights are divided by is at least this: less than any sum of theirs, so that it is not read.
    if let Some(least) = source.float(LEAST_SUM)?.filter(|least| !(0.0..=1e-6).contains(least)) {
        return Err(source.bad(LEAST_SUM, least, "0 to 0.000001".into()));
    }
    let router = Router { bias: Some(RouterBias::Choice), ..Router::SOFTMAX };
    let width = source.need(EXPERT_WIDTH, (!source.is_gguf()).then_some(1536))?;
    let mut mixture = source.mixture(width, router)?;
    mixture.shared = match source.is_gguf() {
        true => source.gguf_shared(spec.layers.len(), false)?,
        false => {
            let count = source.size(SHARED)?.unwrap_or(2);
            (count > 0).then_some(SharedExpert { width: count * width, gated: false })
        }
    };
    let step = source.size(INTERVAL)?.unwrap_or(1).max(1);
    // -1 is for the last layer.
    let last = source.float(LAST)?.filter(|&last| last >= 0.0).map_or(usize::MAX, |last| last as usize);
    let first = source.leading_dense()?.unwrap_or(usize::from(!source.is_gguf()));
    source.spread(&mut spec, mixture, |index| {
        (first..=last).contains(&index) && (index + 1).is_multiple_of(step)
    });
    Ok(spec)
}
