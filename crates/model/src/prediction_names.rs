//! Tensor names of what stands around the layer that predicts the token after the next.

use crate::weight_role::LayerWeight;

/// Where a Hugging Face directory has the layer itself.
pub(crate) const LAYER: &str = "mtp.layers.0.";

/// The name in a GGUF, within its layer; none for other weights.
pub(crate) fn gguf(part: LayerWeight) -> Option<&'static str> {
    Some(match part {
        LayerWeight::PredictionEmbeddingNorm => "nextn.enorm.weight",
        LayerWeight::PredictionHiddenNorm => "nextn.hnorm.weight",
        LayerWeight::PredictionInput => "nextn.eh_proj.weight",
        LayerWeight::PredictionNorm => "nextn.shared_head_norm.weight",
        _ => return None,
    })
}

/// The name in a Hugging Face directory; none for other weights.
pub(crate) fn hugging_face(part: LayerWeight) -> Option<&'static str> {
    Some(match part {
        LayerWeight::PredictionEmbeddingNorm => "mtp.pre_fc_norm_embedding.weight",
        LayerWeight::PredictionHiddenNorm => "mtp.pre_fc_norm_hidden.weight",
        LayerWeight::PredictionInput => "mtp.fc.weight",
        LayerWeight::PredictionNorm => "mtp.norm.weight",
        _ => return None,
    })
}
