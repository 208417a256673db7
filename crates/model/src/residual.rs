//! What stands between the parts of a layer: norms, and the residual stream.

use crate::blocks::NormWeights;
use crate::spec::{NormKind, Spec};
use kernels::{Compute, RowNorm};

/// The norm of rows by these weights.
pub(crate) fn norm<'a>(spec: &Spec, weights: &'a NormWeights) -> RowNorm<'a> {
    RowNorm {
        weight: &weights.weight,
        // Only layer norms have a bias.
        bias: weights.bias.as_deref(),
        eps: spec.norm.eps,
        mean: spec.norm.kind == NormKind::Layer,
    }
}

/// The norm of a block's output before it is added to the residual, if the model has one.
pub(crate) fn post_norm(compute: &Compute, spec: &Spec, weights: Option<&NormWeights>, out: &mut [f32]) {
    if let Some(weights) = weights {
        kernels::rms_norm_in_place(compute, out, &weights.weight, spec.norm.eps, spec.width);
    }
}

/// Adds the output of a part to the residual stream.
pub(crate) fn add_residual(compute: &Compute, spec: &Spec, x: &mut [f32], out: &mut [f32]) {
    if spec.residual_scale != 1.0 {
        kernels::scale(compute, out, spec.residual_scale);
    }
    kernels::add(compute, x, out);
}
