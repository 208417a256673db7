//! Arithmetic on the numbers of a text. Sums run in one fixed order, so equal numbers give bit-identical results.

use super::heads::Activation;

/// Scales a vector to length 1, as `torch.nn.functional.normalize` does; a vector of zeros stays.
pub(crate) fn normalize(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt().max(1e-12) as f32;
    vector.iter_mut().for_each(|value| *value /= length);
}

/// The dot product, summed in double precision from the first number to the last.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The cosine of two vectors; 0 if one of them is all zeros.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { (dot(a, b) / lengths) as f32 } else { 0.0 }
}

/// The sum over the vectors of `query` of the largest dot product with a vector of `document` (MaxSim). Both are
/// `[tokens, width]`.
pub(crate) fn max_sim(query: &[f32], document: &[f32], width: usize) -> f32 {
    let best = |token: &[f32]| {
        let all = document.chunks_exact(width).map(|other| dot(token, other));
        all.reduce(f64::max).unwrap_or(0.0)
    };
    query.chunks_exact(width.max(1)).map(best).sum::<f64>() as f32
}

/// The sum of vectors with weights, divided by the sum of the weights.
pub(crate) fn weighted_mean<'a>(vectors: impl Iterator<Item = (&'a [f32], usize)>) -> Vec<f32> {
    let (mut sum, mut weights): (Vec<f64>, usize) = (Vec::new(), 0);
    for (vector, weight) in vectors {
        sum.resize(vector.len(), 0.0);
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += f64::from(*value) * weight as f64);
        weights += weight;
    }
    sum.into_iter().map(|sum| (sum / weights.max(1) as f64) as f32).collect()
}

/// Logits as scores.
pub(crate) fn activate(logits: &mut [f32], activation: Activation) {
    match activation {
        Activation::Identity => {}
        Activation::Sigmoid => logits.iter_mut().for_each(|logit| *logit = sigmoid(*logit)),
        Activation::Softmax => softmax(logits),
    }
}

/// 1 / (1 + e^-x), without overflow.
pub(crate) fn sigmoid(x: f32) -> f32 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// Probabilities of logits.
pub(crate) fn softmax(logits: &mut [f32]) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - most).exp());
    let sum: f64 = logits.iter().map(|value| f64::from(*value)).sum();
    logits.iter_mut().for_each(|value| *value = (f64::from(*value) / sum) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_or_stay_zero() {
        let mut vector = [3.0, -4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, -0.8]);
        let mut none = [0.0; 3];
        normalize(&mut none);
        assert_eq!(none, [0.0; 3]);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 0.0]), 0.0);
        assert_eq!(cosine(&[2.0, 0.0], &[3.0, 0.0]), 1.0);
    }

    #[test]
    fn each_token_of_the_query_finds_its_best() {
        let (query, document) = ([1.0, 0.0, 0.0, 2.0], [0.5, 0.5, 1.0, -1.0, 0.0, 3.0]);
        assert_eq!(max_sim(&query, &document, 2), 1.0 + 6.0);
        assert_eq!(weighted_mean([(&[1.0, 2.0][..], 3), (&[5.0, 6.0][..], 1)].into_iter()), [2.0, 3.0]);
    }

    #[test]
    fn scores_do_not_overflow() {
        assert_eq!((sigmoid(-200.0), sigmoid(200.0), sigmoid(0.0)), (0.0, 1.0, 0.5));
        let mut logits = [1000.0, 1000.0, -1000.0];
        softmax(&mut logits);
        assert_eq!(logits, [0.5, 0.5, 0.0]);
    }
}
