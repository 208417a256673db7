//! Where rows of activations come from: as they are, or computed while they are quantized.

use std::ops::Range;

use cpu::simd::Simd;

use super::block::BLOCK;
use crate::elementwise::{self, Activation};
use crate::norm::{RowNorm, RowStats};
use crate::partial;
use crate::tune::{RUNS_AHEAD, tune};

/// Consecutive blocks of a row that are quantized together, so that scalar work for each block is vectorized.
pub(super) const BLOCK_RUN: usize = 16;

/// Values of a run of [`BLOCK_RUN`] blocks.
pub(super) const RUN_VALUES: usize = BLOCK_RUN * BLOCK;

/// A source of rows.
#[derive(Clone, Copy)]
pub(super) enum RowSource<'a> {
    /// The rows themselves.
    Plain(&'a [f32]),
    /// `act(gate) · up`.
    Gated { act: Activation, gate: &'a [f32], up: &'a [f32] },
    /// `act(x + bias)`.
    Activated { act: Activation, x: &'a [f32], bias: Option<&'a [f32]> },
    /// The norms of the rows `x`.
    Normed { x: &'a [f32], norm: RowNorm<'a> },
}

impl<'a> RowSource<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            RowSource::Plain(x)
            | RowSource::Gated { gate: x, .. }
            | RowSource::Activated { x, .. }
            | RowSource::Normed { x, .. } => x.len(),
        }
    }

    /// The part `these` of the values, which begins at a row.
    pub(super) fn slice(self, these: Range<usize>) -> RowSource<'a> {
        match self {
            RowSource::Plain(x) => RowSource::Plain(&x[these]),
            RowSource::Gated { act, gate, up } => {
                RowSource::Gated { act, gate: &gate[these.clone()], up: &up[these] }
            }
            RowSource::Activated { act, x, bias } => RowSource::Activated { act, x: &x[these], bias },
            RowSource::Normed { x, norm } => RowSource::Normed { x: &x[these], norm },
        }
    }

    /// The statistics of the row of `cols` values from `at` on.
    #[inline(always)]
    pub(super) fn stats<S: Simd>(self, s: S, at: usize, cols: usize) -> RowStats {
        match self {
            RowSource::Plain(_) | RowSource::Gated { .. } | RowSource::Activated { .. } => {
                RowStats::default()
            }
            RowSource::Normed { x, norm } => norm.stats(s, &x[at..at + cols]),
        }
    }

    /// `count` values, at most [`RUN_VALUES`], from column `from` on of the row at `at`; computed into `scratch` where they are not in
    /// memory.
    #[inline(always)]
    pub(super) fn values<'r, S: Simd>(
        self,
        s: S,
        (at, stats): (usize, RowStats),
        from: usize,
        count: usize,
        scratch: &'r mut [f32; RUN_VALUES],
    ) -> &'r [f32]
    where
        'a: 'r,
    {
        let these = at + from..at + from + count;
        let scratch = &mut scratch[..count];
        let ahead = RUNS_AHEAD * size_of::<f32>() * count;
        match self {
            RowSource::Plain(x) => {
                if const { tune::<S>().prefetch.gemm_activations_and_output } {
                    s.prefetch_span_l2(&x[these.clone()], ahead);
                }
                return &x[these];
            }
            RowSource::Gated { act, gate, up } => {
                let (gate, up) = (&gate[these.clone()], &up[these]);
                if const { tune::<S>().prefetch.gemm_activations_and_output } {
                    s.prefetch_span_l2(gate, ahead);
                    s.prefetch_span_l2(up, ahead);
                }
                elementwise::activate_slice(s, act, Some(gate), Some(up), scratch);
            }
            RowSource::Activated { act, x, bias } => {
                let (x, bias) = (&x[these], bias.map(|bias| &bias[from..from + count]));
                for at in (0..count).step_by(S::LANES) {
                    let mut v = partial::load(s, x, at);
                    if let Some(bias) = bias {
                        v = s.add(v, partial::load(s, bias, at));
                    }
                    partial::store(s, v, scratch, at);
                }
                elementwise::activate_slice(s, act, None, None, scratch);
            }
            RowSource::Normed { x, norm } => norm.part(s, &x[these], stats, from, scratch),
        }
        scratch
    }
}
