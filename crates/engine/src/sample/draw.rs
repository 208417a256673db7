//! The draw of a token, with temperature, dynamic temperature and mirostat.
//! The formulas are llama.cpp's (`llama_sampler_temp_ext`, `llama_sampler_mirostat`, `llama_sampler_mirostat_v2`).

use std::f64::consts::LN_2;

use super::filter::{Candidate, best, top_k};
use super::rng::Rng;
use crate::{Dynatemp, Mirostat, MirostatVersion};

/// Draws in proportion to exp(logit / temperature), with the probability of what was drawn. None if nothing is left.
pub(super) fn draw(candidates: &mut [Candidate], temperature: f32, rng: &mut Rng) -> Option<(u32, f64)> {
    let best = best(candidates).filter(|best| best.logit > f32::NEG_INFINITY)?;
    if temperature <= 0.0 {
        return Some((best.id, 1.0));
    }
    let mut total = 0.0f64;
    for c in candidates.iter_mut() {
        c.key = ((c.logit - best.logit) / temperature).exp();
        total += f64::from(c.key);
    }
    let mut left = rng.unit() * total;
    let mut last = None;
    for c in candidates.iter().filter(|c| c.key > 0.0) {
        last = Some((c.id, f64::from(c.key) / total));
        left -= f64::from(c.key);
        if left < 0.0 {
            break;
        }
    }
    last
}

/// The temperature for these candidates: the higher, the nearer their entropy is to its most.
pub(super) fn temperature(candidates: &[Candidate], base: f32, dynatemp: Dynatemp) -> f32 {
    let Dynatemp { range, exponent } = dynatemp;
    let (Some(best), 2..) = (best(candidates), candidates.len()) else { return base };
    if range == 0.0 || best.logit == f32::NEG_INFINITY {
        return base;
    }
    let weight = |c: &Candidate| f64::from(c.logit - best.logit).exp();
    let total: f64 = candidates.iter().map(weight).sum();
    let entropy: f64 =
        candidates.iter().map(|c| weight(c) / total).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum();
    let normalized = (entropy / (candidates.len() as f64).ln()).clamp(0.0, 1.0);
    let (low, high) = ((base - range).max(0.0), base + range);
    low + (high - low) * (normalized as f32).powf(exponent)
}

/// Mirostat at work on one answer.
pub(super) struct MirostatState {
    mirostat: Mirostat,
    /// Greatest allowed surprise, in bits (mirostat's mu); starts at twice the target.
    mu: f32,
}

/// Likeliest tokens from which the first version estimates the distribution.
const ESTIMATED_FROM: usize = 100;

impl MirostatState {
    pub(super) fn new(mirostat: Mirostat) -> MirostatState {
        MirostatState { mirostat, mu: 2.0 * mirostat.tau }
    }

    /// Cuts, draws, and moves the cut by how much the draw surprised. `vocab`: tokens of the model.
    pub(super) fn draw(
        &mut self,
        candidates: &mut Vec<Candidate>,
        temperature: f32,
        vocab: usize,
        rng: &mut Rng,
    ) -> Option<u32> {
        candidates.retain(|c| c.logit > f32::NEG_INFINITY);
        candidates.iter_mut().for_each(|c| c.logit /= temperature);
        match self.mirostat.version {
            MirostatVersion::One => {
                let all = candidates.len();
                top_k(candidates, all);
                candidates.truncate(self.count(candidates, vocab));
            }
            MirostatVersion::Two => {
                let best = best(candidates)?;
                let total: f64 = candidates.iter().map(|c| f64::from(c.logit - best.logit).exp()).sum();
                let surprise = |c: &Candidate| total.log2() - f64::from(c.logit - best.logit) / LN_2;
                candidates.retain(|c| surprise(c) <= f64::from(self.mu) || c.id == best.id);
            }
        }
        let (id, probability) = draw(candidates, 1.0, rng)?;
        let surprise = -probability.log2() as f32;
        self.mu -= self.mirostat.eta * (surprise - self.mirostat.tau);
        Some(id)
    }

    /// How many of the candidates, best first, would surprise by `mu` bits at most if their probabilities followed
    /// Zipf's law, with the exponent that the likeliest suggest.
    fn count(&self, candidates: &[Candidate], vocab: usize) -> usize {
        let (mut products, mut squares) = (0.0f64, 0.0f64);
        for (i, pair) in candidates.windows(2).take(ESTIMATED_FROM - 1).enumerate() {
            let step = ((i + 2) as f64 / (i + 1) as f64).ln();
            products += step * f64::from(pair[0].logit - pair[1].logit);
            squares += step * step;
        }
        let exponent = products / squares;
        let epsilon = exponent - 1.0;
        let mass = epsilon * f64::from(self.mu).exp2() / (1.0 - (vocab as f64).powf(-epsilon));
        let count = mass.powf(1.0 / exponent);
        // Equal probabilities have no exponent to speak of, and a single one has none at all.
        if count.is_nan() { candidates.len().max(1) } else { (count as usize).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(probabilities: &[f64]) -> Vec<Candidate> {
        let candidate = |(id, p): (usize, &f64)| Candidate { id: id as u32, logit: p.ln() as f32, key: 0.0 };
        probabilities.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn dynamic_temperature_is_llama_cpps() {
        let dynatemp = |range, exponent| Dynatemp { range, exponent };
        // All equal: the entropy is at its most. One certain: it is nothing.
        assert!((temperature(&of(&[0.25; 4]), 1.0, dynatemp(0.5, 1.0)) - 1.5).abs() < 1e-6);
        let sure = temperature(&of(&[1.0, 1e-30]), 1.0, dynatemp(0.5, 1.0));
        assert!((sure - 0.5).abs() < 1e-6, "{sure}");
        // 0.5, 0.25, 0.25: 1.5 bits of log2 3.
        let share = 1.5 / 3f32.log2();
        for (base, range, exponent) in [(1.0, 0.5, 1.0), (0.7, 2.0, 0.5), (0.8, 0.8, 3.0)] {
            let (low, high) = (f32::max(base - range, 0.0), base + range);
            let wanted = low + (high - low) * share.powf(exponent);
            let is = temperature(&of(&[0.5, 0.25, 0.25]), base, dynatemp(range, exponent));
            assert!((is - wanted).abs() < 1e-5, "{is} is not {wanted}");
        }
        assert_eq!(temperature(&of(&[0.5, 0.5]), 0.9, dynatemp(0.0, 1.0)), 0.9);
        assert_eq!(temperature(&of(&[1.0]), 0.9, dynatemp(0.5, 1.0)), 0.9);
    }

    #[test]
    fn the_second_mirostat_cuts_by_surprise() {
        let mirostat = Mirostat { version: MirostatVersion::Two, tau: 1.05, eta: 0.1 };
        // mu is 2.1 bits at first: 0.5 (1 bit) and 0.25 (2 bits) stay.
        let (mut seen, mut rng) = ([0; 4], Rng::new(3));
        for _ in 0..4_000 {
            let mut cut = MirostatState::new(mirostat);
            let id = cut.draw(&mut of(&[0.5, 0.25, 0.125, 0.125]), 1.0, 4, &mut rng).unwrap();
            seen[id as usize] += 1;
            // Drawn from 2/3 and 1/3.
            let surprise = if id == 0 { 1.5f32.log2() } else { 3f32.log2() };
            assert!((cut.mu - (2.1 - 0.1 * (surprise - 1.05))).abs() < 1e-5);
        }
        assert_eq!(seen[2..], [0, 0]);
        assert!((f64::from(seen[0]) / 4_000.0 - 2.0 / 3.0).abs() < 0.04, "{seen:?}");
        // A cut below the best leaves the best.
        let mut cut = MirostatState { mirostat, mu: -5.0 };
        assert_eq!(cut.draw(&mut of(&[0.2, 0.8]), 1.0, 2, &mut rng), Some(1));
    }

    #[test]
    fn the_first_mirostat_estimates_zipfs_exponent() {
        // p ∝ 1 / rank^1.5, without noise: the estimate is 1.5.
        let zipf: Vec<f64> = (1..=1_000).map(|rank| f64::from(rank).powf(-1.5)).collect();
        let cut = MirostatState::new(Mirostat { version: MirostatVersion::One, tau: 3.0, eta: 0.1 });
        let wanted = (0.5 * 64.0 / (1.0 - 1_000f64.powf(-0.5))).powf(1.0 / 1.5);
        assert_eq!(cut.count(&of(&zipf), 1_000), wanted as usize);
        assert_eq!(cut.count(&of(&[1.0]), 1_000), 1);
        let flat = cut.count(&of(&[0.1; 10]), 10);
        assert!(flat >= 1, "{flat}");
    }

    /// The mean surprise comes to what is aimed at, whichever version.
    #[test]
    fn mirostat_holds_its_aim() {
        for version in [MirostatVersion::One, MirostatVersion::Two] {
            let zipf: Vec<f64> = (1..=2_000).map(|rank| f64::from(rank).powf(-1.1)).collect();
            let (mut cut, mut rng) =
                (MirostatState::new(Mirostat { version, tau: 4.0, eta: 0.1 }), Rng::new(5));
            let mut bits = 0.0;
            for round in 0..6_000 {
                let mut candidates = of(&zipf);
                let mu = cut.mu;
                cut.draw(&mut candidates, 1.0, 2_000, &mut rng).unwrap();
                if round >= 1_000 {
                    bits += f64::from((mu - cut.mu) / 0.1 + 4.0) / 5_000.0;
                }
            }
            assert!((bits - 4.0).abs() < 0.05, "{version:?}: {bits} bits");
        }
    }
}
