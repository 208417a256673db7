//! Tensor names of what recurrent layers have in place of queries, keys and values, within their layer.

use crate::weight_role::LayerWeight;

/// The names that a weight of a recurrent layer may have in a GGUF; none for other weights.
pub(crate) fn gguf(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::MixerInput => &["attn_qkv.weight", "shortconv.in_proj.weight"],
        LayerWeight::MixerGate => &["attn_gate.weight"],
        LayerWeight::Beta => &["ssm_beta.weight"],
        LayerWeight::Alpha => &["ssm_alpha.weight"],
        LayerWeight::Conv => &["ssm_conv1d.weight", "shortconv.conv.weight"],
        LayerWeight::DecayRate => &["ssm_a"],
        LayerWeight::TimeBias => &["ssm_dt.bias"],
        LayerWeight::MixerNorm => &["ssm_norm.weight"],
        _ => &[],
    }
}

/// The names that a weight of a recurrent layer may have in a Hugging Face directory; none for other weights.
pub(crate) fn hugging_face(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::MixerInput => &["linear_attn.in_proj_qkv.weight", "conv.in_proj.weight"],
        LayerWeight::MixerGate => &["linear_attn.in_proj_z.weight"],
        LayerWeight::Beta => &["linear_attn.in_proj_b.weight"],
        LayerWeight::Alpha => &["linear_attn.in_proj_a.weight"],
        LayerWeight::Conv => &["linear_attn.conv1d.weight", "conv.conv.weight"],
        LayerWeight::DecayRate => &["linear_attn.A_log"],
        LayerWeight::TimeBias => &["linear_attn.dt_bias"],
        LayerWeight::MixerNorm => &["linear_attn.norm.weight"],
        _ => &[],
    }
}
