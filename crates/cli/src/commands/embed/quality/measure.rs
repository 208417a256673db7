//! Spearman's correlation and nDCG.

use std::collections::HashMap;

/// The dot product of two vectors of length 1.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Spearman's rank correlation; equal values share the mean of their ranks, as `scipy.stats.spearmanr` has it.
pub(super) fn spearman(a: &[f64], b: &[f64]) -> f64 {
    pearson(&ranks(a), &ranks(b))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let equal = order[start..].iter().take_while(|at| values[**at] == values[order[start]]).count();
        let mean = start as f64 + (equal as f64 - 1.0) / 2.0;
        order[start..start + equal].iter().for_each(|at| ranks[*at] = mean);
        start += equal;
    }
    ranks
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    let (mut both, mut only_a, mut only_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - of_a, b - of_b);
        (both, only_a, only_b) = (both + a * b, only_a + a * a, only_b + b * b);
    }
    if only_a > 0.0 && only_b > 0.0 { both / (only_a * only_b).sqrt() } else { 0.0 }
}

/// Normalized discounted cumulative gain of the ranking by `scores`, cut after `cut` documents, as trec_eval has it: the gain
/// is the relevance, divided by log2(rank + 1). `relevant` has the relevance of some documents; others have 0.
pub(super) fn ndcg(scores: &[f64], relevant: &HashMap<usize, f64>, cut: usize) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    let discounted = |(at, gain): (usize, f64)| gain / (at as f64 + 2.0).log2();
    let gains = order.iter().take(cut).map(|document| relevant.get(document).copied().unwrap_or(0.0));
    let mut best: Vec<f64> = relevant.values().copied().filter(|gain| *gain > 0.0).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let ideal: f64 = best.into_iter().take(cut).enumerate().map(discounted).sum();
    if ideal > 0.0 { gains.enumerate().map(discounted).sum::<f64>() / ideal } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        // scipy.stats.spearmanr([1, 2, 2, 3, 5], [2, 1, 4, 4, 4]).statistic
        let found = spearman(&[1.0, 2.0, 2.0, 3.0, 5.0], &[2.0, 1.0, 4.0, 4.0, 4.0]);
        assert!((found - 0.630_893_268_144_044_9).abs() < 1e-12, "{found}");
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0]), -1.0);
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn a_ranking_is_measured_against_the_best() {
        let relevant = HashMap::from([(0, 2.0), (2, 1.0), (3, 0.0)]);
        assert_eq!(ndcg(&[0.9, 0.1, 0.5, 0.2], &relevant, 10), 1.0);
        // The best document second, the other one fourth: (2 / log2(3) + 1 / log2(5)) / (2 + 1 / log2(3)).
        let found = ndcg(&[0.5, 0.9, 0.1, 0.2], &relevant, 10);
        assert!((found - (2.0 / 3f64.log2() + 1.0 / 5f64.log2()) / (2.0 + 1.0 / 3f64.log2())).abs() < 1e-12);
        assert_eq!(ndcg(&[0.5, 0.9, 0.1, 0.2], &relevant, 1), 0.0);
    }
}
