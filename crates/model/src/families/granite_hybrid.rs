//! Granite 4: layers of Mamba-2 and of attention without rope, with experts beside a shared one, or with the latter alone.
//! The class is also that of Granite 4 without Mamba-2 layers (4.0-micro).

use super::{granite, granitemoe, llama, mamba2};
use crate::error::Error;
use crate::mixer::Mixer;
use crate::mixture::SharedExpert;
use crate::source::{Defaults, Key, Source};
use crate::spec::{FeedForward, Spec};

const LAYER_TYPES: Key = Key("", &["layer_types"]);
const EXPERTS: Key = Key("", &["num_local_experts"]);
const SHARED: Key = Key("", &["shared_intermediate_size"]);
const POSITIONS: Key = Key("", &["position_embedding_type"]);

const MAMBA2: mamba2::Defaults =
    mamba2::Defaults { heads: 128, head_dim: None, inner: None, groups: 1, state_dim: 256 };

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults { listed: true, ..Defaults::default() };
    let mut spec = llama::body(source, "granitehybrid", &defaults)?;
    granite::multipliers(source, &mut spec)?;
    feed_forward(source, &mut spec)?;
    if !source.is_gguf() && source.text(POSITIONS)? != Some("rope") {
        spec.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    let recurrent = recurrent_layers(source, spec.layers.len())?;
    let Some(first) = recurrent.iter().position(|recurrent| *recurrent) else {
        spec.family = if spec.experts().0 > 0 { "granitemoe" } else { "granite" };
        return Ok(spec);
    };
    mamba2::refuse_activation(source, spec.activation)?;
    if let Some(attention) = recurrent.iter().position(|recurrent| !*recurrent).filter(|_| source.is_gguf()) {
        spec.biases = source.biases(attention);
    }
    let net = mamba2::read(source, spec.width, first, &MAMBA2)?;
    for (layer, recurrent) in spec.layers.iter_mut().zip(recurrent) {
        if recurrent {
            layer.mixer = Mixer::Mamba2(net);
        }
    }
    Ok(spec)
}

/// Whether each layer is of Mamba-2. The published files and transformers have different words for the two kinds.
fn recurrent_layers(source: &Source, layers: usize) -> Result<Vec<bool>, Error> {
    if source.is_gguf() {
        return Ok(source.layers_without_kv_heads(layers)?.unwrap_or(vec![false; layers]));
    }
    let kinds = source.texts(LAYER_TYPES)?;
    if kinds.is_empty() {
        return Ok(vec![true; layers]);
    }
    let recurrent = |kind: &String| match kind.as_str() {
        "mamba" | "linear_attention" => Ok(true),
        "attention" | "full_attention" => Ok(false),
        other => Err(source.bad(LAYER_TYPES, other, "mamba or attention".into())),
    };
    let listed = kinds.iter().map(recurrent).collect::<Result<Vec<_>, _>>()?;
    source.one_for_each(LAYER_TYPES, listed, layers)
}

/// Experts beside a shared one in all layers, or the shared one alone.
fn feed_forward(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    if source.is_gguf() {
        return if source.gguf_has_experts()? { granitemoe::experts(source, spec) } else { Ok(()) };
    }
    if source.size(EXPERTS)?.unwrap_or(8) > 0 {
        granitemoe::experts(source, spec)?;
    }
    let width = source.need(SHARED, Some(1024))?;
    for layer in &mut spec.layers {
        match &mut layer.feed {
            FeedForward::None => {}
            FeedForward::Dense { width: dense } => *dense = width,
            FeedForward::Experts(mixture) => mixture.shared = Some(SharedExpert { width, gated: false }),
        }
    }
    Ok(())
}
