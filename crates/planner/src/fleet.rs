//! How many machines a load takes, and how long its requests wait: a simulation of the engine's steps.
//!
//! Continuous batching has no closed form: a step's time depends on its rows, and a request's on its neighbours. So requests arrive,
//! wait, are batched by the scheduler's own rules and leave, step by step, in simulated time. All randomness comes from a seed.
//! Where one request runs at a time and times are exponential this is M/M/c, and [`queueing`] says what must come out.
//!
//! Not in here: the prefix cache, speculation, and preemption for lack of blocks; the pool of keys and values is taken to hold all that
//! runs, which `plan fit` checks.

pub mod arrivals;
pub mod lengths;
mod machine;
mod outcome;
pub mod queueing;
mod random;
pub mod simulation;
pub mod sizing;

use serde::{Deserialize, Serialize};

use crate::error::{Error, not_negative, positive};
use crate::step::interpolate;
use lengths::Lengths;
pub use outcome::{Outcome, Spread};

/// `[fleet]` of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetPlan {
    /// Requests an hour, all machines together; else the peak of `work.requests_by_hour`, or an average hour of the month.
    pub requests_per_hour: Option<f64>,
    /// A file of arrivals: seconds, tokens in, tokens out, separated by commas, one a line.
    pub log: Option<String>,
    /// Tokens in; else `work.input_tokens` for each.
    pub input: Option<Lengths>,
    /// Tokens out.
    pub output: Option<Lengths>,
    /// Machines; else the fewest that keep the service level.
    pub machines: Option<usize>,
    /// Most machines to try (200 unless given).
    pub most_machines: usize,
    /// Requests simulated (4000 unless given).
    pub requests: usize,
    /// Where the random numbers start (1 unless given).
    pub seed: u64,
    /// What a step takes: rows and milliseconds, by rows.
    pub step_ms: Option<Vec<(f64, f64)>>,
    /// How many times as long as that steps take, from which second on (ascending; 1 before the first): a machine that others
    /// share is not always as fast. For repeating what happened in a log's time.
    pub step_factor: Vec<(f64, f64)>,
    /// Requests a machine computes together (8 unless given).
    pub max_running: usize,
    /// Requests that wait at a machine before it refuses (64 unless given).
    pub max_queued: usize,
    /// Prompt rows of a step in which nothing decodes (256 unless given).
    pub prefill_chunk: usize,
    /// Longest that a step with prompts may make those wait that decode, ms (100 unless given).
    pub max_stall_ms: f64,
    /// How machines share the requests.
    pub balance: Balance,
}

/// How machines share the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Each goes at once to the machine that has fewest, and waits there.
    #[default]
    LeastRequests,
    /// All wait in one queue, and each machine takes the next when it has room.
    OneQueue,
}

impl Default for FleetPlan {
    fn default() -> FleetPlan {
        // The engine's own limits.
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

    /// How many times as long steps take at a moment.
    pub(crate) fn factor_at(&self, now_s: f64) -> f64 {
        let from = self.step_factor.partition_point(|(second, _)| *second <= now_s);
        from.checked_sub(1).map_or(1.0, |at| self.step_factor[at].1)
    }
}

/// `[slo]`: what 95 of 100 requests must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// Time to the first token, ms.
    pub ttft_p95_ms: Option<f64>,
    /// Time for each further token, ms.
    pub tpot_p95_ms: Option<f64>,
    /// Time to the last token, ms.
    pub latency_p95_ms: Option<f64>,
}

impl Slo {
    /// Whether anything is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Slo::default()
    }

    /// # Errors
    /// A time of zero or less.
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

/// What a step takes: rows, and the seconds that a step of so many takes; ascending. Between them on straight lines, beyond the
/// last as the last two go on.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost(Vec<(f64, f64)>);

/// Milliseconds by rows that never fall with more rows, nearest in squares to what `points` (rows, milliseconds, and how much a
/// point weighs) say: where more rows seem to take less, those points take what they do together. Ascending by rows, which differ.
#[must_use]
pub fn never_falling(mut points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by_key(|point| point.0);
    // Pools of points that violated the order (pool adjacent violators): the mean, its weight, and how many points.
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
    /// From rows and milliseconds.
    ///
    /// # Errors
    /// No points; rows that do not ascend, a time of zero or less, or one less than that of fewer rows.
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

    /// Seconds that a step of `rows` rows takes.
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

/// Of sorted values, the one that a share `of` is no greater than (nearest rank); none of none.
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
        assert_eq!(never_falling(points), [(1.0, 10.0), (2.0, 11.0), (4.0, 11.0), (8.0, 30.0)]);
        // All of them, down to the first.
        let falling = vec![(1.0, 30.0, 1.0), (2.0, 20.0, 1.0), (3.0, 10.0, 1.0)];
        assert_eq!(never_falling(falling), [(1.0, 20.0), (2.0, 20.0), (3.0, 20.0)]);
        // Of as many rows, the first.
        assert_eq!(never_falling(vec![(1.0, 5.0, 1.0), (1.0, 9.0, 1.0)]), [(1.0, 5.0)]);
        assert_eq!(never_falling(Vec::new()), []);
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
