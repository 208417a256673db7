//! Random weights: seeded, finite, and with the standard deviation of trained weights.

use cpu::Pool;
use tensor::Dtype;

/// The usual standard deviation of trained weights, with which outputs of a normalised row are of order 1.
const DEVIATION: f32 = 0.02;

/// A stream of random numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A standard normal variate (Box-Muller).
    fn normal(&mut self) -> f32 {
        let mut uniform = || ((self.next() >> 40) + 1) as f32 / (1u32 << 24) as f32;
        (-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos()
    }

    /// `count` weights with mean `middle`.
    pub(super) fn weights(&mut self, middle: f32, count: usize) -> Vec<f32> {
        (0..count).map(|_| middle + DEVIATION * self.normal()).collect()
    }
}

/// Random blocks of one format: a unit of some million weights, repeated.
///
/// A matrix starts anywhere in the first unit, so that layers differ. Quantizing every weight of a large model would
/// take a minute and change no speed. The unit is a prime number of blocks: no matrix's rows repeat in step with it.
pub(super) struct Blocks {
    dtype: Dtype,
    unit: Vec<u8>,
}

impl Blocks {
    pub(super) fn new(dtype: Dtype, random: &mut Random) -> Blocks {
        let blocks = match dtype.block_weights() {
            1 => 1_048_583,
            32 => 32_771,
            _ => 4099,
        };
        let mut unit = Vec::new();
        let values = random.weights(0.0, blocks * dtype.block_weights());
        tensor::format::quantize(dtype, &values, &mut unit).expect("whole blocks of finite numbers");
        Blocks { dtype, unit }
    }

    /// Where a matrix may start, in bytes.
    pub(super) fn start(&self, random: &mut Random) -> usize {
        random.below(self.unit.len() / self.dtype.block_bytes()) * self.dtype.block_bytes()
    }

    /// Enough bytes for a matrix of `bytes` at any start.
    pub(super) fn fill(&self, bytes: usize, pool: &Pool) -> Vec<u8> {
        let mut all = vec![0; bytes + self.unit.len()];
        pool.chunks_mut(&mut all, self.unit.len(), &|_, chunk| {
            chunk.copy_from_slice(&self.unit[..chunk.len()])
        });
        all
    }
}
