//! Convolution and linear attention against their definitions in f64, and the same bits however rows are cut.

use cpu::{Pool, Tier};
use kernels::{
    Activation, CausalConv, Compute, KvDtype, KvHeads, KvPool, KvShape, LinearAttention, LinearRows, SeqRows,
    StatePool, StateRule, StateShape, causal_conv, gated_norm_groups, l2_norm_heads, linear_attention,
};

fn values(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * step % 103) as f32 - 51.0) * 0.02).collect()
}

fn pool(states: usize, floats: usize) -> StatePool {
    let mut pool = StatePool::new(StateShape { states, floats }).unwrap();
    (0..states as u32).for_each(|state| pool.clear(state));
    pool
}

/// The rows of a step: runs of rows, each of the sequence with this state.
fn seqs(runs: &[(std::ops::Range<usize>, u32)]) -> Vec<SeqRows<'static>> {
    runs.iter().map(|(rows, state)| SeqRows::last(rows.clone(), 0, &[]).with_state(*state)).collect()
}

#[test]
fn a_convolution_sees_the_inputs_before_it_on_every_tier() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (kernel, channels, bias, act) in [
            (4, 5, false, None),
            (3, 64, true, None),
            (4, 100, true, Some(Activation::Silu)),
            (2, 129, false, None),
        ] {
            let rows = 11;
            let (x, weight, bias_values) =
                (values(rows * channels, 31), values(kernel * channels, 17), values(channels, 7));
            let bias = bias.then_some(&bias_values[..]);
            let conv = CausalConv { weight: &weight, bias, kernel, channels, activation: act };
            let offset = 3;
            let floats = offset + CausalConv::state_floats(kernel, channels);
            let run = |cuts: &[usize]| {
                let (mut states, mut all, mut first) = (pool(3, floats), Vec::new(), 0);
                for &end in cuts {
                    let mut out = vec![0.0; (end - first) * channels];
                    let part = &x[first * channels..end * channels];
                    causal_conv(&c, &mut states, offset, conv, part, &seqs(&[(0..end - first, 1)]), &mut out);
                    all.extend(out);
                    first = end;
                }
                all
            };
            let whole = run(&[rows]);
            for t in 0..rows {
                for channel in 0..channels {
                    let mut sum = bias.map_or(0.0, |bias| f64::from(bias[channel]));
                    for j in 0..kernel {
                        if let Some(from) = (t + 1 + j).checked_sub(kernel) {
                            sum += f64::from(weight[j * channels + channel])
                                * f64::from(x[from * channels + channel]);
                        }
                    }
                    let want = if act.is_some() { sum / (1.0 + (-sum).exp()) } else { sum };
                    let got = f64::from(whole[t * channels + channel]);
                    assert!((got - want).abs() < 1e-5, "{tier} row {t} channel {channel}: {got} for {want}");
                }
            }
            assert_eq!(run(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), whole, "{tier}: row by row");
            assert_eq!(run(&[2, 9, 11]), whole, "{tier}: in chunks");
        }
    }
}

/// The definition: the state of each head is decayed, added to and read, in f64.
fn slow(shape: &LinearAttention, rows: &LinearRows<'_>) -> Vec<f64> {
    let (dk, dv) = (shape.key_dim, shape.value_dim);
    let count = rows.x.len() / rows.row_len;
    let mut out = vec![0.0; count * shape.value_heads * dv];
    for head in 0..shape.value_heads {
        let group = shape.value_heads / shape.key_heads;
        let key_head = if shape.tiled { head % shape.key_heads } else { head / group };
        let mut state = vec![0.0f64; dk * dv];
        for t in 0..count {
            let at = |column: usize| f64::from(rows.x[t * rows.row_len + column]);
            let (decay, gain) =
                (rows.decay[t * shape.value_heads + head], rows.gain[t * shape.value_heads + head]);
            state.iter_mut().for_each(|v| *v *= f64::from(decay));
            for j in 0..dv {
                let known: f64 = (0..dk).map(|i| state[i * dv + j] * at(rows.key + key_head * dk + i)).sum();
                let known = if shape.rule == StateRule::Delta { known } else { 0.0 };
                let added = (at(rows.value + head * dv + j) - known) * f64::from(gain);
                for i in 0..dk {
                    state[i * dv + j] += at(rows.key + key_head * dk + i) * added;
                    out[(t * shape.value_heads + head) * dv + j] +=
                        at(rows.query + key_head * dk + i) * state[i * dv + j];
                }
                let skip = rows.skip.map_or(0.0, |skip| f64::from(skip[head]));
                out[(t * shape.value_heads + head) * dv + j] += skip * at(rows.value + head * dv + j);
            }
        }
    }
    out
}

#[test]
fn linear_attention_is_its_definition_on_every_tier() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (key_heads, value_heads, key_dim, value_dim, tiled, rule) in [
            (2, 2, 8, 8, false, StateRule::Delta),
            (2, 4, 16, 24, false, StateRule::Delta),
            (2, 4, 16, 24, true, StateRule::Delta),
            (1, 3, 32, 128, false, StateRule::Add),
            (1, 1, 128, 128, false, StateRule::Delta),
        ] {
            let shape = LinearAttention { key_heads, value_heads, key_dim, value_dim, tiled, rule };
            let (keys, width) = (key_heads * key_dim, value_heads * value_dim);
            let (count, row_len) = (13, 2 * keys + width + 3);
            let mut x = values(count * row_len, 29);
            l2_norm_heads(&c, &mut x, row_len, (1, key_heads, key_dim), 1e-6, 0.3);
            l2_norm_heads(&c, &mut x, row_len, (1 + keys, key_heads, key_dim), 1e-6, 1.0);
            let decay: Vec<f32> = (0..count * value_heads).map(|i| 0.8 + 0.01 * (i % 19) as f32).collect();
            let gain: Vec<f32> = (0..count * value_heads).map(|i| 0.05 * (i % 17) as f32).collect();
            let skip = values(value_heads, 41);
            let floats = 5 + shape.state_floats();
            let part = |from: usize, to: usize| LinearRows {
                x: &x[from * row_len..to * row_len],
                row_len,
                query: 1,
                key: 1 + keys,
                value: 1 + 2 * keys,
                decay: &decay[from * value_heads..to * value_heads],
                gain: &gain[from * value_heads..to * value_heads],
                skip: (rule == StateRule::Add).then_some(&skip[..]),
            };
            let run = |cuts: &[usize]| {
                let (mut states, mut all, mut first) = (pool(4, floats), Vec::new(), 0);
                for &end in cuts {
                    let mut out = vec![0.0; (end - first) * width];
                    let seqs = seqs(&[(0..end - first, 2)]);
                    linear_attention(&c, &mut states, 5, shape, part(first, end), &seqs, &mut out);
                    all.extend(out);
                    first = end;
                }
                all
            };
            let whole = run(&[count]);
            for (i, (got, want)) in whole.iter().zip(slow(&shape, &part(0, count))).enumerate() {
                assert!(
                    (f64::from(*got) - want).abs() < 1e-5,
                    "{tier} {shape:?} value {i}: {got} for {want}"
                );
            }
            assert_eq!(run(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]), whole, "{tier}: row by row");
            assert_eq!(run(&[5, 6, 13]), whole, "{tier}: in chunks");
        }
    }
}

#[test]
fn sequences_have_states_of_their_own_and_snapshots_bring_them_back() {
    let c = Compute::new(Tier::Scalar, Pool::new(2, None).unwrap());
    let shape = LinearAttention {
        key_heads: 1,
        value_heads: 2,
        key_dim: 4,
        value_dim: 4,
        tiled: false,
        rule: StateRule::Delta,
    };
    let (row_len, width) = (16, 8);
    let x = values(6 * row_len, 13);
    let (decay, gain) = (vec![0.9; 12], vec![0.5; 12]);
    let shape_of = StateShape { states: 3, floats: shape.state_floats() };
    let kv = KvShape::alike(1, KvHeads { kv_heads: 1, head_dim: 4 }, 1, KvDtype::F32);
    let mut pool = KvPool::with_states(kv, shape_of).unwrap();
    let states = pool.states_mut();
    (0..3).for_each(|state| states.clear(state));
    let rows = |from: usize, to: usize| LinearRows {
        x: &x[from * row_len..to * row_len],
        row_len,
        query: 0,
        key: 4,
        value: 8,
        decay: &decay[from * 2..to * 2],
        gain: &gain[from * 2..to * 2],
        skip: None,
    };
    // Two sequences in one step, the second before the first in the pool; then each alone.
    let mut together = vec![0.0; 6 * width];
    linear_attention(&c, states, 0, shape, rows(0, 6), &seqs(&[(0..2, 2), (2..6, 0)]), &mut together);
    for (from, to) in [(0, 2), (2, 6)] {
        states.clear(1);
        let mut alone = vec![0.0; (to - from) * width];
        linear_attention(&c, states, 0, shape, rows(from, to), &seqs(&[(0..to - from, 1)]), &mut alone);
        assert_eq!(alone, together[from * width..to * width]);
    }
    // A snapshot after two rows, from which the rest is the same.
    states.clear(0);
    let mut out = vec![0.0; 2 * width];
    linear_attention(&c, states, 0, shape, rows(2, 4), &seqs(&[(0..2, 0)]), &mut out);
    states.copy(0, 1);
    for state in [0, 1] {
        let mut out = vec![0.0; 2 * width];
        linear_attention(&c, states, 0, shape, rows(4, 6), &seqs(&[(0..2, state)]), &mut out);
        assert_eq!(out, together[4 * width..6 * width]);
    }
}

#[test]
fn a_gated_norm_takes_each_group_of_columns_alone() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (rows, groups, group) in [(3, 1, 24), (5, 3, 8), (2, 4, 21), (300, 2, 40)] {
            let width = groups * group;
            let (mut gate, x, weight) =
                (values(rows * width, 19), values(rows * width, 23), values(width, 11));
            let gated: Vec<f64> = gate
                .iter()
                .zip(&x)
                .map(|(gate, x)| f64::from(*gate) / (1.0 + (-f64::from(*gate)).exp()) * f64::from(*x))
                .collect();
            gated_norm_groups(&c, &mut gate, &x, &weight, (group, 1e-5));
            for (index, got) in gate.iter().enumerate() {
                let first = index / group * group;
                let squares: f64 = gated[first..first + group].iter().map(|v| v * v).sum();
                let want = gated[index] / (squares / group as f64 + 1e-5).sqrt();
                let want = want * f64::from(weight[index % width]);
                assert!((f64::from(*got) - want).abs() < 1e-5, "{tier} value {index}: {got} for {want}");
            }
        }
    }
}
