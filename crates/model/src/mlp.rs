//! The feed-forward part of a block: gated (`down(act(gate h) · up h)`) or not (`down(act(up h))`).

use crate::blocks::{Linear, Mlp};
use crate::spec::Spec;
use kernels::{Activations, Compute};

/// The scratch buffers of a feed-forward.
pub(crate) struct MlpBuffers<'a> {
    /// The output of the gate projection, `[rows, feed_width]`.
    pub(crate) gate: &'a mut [f32],
    /// The output of the up projection, `[rows, feed_width]`.
    pub(crate) up: &'a mut [f32],
    /// The quantized input, then the quantized product of gate and up.
    pub(crate) activations: &'a mut Activations,
}

/// Computes the feed-forward of the rows in `buffers.activations` into `out` `[rows, width]`; the first `decode_rows`
/// are decode rows.
pub(crate) fn feed_forward(
    compute: &Compute,
    spec: &Spec,
    mlp: &Mlp,
    decode_rows: usize,
    buffers: &mut MlpBuffers<'_>,
    out: &mut [f32],
) {
    feed_forward_without_bias(compute, spec, mlp, decode_rows, buffers, out);
    bias(compute, &mlp.down, out);
}

/// [`feed_forward`] without the bias of the down projection, for callers that add it with what follows.
pub(crate) fn feed_forward_without_bias(
    compute: &Compute,
    spec: &Spec,
    mlp: &Mlp,
    decode_rows: usize,
    buffers: &mut MlpBuffers<'_>,
    out: &mut [f32],
) {
    let rows = out.len() / spec.width;
    let inner = mlp.up.matrix.rows();
    let up = &mut buffers.up[..rows * inner];
    let activations = &mut *buffers.activations;
    let gate = match &mlp.gate {
        Some(gated) => {
            let gate = &mut buffers.gate[..rows * inner];
            let jobs = &mut [(&gated.matrix, &mut *gate), (&mlp.up.matrix, &mut *up)];
            kernels::matmul_group(compute, jobs, activations);
            gate
        }
        None => {
            kernels::matmul(compute, &mlp.up.matrix, activations, up);
            &mut []
        }
    };
    activate(compute, spec, mlp, decode_rows, activations, (gate, up));
    kernels::matmul(compute, &mlp.down.matrix, activations, out);
}

/// Sets `activations` to the input of the down projection, from the products of gate (if there is one) and up, to which
/// their biases are added.
pub(crate) fn activate(
    compute: &Compute,
    spec: &Spec,
    mlp: &Mlp,
    decode_rows: usize,
    activations: &mut Activations,
    (gate, up): (&mut [f32], &mut [f32]),
) {
    let inner = mlp.up.matrix.rows();
    let formats = mlp.down.matrix.activations();
    match &mlp.gate {
        Some(gated) => {
            bias(compute, gated, gate);
            if spec.factors.gate != 1.0 {
                kernels::scale(compute, gate, spec.factors.gate);
            }
            if let Some(deviations) = mlp.cutoff {
                cut_off(compute, gate, inner, deviations);
            }
            bias(compute, &mlp.up, up);
            activations.set_gated(compute, spec.activation, gate, up, inner, formats, decode_rows);
        }
        None => {
            let bias = mlp.up.bias.as_deref();
            activations.set_activated(compute, spec.activation, bias, up, inner, formats, decode_rows);
        }
    }
}

/// Subtracts from each row of `gate`, `[rows, inner]`, its mean plus so many of its standard deviations, and keeps what is
/// positive: of values that are spread normally a fixed share.
fn cut_off(compute: &Compute, gate: &mut [f32], inner: usize, deviations: f32) {
    compute.pool.chunks_mut(gate, inner, &|_, row| {
        let mean = sum_of(row, |value| value) / inner as f32;
        let variance = sum_of(row, |value| (value - mean) * (value - mean)) / inner as f32;
        let least = mean + deviations * variance.sqrt();
        // Not `max`, which would turn a NaN into 0.
        row.iter_mut().for_each(|value| *value = if *value <= least { 0.0 } else { *value - least });
    });
}

/// The sum of a function of the values of a row, in an order that depends on its length only.
fn sum_of(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; 16];
    let parts = row.chunks_exact(sums.len());
    let rest: f32 = parts.remainder().iter().map(|value| of(*value)).sum();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += of(*value));
    }
    sums.iter().sum::<f32>() + rest
}

/// Adds the bias of `linear` to each row of `out`, if it has one.
pub(crate) fn bias(compute: &Compute, linear: &Linear, out: &mut [f32]) {
    if let Some(bias) = &linear.bias {
        kernels::add_bias(compute, out, bias);
    }
}
