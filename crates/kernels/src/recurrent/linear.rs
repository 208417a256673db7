//! Linear attention with a state: each head keeps a matrix `[key_dim, value_dim]` that its rows decay, add to and read.
//!
//! With the delta rule this is the gated DeltaNet (Yang, Kautz and Hatamizadeh, 2024), without it the recurrence of
//! Mamba-2 (Dao and Gu, 2024), whose B, C and x are key, query and value.

use cpu::simd::{Job, Simd, dispatch};
use cpu::{Stripes, Tile};

use crate::Compute;
use crate::attention::SeqRows;
use crate::partial;
use crate::states::StatePool;

/// What a row adds to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRule {
    /// `key ⊗ gain · value`: Mamba-2.
    Add,
    /// `key ⊗ gain · (value - what the decayed state has for the key)`: the delta rule.
    Delta,
}

/// The shape of linear attention in one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAttention {
    /// Heads of queries and keys; divides `value_heads`.
    pub key_heads: usize,
    /// Heads of values, each with a state.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// Whether value head `h` belongs to key head `h % key_heads`, and not to `h / (value_heads / key_heads)`.
    pub tiled: bool,
    /// What a row adds.
    pub rule: StateRule,
}

impl LinearAttention {
    /// Values of a sequence's state in this layer: `[value_heads, key_dim, value_dim]`.
    pub fn state_floats(&self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }

    fn key_head(&self, value_head: usize) -> usize {
        if self.tiled {
            value_head % self.key_heads
        } else {
            value_head / (self.value_heads / self.key_heads)
        }
    }
}

/// The rows of linear attention: columns of one matrix `[rows, row_len]`, and two factors for each row and value head.
#[derive(Clone, Copy, Debug)]
pub struct LinearRows<'a> {
    /// The matrix.
    pub x: &'a [f32],
    /// The matrix's row length.
    pub row_len: usize,
    /// The first column of the queries, `key_heads · key_dim` wide.
    pub query: usize,
    /// The first column of the keys.
    pub key: usize,
    /// The first column of the values, `value_heads · value_dim` wide.
    pub value: usize,
    /// `[rows, value_heads]`: what the state is multiplied by before the row.
    pub decay: &'a [f32],
    /// `[rows, value_heads]`: see [`StateRule`].
    pub gain: &'a [f32],
    /// `[value_heads]`: the share of a value that is added to its output (D in Mamba-2).
    pub skip: Option<&'a [f32]>,
}

/// Computes `state = decay · state + key ⊗ added` and `out = query · state + skip · value`, row after row of each sequence,
/// for each value head; `out` is `[rows, value_heads · value_dim]`. The states are values of the sequences' states, from `offset` on.
///
/// # Panics
/// When shapes do not fit or a sequence has no state.
pub fn linear_attention(
    c: &Compute,
    states: &mut StatePool,
    offset: usize,
    shape: LinearAttention,
    rows: LinearRows<'_>,
    seqs: &[SeqRows<'_>],
    out: &mut [f32],
) {
    let (keys, values) = (shape.key_heads * shape.key_dim, shape.value_heads * shape.value_dim);
    let count = out.len() / values.max(1);
    assert!(shape.value_heads.is_multiple_of(shape.key_heads), "value heads for each key head");
    assert!(out.len() == count * values && rows.x.len() == count * rows.row_len, "rows of linear attention");
    let widest = (rows.query + keys).max(rows.key + keys).max(rows.value + values);
    assert!(widest <= rows.row_len, "columns of queries, keys and values");
    let factors = count * shape.value_heads;
    assert!(rows.decay.len() == factors && rows.gain.len() == factors, "decays and gains");
    assert!(rows.skip.is_none_or(|skip| skip.len() == shape.value_heads), "skips");
    if count == 0 {
        return;
    }
    let row_len = states.shape().floats;
    let (cols, width) = (shape.key_dim * shape.value_dim, shape.state_floats());
    let kept = Stripes { data: states.values(), row_len, start: offset, cols, width };
    let outputs = Stripes { data: out, row_len: values, start: 0, cols: shape.value_dim, width: values };
    c.pool.stripes_mut(kept, outputs, &|head, states, out| {
        dispatch(c.tier, Head { shape, rows, seqs, head, states, out });
    });
}

/// One value head, for all sequences.
struct Head<'a, 'b> {
    shape: LinearAttention,
    rows: LinearRows<'a>,
    seqs: &'a [SeqRows<'a>],
    head: usize,
    /// `[states, key_dim · value_dim]`
    states: Tile<'b, f32>,
    /// `[rows, value_dim]`
    out: Tile<'b, f32>,
}

/// Registers of a state's row that are computed together: 4 sums hide the latency of an FMA, and 64 columns of 128 keys
/// fill half of L1.
const WIDE: usize = 4;

impl Job for Head<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let dim = self.shape.value_dim;
        for seq in self.seqs {
            let state = self.states.row(seq.state as usize);
            let mut at = 0;
            while at < dim {
                let wide = at + WIDE * S::LANES <= dim;
                for row in seq.rows.clone() {
                    let one = OneRow::of(&self.shape, &self.rows, self.head, row);
                    let out = self.out.row(row);
                    if wide {
                        one.columns::<S, WIDE, true>(s, state, at, out);
                    } else {
                        one.columns::<S, 1, false>(s, state, at, out);
                    }
                }
                at += if wide { WIDE * S::LANES } else { S::LANES };
            }
        }
    }
}

/// What one row brings to one head.
struct OneRow<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    decay: f32,
    gain: f32,
    skip: Option<f32>,
    rule: StateRule,
}

impl<'a> OneRow<'a> {
    #[inline(always)]
    fn of(shape: &LinearAttention, rows: &LinearRows<'a>, head: usize, row: usize) -> OneRow<'a> {
        let x = &rows.x[row * rows.row_len..][..rows.row_len];
        let key_at = shape.key_head(head) * shape.key_dim;
        let factor = row * shape.value_heads + head;
        OneRow {
            query: &x[rows.query + key_at..][..shape.key_dim],
            key: &x[rows.key + key_at..][..shape.key_dim],
            value: &x[rows.value + head * shape.value_dim..][..shape.value_dim],
            decay: rows.decay[factor],
            gain: rows.gain[factor],
            skip: rows.skip.map(|skip| skip[head]),
            rule: shape.rule,
        }
    }

    /// The columns of the state from `at` on: `N` registers of them, whole ones if `WHOLE`. The length of a row's part is
    /// then a constant, with which no load checks its bounds.
    #[inline(always)]
    fn columns<S: Simd, const N: usize, const WHOLE: bool>(
        &self,
        s: S,
        state: &mut [f32],
        at: usize,
        out: &mut [f32],
    ) {
        let dim = self.value.len();
        let end = if WHOLE { at + N * S::LANES } else { dim.min(at + N * S::LANES) };
        let decay = s.splat(self.decay);
        let mut known = [s.splat(0.0); N];
        if self.rule == StateRule::Delta {
            for (state, key) in state.chunks_exact(dim).zip(self.key) {
                let (state, key) = (&state[at..end], s.splat(*key));
                for i in 0..N {
                    known[i] = s.fma(key, load::<S, WHOLE>(s, state, i), known[i]);
                }
            }
        }
        let (value, gain) = (&self.value[at..end], s.splat(self.gain));
        let (mut added, mut sums) = ([s.splat(0.0); N], [s.splat(0.0); N]);
        for i in 0..N {
            let value = load::<S, WHOLE>(s, value, i);
            added[i] = s.mul(s.sub(value, s.mul(decay, known[i])), gain);
            if let Some(skip) = self.skip {
                sums[i] = s.mul(s.splat(skip), value);
            }
        }
        for ((state, key), query) in state.chunks_exact_mut(dim).zip(self.key).zip(self.query) {
            let (state, key, query) = (&mut state[at..end], s.splat(*key), s.splat(*query));
            for i in 0..N {
                let old = s.mul(decay, load::<S, WHOLE>(s, state, i));
                let new = s.fma(key, added[i], old);
                store::<S, WHOLE>(s, new, state, i);
                sums[i] = s.fma(query, new, sums[i]);
            }
        }
        let out = &mut out[at..end];
        for i in 0..N {
            store::<S, WHOLE>(s, sums[i], out, i);
        }
    }
}

/// Loads the `i`-th register of `x`.
#[inline(always)]
fn load<S: Simd, const WHOLE: bool>(s: S, x: &[f32], i: usize) -> S::F {
    if WHOLE { s.load(&x[i * S::LANES..]) } else { partial::load(s, x, i * S::LANES) }
}

/// Stores the `i`-th register of `x`.
#[inline(always)]
fn store<S: Simd, const WHOLE: bool>(s: S, v: S::F, x: &mut [f32], i: usize) {
    if WHOLE { s.store(v, &mut x[i * S::LANES..]) } else { partial::store(s, v, x, i * S::LANES) }
}
