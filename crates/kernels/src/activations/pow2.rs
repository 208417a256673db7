//! Activation scales that are sums of two powers of two (`2^a ± 2^b`), for [`Int8Path::Pow2Scale`](crate::tune::Int8Path).

use super::block::MAGIC;

/// A scale `first + second`, both powers of two, the second perhaps negated.
#[derive(Clone, Copy, Default)]
pub(super) struct Powers {
    pub(super) first: f32,
    pub(super) second: f32,
}

impl Powers {
    /// The least such scale that maps `max_abs` to at most 127; zeros for a block that is nearly zero or infinite.
    #[inline(always)]
    pub(super) fn scale_for(max_abs: f32) -> Powers {
        const POWER: u32 = 0x7f80_0000;
        // With a smaller second power, `MAGIC` times the sum of both would not be exact.
        const LEAST: f32 = 1.0 / 4096.0;
        let step = max_abs / 127.0;
        let low = f32::from_bits(step.to_bits() & POWER);
        let least = low * LEAST;
        // What the scale has above its leading power of two, rounded up to a power of two.
        let excess = step - low;
        let excess = if excess > least { excess } else { least };
        let excess = f32::from_bits(excess.to_bits().wrapping_add(!POWER & 0x7fff_ffff) & POWER);
        // What it lacks to the next one, rounded down.
        let deficit = low + low - step;
        let deficit = if deficit > least { deficit } else { least };
        let deficit = f32::from_bits(deficit.to_bits() & POWER);
        let (first, second) = if excess + excess > low { (low + low, -deficit) } else { (low, excess) };
        // Plain comparisons, so that it is vectorized.
        let usable = (step > 1e-30) & (step < 1e30);
        if usable { Powers { first, second } } else { Powers::default() }
    }

    /// `MAGIC` times each power: floats whose last places are the powers.
    #[inline(always)]
    pub(super) fn magic(self) -> [f32; 2] {
        [self.first * MAGIC, self.second * MAGIC]
    }
}
