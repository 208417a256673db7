//! Queries, keys and values of rows: the projections with their biases, norms of heads and rope.

use crate::blocks::{AttentionWeights, KeyWeights};
use crate::mlp::bias;
use crate::spec::{QkNorm, QueryTemperature, Spec};
use kernels::{Activations, Compute, KvHeads, RopeTable, SeqRows};

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
    project(compute, attention, activations, (&mut *q, &mut *k, &mut *v));
    rotate(compute, spec, attention, rope, (q, k, v));
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
    project(compute, attention, activations, (&mut *both, &mut *k, &mut *v));
    let dim = attention.heads.head_dim;
    kernels::take_columns(compute, both, 2 * dim, 0, dim, q);
    kernels::take_columns(compute, both, 2 * dim, dim, dim, gate);
    rotate(compute, spec, attention, rope, (q, k, v));
}

/// The products with the layer's projections, and their biases. Where keys are another layer's, `k` and `v` stay.
fn project(
    compute: &Compute,
    attention: &AttentionWeights,
    activations: &Activations,
    (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let query = &attention.query;
    match &attention.keys {
        Some(KeyWeights { key, value: Some(value), .. }) => {
            let jobs = &mut [(&query.matrix, &mut *q), (&key.matrix, &mut *k), (&value.matrix, &mut *v)];
            kernels::matmul_group(compute, jobs, activations);
            bias(compute, key, k);
            bias(compute, value, v);
        }
        Some(KeyWeights { key, value: None, .. }) => {
            let jobs = &mut [(&query.matrix, &mut *q), (&key.matrix, &mut *k)];
            kernels::matmul_group(compute, jobs, activations);
            bias(compute, key, k);
            v.copy_from_slice(k);
        }
        None => kernels::matmul(compute, &query.matrix, activations, q),
    }
    bias(compute, query, q);
}

/// Norms and rope of the heads of queries and keys, and the norm of values.
fn rotate(
    compute: &Compute,
    spec: &Spec,
    attention: &AttentionWeights,
    rope: Option<&RopeTable>,
    (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let KvHeads { kv_heads, head_dim } = attention.heads;
    norm_and_rotate(compute, spec, q, (spec.heads, head_dim), attention.query_norm.as_deref(), rope);
    if let Some(keys) = &attention.keys {
        norm_and_rotate(compute, spec, k, (kv_heads, head_dim), keys.key_norm.as_deref(), rope);
        if let Some(weight) = &keys.value_norm {
            kernels::rms_norm_in_place(compute, v, weight, spec.norm.eps, head_dim);
        }
    }
}

/// Normalises and rotates queries or keys `[rows, heads * head_dim]`; `weight` is that of the norm.
fn norm_and_rotate(
    compute: &Compute,
    spec: &Spec,
    x: &mut [f32],
    (heads, head_dim): (usize, usize),
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
        kernels::rope(compute, x, table, heads, head_dim, spec.pairing, norm);
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
