//! Experts beside a layer's own feed-forward (Gemma 4): both have norms of their own around them, and are added.

use crate::blocks::{BesideWeights, MixtureWeights, Shared};
use crate::experts::{MixtureInput, add_experts, route};
use crate::mlp::{MlpBuffers, feed_forward};
use crate::residual::{norm, post_norm};
use crate::routing::Routing;
use crate::spec::Spec;
use kernels::Compute;

/// The rows of a layer before its feed-forward, `[rows, width]` each.
pub(crate) struct BesideInput<'a> {
    /// The residual stream.
    pub(crate) x: &'a [f32],
    /// What the feed-forward's norm makes of it; other norms take its place.
    pub(crate) h: &'a mut [f32],
    pub(crate) decode_rows: usize,
    /// A buffer for the sums of experts.
    pub(crate) sums: &'a mut [f32],
}

/// Computes the sum of each row's feed-forward and experts into `out` `[rows, width]`.
pub(crate) fn add(
    compute: &Compute,
    spec: &Spec,
    weights: &MixtureWeights,
    (beside, shared): (&BesideWeights, &Shared),
    input: BesideInput<'_>,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let BesideInput { x, h, decode_rows, sums } = input;
    buffers.activations.set(compute, h, spec.width, shared.mlp.formats, decode_rows);
    feed_forward(compute, spec, &shared.mlp, decode_rows, buffers, out);
    post_norm(compute, spec, Some(&beside.shared_post_norm), out);
    norm(spec, &beside.router_norm).rows(compute, x, h);
    route(compute, spec, weights, MixtureInput { h, decode_rows }, buffers, routing);
    norm(spec, &beside.experts_norm).rows(compute, x, h);
    sums.fill(0.0);
    add_experts(compute, spec, weights, MixtureInput { h, decode_rows }, buffers, routing, sums);
    post_norm(compute, spec, Some(&beside.experts_post_norm), sums);
    kernels::add(compute, out, sums);
}
