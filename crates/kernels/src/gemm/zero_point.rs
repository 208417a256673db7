//! The start of an integer accumulator: minus the zero point times the sum of the activations.

use cpu::simd::Simd;

use crate::activations::Block;
use crate::unpack::scales::Scales;
use crate::unpack::{self, BlockLayout};

/// The start of the accumulator for the block `x`, or for its half `HALF` where scales are of 16 weights: `-zero_point · Σ q`.
#[inline(always)]
pub(super) fn zero_point_init<S: Simd, F: BlockLayout, const HALF: usize>(s: S, x: &Block) -> S::I {
    const { assert!(has_init::<S, F>(), "no accumulator start for the format's zero point") };
    match const { (F::Scales::GROUPS, unpack::zero_point::<S, F>()) } {
        (_, 0) => s.splat_i(0),
        // Exact: a multiple of 8.
        (1, 1) => s.splat_i(x.plain().neg_sum_8 >> 3),
        (1, 8) => s.splat_i(x.plain().neg_sum_8),
        (1, 16) => s.shl::<1>(s.splat_i(x.plain().neg_sum_8)),
        (1, 128) => s.splat_i(x.plain().neg_sum_128),
        (2, 4) => s.splat_i(x.plain().neg_half_sum_32[HALF] >> 3),
        (2, 32) => s.splat_i(x.plain().neg_half_sum_32[HALF]),
        (2, 128) => s.shl::<2>(s.splat_i(x.plain().neg_half_sum_32[HALF])),
        (scales, offset) => unreachable!("offset {offset} of codes with {scales} scales: asserted above"),
    }
}

/// Whether [`zero_point_init`] has an arm for the format: a new zero point needs one, and perhaps a field of [`Block`].
const fn has_init<S: Simd, F: BlockLayout>() -> bool {
    matches!(
        (F::Scales::GROUPS, unpack::zero_point::<S, F>()),
        (_, 0) | (1, 1 | 8 | 16 | 128) | (2, 4 | 32 | 128)
    )
}

/// The zero point times the scales of both halves, as two `i16` in each lane, the first in the low one.
#[inline(always)]
pub(super) fn zero_point_i16<S: Simd, F: BlockLayout>(s: S, [first, second]: [S::I; 2]) -> S::I {
    const {
        let has_arm = matches!(F::ZERO_POINT, 4 | 32);
        assert!(
            has_arm || !unpack::i16_accumulable::<F>() || F::Scales::GROUPS == 1,
            "no `i16` correction for the format's zero point"
        );
    }
    // Other formats instantiate this too, and never call it.
    let (low, high) = match const { F::ZERO_POINT } {
        4 => (s.shl::<2>(first), s.shl::<18>(second)),
        32 => (s.shl::<5>(first), s.shl::<21>(second)),
        other => unreachable!("offset {other}: that of a format with scales of 16 weights in bytes"),
    };
    s.or(s.and(low, s.splat_i(0xffff)), high)
}
