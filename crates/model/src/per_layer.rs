//! Embeddings that each layer has of a token (Gemma 3n and 4): a table beside that of the model, whose row of a token
//! has a piece for every layer.
//!
//! A layer gets of a row `(norm(P x) + √width · piece) / √2`, where `x` is the token's embedding and `P` a projection,
//! and adds it to its output through a gate: `x + norm(out(act(gate x) · piece))`.

use crate::blocks::PerLayerWeights;
use crate::residual::{add_residual, post_norm};
use crate::row_table::RowTable;
use crate::scratch::Scratch;
use crate::spec::Spec;
use kernels::{Compute, Matrix};
use std::f32::consts::FRAC_1_SQRT_2;

/// The weights of what all layers get.
pub(crate) struct PerLayerInputs {
    /// The pieces of each token for all layers.
    pub(crate) table: RowTable,
    /// `[layers * per_layer_width, width]`
    pub(crate) projection: Matrix,
    /// `[per_layer_width]`
    pub(crate) norm: Vec<f32>,
}

/// Computes what all layers get of the rows of `tokens`, whose embeddings are in `scratch.x`.
pub(crate) fn inputs(
    compute: &Compute,
    spec: &Spec,
    weights: &PerLayerInputs,
    tokens: &[u32],
    decode_rows: usize,
    scratch: &mut Scratch,
) {
    let Scratch { x, per_layer, activations, .. } = scratch;
    let cols = weights.table.cols();
    let per_layer = &mut per_layer[..tokens.len() * cols];
    let formats = weights.projection.activations();
    activations.set(compute, &x[..tokens.len() * spec.width], spec.width, formats, decode_rows);
    kernels::matmul(compute, &weights.projection, activations, per_layer);
    // The product is to be divided by √width first, which the norm undoes but for its epsilon.
    let eps = spec.norm.eps * spec.width as f32;
    kernels::rms_norm_in_place(compute, per_layer, &weights.norm, eps, spec.per_layer_width);
    let scale = (spec.per_layer_width as f32).sqrt();
    compute.pool.chunks_mut(per_layer, cols, &|row, sums| {
        let token = tokens[row] as usize;
        let line = if token < spec.per_layer_vocab { token } else { 0 };
        weights.table.read(line, &mut |first, values| {
            for (sum, value) in sums[first..].iter_mut().zip(values) {
                *sum = (*sum + scale * value) * FRAC_1_SQRT_2;
            }
        });
    });
}

/// Adds the pieces of `layer` to the output of its rows, in `scratch.x`.
pub(crate) fn add(
    compute: &Compute,
    spec: &Spec,
    weights: &PerLayerWeights,
    layer: usize,
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    output(compute, spec, weights, layer, (rows, decode_rows), scratch);
    let used = rows * spec.width;
    add_residual(compute, spec, &mut scratch.x[..used], &mut scratch.out[..used]);
}

/// Computes what the pieces of `layer` add to its rows, into `scratch.out`; the gates are of `scratch.x`.
pub(crate) fn output(
    compute: &Compute,
    spec: &Spec,
    weights: &PerLayerWeights,
    layer: usize,
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let (width, own) = (spec.width, spec.per_layer_width);
    let Scratch { x, out, gate, up, per_layer, activations, .. } = scratch;
    let (x, out) = (&x[..rows * width], &mut out[..rows * width]);
    let (gate, piece) = (&mut gate[..rows * own], &mut up[..rows * own]);
    let cols = spec.layers.len() * own;
    activations.set(compute, x, width, weights.gate.activations(), decode_rows);
    kernels::matmul(compute, &weights.gate, activations, gate);
    kernels::take_columns(compute, &per_layer[..rows * cols], cols, layer * own, own, piece);
    let formats = weights.out.activations();
    activations.set_gated(compute, spec.activation, gate, piece, own, formats, decode_rows);
    kernels::matmul(compute, &weights.out, activations, out);
    post_norm(compute, spec, Some(&weights.norm), out);
}
