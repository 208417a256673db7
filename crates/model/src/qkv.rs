//! Queries, keys and values of rows: the projections with their biases, norms of heads and rope.

use crate::blocks::Block;
use crate::mlp::bias;
use crate::spec::Spec;
use kernels::{Activations, Compute, RopeTable};

/// Computes queries, keys and values of the rows in `activations`, `[rows, heads * head_dim]` and twice
/// `[rows, kv_heads * head_dim]`. `rope` has the rotation of each row; none is for a layer without.
pub(crate) fn qkv(
    compute: &Compute,
    spec: &Spec,
    block: &Block,
    activations: &Activations,
    rope: Option<&RopeTable>,
    (q, k, v): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let jobs =
        &mut [(&block.query.matrix, &mut *q), (&block.key.matrix, &mut *k), (&block.value.matrix, &mut *v)];
    kernels::matmul_group(compute, jobs, activations);
    bias(compute, &block.query, q);
    bias(compute, &block.key, k);
    bias(compute, &block.value, v);
    for (x, heads, weight) in [(q, spec.heads, &block.query_norm), (k, spec.kv_heads, &block.key_norm)] {
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
