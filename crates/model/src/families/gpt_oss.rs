//! gpt-oss: experts in MXFP4 with biases, attention sinks, every second layer with a sliding window, a clamped swish.

use crate::error::Error;
use crate::mixture::{Router, RouterBias, Score};
use crate::rope::{RopeScaling, yarn_mscale};
use crate::source::{Defaults, EXPERT_WIDTH, HIDDEN_ACT, Key, Source, WINDOW};
use crate::spec::Spec;
use kernels::{Activation, CLAMPED_SWISH_ALPHA, CLAMPED_SWISH_LIMIT};

/// The factor of the published models, for a `config.json` without rope parameters.
const FACTOR: f32 = 32.0;

const ALPHA: Key = Key("", &["swiglu_alpha"]);
const LIMIT: Key = Key("", &["swiglu_limit"]);

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        eps: Some(1e-5),
        rope_base: 150_000.0,
        head_dim: Some(64),
        context: Some(131_072),
        ..Defaults::default()
    };
    let mut spec = source.decoder("gpt-oss", &defaults)?;
    check_activation(source)?;
    spec.activation = Activation::ClampedSwish;
    spec.sinks = true;
    let biases = source.flag(Key("", &["attention_bias"]))?.unwrap_or(true);
    (spec.biases.qkv, spec.biases.out) = (biases, biases);
    rope(source, &mut spec);
    let window = source.size(WINDOW)?.or((!source.is_gguf()).then_some(128)).filter(|&window| window > 0);
    let listed = source.sliding_layers(spec.layers.len())?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let slides = listed.as_ref().map_or(index.is_multiple_of(2), |list| list[index]);
        layer.window = window.filter(|_| slides);
    }
    let width = match source.is_gguf() {
        true => source.need(EXPERT_WIDTH, None)?,
        false => spec.feed_width(),
    };
    let router = Router {
        score: Score::SoftmaxOfPicked,
        bias: Some(RouterBias::Logits),
        renormalise: false,
        ..Router::SOFTMAX
    };
    let mut mixture = source.mixture(width, router)?;
    mixture.biases = true;
    source.spread(&mut spec, mixture, |_| true);
    Ok(spec)
}

/// Refuses another activation function than that of the published models, which has no key in a GGUF.
fn check_activation(source: &Source) -> Result<(), Error> {
    for (key, built) in [(ALPHA, CLAMPED_SWISH_ALPHA), (LIMIT, CLAMPED_SWISH_LIMIT)] {
        if let Some(given) = source.float(key)?.filter(|given| *given != built) {
            return Err(source.bad(key, given, format!("{built}")));
        }
    }
    match source.text(HIDDEN_ACT)? {
        None | Some("silu") => Ok(()),
        Some(other) => Err(source.bad(HIDDEN_ACT, other, "silu".into())),
    }
}

/// Completes the rope scaling: the ends of YaRN's blend are not rounded, which a GGUF cannot say, and a `config.json`
/// without rope parameters has those of the class.
fn rope(source: &Source, spec: &mut Spec) {
    let untold = source.raw(Key("", &["rope_parameters", "rope_scaling"])).is_none();
    let Some(rope) = spec.ropes.first_mut() else { return };
    match &mut rope.scaling {
        RopeScaling::Yarn { truncate, .. } if source.is_gguf() => *truncate = false,
        scaling @ RopeScaling::None if !source.is_gguf() && untold => {
            *scaling = RopeScaling::Yarn {
                factor: FACTOR,
                original: 4096,
                beta_fast: 32.0,
                beta_slow: 1.0,
                mscale: yarn_mscale(FACTOR, 1.0),
                truncate: false,
            };
        }
        _ => {}
    }
}
