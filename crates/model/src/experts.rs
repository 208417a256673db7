//! Mixture of experts: a router scores all experts for each row, and the best few are computed and weighted.
//!
//! Rows are grouped by expert so that each expert's weights are read once a batch. Groups run in ascending order of
//! expert, and a row's outputs are added in that order, so its sum does not depend on the rows around it.

use crate::blocks::Mlp;
use crate::mlp::{MlpBuffers, feed_forward};
use crate::scratch::Routing;
use crate::spec::Spec;
use kernels::{Activations, Compute, Matrix};

/// Scores the experts for each row of `h` `[rows, width]`, picks `used` of them, and groups the picks by expert.
pub(crate) fn route(
    compute: &Compute,
    router: &Matrix,
    used: usize,
    renormalise: bool,
    h: &[f32],
    decode_rows: usize,
    activations: &mut Activations,
    routing: &mut Routing,
) {
    let (width, experts) = (router.cols(), router.rows());
    let rows = h.len() / width;
    activations.set(compute, h, width, router.activations(), decode_rows);
    let scores = &mut routing.scores[..rows * experts];
    kernels::matmul(compute, router, activations, scores);
    let picks = &mut routing.picks[..rows * used];
    for (scores, picks) in scores.chunks_exact_mut(experts).zip(picks.chunks_exact_mut(used)) {
        softmax(scores);
        pick(scores, picks, renormalise);
    }
    group(picks, used, experts, &mut routing.starts, &mut routing.grouped);
}

/// Runs each expert on its rows and adds its outputs, weighted, to `out` `[rows, width]`.
pub(crate) fn run(
    compute: &Compute,
    spec: &Spec,
    experts: &[Mlp],
    h: &[f32],
    decode_rows: usize,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let width = spec.width;
    let row = |index: u32| index as usize * width..(index as usize + 1) * width;
    out.fill(0.0);
    for (index, expert) in experts.iter().enumerate() {
        let group = &routing.grouped[routing.starts[index] as usize..routing.starts[index + 1] as usize];
        if group.is_empty() {
            continue;
        }
        let gathered = &mut routing.gathered[..group.len() * width];
        for (to, &(from, _)) in gathered.chunks_exact_mut(width).zip(group) {
            to.copy_from_slice(&h[row(from)]);
        }
        let expert_out = &mut routing.expert_out[..group.len() * width];
        let decode_rows = group.partition_point(|(row, _)| (*row as usize) < decode_rows);
        buffers.activations.set(compute, gathered, width, expert.formats, decode_rows);
        feed_forward(compute, spec, expert, decode_rows, buffers, expert_out);
        for (expert_out, &(to, weight)) in expert_out.chunks_exact(width).zip(group) {
            for (sum, part) in out[row(to)].iter_mut().zip(expert_out) {
                *sum += weight * part;
            }
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

/// The best `picks.len()` experts, best first, the lower index first among equals.
fn pick(scores: &mut [f32], picks: &mut [(u32, f32)], renormalise: bool) {
    let mut sum = 0.0;
    for slot in picks.iter_mut() {
        // A picked expert's score is set to NEG_INFINITY. NaN compares greater than nothing, so broken weights still
        // pick each expert at most once.
        let mut best = scores.iter().position(|&score| score != f32::NEG_INFINITY).unwrap_or(0);
        for (index, &score) in scores.iter().enumerate() {
            if score > scores[best] {
                best = index;
            }
        }
        *slot = (best as u32, scores[best]);
        sum += scores[best];
        scores[best] = f32::NEG_INFINITY;
    }
    if renormalise {
        picks.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
}

/// Sorts picks `[rows, used]` by expert, rows ascending within: a counting sort.
fn group(picks: &[(u32, f32)], used: usize, experts: usize, starts: &mut [u32], grouped: &mut [(u32, f32)]) {
    let starts = &mut starts[..=experts];
    starts.fill(0);
    for &(expert, _) in picks {
        starts[expert as usize + 1] += 1;
    }
    for expert in 0..experts {
        starts[expert + 1] += starts[expert];
    }
    for (index, &(expert, weight)) in picks.iter().enumerate() {
        let next = &mut starts[expert as usize];
        grouped[*next as usize] = ((index / used) as u32, weight);
        *next += 1;
    }
    // Each start has moved to its group's end, which is the next one's start.
    starts.copy_within(..experts, 1);
    starts[0] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_best_and_makes_them_sum_to_one() {
        let mut scores = [0.1, 0.4, 0.1, 0.4];
        let mut picks = [(0, 0.0); 2];
        pick(&mut scores, &mut picks, true);
        assert_eq!(picks, [(1, 0.5), (3, 0.5)]);
    }

    #[test]
    fn broken_scores_pick_something_and_do_not_panic() {
        let mut scores = [f32::NAN; 4];
        softmax(&mut scores);
        let mut picks = [(0, 0.0); 4];
        pick(&mut scores, &mut picks, true);
        assert_eq!(picks.map(|(expert, _)| expert), [0, 1, 2, 3]);
    }

    #[test]
    fn groups_hold_every_pick_once_with_rows_ascending() {
        let picks = [(2, 0.1), (0, 0.2), (2, 0.3), (1, 0.4), (0, 0.5), (2, 0.6)];
        let (mut starts, mut grouped) = ([9; 5], [(9, 9.0); 6]);
        group(&picks, 2, 4, &mut starts, &mut grouped);
        assert_eq!(starts, [0, 2, 3, 6, 6]);
        assert_eq!(grouped, [(0, 0.2), (2, 0.5), (1, 0.4), (0, 0.1), (1, 0.3), (2, 0.6)]);
    }
}
