//! Discrete-event simulation of a fleet: the machines that a load needs, and the latency of its requests.
//!
//! Continuous batching has no closed form: a step's time depends on its rows, and a request's on the other requests of
//! the batch. So requests arrive, wait, are batched by the scheduler's rules and leave, step by step, in simulated
//! time. Random numbers come from a seed. With one request at a time and exponential times this is an M/M/c queue; the
//! tests compare it with the closed form ([`queueing`]).
//!
//! Not modelled: the prefix cache, speculative decoding, and preemption for lack of KV blocks. The KV cache is assumed
//! to hold all running requests, which `plan fit` checks.

pub mod arrivals;
mod gateway;
pub mod lengths;
mod machine;
mod outcome;
pub mod queueing;
pub mod simulation;
pub mod sizing;

use serde::{Deserialize, Serialize};

use crate::error::{Error, not_negative, positive};
use crate::step::interpolate;
use lengths::Lengths;
pub use outcome::{Outcome, Spread};

/// Settings of the simulation: `[fleet]` of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetPlan {
    /// Requests an hour of all machines; else the peak of `work.requests_by_hour`, or the month's average hour.
    pub requests_per_hour: Option<f64>,
    /// Path of an arrival log: seconds, prompt tokens, generated tokens, separated by commas, one request a line.
    pub log: Option<String>,
    /// Prompt tokens of requests; else `work.input_tokens` for each.
    pub input: Option<Lengths>,
    /// Generated tokens of requests; else `work.output_tokens` for each.
    pub output: Option<Lengths>,
    /// Number of machines; else the fewest that keep the service level.
    pub machines: Option<usize>,
    /// Upper bound of the machines to try (200 unless given).
    pub most_machines: usize,
    /// Number of simulated requests (4000 unless given).
    pub requests: usize,
    /// Seed of the random numbers (1 unless given).
    pub seed: u64,
    /// Measured step times: points of (rows, milliseconds), ascending by rows.
    pub step_ms: Option<Vec<(f64, f64)>>,
    /// Slowdown of steps over time: points of (second, factor), ascending, 1 before the first. Replays the varying
    /// speed of a shared machine while a log was recorded.
    pub step_factor: Vec<(f64, f64)>,
    /// Requests that a machine runs concurrently (8 unless given).
    pub max_running: usize,
    /// Requests that may wait at a machine; further ones are refused (64 unless given).
    pub max_queued: usize,
    /// Prefill rows of a step without decode rows (256 unless given).
    pub prefill_chunk: usize,
    /// Longest time of a step with prefill rows while others decode, ms (100 unless given).
    pub max_stall_ms: f64,
    /// Load balancing between machines.
    pub balance: Balance,
}

/// Load balancing between machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Each request goes at once to the machine with the fewest requests, and waits there.
    #[default]
    LeastRequests,
    /// All requests wait in one queue, from which each machine takes the next when it has a free slot.
    OneQueue,
    /// Each request goes at once to the machine where the gateway's own policy expects the least time.
    Gateway,
}

impl Default for FleetPlan {
    fn default() -> FleetPlan {
        // The defaults of the engine.
        FleetPlan {
            requests_per_hour: None,
            log: None,
            input: None,
            output: None,
            machines: None,
            most_machines: 200,
            requests: 4000,
            seed: 1,
            step_ms: None,
            step_factor: Vec::new(),
            max_running: 8,
            max_queued: 64,
            prefill_chunk: 256,
            max_stall_ms: 100.0,
            balance: Balance::default(),
        }
    }
}

impl FleetPlan {
    /// Checks the limits and the points of `step_factor`.
    ///
    /// # Errors
    /// A limit of zero, or beyond what can be simulated in reasonable time.
    pub fn check(&self) -> Result<(), Error> {
        for (name, value, most) in [
            ("most_machines", self.most_machines, 10_000),
            ("machines", self.machines.unwrap_or(1), 10_000),
            ("requests", self.requests, 1_000_000),
            ("max_running", self.max_running, 4096),
            ("max_queued", self.max_queued, 1_000_000),
            ("prefill_chunk", self.prefill_chunk, 65_536),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::Range {
                    field: format!("fleet.{name}"),
                    value: value.to_string(),
                    expected: format!("1 to {most}"),
                });
            }
        }
        for (second, factor) in &self.step_factor {
            not_negative("fleet.step_factor: second", *second)?;
            positive("fleet.step_factor: factor", *factor)?;
        }
        if let Some(pair) = self.step_factor.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(Error::Range {
                field: "fleet.step_factor".to_owned(),
                value: format!("{:?} after {:?}", pair[1], pair[0]),
                expected: "seconds that ascend".to_owned(),
            });
        }
        not_negative("fleet.max_stall_ms", self.max_stall_ms).map(drop)
    }

    /// The slowdown of steps at a time.
    pub(crate) fn factor_at(&self, now_s: f64) -> f64 {
        let from = self.step_factor.partition_point(|(second, _)| *second <= now_s);
        from.checked_sub(1).map_or(1.0, |at| self.step_factor[at].1)
    }
}

/// The service level, as 95th percentiles: `[slo]` of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// Upper bound of the time to first token, ms.
    pub ttft_p95_ms: Option<f64>,
    /// Upper bound of the mean time per output token after the first, ms.
    pub tpot_p95_ms: Option<f64>,
    /// Upper bound of the time to the last token, ms.
    pub latency_p95_ms: Option<f64>,
}

impl Slo {
    /// Whether no bound is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Slo::default()
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// A bound of zero or less.
    pub fn check(&self) -> Result<(), Error> {
        for (name, value) in self.fields() {
            value.map_or(Ok(0.0), |value| positive(&format!("slo.{name}"), value))?;
        }
        Ok(())
    }

    pub(crate) fn fields(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("ttft_p95_ms", self.ttft_p95_ms),
            ("tpot_p95_ms", self.tpot_p95_ms),
            ("latency_p95_ms", self.latency_p95_ms),
        ]
    }
}

/// Time of a step by its rows: points of (rows, seconds), ascending. Interpolated linearly between them, extrapolated
/// from the last two beyond them.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost(Vec<(f64, f64)>);

/// Isotonic regression of step times: the non-decreasing milliseconds by rows with the least weighted squared distance
/// from `points` (rows, milliseconds, weight). Returns points of (rows, milliseconds), ascending by rows; of equal rows
/// the first is kept.
#[must_use]
pub fn isotonic_regression(mut points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by_key(|point| point.0);
    // Pool adjacent violators: a pool is the weighted mean, the sum of the weights and the number of its points.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (_, ms, weight) in &points {
        let mut pool = (*ms, *weight, 1);
        while let Some((mean, before, count)) = pools.pop_if(|last| last.0 > pool.0) {
            let both = before + pool.1;
            pool = ((mean * before + pool.0 * pool.1) / both, both, count + pool.2);
        }
        pools.push(pool);
    }
    let means = pools.iter().flat_map(|(mean, _, count)| std::iter::repeat_n(*mean, *count));
    points.iter().map(|(rows, ..)| *rows).zip(means).collect()
}

impl StepCost {
    /// Step times from measured points of (rows, milliseconds).
    ///
    /// # Errors
    /// No points, rows that do not ascend, a time of zero or less, or a time less than that of fewer rows.
    pub fn measured(step_ms: &[(f64, f64)]) -> Result<StepCost, Error> {
        if step_ms.is_empty() {
            return Err(Error::Empty { what: "fleet.step_ms".to_owned() });
        }
        for (rows, ms) in step_ms {
            positive("fleet.step_ms: rows", *rows)?;
            positive("fleet.step_ms: ms", *ms)?;
        }
        if let Some(pair) = step_ms.windows(2).find(|pair| pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1) {
            return Err(Error::Range {
                field: "fleet.step_ms".to_owned(),
                value: format!("{:?} after {:?}", pair[1], pair[0]),
                expected: "points of more rows that take no less time".to_owned(),
            });
        }
        Ok(StepCost(step_ms.iter().map(|(rows, ms)| (*rows, ms / 1e3)).collect()))
    }

    /// Seconds of a step of `rows` rows.
    #[must_use]
    pub fn seconds(&self, rows: f64) -> f64 {
        match self.0[..] {
            [.., (left, low), (right, high)] if rows > right => {
                high + (rows - right) * (high - low) / (right - left)
            }
            _ => interpolate(self.0.iter().copied(), rows, |x| x),
        }
    }
}

/// The quantile `of` (0 to 1) of sorted values, by nearest rank. None without values.
#[must_use]
pub fn quantile(sorted: &[f64], of: f64) -> Option<f64> {
    let rank = (of * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_steps_lie_on_lines() {
        let cost = StepCost::measured(&[(1.0, 10.0), (4.0, 16.0), (8.0, 32.0)]).unwrap();
        let at = |rows| (cost.seconds(rows) * 1e6).round() / 1e3;
        assert_eq!((at(1.0), at(2.0), at(8.0), at(264.0)), (10.0, 12.0, 32.0, 1056.0));
        let said = |points: &[(f64, f64)]| StepCost::measured(points).unwrap_err().to_string();
        assert_eq!(said(&[]), "fleet.step_ms is empty");
        assert!(said(&[(1.0, 0.0)]).starts_with("fleet.step_ms: ms: 0 is outside"));
        assert!(said(&[(1.0, 5.0), (2.0, 4.0)]).contains("(2.0, 4.0) after (1.0, 5.0)"));
    }

    #[test]
    fn more_rows_never_take_less() {
        // Two that fell, one of which was seen three times, take what they do together; the others stay.
        let points = vec![(8.0, 30.0, 1.0), (1.0, 10.0, 5.0), (2.0, 14.0, 1.0), (4.0, 10.0, 3.0)];
        assert_eq!(isotonic_regression(points), [(1.0, 10.0), (2.0, 11.0), (4.0, 11.0), (8.0, 30.0)]);
        // All of them, down to the first.
        let falling = vec![(1.0, 30.0, 1.0), (2.0, 20.0, 1.0), (3.0, 10.0, 1.0)];
        assert_eq!(isotonic_regression(falling), [(1.0, 20.0), (2.0, 20.0), (3.0, 20.0)]);
        // Of as many rows, the first.
        assert_eq!(isotonic_regression(vec![(1.0, 5.0, 1.0), (1.0, 9.0, 1.0)]), [(1.0, 5.0)]);
        assert_eq!(isotonic_regression(Vec::new()), []);
    }

    #[test]
    fn a_factor_holds_until_the_next() {
        let plan = FleetPlan { step_factor: vec![(2.0, 1.5), (4.0, 0.5)], ..FleetPlan::default() };
        assert_eq!([0.0, 2.0, 3.9, 4.0, 99.0].map(|at| plan.factor_at(at)), [1.0, 1.5, 1.5, 0.5, 0.5]);
        let said = |step_factor: &[(f64, f64)]| {
            let plan = FleetPlan { step_factor: step_factor.to_vec(), ..FleetPlan::default() };
            plan.check().unwrap_err().to_string()
        };
        assert!(said(&[(1.0, 0.0)]).starts_with("fleet.step_factor: factor: 0 is outside"));
        assert!(said(&[(2.0, 1.0), (1.0, 1.0)]).contains("(1.0, 1.0) after (2.0, 1.0)"));
    }

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let of = |share| quantile(&values, share).unwrap();
        assert_eq!((of(0.5), of(0.95), of(0.99), of(0.0), of(1.0)), (50.0, 95.0, 99.0, 1.0, 100.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.95), Some(3.0));
    }
}
