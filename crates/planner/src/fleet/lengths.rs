//! Distributions of prompt and answer lengths.

use serde::{Deserialize, Serialize};

use crate::error::{Error, positive};
use crate::random::Random;

/// Upper bound of a length, in tokens. Longer ones are typing mistakes.
const MAX_TOKENS: f64 = 1e7;
/// 95th percentile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951;

/// A distribution of lengths, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Lengths {
    /// One length: `500`.
    Fixed(u32),
    /// Log-normal: `{ mean = 500, p95 = 1200 }`. Real prompts and answers are close to it.
    LogNormal {
        /// Mean, in tokens.
        mean: f64,
        /// 95th percentile, in tokens.
        p95: f64,
    },
    /// Uniform: `{ min = 100, max = 900 }`.
    Uniform {
        /// Least length, in tokens.
        min: f64,
        /// Greatest length, in tokens.
        max: f64,
    },
    /// Exponential: `{ exponential = 500 }`, as the closed forms of queueing theory assume.
    Exponential {
        /// Mean, in tokens.
        exponential: f64,
    },
}

impl Lengths {
    /// Checks the parameters; `field` names them in errors.
    ///
    /// # Errors
    /// A length of zero or less, a p95 that no log-normal distribution of this mean has, a maximum below the minimum.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        let refuse =
            |value: String, expected: String| Err(Error::Range { field: field.into(), value, expected });
        let numbers = match *self {
            Lengths::Fixed(_) => return Ok(()),
            Lengths::LogNormal { mean, p95 } => [mean, p95],
            Lengths::Uniform { min, max } => [min.max(1e-9), max],
            Lengths::Exponential { exponential } => [exponential, exponential],
        };
        for number in numbers {
            positive(field, number)?;
            if number > MAX_TOKENS {
                return refuse(number.to_string(), format!("lengths up to {MAX_TOKENS} tokens"));
            }
        }
        match *self {
            Lengths::LogNormal { mean, p95 } if sigma(mean, p95).is_none() => refuse(
                format!("p95 = {p95} with mean = {mean}"),
                "distributions whose p95 is 1 to 3.8 times their mean".to_owned(),
            ),
            Lengths::Uniform { min, max } if min > max || min < 0.0 => {
                refuse(format!("min = {min}, max = {max}"), "ranges with 0 <= min <= max".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The mean length, in tokens.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Lengths::Fixed(length) => f64::from(length),
            Lengths::LogNormal { mean, .. } => mean,
            Lengths::Uniform { min, max } => (min + max) / 2.0,
            Lengths::Exponential { exponential } => exponential,
        }
    }

    /// A random length, at least `least`.
    pub(super) fn draw(&self, random: &mut Random, least: u32) -> u32 {
        let value = match *self {
            Lengths::Fixed(length) => f64::from(length),
            Lengths::LogNormal { mean, p95 } => {
                let sigma = sigma(mean, p95).unwrap_or(0.0);
                (mean.ln() - sigma * sigma / 2.0 + sigma * random.normal()).exp()
            }
            Lengths::Uniform { min, max } => min + (max - min) * random.unit(),
            // An exponential variable rounded up is geometric; the rate is chosen so that its mean is `exponential`.
            Lengths::Exponential { exponential } if exponential > 1.0 => {
                random.exponential(-1.0 / (1.0 - 1.0 / exponential).ln()).ceil()
            }
            Lengths::Exponential { .. } => 1.0,
        };
        (value.round().min(MAX_TOKENS) as u32).max(least)
    }
}

/// Sigma of the log-normal distribution: the smaller root of ln(p95 / mean) = z sigma - sigma^2 / 2.
fn sigma(mean: f64, p95: f64) -> Option<f64> {
    let ratio = (p95 / mean).ln();
    let root = Z95 * Z95 - 2.0 * ratio;
    (ratio >= 0.0 && root >= 0.0).then(|| Z95 - root.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(lengths: Lengths) -> Vec<f64> {
        let mut random = Random::new(3);
        let mut all: Vec<f64> = (0..100_000).map(|_| f64::from(lengths.draw(&mut random, 1))).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_log_normal_has_the_mean_and_the_p95_that_were_asked() {
        let lengths = Lengths::LogNormal { mean: 500.0, p95: 1200.0 };
        lengths.check("fleet.input").unwrap();
        let all = drawn(lengths);
        assert!((mean(&all) / 500.0 - 1.0).abs() < 0.01, "{}", mean(&all));
        assert!((all[95_000] / 1200.0 - 1.0).abs() < 0.02, "{}", all[95_000]);
    }

    #[test]
    fn the_others_have_their_means() {
        for lengths in [
            Lengths::Fixed(300),
            Lengths::Uniform { min: 100.0, max: 500.0 },
            Lengths::Exponential { exponential: 300.0 },
        ] {
            let mean = mean(&drawn(lengths));
            assert!((mean / 300.0 - 1.0).abs() < 0.01, "{lengths:?} {mean}");
            assert_eq!(lengths.mean(), 300.0);
        }
    }

    #[test]
    fn they_are_read_from_a_plan() {
        #[derive(Deserialize)]
        struct Of {
            length: Lengths,
        }
        let read = |text: &str| toml::from_str::<Of>(&format!("length = {text}")).map(|of| of.length);
        assert_eq!(read("500").unwrap(), Lengths::Fixed(500));
        assert_eq!(read("{ mean = 5, p95 = 9 }").unwrap(), Lengths::LogNormal { mean: 5.0, p95: 9.0 });
        assert_eq!(read("{ exponential = 5 }").unwrap(), Lengths::Exponential { exponential: 5.0 });
        assert!(read("{ mean = 5 }").is_err() && read("-1").is_err());
    }

    #[test]
    fn what_no_distribution_is_is_refused() {
        let said = |lengths: Lengths| lengths.check("fleet.output").unwrap_err().to_string();
        assert!(said(Lengths::LogNormal { mean: 100.0, p95: 90.0 }).contains("p95 = 90 with mean = 100"));
        assert!(said(Lengths::LogNormal { mean: 100.0, p95: 500.0 }).contains("p95 = 500"));
        assert!(said(Lengths::Uniform { min: 5.0, max: 4.0 }).contains("min = 5, max = 4"));
        assert!(said(Lengths::Exponential { exponential: 0.0 }).starts_with("fleet.output: 0 is outside"));
        assert!(said(Lengths::Exponential { exponential: 1e9 }).contains("10000000 tokens"));
    }
}
