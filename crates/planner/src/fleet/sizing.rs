//! Sizing: the fewest machines that keep a service level, their capacity at it, and the threshold for scaling out.

use serde::Serialize;

use super::arrivals::{self, Arrival};
use super::lengths::Lengths;
use super::{FleetPlan, Outcome, Slo, StepCost, quantile, simulation};
use crate::capacity::Capacity;
use crate::error::{Error, required};

/// Requests to simulate, with their rate and lengths.
pub struct Load {
    arrivals: Vec<Arrival>,
    /// Mean requests an hour.
    pub per_hour: f64,
    input: Lengths,
    output: Lengths,
}

/// One load of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Requests an hour, of all machines.
    pub per_hour: f64,
    /// Whether the service level is kept; without one, whether no request is refused.
    pub kept: bool,
    /// The results at this load.
    pub outcome: Outcome,
}

impl Load {
    /// Poisson arrivals at `per_hour` requests an hour with these lengths; number and seed from `plan`.
    ///
    /// # Errors
    /// A rate of zero or less, or invalid lengths.
    pub fn random(plan: &FleetPlan, per_hour: f64, input: Lengths, output: Lengths) -> Result<Load, Error> {
        let arrivals = arrivals::poisson(per_hour, plan.requests, &input, &output, plan.seed)?;
        Ok(Load { arrivals, per_hour, input, output })
    }

    /// The requests of a log.
    ///
    /// # Errors
    /// Fewer than two requests, or all at one time: the log has no rate.
    pub fn logged(name: &str, arrivals: Vec<Arrival>) -> Result<Load, Error> {
        let why = "the log needs two requests at different times";
        let per_hour = required(name, arrivals::per_hour(&arrivals), why)?;
        let mean = |of: fn(&Arrival) -> u32| {
            let sum: f64 = arrivals.iter().map(|a| f64::from(of(a))).sum();
            Lengths::Fixed((sum / arrivals.len() as f64).round() as u32)
        };
        let (input, output) = (mean(|a| a.input), mean(|a| a.output));
        Ok(Load { arrivals, per_hour, input, output })
    }

    /// The requests with their times rescaled to `per_hour` requests an hour.
    fn rescaled(&self, per_hour: f64) -> Vec<Arrival> {
        let stretch = self.per_hour / per_hour;
        self.arrivals.iter().map(|a| Arrival { at_s: a.at_s * stretch, ..*a }).collect()
    }

    /// Mean prompt tokens and mean generated tokens.
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        (self.input.mean(), self.output.mean())
    }

    /// Simulates this load on `machines` machines.
    #[must_use]
    pub fn simulate(&self, machines: usize, cost: &StepCost, plan: &FleetPlan) -> Outcome {
        simulation::run(&self.arrivals, machines, cost, plan)
    }
}

impl Slo {
    /// Whether an outcome is within all bounds and no request was refused.
    #[must_use]
    pub fn is_met(&self, outcome: &Outcome) -> bool {
        let found = [outcome.ttft_ms.p95, outcome.tpot_ms.p95, outcome.latency_ms.p95];
        let within = |((_, asked), found): ((_, Option<f64>), f64)| asked.is_none_or(|asked| found <= asked);
        outcome.refused == 0 && self.fields().into_iter().zip(found).all(within)
    }
}

/// The results on the fewest machines that keep `slo`.
///
/// # Errors
/// No service level; one that an idle machine does not keep, with its p95; more machines than `most_machines`.
pub fn min_machines(load: &Load, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Result<Outcome, Error> {
    plan.check()?;
    slo.check()?;
    if slo.is_empty() {
        let why = "without machines, a level that they must keep: ttft_p95_ms, tpot_p95_ms or latency_p95_ms";
        return required("slo", None, why);
    }
    check_feasible(load, slo, cost, plan)?;
    let try_with = |machines| load.simulate(machines, cost, plan);
    // Double the machines until the level is kept, then bisect.
    let (mut low, mut high) = (0, 1);
    let mut best = try_with(high);
    while !slo.is_met(&best) {
        if high == plan.most_machines {
            return Err(Error::Impossible {
                field: "slo".to_owned(),
                asked: format!("{:.0} requests an hour at this level", load.per_hour),
                limit: format!(
                    "{high} machines (fleet.most_machines) have p95 of {:.0} ms to the first token and {:.0} ms to the last",
                    best.ttft_ms.p95, best.latency_ms.p95
                ),
            });
        }
        low = high;
        high = (high * 2).min(plan.most_machines);
        best = try_with(high);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let outcome = try_with(middle);
        if slo.is_met(&outcome) {
            (high, best) = (middle, outcome);
        } else {
            low = middle;
        }
    }
    Ok(best)
}

/// The capacity of one to `all` machines at which `slo` is kept, where `all` is the result of [`min_machines`] at this
/// load. Only some numbers of machines are simulated. None for no load.
#[must_use]
pub fn capacity(load: &Load, all: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Option<Capacity> {
    let fewer = ladder(all).map(|machines| (machines, max_rate_within(load, machines, slo, cost, plan)));
    Capacity::from_points(fewer.chain([(all, load.per_hour)]))
}

/// Numbers from 1 to below `most`, each 1.5 times the one before it.
fn ladder(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |n| Some(n + (n / 2).max(1))).take_while(move |n| *n < most)
}

/// Upper bound of the simulated requests in each step of the bisection of [`max_rate_within`].
const MAX_SEARCH_REQUESTS: usize = 4000;

/// The greatest requests an hour, up to this load's, at which the machines keep the level; to 1 % of the load.
fn max_rate_within(load: &Load, machines: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> f64 {
    let (mut kept, mut missed) = (0.0, load.per_hour);
    while missed - kept > load.per_hour / 100.0 {
        let middle = f64::midpoint(kept, missed);
        let arrivals = load.rescaled(middle);
        let outcome =
            simulation::run(&arrivals[..arrivals.len().min(MAX_SEARCH_REQUESTS)], machines, cost, plan);
        if slo.is_met(&outcome) { kept = middle } else { missed = middle }
    }
    kept
}

/// Checks that single requests on an idle machine keep the level, at their 95th percentile.
fn check_feasible(load: &Load, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Result<(), Error> {
    let alone = |a: &Arrival| simulation::run(&[Arrival { at_s: 0.0, ..*a }], 1, cost, plan);
    // Five hundred requests are enough for the p95.
    let alone: Vec<Outcome> = load.arrivals.iter().take(500).map(alone).collect();
    let found: [fn(&Outcome) -> f64; 3] = [|o| o.ttft_ms.p50, |o| o.tpot_ms.p50, |o| o.latency_ms.p50];
    for ((name, asked), of) in slo.fields().into_iter().zip(found) {
        let mut values: Vec<f64> = alone.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let least = quantile(&values, 0.95).unwrap_or(0.0);
        if let Some(asked) = asked.filter(|asked| least > *asked) {
            let (input, output) = load.means();
            return Err(Error::Impossible {
                field: format!("slo.{name}"),
                asked: format!("{asked} ms"),
                limit: format!(
                    "alone on an empty machine the p95 is {least:.0} ms, with {input:.0} tokens in and {output:.0} out on average"
                ),
            });
        }
    }
    Ok(())
}

/// The results at ten loads: 10 % to 100 % of the saturation throughput of `machines` machines.
#[must_use]
pub fn sweep(load: &Load, machines: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Vec<SweepPoint> {
    // Saturation throughput is that of a burst of requests.
    let burst: Vec<Arrival> = load.arrivals.iter().take(400).map(|a| Arrival { at_s: 0.0, ..*a }).collect();
    let endless = FleetPlan { max_queued: usize::MAX, ..plan.clone() };
    let one = simulation::run(&burst, 1, cost, &endless);
    let (_, output) = load.means();
    let most = one.tokens_per_s / output.max(1.0) * 3600.0 * machines as f64;
    let point = |tenth: u32| {
        let per_hour = most * f64::from(tenth) / 10.0;
        let outcome = simulation::run(&load.rescaled(per_hour), machines, cost, plan);
        SweepPoint { per_hour, kept: slo.is_met(&outcome), outcome }
    };
    (1..=10).map(point).collect()
}

/// The threshold for scaling out: mean waiting and running requests of a machine at the greatest load of a sweep that
/// keeps the level. At least 1. None if no load keeps it.
#[must_use]
pub fn scale_out_threshold(sweep: &[SweepPoint]) -> Option<f64> {
    let kept = sweep.iter().take_while(|point| point.kept);
    kept.last().map(|point| point.outcome.in_machine.floor().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> FleetPlan {
        FleetPlan { requests: 1000, ..FleetPlan::default() }
    }

    fn cost() -> StepCost {
        StepCost::measured(&[(1.0, 13.0), (4.0, 20.0), (8.0, 30.0), (64.0, 130.0), (256.0, 530.0)]).unwrap()
    }

    fn load(per_hour: f64) -> Load {
        let output = Lengths::LogNormal { mean: 150.0, p95: 400.0 };
        Load::random(&plan(), per_hour, Lengths::Fixed(300), output).unwrap()
    }

    #[test]
    fn the_fewest_keep_the_level_and_one_less_does_not() {
        let slo = Slo { latency_p95_ms: Some(15_000.0), ..Slo::default() };
        let load = load(9_000.0);
        let found = min_machines(&load, &slo, &cost(), &plan()).unwrap();
        assert!(found.machines > 1 && slo.is_met(&found), "{found:?}");
        assert!(!slo.is_met(&load.simulate(found.machines - 1, &cost(), &plan())));
    }

    #[test]
    fn what_fewer_machines_keep_leads_up_to_what_all_do() {
        let slo = Slo { latency_p95_ms: Some(15_000.0), ..Slo::default() };
        let load = load(9_000.0);
        let all = min_machines(&load, &slo, &cost(), &plan()).unwrap().machines;
        let found = capacity(&load, all, &slo, &cost(), &plan()).unwrap();
        let all = all as u64;
        assert_eq!((found.machines(9_000.0), found.requests_per_hour(all)), (all, 9_000.0));
        for machines in 1..all {
            let (some, more) = (found.requests_per_hour(machines), found.requests_per_hour(machines + 1));
            assert!(0.0 < some && some < more, "{machines}: {some}, then {more}");
            // What is said to be kept is; a tenth more than what two machines keep is not.
            if machines <= 2 {
                assert!(slo.is_met(&simulation::run(
                    &load.rescaled(some),
                    machines as usize,
                    &cost(),
                    &plan()
                )));
            }
            if machines == 2 {
                assert!(!slo.is_met(&simulation::run(&load.rescaled(some * 1.1), 2, &cost(), &plan())));
            }
        }
    }

    #[test]
    fn what_cannot_be_says_so_with_the_limit() {
        let said = |slo: Slo, plan: FleetPlan| {
            min_machines(&load(900.0), &slo, &cost(), &plan).unwrap_err().to_string()
        };
        let fast = Slo { ttft_p95_ms: Some(100.0), ..Slo::default() };
        let why = said(fast, plan());
        assert!(
            why.starts_with("slo.ttft_p95_ms: 100 ms is impossible: alone on an empty machine the p95 is "),
            "{why}"
        );
        assert!(said(Slo::default(), plan()).starts_with("slo is missing"));
        let zero = Slo { tpot_p95_ms: Some(0.0), ..Slo::default() };
        assert!(said(zero, plan()).starts_with("slo.tpot_p95_ms: 0 is outside"));
        let few = FleetPlan { most_machines: 1, ..plan() };
        let slo = Slo { latency_p95_ms: Some(8_000.0), ..Slo::default() };
        let busy = min_machines(&load(90_000.0), &slo, &cost(), &few).unwrap_err().to_string();
        assert!(busy.contains("1 machines (fleet.most_machines)"), "{busy}");
        assert!(said(slo, FleetPlan { max_running: 0, ..plan() }).starts_with("fleet.max_running: 0"));
    }

    #[test]
    fn latency_rises_with_load_and_tells_when_to_scale() {
        let slo = Slo { latency_p95_ms: Some(12_000.0), ..Slo::default() };
        let points = sweep(&load(900.0), 2, &slo, &cost(), &plan());
        assert_eq!(points.len(), 10);
        let p95 = |i: usize| points[i].outcome.latency_ms.p95;
        assert!(p95(0) < p95(5) && p95(5) < p95(9), "{:?}", (p95(0), p95(5), p95(9)));
        assert!(points[8].outcome.utilization > 0.8);
        let target = scale_out_threshold(&points).unwrap();
        assert!((1.0..=8.0).contains(&target), "{target}");
        assert!(points[0].kept && !points[9].kept);
    }

    #[test]
    fn a_log_has_its_own_rate() {
        let arrivals = arrivals::log("a", "0,10,5\n1800,30,7\n3600,20,9").unwrap();
        let load = Load::logged("a", arrivals).unwrap();
        assert_eq!((load.per_hour, load.means()), (2.0, (20.0, 7.0)));
        let one = arrivals::log("a", "5,10,5").unwrap();
        assert!(Load::logged("a", one).is_err());
    }
}
