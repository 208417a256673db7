//! The tensor names that a converter writes for a family, of those that its reader takes.

use crate::mixer::Mixer;
use crate::mixture::RouterBias;
use crate::spec::{FeedForward, Spec};
use crate::tensor_location::{Slice, TensorLocation};
use crate::weight_role::{LayerWeight, WeightRole};

/// The families in whose GGUF the norm before the feed-forward is called `post_attention_norm`.
const NORM_AFTER_ATTENTION: [&str; 5] = ["gpt-oss", "qwen35", "qwen35moe", "qwen3next", "seed_oss"];

/// Where a converter puts a weight of this model: alone unless the family has it `fused` with others; experts in a stack.
pub(super) fn written<'a>(
    spec: &Spec,
    role: WeightRole,
    places: &'a [TensorLocation],
    fused: bool,
) -> Option<&'a TensorLocation> {
    let end = end_of_name(spec, role);
    let named = |place: &&TensorLocation| end.is_none_or(|end| place.name.ends_with(end));
    let whole = |place: &&TensorLocation| place.slice == Slice::Whole;
    let rows = places.iter().find(|place| matches!(place.slice, Slice::Rows { .. })).filter(|_| fused);
    let stack = places.iter().find(|place| matches!(place.slice, Slice::Expert { .. }));
    let alone = rows.or(stack).or_else(|| places.iter().filter(whole).find(named));
    // Some weights have no tensor of their own.
    alone.or(places.first())
}

/// How the name ends, where the first of the reader's names is not the converter's.
fn end_of_name(spec: &Spec, role: WeightRole) -> Option<&'static str> {
    let WeightRole::Layer(layer, part) = role else {
        let is_lfm2 = spec.family.starts_with("lfm2") && role == WeightRole::FinalNorm;
        return is_lfm2.then_some("token_embd_norm.weight");
    };
    let is_conv = matches!(spec.layers[layer].mixer, Mixer::ShortConv(_));
    let moves_choice = match spec.layers[layer].feed {
        FeedForward::Experts(mixture) => mixture.router.bias == Some(RouterBias::Choice),
        FeedForward::None | FeedForward::Dense { .. } => false,
    };
    match part {
        LayerWeight::RouterBias if moves_choice => Some("exp_probs_b.bias"),
        LayerWeight::FeedNorm if NORM_AFTER_ATTENTION.contains(&spec.family) => {
            Some("post_attention_norm.weight")
        }
        LayerWeight::Out if is_conv => Some("shortconv.out_proj.weight"),
        LayerWeight::Out if spec.layers[layer].state_floats() > 0 => Some("ssm_out.weight"),
        LayerWeight::MixerInput if is_conv => Some("shortconv.in_proj.weight"),
        LayerWeight::Conv if is_conv => Some("shortconv.conv.weight"),
        _ => None,
    }
}
