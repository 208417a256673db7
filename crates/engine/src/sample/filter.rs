//! The filters, each a function that shortens the list of candidates. None allocates.

use std::cmp::Ordering;

/// A token that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: u32,
    pub(crate) logit: f32,
    /// Scratch of the filters.
    pub(crate) key: f32,
}

/// Order of candidates: highest logit first, of equal logits the lower id, so that the order is total.
fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// The likeliest candidate; the lowest id of equals.
pub(crate) fn best(candidates: &[Candidate]) -> Option<Candidate> {
    candidates.iter().copied().min_by(best_first)
}

/// Drops candidates whose logit is more than `n` standard deviations below the best. Banned ones do not count.
pub(crate) fn top_n_sigma(candidates: &mut Vec<Candidate>, n: f32) {
    let Some(max) = best(candidates).map(|b| b.logit) else { return };
    let finite = || candidates.iter().map(|c| f64::from(c.logit)).filter(|l| *l > f64::NEG_INFINITY);
    let count = finite().count() as f64;
    let mean = finite().sum::<f64>() / count;
    let variance = finite().map(|l| (l - mean).powi(2)).sum::<f64>() / count;
    let least = f64::from(max) - f64::from(n) * variance.sqrt();
    candidates.retain(|c| f64::from(c.logit) >= least || c.logit == max);
}

/// Keeps the `k` likeliest, best first.
pub(crate) fn top_k(candidates: &mut Vec<Candidate>, k: usize) {
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, best_first);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(best_first);
}

/// Keeps the shortest run of likeliest candidates whose probabilities sum to `p`, best first.
pub(crate) fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(max) = best(candidates).map(|b| b.logit) else { return };
    let total: f64 = candidates.iter().map(|c| f64::from(c.logit - max).exp()).sum();
    let wanted = f64::from(p) * total;
    let (mut sum, mut sorted) = (0.0, 0);
    // Sorting a whole vocabulary costs more than the rest of sampling: sort a beginning, and more only if it is short.
    let mut portion = 256;
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let take = portion.min(rest.len());
        if take < rest.len() {
            rest.select_nth_unstable_by(take, best_first);
        }
        rest[..take].sort_unstable_by(best_first);
        for (i, candidate) in rest[..take].iter().enumerate() {
            sum += f64::from(candidate.logit - max).exp();
            if sum >= wanted {
                candidates.truncate(sorted + i + 1);
                return;
            }
        }
        sorted += take;
        portion *= 4;
    }
}

/// Drops candidates less likely than `p` times the likeliest.
pub(crate) fn min_p(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(max) = best(candidates).map(|b| b.logit) else { return };
    let least = max + p.ln();
    candidates.retain(|c| c.logit >= least || c.logit == max);
}

/// Keeps the candidates whose surprise is nearest to the expected one (the entropy), up to a mass of `p`.
pub(crate) fn typical(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(max) = best(candidates).map(|b| b.logit) else { return };
    let total: f64 = candidates.iter().map(|c| f64::from(c.logit - max).exp()).sum();
    let log_total = total.ln();
    let log_p = |c: &Candidate| f64::from(c.logit - max) - log_total;
    // A banned candidate has probability 0 and adds nothing to the entropy (0 · ln 0 = 0).
    let entropy: f64 = candidates
        .iter()
        .map(|c| {
            let l = log_p(c);
            if l == f64::NEG_INFINITY { 0.0 } else { -l * l.exp() }
        })
        .sum();
    for c in candidates.iter_mut() {
        c.key = (-log_p(c) - entropy).abs() as f32;
    }
    candidates.sort_unstable_by(|a, b| a.key.total_cmp(&b.key).then_with(|| best_first(a, b)));
    let mut sum = 0.0;
    let kept = candidates.iter().position(|c| {
        sum += log_p(c).exp();
        sum > f64::from(p)
    });
    candidates.truncate(kept.map_or(candidates.len(), |last| last + 1));
    candidates.sort_unstable_by(best_first);
}

/// Drops every candidate of at least probability `threshold` but the least likely of them.
pub(crate) fn exclude_top_choices(candidates: &mut Vec<Candidate>, threshold: f32) {
    candidates.sort_unstable_by(best_first);
    let Some(max) = candidates.first().map(|b| b.logit) else { return };
    let total: f64 = candidates.iter().map(|c| f64::from(c.logit - max).exp()).sum();
    let top = candidates
        .iter()
        .take_while(|c| f64::from(c.logit - max).exp() / total >= f64::from(threshold))
        .count();
    if top > 1 {
        candidates.drain(..top - 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Candidates 0, 1, … of these probabilities.
    fn of(probabilities: &[f32]) -> Vec<Candidate> {
        let candidate = |(id, p): (usize, &f32)| Candidate { id: id as u32, logit: p.ln() + 3.0, key: 0.0 };
        probabilities.iter().enumerate().map(candidate).collect()
    }

    fn ids(candidates: &[Candidate]) -> Vec<u32> {
        candidates.iter().map(|c| c.id).collect()
    }

    // The distributions and results of these five are those of llama.cpp's own tests/test-sampling.cpp.
    #[test]
    fn top_k_keeps_the_best_in_order() {
        let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
        top_k(&mut c, 3);
        assert_eq!(ids(&c), [3, 2, 1]);
        let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
        top_k(&mut c, 1);
        assert_eq!(ids(&c), [3]);
    }

    // These too: logits are ln p, their population deviation 0.5129.
    #[test]
    fn top_n_sigma_counts_deviations_from_the_best() {
        for (n, kept) in [(1.0, vec![2, 3]), (3.0, vec![0, 1, 2, 3]), (1e-9, vec![3])] {
            let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
            top_n_sigma(&mut c, n);
            assert_eq!(ids(&c), kept, "top_n_sigma {n}");
        }
        // A banned candidate does not widen the deviation.
        let mut c = of(&[0.0, 0.1, 0.2, 0.3, 0.4]);
        top_n_sigma(&mut c, 1.0);
        assert_eq!(ids(&c), [3, 4]);
    }

    #[test]
    fn top_p_keeps_the_shortest_run_that_reaches_it() {
        for (p, kept) in
            [(0.0, vec![3]), (0.69, vec![3, 2]), (0.8, vec![3, 2, 1]), (0.999_999, vec![3, 2, 1, 0])]
        {
            let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
            top_p(&mut c, p);
            assert_eq!(ids(&c), kept, "top_p {p}");
        }
    }

    #[test]
    fn min_p_is_relative_to_the_likeliest() {
        for (p, kept) in [(0.24, vec![0, 1, 2, 3]), (0.26, vec![1, 2, 3]), (0.51, vec![2, 3]), (1.0, vec![3])]
        {
            let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
            min_p(&mut c, p);
            assert_eq!(ids(&c), kept, "min_p {p}");
        }
    }

    #[test]
    fn typical_prefers_the_expected_surprise() {
        let mut c = of(&[0.97, 0.01, 0.01, 0.01]);
        typical(&mut c, 0.5);
        assert_eq!(ids(&c), [0]);
        let mut c = of(&[0.4, 0.2, 0.2, 0.2]);
        typical(&mut c, 0.5);
        assert_eq!(ids(&c), [1, 2, 3]);
    }

    #[test]
    fn top_choices_but_the_last_go() {
        for (threshold, kept) in
            [(0.09, vec![0]), (0.19, vec![1, 0]), (0.29, vec![2, 1, 0]), (0.39, vec![3, 2, 1, 0])]
        {
            let mut c = of(&[0.1, 0.2, 0.3, 0.4]);
            exclude_top_choices(&mut c, threshold);
            assert_eq!(ids(&c), kept, "xtc {threshold}");
        }
    }

    #[test]
    fn minus_infinity_passes_every_filter_without_nan() {
        let mut c = of(&[0.5, 0.3, 0.2]);
        c.push(Candidate { id: 3, logit: f32::NEG_INFINITY, key: 0.0 });
        typical(&mut c, 0.99);
        top_p(&mut c, 0.99);
        min_p(&mut c, 0.01);
        assert_eq!(ids(&c), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn top_p_equals_a_full_sort(logits in prop::collection::vec(-20f32..20.0, 1..3000), p in 0f32..1.0) {
            let mut c: Vec<_> =
                logits.iter().enumerate().map(|(i, l)| Candidate { id: i as u32, logit: *l, key: 0.0 }).collect();
            let mut sorted = c.clone();
            sorted.sort_by(best_first);
            let max = sorted[0].logit;
            let total: f64 = c.iter().map(|c| f64::from(c.logit - max).exp()).sum();
            let mut sum = 0.0;
            let keep = sorted.iter().position(|c| { sum += f64::from(c.logit - max).exp(); sum >= f64::from(p) * total });
            sorted.truncate(keep.map_or(sorted.len(), |k| k + 1));
            top_p(&mut c, p);
            prop_assert_eq!(c, sorted);
        }
    }
}
