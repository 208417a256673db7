//! Queries, keys and values of rows: the projections with their biases, norms of heads and rope.

use crate::blocks::AttentionWeights;
use crate::mlp::bias;
use crate::spec::{QkNorm, QueryTemperature, Spec};
use kernels::{Activations, Compute, RopeTable, SeqRows};

/// Computes queries, keys and values of the rows in `activations`, `[rows, heads * head_dim]` and twice
/// `[rows, kv_heads * head_dim]`. `rope` has the rotation of each row; none is for a layer without.
pub(crate) fn qkv(
    compute: &Compute,
    spec: &Spec,
    attention: &AttentionWeights,
    activations: &Activations,
    rope: Option<&RopeTable>,
    (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let jobs = &mut [
        (&attention.query.matrix, &mut *q),
        (&attention.key.matrix, &mut *k),
        (&attention.value.matrix, &mut *v),
    ];
    kernels::matmul_group(compute, jobs, activations);
    bias(compute, &attention.query, q);
    bias(compute, &attention.key, k);
    bias(compute, &attention.value, v);
    rotate(compute, spec, attention, rope, (q, k));
}

/// As [`qkv`], for a model whose query projection gives each head's query and its gate: `gate` is `[rows, heads *
/// head_dim]` as `q` is, `both` twice that.
pub(crate) fn gated_qkv(
    compute: &Compute,
    spec: &Spec,
    attention: &AttentionWeights,
    activations: &Activations,
    rope: Option<&RopeTable>,
    (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
    (both, gate): (&mut [f32], &mut [f32]),
) {
    let jobs = &mut [
        (&attention.query.matrix, &mut *both),
        (&attention.key.matrix, &mut *k),
        (&attention.value.matrix, &mut *v),
    ];
    kernels::matmul_group(compute, jobs, activations);
    bias(compute, &attention.query, both);
    bias(compute, &attention.key, k);
    bias(compute, &attention.value, v);
    let dim = spec.head_dim;
    kernels::take_columns(compute, both, 2 * dim, 0, dim, q);
    kernels::take_columns(compute, both, 2 * dim, dim, dim, gate);
    rotate(compute, spec, attention, rope, (q, k));
}

/// Norms and rope of the heads of queries and keys.
fn rotate(
    compute: &Compute,
    spec: &Spec,
    attention: &AttentionWeights,
    rope: Option<&RopeTable>,
    (q, k): (&mut [f32], &mut [f32]),
) {
    norm_and_rotate(compute, spec, q, spec.heads, attention.query_norm.as_deref(), rope);
    norm_and_rotate(compute, spec, k, spec.kv_heads, attention.key_norm.as_deref(), rope);
}

/// Normalises and rotates queries or keys `[rows, heads * head_dim]`; `weight` is that of the norm.
fn norm_and_rotate(
    compute: &Compute,
    spec: &Spec,
    x: &mut [f32],
    heads: usize,
    weight: Option<&[f32]>,
    rope: Option<&RopeTable>,
) {
    let eps = spec.norm.eps;
    let norm = |x: &mut [f32]| {
        if let Some(weight) = weight {
            kernels::rms_norm_in_place(compute, x, weight, eps, weight.len());
        }
    };
    let Some(table) = rope else { return norm(x) };
    let rotate = |x: &mut [f32], norm: Option<(&[f32], f32)>| {
        kernels::rope(compute, x, table, heads, spec.head_dim, spec.pairing, norm);
    };
    match spec.qk_norm {
        QkNorm::None | QkNorm::Head => rotate(x, weight.map(|weight| (weight, eps))),
        QkNorm::Full => {
            norm(x);
            rotate(x, None);
        }
        QkNorm::HeadAfterRope => {
            rotate(x, None);
            norm(x);
        }
    }
}

/// Scales the queries of each row, `[rows, width]`, by the factor of its position.
pub(crate) fn temper(
    compute: &Compute,
    temperature: QueryTemperature,
    sequences: &[SeqRows],
    q: &mut [f32],
    width: usize,
) {
    for sequence in sequences {
        for (step, row) in sequence.rows.clone().enumerate() {
            let factor = temperature.at(sequence.first_position + step);
            if factor != 1.0 {
                kernels::scale(compute, &mut q[row * width..(row + 1) * width], factor);
            }
        }
    }
}
