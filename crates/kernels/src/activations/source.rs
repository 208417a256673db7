//! Where rows of activations come from: as they are, or computed while they are quantized.

use std::ops::Range;

use cpu::simd::Simd;

use super::block::BLOCK;
use crate::elementwise::{self, Activation};
use crate::norm::{RowNorm, RowStats};
use crate::tune::tune;

/// Blocks of a row that are quantized together: what is worked out for each of them is so for a register of them at a time.
pub(super) const BLOCK_RUN: usize = 16;

/// Values worked out at a time: those of [`BLOCK_RUN`] blocks.
pub(super) const RUN_VALUES: usize = BLOCK_RUN * BLOCK;

/// Where rows come from.
#[derive(Clone, Copy)]
pub(super) enum RowSource<'a> {
    /// As they are.
    Plain(&'a [f32]),
    /// `act(gate) · up`.
    Gated { act: Activation, gate: &'a [f32], up: &'a [f32] },
    /// Norms of rows.
    Normed { x: &'a [f32], norm: RowNorm<'a> },
}

impl<'a> RowSource<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            RowSource::Plain(x) | RowSource::Gated { gate: x, .. } | RowSource::Normed { x, .. } => x.len(),
        }
    }

    /// The values `these`, which begin a row.
    pub(super) fn slice(self, these: Range<usize>) -> RowSource<'a> {
        match self {
            RowSource::Plain(x) => RowSource::Plain(&x[these]),
            RowSource::Gated { act, gate, up } => {
                RowSource::Gated { act, gate: &gate[these.clone()], up: &up[these] }
            }
            RowSource::Normed { x, norm } => RowSource::Normed { x: &x[these], norm },
        }
    }

    /// What the row of `cols` values from `at` on must be known of as a whole.
    #[inline(always)]
    pub(super) fn stats<S: Simd>(self, s: S, at: usize, cols: usize) -> RowStats {
        match self {
            RowSource::Plain(_) | RowSource::Gated { .. } => RowStats::default(),
            RowSource::Normed { x, norm } => norm.stats(s, &x[at..at + cols]),
        }
    }

    /// The `count` values, at most [`RUN_VALUES`], from column `from` on of the row that begins at `at`: worked out in `scratch`, where they are
    /// not there already.
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
        // The next stretch, or the next row's first.
        let ahead = 4 * count;
        match self {
            RowSource::Plain(x) => {
                if const { tune::<S>().prefetch.gemm } {
                    s.prefetch_span_l2(&x[these.clone()], ahead);
                }
                return &x[these];
            }
            RowSource::Gated { act, gate, up } => {
                let (gate, up) = (&gate[these.clone()], &up[these]);
                if const { tune::<S>().prefetch.gemm } {
                    s.prefetch_span_l2(gate, ahead);
                    s.prefetch_span_l2(up, ahead);
                }
                elementwise::activate_slice(s, act, Some(gate), Some(up), scratch);
            }
            RowSource::Normed { x, norm } => norm.part(s, &x[these], stats, from, scratch),
        }
        scratch
    }
}
