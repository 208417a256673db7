//! A Mamba-2 layer: projections, a convolution over time, the recurrence, and a gated norm.

use crate::blocks::Mamba2Weights;
use crate::delta_net::softplus;
use crate::scratch::Scratch;
use crate::spec::Spec;
use kernels::{Activation, CausalConv, Compute, LinearRows, SeqRows, StatePool};

/// Computes the layer for the rows in `scratch.activations` into `scratch.attention_out`, `[rows, inner_width]`, and
/// advances the states of their sequences.
pub(crate) fn mamba2(
    compute: &Compute,
    spec: &Spec,
    weights: &Mamba2Weights,
    sequences: &[SeqRows<'_>],
    rows: usize,
    states: &mut StatePool,
    scratch: &mut Scratch,
) {
    let net = &weights.shape;
    let Scratch { mixer_in, mixed, attention_out, decay, gain, activations, .. } = scratch;
    let (channels, inner, heads) = (net.channels(), net.inner_width(), net.heads);
    let (input, mixed) = (&mut mixer_in[..rows * channels], &mut mixed[..rows * channels]);
    let gate = &mut attention_out[..rows * inner];
    let (decay, steps) = (&mut decay[..rows * heads], &mut gain[..rows * heads]);
    let jobs =
        &mut [(&weights.input, &mut *input), (&weights.gate, &mut *gate), (&weights.step, &mut *steps)];
    kernels::matmul_group(compute, jobs, activations);
    if net.factors.gate != 1.0 {
        kernels::scale(compute, gate, net.factors.gate);
    }
    let conv = CausalConv {
        weight: &weights.conv,
        bias: weights.conv_bias.as_deref(),
        kernel: net.kernel,
        channels,
        activation: Some(Activation::Silu),
    };
    kernels::causal_conv(compute, states, weights.state, conv, input, sequences, mixed);
    set_steps(weights, decay, steps);
    let columns = LinearRows {
        x: mixed,
        row_len: channels,
        value: 0,
        key: inner,
        query: inner + net.keys_width(),
        decay,
        gain: steps,
        skip: Some(&weights.skip),
    };
    let out = &mut input[..rows * inner];
    let offset = weights.state + net.conv_floats();
    kernels::linear_attention(compute, states, offset, net.attention(), columns, sequences, out);
    match &weights.norm {
        Some(norm) => {
            kernels::gated_norm_groups(compute, gate, out, norm, (inner / net.groups, spec.norm.eps));
        }
        None => kernels::gated(compute, Activation::Silu, gate, out),
    }
}

/// Makes the steps in time `softplus(x + bias)`, within their limits, of the projections in `steps`, and the decays
/// `exp(rate · step)`.
fn set_steps(weights: &Mamba2Weights, decay: &mut [f32], steps: &mut [f32]) {
    let Mamba2Weights { rates, time_bias, .. } = weights;
    let ((least, most), factor) = (weights.shape.steps, weights.shape.factors.step);
    let rows = decay.chunks_exact_mut(rates.len()).zip(steps.chunks_exact_mut(rates.len()));
    for (decay, steps) in rows {
        for (head, (decay, step)) in decay.iter_mut().zip(steps).enumerate() {
            *step = softplus(factor * *step + time_bias[head]).clamp(least, most);
            *decay = (rates[head] * *step).exp();
        }
    }
}
