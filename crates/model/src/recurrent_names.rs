//! Tensor names of what recurrent layers have in place of queries, keys and values, within their layer.

use crate::mixer::{DeltaNet, Mixer};
use crate::tensor_location::{RowGroups, TensorLocation};
use crate::weight_role::LayerWeight;

/// The tensors that may hold a weight of a recurrent layer in a GGUF, where `full` makes the name in its layer; none for
/// other weights.
pub(crate) fn gguf(mixer: &Mixer, part: LayerWeight, full: &dyn Fn(&str) -> String) -> Vec<TensorLocation> {
    let mut places = located(mixer, part, &["ssm_in.weight"], gguf_names(part), full);
    // Older files of Qwen3-Next have the first of the two projections as their publisher has it.
    places.extend(by_key_head(mixer, part, ["ssm_in.weight", "ssm_ba.weight"], full));
    places
}

/// The tensors that may hold a weight of a recurrent layer in a Hugging Face directory; none for other weights.
pub(crate) fn hugging_face(
    mixer: &Mixer,
    part: LayerWeight,
    full: &dyn Fn(&str) -> String,
) -> Vec<TensorLocation> {
    let fused = &["mamba.in_proj.weight", "mixer.in_proj.weight"];
    let mut places = located(mixer, part, fused, hugging_face_names(part), full);
    let by_head = ["linear_attn.in_proj_qkvz.weight", "linear_attn.in_proj_ba.weight"];
    places.extend(by_key_head(mixer, part, by_head, full));
    places
}

/// The tensors of these names, or the part's rows of the fused projection of Mamba-2.
fn located(
    mixer: &Mixer,
    part: LayerWeight,
    fused: &[&str],
    names: &[&str],
    full: &dyn Fn(&str) -> String,
) -> Vec<TensorLocation> {
    match input_rows(mixer, part) {
        Some((first, of)) => fused.iter().map(|name| TensorLocation::rows(full(name), first, of)).collect(),
        None => names.iter().map(|name| TensorLocation::whole(full(name))).collect(),
    }
}

/// The rows of a part of a gated DeltaNet in Qwen3-Next's two fused projections, whose rows are grouped by key head: query,
/// key, values and their gates, and the projections to the gains and decays of its value heads.
fn by_key_head(
    mixer: &Mixer,
    part: LayerWeight,
    [input, factors]: [&str; 2],
    full: &dyn Fn(&str) -> String,
) -> Option<TensorLocation> {
    let Mixer::DeltaNet(DeltaNet { key_heads, value_heads, key_dim, value_dim, .. }) = *mixer else {
        return None;
    };
    let heads = value_heads / key_heads.max(1);
    let (keys, values, none) = (2 * key_dim, heads * value_dim, (0, 0));
    let (name, rows, parts) = match part {
        LayerWeight::MixerInput => {
            (input, keys + 2 * values, [(0, key_dim), (key_dim, key_dim), (keys, values)])
        }
        LayerWeight::MixerGate => (input, keys + 2 * values, [(keys + values, values), none, none]),
        LayerWeight::Beta => (factors, 2 * heads, [(0, heads), none, none]),
        LayerWeight::Alpha => (factors, 2 * heads, [(heads, heads), none, none]),
        _ => return None,
    };
    Some(TensorLocation::groups(full(name), RowGroups { count: key_heads, rows, parts }))
}

/// Where the rows of a weight begin in the fused input projection of Mamba-2, and how many rows that has.
fn input_rows(mixer: &Mixer, part: LayerWeight) -> Option<(usize, usize)> {
    let (Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net)) = mixer else { return None };
    let first = match part {
        LayerWeight::MixerGate => 0,
        LayerWeight::MixerInput => net.inner_width(),
        LayerWeight::TimeStep => net.inner_width() + net.channels(),
        _ => return None,
    };
    Some((first, net.input_rows()))
}

fn gguf_names(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::MixerInput => &["attn_qkv.weight", "shortconv.in_proj.weight"],
        LayerWeight::MixerGate => &["attn_gate.weight"],
        LayerWeight::Beta => &["ssm_beta.weight"],
        LayerWeight::Alpha => &["ssm_alpha.weight"],
        LayerWeight::Conv => &["ssm_conv1d.weight", "shortconv.conv.weight"],
        LayerWeight::ConvBias => &["ssm_conv1d.bias"],
        LayerWeight::DecayRate => &["ssm_a"],
        LayerWeight::TimeBias => &["ssm_dt.bias"],
        LayerWeight::Skip => &["ssm_d"],
        LayerWeight::MixerNorm => &["ssm_norm.weight"],
        LayerWeight::MixerOut => &["ssm_out.weight"],
        _ => &[],
    }
}

fn hugging_face_names(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::MixerInput => &["linear_attn.in_proj_qkv.weight", "conv.in_proj.weight"],
        LayerWeight::MixerGate => &["linear_attn.in_proj_z.weight"],
        LayerWeight::Beta => &["linear_attn.in_proj_b.weight"],
        LayerWeight::Alpha => &["linear_attn.in_proj_a.weight"],
        LayerWeight::Conv => {
            &["linear_attn.conv1d.weight", "conv.conv.weight", "mamba.conv1d.weight", "mixer.conv1d.weight"]
        }
        LayerWeight::ConvBias => &["mamba.conv1d.bias", "mixer.conv1d.bias"],
        LayerWeight::DecayRate => &["linear_attn.A_log", "mamba.A_log", "mixer.A_log"],
        LayerWeight::TimeBias => &["linear_attn.dt_bias", "mamba.dt_bias", "mixer.dt_bias"],
        LayerWeight::Skip => &["mamba.D", "mixer.D"],
        LayerWeight::MixerOut => &["mamba.out_proj.weight"],
        LayerWeight::MixerNorm => &["linear_attn.norm.weight", "mamba.norm.weight", "mixer.norm.weight"],
        _ => &[],
    }
}
