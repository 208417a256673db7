//! The feed-forward of a mixture of experts: rows are grouped by the experts that they use, so that the weights of each are
//! read once a batch.
//!
//! Large batches run one expert after another. Few rows, as in decoding, are computed in rounds: the products of several
//! experts together in one round of the pool. Either way a row's outputs are added in ascending order of expert, so that
//! its sum does not depend on the rows around it.

use crate::blocks::{MixtureWeights, Mlp, Shared};
use crate::mlp::{MlpBuffers, activate, bias, feed_forward};
use crate::router;
use crate::routing::{FewRows, MAX_ROUND, ROUND_PICKS, ROUND_ROWS, Routing};
use crate::spec::Spec;
use kernels::{Compute, Product};

/// The input of a mixture: normalised rows `[rows, width]`, of which the first `decode_rows` are decode rows.
#[derive(Clone, Copy)]
pub(crate) struct MixtureInput<'a> {
    pub(crate) h: &'a [f32],
    pub(crate) decode_rows: usize,
}

/// Computes the mixture's output of each row into `out` `[rows, width]`.
pub(crate) fn mixture(
    compute: &Compute,
    spec: &Spec,
    weights: &MixtureWeights,
    input: MixtureInput<'_>,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    route(compute, spec, weights, input, buffers, routing);
    match &weights.shared {
        Some(shared) => every_row(compute, spec, shared, input.decode_rows, buffers, routing, out),
        None => out.fill(0.0),
    }
    add_experts(compute, spec, weights, input, buffers, routing, out);
}

/// Adds the outputs of the experts that were picked for each row to `out`.
pub(crate) fn add_experts(
    compute: &Compute,
    spec: &Spec,
    weights: &MixtureWeights,
    input: MixtureInput<'_>,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let rows = input.h.len() / spec.width;
    if rows <= ROUND_ROWS && rows * weights.mixture.used <= ROUND_PICKS {
        in_rounds(compute, spec, &weights.experts, input, routing, out);
    } else {
        one_by_one(compute, spec, &weights.experts, input, buffers, routing, out);
    }
}

/// Scores the experts for each row, picks those that it uses, and groups the picks by expert. Leaves the rows in
/// `buffers.activations`.
pub(crate) fn route(
    compute: &Compute,
    spec: &Spec,
    weights: &MixtureWeights,
    input: MixtureInput<'_>,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
) {
    let (count, used) = (weights.mixture.count, weights.mixture.used);
    let rows = input.h.len() / spec.width;
    buffers.activations.set(compute, input.h, spec.width, weights.formats, input.decode_rows);
    let logits = &mut routing.scores[..rows * count];
    kernels::matmul(compute, &weights.router, buffers.activations, logits);
    let (choice, picks) = (&mut routing.choice[..count], &mut routing.picks[..rows * used]);
    let bias = weights.router_bias.as_deref();
    for (logits, picks) in logits.chunks_exact_mut(count).zip(picks.chunks_exact_mut(used)) {
        router::pick(&weights.mixture.router, bias, logits, choice, picks);
    }
    if let Some(beside) = &weights.beside {
        picks.iter_mut().for_each(|(expert, weight)| *weight *= beside.scales[*expert as usize]);
    }
    group(picks, used, count, &mut routing.starts, &mut routing.grouped);
    let groups = routing.starts.windows(2).zip(&weights.experts);
    groups.filter(|(group, _)| group[0] < group[1]).for_each(|(_, expert)| expert.read_ahead());
}

/// Computes the shared expert of the rows in `buffers.activations` into `out`.
fn every_row(
    compute: &Compute,
    spec: &Spec,
    shared: &Shared,
    decode_rows: usize,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let logits = &mut routing.scores[..out.len() / spec.width];
    if let Some(gate) = &shared.gate {
        kernels::matmul(compute, gate, buffers.activations, logits);
    }
    feed_forward(compute, spec, &shared.mlp, decode_rows, buffers, out);
    if shared.gate.is_some() {
        for (row, logit) in out.chunks_exact_mut(spec.width).zip(logits) {
            let weight = router::sigmoid(*logit);
            row.iter_mut().for_each(|value| *value *= weight);
        }
    }
}

/// Runs each expert on its rows and adds its outputs, weighted, to `out`.
fn one_by_one(
    compute: &Compute,
    spec: &Spec,
    experts: &[Mlp],
    input: MixtureInput<'_>,
    buffers: &mut MlpBuffers<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let width = spec.width;
    for (index, expert) in experts.iter().enumerate() {
        let group = &routing.grouped[routing.starts[index] as usize..routing.starts[index + 1] as usize];
        if group.is_empty() {
            continue;
        }
        let gathered = &mut routing.gathered[..group.len() * width];
        let decode_rows = gather(input, width, group, gathered);
        let expert_out = &mut routing.expert_out[..group.len() * width];
        buffers.activations.set(compute, gathered, width, expert.formats, decode_rows);
        feed_forward(compute, spec, expert, decode_rows, buffers, expert_out);
        add_weighted(group, width, expert_out, out);
    }
}

/// Runs the experts of few rows in rounds of several with as many rows each, and then adds their outputs, weighted, to
/// `out`.
fn in_rounds(
    compute: &Compute,
    spec: &Spec,
    experts: &[Mlp],
    input: MixtureInput<'_>,
    routing: &mut Routing,
    out: &mut [f32],
) {
    let rows = input.h.len() / spec.width;
    let Routing { starts, grouped, few, .. } = routing;
    let group = |expert: usize| starts[expert] as usize..starts[expert + 1] as usize;
    for count in 1..=rows {
        let mut round = [0; MAX_ROUND];
        let mut members = 0;
        for expert in (0..experts.len()).filter(|&expert| group(expert).len() == count) {
            round[members] = expert;
            members += 1;
            if members == MAX_ROUND {
                run_round(compute, spec, experts, input, &round, (starts, grouped), few);
                members = 0;
            }
        }
        if members > 0 {
            run_round(compute, spec, experts, input, &round[..members], (starts, grouped), few);
        }
    }
    let picks = starts[experts.len()] as usize;
    add_weighted(&grouped[..picks], spec.width, &few.outputs[..picks * spec.width], out);
}

/// Computes the outputs of the experts `round`, which have as many rows each: all gates and ups in one round of the
/// pool, then all downs.
fn run_round(
    compute: &Compute,
    spec: &Spec,
    experts: &[Mlp],
    input: MixtureInput<'_>,
    round: &[usize],
    (starts, grouped): (&[u32], &[(u32, f32)]),
    few: &mut FewRows,
) {
    let picks = |expert: usize| starts[expert] as usize..starts[expert + 1] as usize;
    let rows = picks(round[0]).len();
    let inner = rows * experts[round[0]].up.matrix.rows();
    let FewRows { activations, gathered, gate, up, outputs } = few;
    let mut decode_rows = [0; MAX_ROUND];
    for ((&expert, activations), decode_rows) in round.iter().zip(&mut *activations).zip(&mut decode_rows) {
        let gathered = &mut gathered[..rows * spec.width];
        *decode_rows = gather(input, spec.width, &grouped[picks(expert)], gathered);
        activations.set(compute, gathered, spec.width, experts[expert].formats, *decode_rows);
    }
    let inputs = || round.iter().map(|&expert| &experts[expert]).zip(&*activations);
    let gates = inputs().zip(gate.chunks_exact_mut(inner));
    let gates = gates.filter_map(|((expert, rows), out)| {
        Some(Product { weights: &expert.gate.as_ref()?.matrix, rows, out })
    });
    let ups = inputs().zip(up.chunks_exact_mut(inner));
    let ups = ups.map(|((expert, rows), out)| Product { weights: &expert.up.matrix, rows, out });
    kernels::matmul_each(compute, gates.chain(ups));
    let halves = gate.chunks_exact_mut(inner).zip(up.chunks_exact_mut(inner));
    let members = round.iter().zip(&mut *activations).zip(decode_rows);
    for (((&expert, activations), decode_rows), (gate, up)) in members.zip(halves) {
        activate(compute, spec, &experts[expert], decode_rows, activations, (gate, up));
    }
    // Outputs lie in the order of the picks, which are grouped by expert; a round's experts are in ascending order.
    let mut left = &mut outputs[..];
    let mut done = 0;
    let downs = round.iter().zip(&*activations).map(|(&expert, x)| {
        let skipped = std::mem::take(&mut left);
        let (_, from) = skipped.split_at_mut((picks(expert).start - done) * spec.width);
        let (out, rest) = from.split_at_mut(rows * spec.width);
        (left, done) = (rest, picks(expert).end);
        Product { weights: &experts[expert].down.matrix, rows: x, out }
    });
    kernels::matmul_each(compute, downs);
    for &expert in round {
        let these = picks(expert);
        bias(compute, &experts[expert].down, &mut outputs[these.start * spec.width..these.end * spec.width]);
    }
}

/// Copies the rows of a group's picks from `input`; returns how many are decode rows.
fn gather(input: MixtureInput<'_>, width: usize, group: &[(u32, f32)], gathered: &mut [f32]) -> usize {
    for (to, &(from, _)) in gathered.chunks_exact_mut(width).zip(group) {
        to.copy_from_slice(&input.h[from as usize * width..][..width]);
    }
    group.partition_point(|(row, _)| (*row as usize) < input.decode_rows)
}

/// Adds the outputs of picks `[picks, width]`, weighted, to their rows.
fn add_weighted(picks: &[(u32, f32)], width: usize, outputs: &[f32], out: &mut [f32]) {
    for (output, &(to, weight)) in outputs.chunks_exact(width).zip(picks) {
        let row = &mut out[to as usize * width..][..width];
        row.iter_mut().zip(output).for_each(|(sum, part)| *sum += weight * part);
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
    fn groups_hold_every_pick_once_with_rows_ascending() {
        let picks = [(2, 0.1), (0, 0.2), (2, 0.3), (1, 0.4), (0, 0.5), (2, 0.6)];
        let (mut starts, mut grouped) = ([9; 5], [(9, 9.0); 6]);
        group(&picks, 2, 4, &mut starts, &mut grouped);
        assert_eq!(starts, [0, 2, 3, 6, 6]);
        assert_eq!(grouped, [(0, 0.2), (2, 0.5), (1, 0.4), (0, 0.1), (1, 0.3), (2, 0.6)]);
    }
}
