//! Tensor names of AltUp's streams and of LAuReL.

use crate::spec::AltUp;
use crate::tensor_location::{Slice, TensorLocation};
use crate::weight_role::{LayerWeight, WeightRole};

/// The place in a GGUF of a weight outside the layers: one of a stack, which leaves out the first stream.
pub(crate) fn gguf_top(alt_up: Option<AltUp>, width: usize, role: WeightRole) -> Option<TensorLocation> {
    let (name, stream) = match role {
        WeightRole::StreamProjection(stream) => ("altup_proj.weight", stream),
        WeightRole::StreamMerge(stream) => ("altup_unembd_proj.weight", stream),
        _ => return None,
    };
    let slice = Slice::Expert { index: stream - 1, count: alt_up?.streams - 1, first: 0, of: width };
    Some(TensorLocation { name: name.to_owned(), slice })
}

/// The name in a Hugging Face directory of a weight outside the layers, after the prefix of the model.
pub(crate) fn hugging_face_top(role: WeightRole) -> Option<String> {
    match role {
        WeightRole::StreamProjection(stream) => Some(format!("altup_projections.{}.weight", stream - 1)),
        WeightRole::StreamMerge(stream) => Some(format!("altup_unembed_projections.{}.weight", stream - 1)),
        _ => None,
    }
}

/// The names in a GGUF of a weight of a layer, within the layer.
pub(crate) fn gguf(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::StreamRouterNorm => &["altup_router_norm.weight"],
        LayerWeight::StreamRouter => &["altup_router.weight"],
        LayerWeight::StreamPrediction => &["altup_predict_coef.weight"],
        LayerWeight::StreamCorrection => &["altup_correct_coef.weight"],
        LayerWeight::StreamScale => &["altup_correct_scale.weight"],
        LayerWeight::LaurelLeft => &["laurel_l.weight"],
        LayerWeight::LaurelRight => &["laurel_r.weight"],
        LayerWeight::LaurelNorm => &["laurel_post_norm.weight"],
        _ => &[],
    }
}

/// The names in a Hugging Face directory of a weight of a layer, within the layer.
pub(crate) fn hugging_face(part: LayerWeight) -> &'static [&'static str] {
    match part {
        LayerWeight::StreamRouterNorm => &["altup.router_norm.weight"],
        LayerWeight::StreamRouter => &["altup.modality_router.weight"],
        LayerWeight::StreamPrediction => &["altup.prediction_coefs.weight"],
        LayerWeight::StreamCorrection => &["altup.correction_coefs.weight"],
        LayerWeight::StreamScale => &["altup.correct_output_scale"],
        LayerWeight::LaurelLeft => &["laurel.linear_left.weight"],
        LayerWeight::LaurelRight => &["laurel.linear_right.weight"],
        LayerWeight::LaurelNorm => &["laurel.post_laurel_norm.weight"],
        _ => &[],
    }
}
