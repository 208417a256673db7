//! Rotary position embedding: computes the kernel's inverse frequencies from a base and a scaling.
//!
//! Formulas: RoPE (arXiv 2104.09864), linear interpolation (2306.15595), YaRN (2309.00071), LongRoPE (2402.13753), and
//! Llama 3.1's smoothing by wavelength. Frequencies are computed in f32 powers like the published reference
//! implementations, so that positions far out rotate by the same angle.

use std::f64::consts::PI;

/// The parameters of one rotary table. A model with local and global layers has two tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// How many of a head's dimensions rotate (even, at most the head's size).
    pub rotary_dim: usize,
    /// The base of the frequencies (`rope_theta`).
    pub base: f32,
    /// How the frequencies are stretched for contexts longer than those of training.
    pub scaling: RopeScaling,
}

/// How a rotary table is scaled to longer contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// All frequencies divided by `factor`.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Llama 3.1: long wavelengths are divided by `factor`, short ones kept, with a linear blend between.
    Llama3 {
        /// The divisor of long waves.
        factor: f32,
        /// `original / low` is the shortest wavelength that is fully divided (`low_freq_factor`).
        low: f32,
        /// `original / high` is the longest wavelength that is kept (`high_freq_factor`).
        high: f32,
        /// The context of pretraining, in tokens (`original_max_position_embeddings`).
        original: usize,
    },
    /// A divisor for each frequency, as in a GGUF's `rope_freqs.weight`.
    Factors(Vec<f32>),
    /// YaRN: interpolated and original frequencies blended by dimension; scores scaled by `mscale`.
    Yarn {
        /// The divisor of interpolated frequencies.
        factor: f32,
        /// The context of pretraining, in tokens (`original_max_position_embeddings`).
        original: usize,
        /// Rotations above which a dimension is kept (32 by default).
        beta_fast: f32,
        /// Rotations below which a dimension is interpolated (1 by default).
        beta_slow: f32,
        /// The factor on cos and sin.
        mscale: f32,
        /// Whether the ends of the blend are rounded outwards to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE: one of two lists of divisors, by the context that is served.
    Long {
        /// Divisors for contexts up to `original`, `[rotary_dim / 2]`.
        short: Vec<f32>,
        /// Divisors for longer contexts, `[rotary_dim / 2]`.
        long: Vec<f32>,
        /// The context of pretraining, in tokens (`original_max_position_embeddings`).
        original: usize,
        /// The factor on cos and sin, at either length.
        mscale: f32,
    },
}

impl Rope {
    /// The first `turned` of a head's pairs rotate, with the frequencies that they have where all do, divided by
    /// `factor`; the others do not.
    #[must_use]
    pub fn proportional(head_dim: usize, base: f32, turned: f64, factor: f32) -> Rope {
        let pairs = (turned * head_dim as f64 / 2.0).floor() as usize;
        let divisor = |pair| if pair < pairs { factor } else { f32::INFINITY };
        let scaling = RopeScaling::Factors((0..head_dim / 2).map(divisor).collect());
        Rope { rotary_dim: head_dim, base, scaling }
    }

    /// The inverse frequencies `[rotary_dim / 2]` for a served context of `context` tokens, in radians a position.
    #[must_use]
    pub fn inv_freq(&self, context: usize) -> Vec<f32> {
        let plain = |i: usize| 1.0 / self.base.powf((2 * i) as f32 / self.rotary_dim as f32);
        let half = self.rotary_dim / 2;
        let divided = |by: &[f32]| {
            (0..half)
                .map(|i| {
                    1.0 / (by.get(i).copied().unwrap_or(1.0)
                        * self.base.powf((2 * i) as f32 / self.rotary_dim as f32))
                })
                .collect()
        };
        match &self.scaling {
            RopeScaling::None => (0..half).map(plain).collect(),
            RopeScaling::Linear { factor } => (0..half).map(|i| plain(i) / factor).collect(),
            RopeScaling::Factors(by) => divided(by),
            RopeScaling::Long { short, long, original, .. } => {
                divided(if context > *original { long } else { short })
            }
            RopeScaling::Llama3 { factor, low, high, original } => {
                (0..half).map(|i| llama3(plain(i), *factor, *low, *high, *original as f32)).collect()
            }
            RopeScaling::Yarn { factor, original, beta_fast, beta_slow, truncate, .. } => {
                let (low, high) = self.yarn_range(*original, *beta_fast, *beta_slow, *truncate);
                (0..half)
                    .map(|i| {
                        let interpolated = ((i as f32 - low) / (high - low)).clamp(0.0, 1.0);
                        let kept = plain(i);
                        kept / factor * interpolated + kept * (1.0 - interpolated)
                    })
                    .collect()
            }
        }
    }

    /// The factor on cos and sin (1 where the scaling has none).
    #[must_use]
    pub fn mscale(&self) -> f32 {
        match &self.scaling {
            RopeScaling::Yarn { mscale, .. } | RopeScaling::Long { mscale, .. } => *mscale,
            RopeScaling::None
            | RopeScaling::Linear { .. }
            | RopeScaling::Llama3 { .. }
            | RopeScaling::Factors(_) => 1.0,
        }
    }

    /// The dimensions between which YaRN blends from kept to interpolated frequencies.
    fn yarn_range(&self, original: usize, fast: f32, slow: f32, truncate: bool) -> (f32, f32) {
        let dim = self.rotary_dim as f64;
        let at = |rotations: f32| {
            dim * (original as f64 / (f64::from(rotations) * 2.0 * PI)).ln()
                / (2.0 * f64::from(self.base).ln())
        };
        let (mut low, mut high) = (at(fast), at(slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(dim - 1.0));
        if low == high {
            high += 0.001;
        }
        (low as f32, high as f32)
    }
}

/// YaRN's factor on cos and sin for scaling by `factor`: `0.1 ln(factor) + 1`.
#[must_use]
pub(crate) fn yarn_mscale(factor: f32, weight: f32) -> f32 {
    if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 }
}

/// LongRoPE's factor on cos and sin for scaling from `original` tokens by `factor`.
#[must_use]
pub(crate) fn long_mscale(factor: f64, original: usize) -> f32 {
    if factor <= 1.0 || original < 2 {
        return 1.0;
    }
    (1.0 + factor.ln() / (original as f64).ln()).sqrt() as f32
}

fn llama3(freq: f32, factor: f32, low: f32, high: f32, original: f32) -> f32 {
    let wave = 2.0 * std::f32::consts::PI / freq;
    if wave < original / high {
        return freq;
    }
    if wave > original / low {
        return freq / factor;
    }
    let smooth = (original / wave - low) / (high - low);
    (1.0 - smooth) * freq / factor + smooth * freq
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rope_turns_on_past_the_original_context() {
        let scaling =
            RopeScaling::Long { short: vec![1.0; 4], long: vec![2.0; 4], original: 64, mscale: 1.5 };
        let rope = Rope { rotary_dim: 8, base: 10_000.0, scaling };
        let short = rope.inv_freq(64);
        let long = rope.inv_freq(65);
        assert!(short.iter().zip(&long).all(|(s, l)| (s / l - 2.0).abs() < 1e-6));
        assert_eq!(rope.mscale(), 1.5);
    }

    #[test]
    fn proportional_rope_turns_the_first_pairs_of_a_head_as_if_all_turned() {
        let part = Rope::proportional(16, 10_000.0, 0.25, 1.0).inv_freq(64);
        let all = Rope { rotary_dim: 16, base: 10_000.0, scaling: RopeScaling::None }.inv_freq(64);
        assert_eq!(part, [all[0], all[1], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(Rope::proportional(16, 10_000.0, 0.25, 8.0).inv_freq(64)[1], all[1] / 8.0);
    }

    #[test]
    fn llama3_keeps_short_waves_and_divides_long_ones() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 };
        let scaled = Rope { rotary_dim: 128, base: 500_000.0, scaling }.inv_freq(0);
        let plain = Rope { rotary_dim: 128, base: 500_000.0, scaling: RopeScaling::None }.inv_freq(0);
        assert_eq!(scaled[0], plain[0]);
        assert!((plain[63] / scaled[63] - 8.0).abs() < 1e-5);
        assert!(scaled.windows(2).all(|w| w[0] > w[1]));
    }
}
