//! Tensor names of the embeddings that each layer has of a token, and of a layer's factor.

use crate::weight_role::{LayerWeight, WeightRole};

/// The name in a GGUF of a weight outside the layers.
pub(crate) fn gguf_top(role: WeightRole) -> Option<&'static str> {
    match role {
        WeightRole::PerLayerEmbedding => Some("per_layer_token_embd.weight"),
        WeightRole::PerLayerProjection => Some("per_layer_model_proj.weight"),
        WeightRole::PerLayerNorm => Some("per_layer_proj_norm.weight"),
        _ => None,
    }
}

/// The name in a Hugging Face directory of a weight outside the layers, after the prefix of the model.
pub(crate) fn hugging_face_top(role: WeightRole) -> Option<&'static str> {
    match role {
        WeightRole::PerLayerEmbedding => Some("embed_tokens_per_layer.weight"),
        WeightRole::PerLayerProjection => Some("per_layer_model_projection.weight"),
        WeightRole::PerLayerNorm => Some("per_layer_projection_norm.weight"),
        _ => None,
    }
}

/// The names in a GGUF of a weight of a layer, within the layer.
pub(crate) fn gguf(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::PerLayerGate => &["inp_gate.weight"],
        LayerWeight::PerLayerOut => &["proj.weight"],
        LayerWeight::PerLayerPostNorm => &["post_norm.weight"],
        LayerWeight::Scale => &["layer_output_scale.weight"],
        _ => &[],
    }
}

/// The names in a Hugging Face directory of a weight of a layer, within the layer.
pub(crate) fn hugging_face(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::PerLayerGate => &["per_layer_input_gate.weight"],
        LayerWeight::PerLayerOut => &["per_layer_projection.weight"],
        LayerWeight::PerLayerPostNorm => &["post_per_layer_input_norm.weight"],
        LayerWeight::Scale => &["layer_scalar"],
        _ => &[],
    }
}
