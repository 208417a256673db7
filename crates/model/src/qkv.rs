//! Queries, keys and values of rows: the projections with their biases, norms of heads and rope.

use crate::blocks::AttentionWeights;
use crate::mlp::bias;
use crate::spec::Spec;
use kernels::{Activations, Compute, RopeTable};

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
    for (x, heads, weight) in
        [(q, spec.heads, &attention.query_norm), (k, spec.kv_heads, &attention.key_norm)]
    {
        let norm = weight.as_deref().map(|weight| (weight, spec.norm.eps));
        match (rope, norm) {
            (Some(table), _) => {
                kernels::rope(compute, x, table, heads, spec.head_dim, spec.pairing, norm);
            }
            (None, Some((weight, eps))) => {
                kernels::rms_norm_in_place(compute, x, weight, eps, spec.head_dim);
            }
            (None, None) => {}
        }
    }
}
