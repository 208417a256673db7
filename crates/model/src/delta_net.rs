//! A gated DeltaNet layer: projections, a convolution over time, the delta rule, and a gated norm.

use crate::blocks::DeltaNetWeights;
use crate::router::sigmoid;
use crate::scratch::Scratch;
use crate::spec::Spec;
use kernels::{Activation, CausalConv, Compute, LinearRows, SeqRows, StatePool};

/// The epsilon of the norms of queries and keys, as in the reference implementation.
const L2_EPS: f32 = 1e-6;

/// Above this, `softplus(x)` is `x`, as in the reference implementation.
const SOFTPLUS_LINEAR: f32 = 20.0;

/// Computes the layer for the rows in `scratch.activations` into `scratch.attention_out`, `[rows, values_width]`, and
/// advances the states of their sequences.
pub(crate) fn delta_net(
    compute: &Compute,
    spec: &Spec,
    weights: &DeltaNetWeights,
    sequences: &[SeqRows<'_>],
    rows: usize,
    states: &mut StatePool,
    scratch: &mut Scratch,
) {
    let net = &weights.shape;
    let Scratch { mixer_in, mixed, attention_out, decay, gain, activations, .. } = scratch;
    let (channels, values, heads) = (net.channels(), net.values_width(), net.value_heads);
    let (input, mixed) = (&mut mixer_in[..rows * channels], &mut mixed[..rows * channels]);
    let gate = &mut attention_out[..rows * values];
    let (decay, gain) = (&mut decay[..rows * heads], &mut gain[..rows * heads]);
    let jobs = &mut [
        (&weights.input, &mut *input),
        (&weights.gate, &mut *gate),
        (&weights.alpha, &mut *decay),
        (&weights.beta, &mut *gain),
    ];
    kernels::matmul_group(compute, jobs, activations);
    let conv = CausalConv {
        weight: &weights.conv,
        bias: None,
        kernel: net.kernel,
        channels,
        activation: Some(Activation::Silu),
    };
    kernels::causal_conv(compute, states, weights.state, conv, input, sequences, mixed);
    let (keys, dim) = (net.keys_width(), net.key_dim);
    let scale = 1.0 / (dim as f32).sqrt();
    kernels::l2_norm_heads(compute, mixed, channels, (0, net.key_heads, dim), L2_EPS, scale);
    kernels::l2_norm_heads(compute, mixed, channels, (keys, net.key_heads, dim), L2_EPS, 1.0);
    set_factors(weights, decay, gain);
    let columns = LinearRows {
        x: mixed,
        row_len: channels,
        query: 0,
        key: keys,
        value: 2 * keys,
        decay,
        gain,
        skip: None,
    };
    let out = &mut input[..rows * values];
    let offset = weights.state + net.conv_floats();
    kernels::linear_attention(compute, states, offset, net.attention(), columns, sequences, out);
    kernels::rms_norm_in_place(compute, out, &weights.norm, spec.norm.eps, net.value_dim);
    kernels::gated(compute, Activation::Silu, gate, out);
}

/// Makes the decay `exp(rate · softplus(alpha + bias))` of the projections in `decay`, and the gain `sigmoid(beta)` of
/// those in `gain`.
fn set_factors(weights: &DeltaNetWeights, decay: &mut [f32], gain: &mut [f32]) {
    let heads = weights.rates.len();
    for decay in decay.chunks_exact_mut(heads) {
        for ((alpha, rate), bias) in decay.iter_mut().zip(&weights.rates).zip(&weights.time_bias) {
            *alpha = (rate * softplus(*alpha + bias)).exp();
        }
    }
    gain.iter_mut().for_each(|beta| *beta = sigmoid(*beta));
}

/// `ln(1 + exp(x))`.
pub(crate) fn softplus(x: f32) -> f32 {
    if x > SOFTPLUS_LINEAR { x } else { x.exp().ln_1p() }
}
