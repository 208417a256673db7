//! A short convolution between two gates, which are projections of the input.

use crate::blocks::ShortConvWeights;
use crate::mixer::ShortConv;
use crate::scratch::Scratch;
use kernels::{CausalConv, Compute, SeqRows, StatePool};

/// Computes the layer for the rows in `scratch.activations` into `scratch.attention_out`, `[rows, channels]`, and advances
/// the states of their sequences.
pub(crate) fn short_conv(
    compute: &Compute,
    weights: &ShortConvWeights,
    sequences: &[SeqRows<'_>],
    rows: usize,
    states: &mut StatePool,
    scratch: &mut Scratch,
) {
    let Scratch { mixer_in, mixed, attention_out, activations, .. } = scratch;
    let ShortConv { channels, kernel } = weights.shape;
    let all = 3 * channels;
    let (projected, input) = (&mut mixed[..rows * all], &mut mixer_in[..rows * channels]);
    let out = &mut attention_out[..rows * channels];
    kernels::matmul(compute, &weights.input, activations, projected);
    // In the order of the projection: the gate of the input, that of the output, the input.
    kernels::take_columns(compute, projected, all, 2 * channels, channels, input);
    kernels::multiply_columns(compute, input, projected, all, 0, channels);
    let conv = CausalConv { weight: &weights.conv, bias: None, kernel, channels, activation: None };
    kernels::causal_conv(compute, states, weights.state, conv, input, sequences, out);
    kernels::multiply_columns(compute, out, projected, all, channels, channels);
}
