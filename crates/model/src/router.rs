//! The router of a mixture of experts: scores all experts for each row, picks the best few and weighs them.

use crate::mixture::{ExpertGroups, MAX_GROUPS, Router, RouterBias, Score};

/// Picks `picks.len()` experts for a row by its `logits`, best first, the lower index first among equals, each with its
/// weight. `bias` has a value for each expert if the router has one; `choice` is scratch for as many.
pub(crate) fn pick(
    router: &Router,
    bias: Option<&[f32]>,
    logits: &mut [f32],
    choice: &mut [f32],
    picks: &mut [(u32, f32)],
) {
    let of_logits = router.bias == Some(RouterBias::Logits);
    if let Some(bias) = bias.filter(|_| of_logits) {
        logits.iter_mut().zip(bias).for_each(|(logit, bias)| *logit += bias);
    }
    match router.score {
        Score::Softmax => softmax(logits),
        Score::Sigmoid => logits.iter_mut().for_each(|logit| *logit = sigmoid(*logit)),
        Score::SoftmaxOfPicked => {}
    }
    let scores = &*logits;
    choice.copy_from_slice(scores);
    if let Some(bias) = bias.filter(|_| !of_logits) {
        choice.iter_mut().zip(bias).for_each(|(choice, bias)| *choice += bias);
    }
    if let Some(groups) = router.groups {
        leave_out_groups(groups, router.score, choice);
    }
    for (expert, weight) in picks.iter_mut() {
        let best = take_best(choice);
        (*expert, *weight) = (best as u32, scores[best]);
    }
    weigh(router, picks);
}

/// The value between 0 and 1 of a logit.
pub(crate) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Turns the scores of the picked experts into their weights.
fn weigh(router: &Router, picks: &mut [(u32, f32)]) {
    if router.score == Score::SoftmaxOfPicked {
        let most = picks.iter().fold(f32::NEG_INFINITY, |most, (_, score)| most.max(*score));
        picks.iter_mut().for_each(|(_, score)| *score = (*score - most).exp());
    }
    if router.renormalise || router.score == Score::SoftmaxOfPicked {
        // Sigmoids of very small logits are zero.
        let sum = picks.iter().map(|(_, weight)| weight).sum::<f32>().max(f32::MIN_POSITIVE);
        picks.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
    if router.scale != 1.0 {
        picks.iter_mut().for_each(|(_, weight)| *weight *= router.scale);
    }
}

/// The index of the best score, which is then set to minus infinity. A NaN compares greater than nothing, so that broken
/// weights still pick each expert at most once.
fn take_best(scores: &mut [f32]) -> usize {
    let mut best = scores.iter().position(|&score| score != f32::NEG_INFINITY).unwrap_or(0);
    for (index, &score) in scores.iter().enumerate() {
        if score > scores[best] {
            best = index;
        }
    }
    scores[best] = f32::NEG_INFINITY;
    best
}

/// Sets the scores of all experts outside the best groups to minus infinity.
fn leave_out_groups(groups: ExpertGroups, kind: Score, scores: &mut [f32]) {
    let size = scores.len() / groups.count;
    let of_group = |scores: &[f32]| {
        let (first, second) =
            scores.iter().fold((f32::NEG_INFINITY, f32::NEG_INFINITY), |(first, second), &s| {
                if s > first { (s, first) } else { (first, second.max(s)) }
            });
        if kind == Score::Softmax { first } else { first + second }
    };
    let mut sums = [0.0; MAX_GROUPS];
    let sums = &mut sums[..groups.count.min(MAX_GROUPS)];
    for (sum, group) in sums.iter_mut().zip(scores.chunks_exact(size)) {
        *sum = of_group(group);
    }
    for (index, group) in scores.chunks_exact_mut(size).enumerate() {
        let better =
            |(other, sum): (usize, &f32)| *sum > sums[index] || (*sum == sums[index] && other < index);
        if sums.iter().enumerate().filter(|(other, sum)| better((*other, sum))).count() >= groups.used {
            group.fill(f32::NEG_INFINITY);
        }
    }
}

fn softmax(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(router: Router, bias: Option<&[f32]>, logits: &[f32], used: usize) -> Vec<(u32, f32)> {
        let (mut logits, mut choice) = (logits.to_vec(), vec![0.0; logits.len()]);
        let mut picks = vec![(9, 9.0); used];
        pick(&router, bias, &mut logits, &mut choice, &mut picks);
        picks
    }

    fn close(got: &[(u32, f32)], want: &[(u32, f32)]) -> bool {
        got.len() == want.len() && got.iter().zip(want).all(|(g, w)| g.0 == w.0 && (g.1 - w.1).abs() < 1e-6)
    }

    #[test]
    fn picks_the_best_and_makes_them_sum_to_one() {
        let logits = [1.0f32, 4.0, 1.0, 4.0].map(f32::ln);
        assert!(close(&picked(Router::SOFTMAX, None, &logits, 2), &[(1, 0.5), (3, 0.5)]));
        let plain = Router { renormalise: false, ..Router::SOFTMAX };
        assert!(close(&picked(plain, None, &logits, 2), &[(1, 0.4), (3, 0.4)]));
        let of_picked = Router { score: Score::SoftmaxOfPicked, scale: 2.0, ..plain };
        assert!(close(
            &picked(of_picked, None, &logits, 3),
            &[(1, 8.0 / 9.0), (3, 8.0 / 9.0), (0, 2.0 / 9.0)]
        ));
    }

    #[test]
    fn a_bias_moves_the_choice_alone_or_the_weights_too() {
        let logits = [0.0, 1.0, 2.0, 3.0];
        let bias = [9.0, 0.0, 0.0, 0.0];
        let router =
            |on| Router { score: Score::Sigmoid, bias: Some(on), renormalise: false, ..Router::SOFTMAX };
        let chosen = picked(router(RouterBias::Choice), Some(&bias), &logits, 2);
        assert!(close(&chosen, &[(0, 0.5), (3, sigmoid(3.0))]), "{chosen:?}");
        let moved = picked(router(RouterBias::Logits), Some(&bias), &logits, 2);
        assert!(close(&moved, &[(0, sigmoid(9.0)), (3, sigmoid(3.0))]), "{moved:?}");
    }

    #[test]
    fn only_the_experts_of_the_best_groups_are_picked() {
        let router = |used| Router {
            score: Score::Sigmoid,
            groups: Some(ExpertGroups { count: 3, used }),
            renormalise: false,
            ..Router::SOFTMAX
        };
        // The best expert is in the group whose two best are worst together.
        let logits = [1.0, 1.2, 5.0, -9.0, 2.0, 0.9];
        let experts =
            |used, picks| picked(router(used), None, &logits, picks).iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!(experts(1, 2), [4, 5]);
        assert_eq!(experts(2, 3), [4, 1, 0]);
        assert_eq!(experts(3, 1), [2]);
    }

    #[test]
    fn broken_logits_pick_something_and_do_not_panic() {
        for score in [Score::Softmax, Score::Sigmoid, Score::SoftmaxOfPicked] {
            let router = Router { score, ..Router::SOFTMAX };
            let picks = picked(router, None, &[f32::NAN; 4], 4);
            assert_eq!(picks.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
            let router = Router { groups: Some(ExpertGroups { count: 2, used: 1 }), ..router };
            assert!(picked(router, None, &[f32::NAN; 4], 2).iter().all(|p| p.0 < 4));
        }
        // All sigmoids are zero.
        let router = Router { score: Score::Sigmoid, ..Router::SOFTMAX };
        assert!(picked(router, None, &[-1e9; 4], 2).iter().all(|p| p.1 == 0.0));
    }
}
