//! The threshold of a cascade from pairs of answers: what share of requests each threshold sends up, and how often the
//! answers that stay are those of the larger model.

use serde::{Deserialize, Serialize};

/// A request that both models answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Mean margin of the small model's worst window, in nats.
    pub margin: f64,
    /// Whether both gave the same answer.
    pub agrees: bool,
    /// Tokens of the small model's answer that have log-probabilities.
    pub tokens: u64,
}

/// What a threshold does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The setting `margin`: answers whose worst window is below it go up.
    pub margin: f64,
    /// Share of requests that the larger model answers.
    pub escalated: f64,
    /// Share of the small model's answers that agree with the larger one's; 1 where it gives none.
    pub agreement: f64,
    /// 95 % confidence interval of `agreement` (Wilson's score interval).
    pub interval: [f64; 2],
}

/// Thresholds and the one to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Pairs that were read.
    pub pairs: usize,
    /// Thresholds in rising order.
    pub thresholds: Vec<Threshold>,
    /// The lowest threshold at which the small model's answers disagree at most as often as the target says, with 95 %
    /// confidence; none if no threshold does.
    pub chosen: Option<Threshold>,
}

/// Thresholds that are printed, at most.
const ROWS: usize = 20;
/// Quantile of the normal distribution for 95 % confidence.
const Z: f64 = 1.959_963_984_540_054;
/// Pairs that are read from a file, at most.
const PAIRS: usize = 1 << 20;

/// Wilson's score interval of a share (E. B. Wilson, "Probable inference", 1927), 95 %.
pub fn wilson(successes: u64, of: u64) -> [f64; 2] {
    if of == 0 {
        return [0.0, 1.0];
    }
    let n = of as f64;
    let p = successes as f64 / n;
    let z2 = Z * Z;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

impl Calibration {
    /// The pairs of a file, one JSON object a line.
    ///
    /// # Errors
    /// A line that is no pair, with its number; more than a million lines.
    pub fn read(text: &str) -> Result<Vec<Pair>, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut pairs = Vec::new();
        for (at, line) in lines {
            if pairs.len() == PAIRS {
                return Err(format!("there are more than {PAIRS} lines, the limit"));
            }
            let pair: Pair =
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
            if !pair.margin.is_finite() {
                return Err(format!("line {}: margin is {}, which is no number", at + 1, pair.margin));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// What thresholds do with these pairs. `target` is the share of the small model's answers that may differ.
    #[must_use]
    pub fn new(pairs: &[Pair], target: f64) -> Calibration {
        let mut sorted = pairs.to_vec();
        sorted.sort_by(|one, other| other.margin.total_cmp(&one.margin));
        // From the highest margin down: what stays grows by one pair at a time.
        let mut all: Vec<Threshold> = Vec::new();
        let (mut kept, mut agreeing) = (0_u64, 0_u64);
        for (at, pair) in sorted.iter().enumerate() {
            kept += 1;
            agreeing += u64::from(pair.agrees);
            // Equal margins stay or go together.
            if sorted.get(at + 1).is_none_or(|next| next.margin < pair.margin) {
                all.push(Threshold {
                    margin: pair.margin,
                    escalated: 1.0 - kept as f64 / sorted.len() as f64,
                    agreement: agreeing as f64 / kept as f64,
                    interval: wilson(agreeing, kept),
                });
            }
        }
        all.reverse();
        let chosen = all.iter().find(|threshold| threshold.interval[0] >= 1.0 - target).copied();
        let step = all.len().div_ceil(ROWS).max(1);
        let thresholds = all.into_iter().step_by(step).collect();
        Calibration { pairs: pairs.len(), thresholds, chosen }
    }
}

impl std::fmt::Display for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} requests that both models answered", self.pairs)?;
        writeln!(f, "{:>8} {:>10} {:>10}  95 % interval", "margin", "escalated", "agreement")?;
        let row = |f: &mut std::fmt::Formatter<'_>, row: &Threshold| {
            let [low, high] = row.interval.map(|share| 100.0 * share);
            let (escalated, agreement) = (100.0 * row.escalated, 100.0 * row.agreement);
            writeln!(f, "{:>8.3} {escalated:>8.1} % {agreement:>8.1} %  {low:.1} to {high:.1} %", row.margin)
        };
        for threshold in &self.thresholds {
            row(f, threshold)?;
        }
        match &self.chosen {
            None => write!(f, "no threshold reaches the target with 95 % confidence; more pairs may help"),
            Some(chosen) => {
                writeln!(f, "to take: margin = {:.3}", chosen.margin)?;
                row(f, chosen)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn intervals_are_wilsons() {
        // R: prop.test(x, n, correct = FALSE)$conf.int
        for (successes, of, low, high) in [
            (0, 10, 0.0, 0.277_533),
            (5, 10, 0.236_593, 0.763_407),
            (81, 263, 0.255_289, 0.366_254),
            (10, 10, 0.722_467, 1.0),
        ] {
            let [a, b] = wilson(successes, of);
            assert!((a - low).abs() < 1e-4 && (b - high).abs() < 1e-4, "{successes}/{of}: {a} {b}");
        }
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
    }

    #[test]
    fn the_lowest_threshold_that_holds_is_chosen() {
        // Sure answers agree, wavering ones do in half of the cases.
        let pairs: Vec<Pair> = (0..2_000)
            .map(|n| Pair { margin: f64::from(n) / 100.0, agrees: n >= 600 || n % 2 == 0, tokens: 20 })
            .collect();
        let calibration = Calibration::new(&pairs, 0.05);
        let chosen = calibration.chosen.unwrap();
        assert!(chosen.margin < 6.0 && chosen.margin > 4.0, "{chosen:?}");
        assert!(chosen.interval[0] >= 0.95 && chosen.agreement > 0.95);
        assert!((chosen.escalated - chosen.margin / 20.0).abs() < 1e-9);
        assert!(calibration.thresholds.len() <= ROWS);
        assert!(calibration.thresholds.is_sorted_by(|a, b| a.margin < b.margin && a.escalated < b.escalated));
        let first = calibration.thresholds[0];
        assert_eq!((first.escalated, first.agreement), (0.0, 0.85));
        assert!(calibration.to_string().contains("to take: margin = "), "{calibration}");
    }

    #[test]
    fn few_or_bad_pairs_choose_nothing() {
        let pair = Pair { margin: 1.0, agrees: true, tokens: 3 };
        assert_eq!(Calibration::new(&[pair; 5], 0.05).chosen, None);
        assert_eq!(Calibration::new(&[], 0.05).thresholds, []);
        let one = Calibration::new(&[pair; 100], 0.05);
        assert_eq!((one.thresholds.len(), one.chosen.unwrap().escalated), (1, 0.0));
    }

    #[test]
    fn lines_that_are_no_pairs_are_named() {
        let good = serde_json::to_string(&Pair { margin: 1.5, agrees: false, tokens: 3 }).unwrap();
        assert_eq!(Calibration::read(&format!("{good}\n\n{good}\n")).unwrap().len(), 2);
        for wrong in [
            "{}",
            "7",
            "{\"margin\":1e999,\"agrees\":true,\"tokens\":1}",
            "{\"margin\":null,\"agrees\":true,\"tokens\":1}",
        ] {
            let error = Calibration::read(&format!("{good}\n{wrong}\n")).unwrap_err();
            assert!(error.starts_with("line 2: "), "{error}");
        }
    }
}
