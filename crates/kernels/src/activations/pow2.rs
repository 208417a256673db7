//! Scales that are sums of two powers of two.

use super::block::MAGIC;

/// A step that is the sum of two powers of two, of which the second may be negative.
#[derive(Clone, Copy, Default)]
pub(super) struct Powers {
    pub(super) first: f32,
    pub(super) second: f32,
}

impl Powers {
    /// The least such step that maps the magnitude `max_abs` to at most 127; zeros as [`step`], and for a block that is nearly zero or infinite.
    #[inline(always)]
    pub(super) fn step(max_abs: f32) -> Powers {
        const POWER: u32 = 0x7f80_0000;
        // Powers closer to nothing would not leave a sum of both, times `MAGIC`, exact.
        const LEAST: f32 = 1.0 / 4096.0;
        let step = max_abs / 127.0;
        let low = f32::from_bits(step.to_bits() & POWER);
        let least = low * LEAST;
        let more = step - low;
        let more = if more > least { more } else { least };
        let more = f32::from_bits(more.to_bits().wrapping_add(!POWER & 0x7fff_ffff) & POWER);
        let neg_sums = low + low - step;
        let neg_sums = if neg_sums > least { neg_sums } else { least };
        let neg_sums = f32::from_bits(neg_sums.to_bits() & POWER);
        let (first, second) = if more + more > low { (low + low, -neg_sums) } else { (low, more) };
        // Plain comparisons, of which the compiler takes a register at a time.
        let usable = (step > 1e-30) & (step < 1e30);
        if usable { Powers { first, second } } else { Powers::default() }
    }

    /// The floats whose last places they are.
    #[inline(always)]
    pub(super) fn magic(self) -> [f32; 2] {
        [self.first * MAGIC, self.second * MAGIC]
    }
}
