//! Relative positions of disentangled attention (DeBERTa-v2): the projections of the relative embedding, which depend
//! on weights only, and a batch's products with them.

use crate::blocks::{Block, Linear, RelativeProjections};
use crate::error::Error;
use crate::spec::Spec;
use kernels::{Activations, Compute, Matrix, Precision};
use tensor::Dtype;

/// Projects the relative embedding `table`, `[rows, width]`, to keys and queries of each head, in each layer.
///
/// # Errors
/// No memory.
pub(crate) fn project(
    spec: &Spec,
    compute: &Compute,
    precision: Precision,
    table: &[f32],
    blocks: &mut [Block],
) -> Result<(), Error> {
    let rows = table.len() / spec.width;
    let mut activations = Activations::new(rows, spec.width);
    let mut out = vec![0.0; rows * spec.query_width()];
    for block in blocks {
        let (key, query) = match (&block.position_key, &block.position_query) {
            (Some(key), Some(query)) => (key, query),
            _ => {
                let attention = block.mixer.attention();
                let keys = attention.keys.as_ref().expect("every layer of an encoder projects keys");
                (&keys.key, &attention.query)
            }
        };
        let mut of = |linear: &Linear| {
            activations.set(compute, table, spec.width, linear.matrix.activations(), 0);
            kernels::matmul(compute, &linear.matrix, &activations, &mut out);
            crate::mlp::bias(compute, linear, &mut out);
            (0..spec.heads).map(|head| pack_head(spec, compute, precision, &out, head)).collect()
        };
        let keys = of(key)?;
        let queries: Result<_, Error> = of(query);
        block.relative = Some(RelativeProjections { keys, queries: queries? });
        (block.position_key, block.position_query) = (None, None);
    }
    Ok(())
}

/// The columns of a head as a matrix of its own.
fn pack_head(
    spec: &Spec,
    compute: &Compute,
    precision: Precision,
    all: &[f32],
    head: usize,
) -> Result<Matrix, Error> {
    let (dim, width) = (spec.head_dim, spec.query_width());
    let values: Vec<u8> = all
        .chunks_exact(width)
        .flat_map(|row| row[head * dim..][..dim].iter().flat_map(|v| v.to_le_bytes()))
        .collect();
    let rows = all.len() / width;
    let name = || "relative positions".to_owned();
    Matrix::pack(compute, Dtype::F32, rows, dim, &values, precision)
        .map_err(|source| Error::Pack { name: name(), source })
}

/// Writes the products of each row's heads with the projections of relative positions, times `scale`, to the rows from
/// `first_row` on of `out`, `[heads, capacity, span]`.
pub(crate) fn products(
    compute: &Compute,
    projections: &[Matrix],
    x: &[f32],
    (first_row, capacity): (usize, usize),
    scale: f32,
    buffers: &mut ProductBuffers,
    out: &mut [f32],
) {
    for (head, matrix) in projections.iter().enumerate() {
        let (dim, span) = (matrix.cols(), matrix.rows());
        let width = projections.len() * dim;
        let rows = x.len() / width;
        let gathered = &mut buffers.gathered[..rows * dim];
        for (to, from) in gathered.chunks_exact_mut(dim).zip(x.chunks_exact(width)) {
            to.copy_from_slice(&from[head * dim..][..dim]);
        }
        buffers.activations.set(compute, gathered, dim, matrix.activations(), 0);
        let product = &mut out[(head * capacity + first_row) * span..][..rows * span];
        kernels::matmul(compute, matrix, &buffers.activations, product);
        kernels::scale(compute, product, scale);
    }
}

/// The scratch of [`products`].
pub(crate) struct ProductBuffers {
    gathered: Vec<f32>,
    activations: Activations,
}

impl ProductBuffers {
    /// Buffers for `rows` rows.
    pub(crate) fn new(spec: &Spec, rows: usize) -> ProductBuffers {
        ProductBuffers {
            gathered: vec![0.0; rows * spec.head_dim],
            activations: Activations::new(rows, spec.head_dim),
        }
    }
}
