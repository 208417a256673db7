//! AltUp and LAuReL (Gemma 3n): several residual streams, of which a layer computes one, the active one.
//!
//! The first stream starts as the embedding `x`, the others as projections of it with its magnitude. In each layer, with
//! `m(x) = tanh(router(norm(x)) / width)`:
//!
//! 1. Prediction: each stream gets the sum of all streams with factors that are linear in `m` of the active one.
//! 2. The layer computes `x` from the active stream's prediction, as any layer, but that after attention
//!    `x = (x + h + norm(right(left(h)))) / √2`, where `h` is the norm that attention reads (LAuReL).
//! 3. Correction: each stream gets what `x` differs from its prediction, with a factor of one and what is linear in
//!    `m(x)`. All streams but the first get the layer's own embedding of the token.
//!
//! Last, the other streams are projected, brought to the magnitude of the first, and the mean is the hidden state.
//!
//! A row has its streams one after the other; a row's result depends on that row only.

use crate::blocks::{AltUpWeights, LaurelWeights, PerLayerWeights};
use crate::per_layer;
use crate::residual::{norm, post_norm};
use crate::scratch::Scratch;
use crate::spec::{AltUp, MAX_STREAMS, Spec};
use kernels::{Activation, Activations, Compute, Matrix};
use std::f32::consts::FRAC_1_SQRT_2;

/// The weights between the streams and what is before and after the layers, for each stream but the first.
pub(crate) struct StreamProjections {
    /// From the embedding to a stream `[width, width]`.
    pub(crate) widen: Vec<Matrix>,
    /// From a stream to its part of the last hidden state `[width, width]`.
    pub(crate) merge: Vec<Matrix>,
}

/// The least mean square by which a projected stream is divided.
const LEAST_MEAN_SQUARE: f32 = 1e-5;

/// Columns that are computed at once.
const PART: usize = 16;

/// Fills the streams of rows from their embeddings, in `scratch.x`.
pub(crate) fn widen(
    compute: &Compute,
    spec: &Spec,
    projections: &StreamProjections,
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let width = spec.width;
    let Scratch { x, out, streams, activations, .. } = scratch;
    let (x, out) = (&x[..rows * width], &mut out[..rows * width]);
    let row_len = (1 + projections.widen.len()) * width;
    let streams = &mut streams[..rows * row_len];
    compute.pool.chunks_mut(streams, row_len, &|row, streams| {
        streams[..width].copy_from_slice(&x[row * width..][..width]);
    });
    let formats = projections.widen.iter().map(Matrix::activations).reduce(|all, one| all | one);
    activations.set(compute, x, width, formats.unwrap_or_default(), decode_rows);
    for (index, matrix) in projections.widen.iter().enumerate() {
        kernels::matmul(compute, matrix, activations, out);
        let projected = &*out;
        compute.pool.chunks_mut(streams, row_len, &|row, streams| {
            let (first, others) = streams.split_at_mut(width);
            let projected = &projected[row * width..][..width];
            let factor = to_magnitude(first, projected);
            for (value, projected) in others[index * width..].iter_mut().zip(projected) {
                *value = projected * factor;
            }
        });
    }
}

/// Sets the streams of rows to their predictions in a layer, and `scratch.x` to that of the active stream.
pub(crate) fn predict(
    compute: &Compute,
    spec: &Spec,
    alt_up: AltUp,
    weights: &AltUpWeights,
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let (width, AltUp { streams: count, active, .. }) = (spec.width, alt_up);
    let Scratch { x, h, streams, modalities, activations, .. } = scratch;
    let (x, h) = (&mut x[..rows * width], &mut h[..rows * width]);
    let (streams, row_len) = (&mut streams[..rows * count * width], count * width);
    let modalities = &mut modalities[..rows * count];
    kernels::take_columns(compute, streams, row_len, active * width, width, x);
    route(compute, spec, weights, (x, h), decode_rows, activations, modalities);
    compute.pool.chunks_mut(streams, row_len, &|row, streams| {
        let mut factors = [0.0; MAX_STREAMS * MAX_STREAMS];
        let factors = &mut factors[..count * count];
        linear(&weights.prediction, &modalities[row * count..][..count], factors);
        add_each_to_each(streams, width, factors);
    });
    kernels::take_columns(compute, streams, row_len, active * width, width, x);
}

/// Adds LAuReL to rows after attention, in `scratch.x`; the norm that attention read is in `scratch.h`.
pub(crate) fn add_laurel(
    compute: &Compute,
    spec: &Spec,
    weights: &LaurelWeights,
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let (width, rank) = (spec.width, weights.left.rows());
    let Scratch { x, h, out, gate, activations, .. } = scratch;
    let (x, h, out) = (&mut x[..rows * width], &h[..rows * width], &mut out[..rows * width]);
    let low = &mut gate[..rows * rank];
    activations.set(compute, h, width, weights.left.activations(), decode_rows);
    kernels::matmul(compute, &weights.left, activations, low);
    activations.set(compute, low, rank, weights.right.activations(), decode_rows);
    kernels::matmul(compute, &weights.right, activations, out);
    post_norm(compute, spec, Some(&weights.norm), out);
    kernels::add(compute, out, h);
    kernels::add(compute, x, out);
    kernels::scale(compute, x, FRAC_1_SQRT_2);
}

/// Corrects the streams of rows by the layer's output, in `scratch.x`, and adds the layer's own embeddings.
pub(crate) fn correct(
    compute: &Compute,
    spec: &Spec,
    alt_up: AltUp,
    (weights, own, layer): (&AltUpWeights, Option<&PerLayerWeights>, usize),
    (rows, decode_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let (width, AltUp { streams: count, active, .. }) = (spec.width, alt_up);
    let row_len = count * width;
    let Scratch { x, h, streams, modalities, activations, .. } = &mut *scratch;
    let (x, h) = (&mut x[..rows * width], &mut h[..rows * width]);
    let (streams, modalities) = (&mut streams[..rows * row_len], &mut modalities[..rows * count]);
    route(compute, spec, weights, (x, h), decode_rows, activations, modalities);
    let computed = &*x;
    compute.pool.chunks_mut(streams, row_len, &|row, streams| {
        let mut factors = [0.0; MAX_STREAMS];
        let factors = &mut factors[..count];
        linear(&weights.correction, &modalities[row * count..][..count], factors);
        factors.iter_mut().for_each(|factor| *factor += 1.0);
        add_difference(streams, active, &computed[row * width..][..width], factors);
    });
    let Some(own) = own else { return };
    let corrected = &*streams;
    compute.pool.chunks_mut(x, width, &|row, x| {
        let corrected = &corrected[row * row_len + active * width..][..width];
        match &weights.scale {
            Some(scale) => {
                x.iter_mut().zip(corrected).zip(scale).for_each(|((x, value), scale)| *x = value * scale);
            }
            None => x.copy_from_slice(corrected),
        }
    });
    per_layer::output(compute, spec, own, layer, (rows, decode_rows), scratch);
    let Scratch { out, streams, .. } = scratch;
    let out = &out[..rows * width];
    compute.pool.chunks_mut(&mut streams[..rows * row_len], row_len, &|row, streams| {
        let out = &out[row * width..][..width];
        for stream in streams.chunks_exact_mut(width).skip(1) {
            stream.iter_mut().zip(out).for_each(|(value, out)| *value += out);
        }
    });
}

/// Sets `scratch.x` to the last hidden states of rows, from all their streams.
pub(crate) fn merge(
    compute: &Compute,
    spec: &Spec,
    projections: &StreamProjections,
    rows: usize,
    scratch: &mut Scratch,
) {
    let (width, count) = (spec.width, 1 + projections.merge.len());
    let row_len = count * width;
    let Scratch { x, h, out, streams, activations, .. } = scratch;
    let (x, h, out) = (&mut x[..rows * width], &mut h[..rows * width], &mut out[..rows * width]);
    let streams = &streams[..rows * row_len];
    kernels::take_columns(compute, streams, row_len, 0, width, x);
    for (index, matrix) in projections.merge.iter().enumerate() {
        kernels::take_columns(compute, streams, row_len, (index + 1) * width, width, h);
        activations.set(compute, h, width, matrix.activations(), rows);
        kernels::matmul(compute, matrix, activations, out);
        let projected = &*out;
        compute.pool.chunks_mut(x, width, &|row, x| {
            let projected = &projected[row * width..][..width];
            let factor = to_magnitude(&streams[row * row_len..][..width], projected);
            x.iter_mut().zip(projected).for_each(|(sum, value)| *sum += value * factor);
        });
    }
    kernels::scale(compute, x, 1.0 / count as f32);
}

/// Computes `m` of the rows `x`, `[rows, streams]`; `h` is written.
fn route(
    compute: &Compute,
    spec: &Spec,
    weights: &AltUpWeights,
    (x, h): (&[f32], &mut [f32]),
    decode_rows: usize,
    activations: &mut Activations,
    modalities: &mut [f32],
) {
    let formats = weights.router.activations();
    activations.set_normed(compute, norm(spec, &weights.router_norm), x, h, formats, decode_rows);
    kernels::matmul(compute, &weights.router, activations, modalities);
    kernels::scale(compute, modalities, 1.0 / spec.width as f32);
    kernels::activate(compute, Activation::Tanh, modalities);
}

/// Computes `out = matrix · x`, of a small matrix `[out.len(), x.len()]`.
fn linear(matrix: &[f32], x: &[f32], out: &mut [f32]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len())) {
        *out = row.iter().zip(x).map(|(weight, x)| weight * x).sum();
    }
}

/// Adds to each stream of a row the sum of all streams, times the factors of that stream, `[streams, streams]`.
fn add_each_to_each(streams: &mut [f32], width: usize, factors: &[f32]) {
    let count = streams.len() / width;
    for at in (0..width).step_by(PART) {
        let end = width.min(at + PART);
        let mut before = [[0.0; PART]; MAX_STREAMS];
        for (before, stream) in before.iter_mut().zip(streams.chunks_exact(width)) {
            before[..end - at].copy_from_slice(&stream[at..end]);
        }
        for (stream, factors) in streams.chunks_exact_mut(width).zip(factors.chunks_exact(count)) {
            let mut sums = [0.0; PART];
            for (before, factor) in before.iter().zip(factors) {
                sums.iter_mut().zip(before).for_each(|(sum, value)| *sum += factor * value);
            }
            stream[at..end].iter_mut().zip(sums).for_each(|(value, sum)| *value += sum);
        }
    }
}

/// Adds to each stream of a row what `computed` differs from the active stream, times the factor of that stream.
fn add_difference(streams: &mut [f32], active: usize, computed: &[f32], factors: &[f32]) {
    let width = computed.len();
    for at in (0..width).step_by(PART) {
        let end = width.min(at + PART);
        let mut differences = [0.0; PART];
        let predicted = &streams[active * width..][at..end];
        for ((difference, computed), predicted) in
            differences.iter_mut().zip(&computed[at..end]).zip(predicted)
        {
            *difference = computed - predicted;
        }
        for (stream, factor) in streams.chunks_exact_mut(width).zip(factors) {
            let values = stream[at..end].iter_mut().zip(differences);
            values.for_each(|(value, difference)| *value += difference * factor);
        }
    }
}

/// The factor on `row` that gives it the root mean square of `like`.
fn to_magnitude(like: &[f32], row: &[f32]) -> f32 {
    (mean_square(like) / mean_square(row).max(LEAST_MEAN_SQUARE)).sqrt()
}

fn mean_square(row: &[f32]) -> f32 {
    let mut sums = [0.0; PART];
    let parts = row.chunks_exact(PART);
    let rest: f32 = parts.remainder().iter().map(|value| value * value).sum();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value * value);
    }
    (sums.iter().sum::<f32>() + rest) / row.len() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_mixed_from_those_before_whatever_the_width() {
        for width in [1, 15, 16, 33] {
            let before: Vec<f32> = (0..3 * width).map(|value| value as f32 - 7.0).collect();
            let factors = [0.5, 0.0, 1.0, -1.0, 2.0, 0.0, 0.25, 0.0, 0.0];
            let mut after = before.clone();
            add_each_to_each(&mut after, width, &factors);
            for (index, value) in after.iter().enumerate() {
                let (stream, column) = (index / width, index % width);
                let sum: f32 = (0..3).map(|j| factors[stream * 3 + j] * before[j * width + column]).sum();
                assert_eq!(*value, before[index] + sum, "{width} {index}");
            }
        }
    }

    #[test]
    fn a_correction_reads_the_prediction_before_it_changes() {
        for width in [1, 16, 21] {
            let mut streams: Vec<f32> = (0..2 * width).map(|value| value as f32).collect();
            let computed = vec![2.0; width];
            add_difference(&mut streams, 0, &computed, &[1.0, 0.5]);
            for column in 0..width {
                assert_eq!(streams[column], 2.0);
                let difference = 2.0 - column as f32;
                assert_eq!(streams[width + column], (width + column) as f32 + 0.5 * difference);
            }
        }
    }

    #[test]
    fn a_stream_of_nothing_gets_a_finite_factor() {
        assert_eq!(to_magnitude(&[2.0, -2.0], &[1.0, 1.0]), 2.0);
        assert!(to_magnitude(&[2.0; 40], &[0.0; 40]).is_finite());
        assert_eq!(mean_square(&[3.0; 40]), 9.0);
    }
}
