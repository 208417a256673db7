//! The pass of latent attention: queries are brought to the latent head by head, attend to the latents of the KV cache, and
//! what comes of it is brought to each head's values.

use crate::blocks::LatentWeights;
use crate::latent_scratch::HeadBuffers;
use crate::scratch::Scratch;
use crate::spec::Spec;
use kernels::{Activations, AttentionParams, Compute, KvPool, Mask, Matrix, Product, RopeTable, SeqRows};

/// The epsilon of the norms of latents, which the classes do not take from the file.
const LATENT_EPS: f32 = 1e-6;

/// Values below which one thread copies columns.
const PARALLEL_MIN_VALUES: usize = 1 << 15;

/// Rows that a thread copies at a time.
const TASK_ROWS: usize = 8;

/// The rows that a layer computes, of which the first `decode` are decode rows.
#[derive(Clone, Copy)]
pub(crate) struct LatentRows<'a> {
    pub(crate) count: usize,
    pub(crate) decode: usize,
    pub(crate) sequences: &'a [SeqRows<'a>],
    /// Whether nothing but keys and values is needed.
    pub(crate) keys_only: bool,
}

/// Computes the layer for the rows in `scratch.activations` into `scratch.attention_out`, `[rows, values of all heads]`;
/// what later rows need of them goes to the KV cache.
pub(crate) fn latent_attention(
    compute: &Compute,
    spec: &Spec,
    weights: &LatentWeights,
    layer: usize,
    rows: LatentRows<'_>,
    kv: &mut KvPool,
    scratch: &mut Scratch,
) {
    project(compute, weights, rows, scratch);
    let rope = spec.layers[layer].rope;
    set_keys(compute, spec, weights, rope, rows.count, scratch);
    let cached = rows.count * weights.shape.cached().head_dim;
    kv.write(
        compute,
        weights.kv_layer,
        &scratch.k[..cached],
        &scratch.v[..cached],
        &scratch.slots[..rows.count],
    );
    if rows.keys_only {
        return;
    }
    absorb(compute, spec, weights, rope, rows, scratch);
    attend(compute, spec, weights, spec.layers[layer].window, rows, kv, scratch);
}

/// The products with the layer's input: queries into `scratch.mixed`, through their latent if they have one; the latent of
/// keys and values and what rotates of the key into `scratch.v`.
fn project(compute: &Compute, weights: &LatentWeights, rows: LatentRows<'_>, scratch: &mut Scratch) {
    let net = &weights.shape;
    let Scratch { mixed, mixer_in, v, activations, .. } = scratch;
    let queries = &mut mixed[..rows.count * net.queries_width()];
    let latent = &mut v[..rows.count * net.cached().head_dim];
    let Some((down, norm)) = &weights.query_latent else {
        let jobs = &mut [(&weights.query, queries), (&weights.latent, latent)];
        return kernels::matmul_group(compute, jobs, activations);
    };
    let rank = norm.len();
    let query_latent = &mut mixer_in[..rows.count * rank];
    let jobs = &mut [(down, &mut *query_latent), (&weights.latent, latent)];
    kernels::matmul_group(compute, jobs, activations);
    kernels::rms_norm_in_place(compute, query_latent, norm, LATENT_EPS, rank);
    activations.set(compute, query_latent, rank, weights.query.activations(), rows.decode);
    kernels::matmul(compute, &weights.query, activations, queries);
}

/// Makes keys, what rotates and the normalised latent, of the projection in `scratch.v`, and values, the latent at the same
/// place, in its stead.
fn set_keys(
    compute: &Compute,
    spec: &Spec,
    weights: &LatentWeights,
    rope: Option<usize>,
    rows: usize,
    scratch: &mut Scratch,
) {
    let net = &weights.shape;
    let (rank, rotary, width) = (net.rank, net.rotary, net.cached().head_dim);
    let Scratch { k, v, ropes, heads, .. } = scratch;
    let (k, v) = (&mut k[..rows * width], &mut v[..rows * width]);
    let latent = &mut heads.columns[..rows * rank];
    kernels::take_columns(compute, v, width, 0, rank, latent);
    kernels::rms_norm_in_place(compute, latent, &weights.latent_norm, LATENT_EPS, rank);
    let of_row = |row, first| Columns { row, head: 0, first };
    copy(compute, 1, rotary, (&*v, of_row(width, rank)), (&mut *k, of_row(width, 0)));
    copy(compute, 1, rank, (&*latent, of_row(rank, 0)), (&mut *k, of_row(width, rotary)));
    copy(compute, 1, rank, (&*latent, of_row(rank, 0)), (&mut *v, of_row(width, rotary)));
    v.chunks_exact_mut(width).for_each(|value| value[..rotary].fill(0.0));
    rotate(compute, spec, rope.map(|index| &ropes[index]), k, (1, width));
}

/// Brings the queries in `scratch.mixed` to the latent, into `scratch.q`: what rotates, and the rest times the key's
/// projection.
fn absorb(
    compute: &Compute,
    spec: &Spec,
    weights: &LatentWeights,
    rope: Option<usize>,
    rows: LatentRows<'_>,
    scratch: &mut Scratch,
) {
    let net = &weights.shape;
    let width = net.cached().head_dim;
    let Scratch { q, mixed, ropes, heads, activations, .. } = scratch;
    let (queries, q) =
        (&mixed[..rows.count * net.queries_width()], &mut q[..rows.count * net.absorbed_width()]);
    let from = |first| Columns { row: net.queries_width(), head: net.query_dim(), first };
    let to = |first| Columns { row: net.absorbed_width(), head: width, first };
    copy(compute, net.heads, net.rotary, (queries, from(net.plain)), (&mut *q, to(0)));
    let buffers = (heads, activations);
    each_head(compute, &weights.keys, rows.decode, (queries, from(0)), (&mut *q, to(net.rotary)), buffers);
    rotate(compute, spec, rope.map(|index| &ropes[index]), q, (net.heads, width));
}

/// Attention of the queries in `scratch.q` over the latents, and each head's values of what comes of it.
fn attend(
    compute: &Compute,
    spec: &Spec,
    weights: &LatentWeights,
    window: Option<usize>,
    rows: LatentRows<'_>,
    kv: &KvPool,
    scratch: &mut Scratch,
) {
    let net = &weights.shape;
    let params = AttentionParams {
        layer: weights.kv_layer,
        heads: net.heads,
        mask: Mask::Causal { window },
        scale: spec.attention_scale,
        soft_cap: None,
        bias: None,
        sinks: None,
    };
    let Scratch { q, mixed, attention_out, heads, activations, .. } = scratch;
    let used = rows.count * net.absorbed_width();
    let (q, latents) = (&q[..used], &mut mixed[..used]);
    kernels::attention(compute, kv, params, q, rows.sequences, latents);
    let out = &mut attention_out[..rows.count * net.values_width()];
    let from = Columns { row: net.absorbed_width(), head: net.cached().head_dim, first: net.rotary };
    let to = Columns { row: net.values_width(), head: net.value_dim, first: 0 };
    each_head(compute, &weights.values, rows.decode, (&*latents, from), (out, to), (heads, activations));
}

/// Rotates the first values of each head of `x`, `[rows, heads * width]`.
fn rotate(
    compute: &Compute,
    spec: &Spec,
    rope: Option<&RopeTable>,
    x: &mut [f32],
    (heads, width): (usize, usize),
) {
    if let Some(table) = rope {
        kernels::rope(compute, x, table, heads, width, spec.pairing, None);
    }
}

/// Where columns of each head are in rows.
#[derive(Clone, Copy)]
struct Columns {
    /// Columns of a row.
    row: usize,
    /// Columns of a head.
    head: usize,
    /// The first column of the first head.
    first: usize,
}

impl Columns {
    fn of(self, head: usize) -> usize {
        self.first + head * self.head
    }
}

/// Multiplies the columns that each head has in `x` with its matrix, into those that it has in `out`.
fn each_head(
    compute: &Compute,
    matrices: &[Matrix],
    decode_rows: usize,
    (x, from): (&[f32], Columns),
    (out, to): (&mut [f32], Columns),
    (buffers, one): (&mut HeadBuffers, &mut Activations),
) {
    let Some(first) = matrices.first() else { return };
    let (rows, cols, out_cols) = (x.len() / from.row, first.cols(), first.rows());
    let (round, columns, products) = buffers.round(rows, one);
    let columns = &mut columns[..rows * cols];
    let at_once = round.len();
    for (index, matrices) in matrices.chunks(at_once).enumerate() {
        let head = |member: usize| index * at_once + member;
        for (member, (matrix, activations)) in matrices.iter().zip(&mut *round).enumerate() {
            kernels::take_columns(compute, x, from.row, from.of(head(member)), cols, columns);
            activations.set(compute, columns, cols, matrix.activations(), decode_rows);
        }
        let outs = products.chunks_exact_mut(rows * out_cols);
        let members = matrices.iter().zip(&*round).zip(outs);
        kernels::matmul_each(compute, members.map(|((weights, rows), out)| Product { weights, rows, out }));
        for (member, product) in products.chunks_exact(rows * out_cols).take(matrices.len()).enumerate() {
            let own = Columns { row: out_cols, head: 0, first: 0 };
            copy(
                compute,
                1,
                out_cols,
                (product, own),
                (&mut *out, Columns { first: to.of(head(member)), ..to }),
            );
        }
    }
}

/// Copies `width` columns of each head of the rows of `x` to the rows of `out`.
fn copy(
    compute: &Compute,
    heads: usize,
    width: usize,
    (x, from): (&[f32], Columns),
    (out, to): (&mut [f32], Columns),
) {
    let copy = |first: usize, out: &mut [f32]| {
        let rows = x[first * from.row..].chunks_exact(from.row);
        for (row, out) in rows.zip(out.chunks_exact_mut(to.row)) {
            for head in 0..heads {
                out[to.of(head)..][..width].copy_from_slice(&row[from.of(head)..][..width]);
            }
        }
    };
    if out.len() / to.row * heads * width < PARALLEL_MIN_VALUES {
        return copy(0, out);
    }
    compute.pool.chunks_mut(out, TASK_ROWS * to.row, &|task, out| copy(task * TASK_ROWS, out));
}
