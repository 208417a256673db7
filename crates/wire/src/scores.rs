//! Scores of texts: whether they are logits, and their order.

use crate::error::Fault;
use crate::fields::Fields;

/// Whether scores are logits: `raw_scores`, or vLLM's `use_activation` under its three names.
pub(crate) fn raw_scores(body: &Fields<'_>) -> Result<bool, Fault> {
    let mut activation = None;
    for name in ["use_activation", "activation", "softmax"] {
        activation = activation.or(body.boolean(name)?);
    }
    Ok(body.boolean("raw_scores")?.unwrap_or(activation == Some(false)))
}

/// Indexes and scores, the highest score first; among equal ones the first in the request.
pub(crate) fn ranked(scores: &[f32], most: Option<usize>) -> Vec<(usize, f32)> {
    let mut ranked: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
    ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(most.unwrap_or(usize::MAX));
    ranked
}

#[cfg(test)]
mod tests {
    use super::ranked;

    #[test]
    fn ranks_are_stable() {
        assert_eq!(ranked(&[0.5, 0.9, 0.5], None), [(1, 0.9), (0, 0.5), (2, 0.5)]);
        assert_eq!(ranked(&[0.5, 0.9, 0.5], Some(2)), [(1, 0.9), (0, 0.5)]);
        assert_eq!(ranked(&[], Some(2)), []);
    }
}
