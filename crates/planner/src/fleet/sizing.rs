//! The fewest machines that keep a service level, what so many keep it for, and the load at which one more is due.

use serde::Serialize;

use super::arrivals::{self, Arrival};
use super::lengths::Lengths;
use super::{FleetPlan, Outcome, Slo, StepCost, quantile, simulation};
use crate::capacity::Capacity;
use crate::error::{Error, needed};

/// A load, and where its requests come from.
pub struct Load {
    arrivals: Vec<Arrival>,
    /// Requests an hour.
    pub per_hour: f64,
    input: Lengths,
    output: Lengths,
}

/// One load of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Requests an hour, all machines.
    pub per_hour: f64,
    /// Whether the service level is kept; of none, whether nobody is refused.
    pub kept: bool,
    /// What happens at it.
    pub outcome: Outcome,
}

impl Load {
    /// Requests at random, as `plan` says: `per_hour` and lengths.
    ///
    /// # Errors
    /// What is missing or makes no sense.
    pub fn random(plan: &FleetPlan, per_hour: f64, input: Lengths, output: Lengths) -> Result<Load, Error> {
        let arrivals = arrivals::poisson(per_hour, plan.requests, &input, &output, plan.seed)?;
        Ok(Load { arrivals, per_hour, input, output })
    }

    /// Requests of a log.
    ///
    /// # Errors
    /// A log of one request, or all at one moment: it has no rate.
    pub fn logged(name: &str, arrivals: Vec<Arrival>) -> Result<Load, Error> {
        let why = "the log needs two requests at different times";
        let per_hour = needed(name, arrivals::per_hour(&arrivals), why)?;
        let mean = |of: fn(&Arrival) -> u32| {
            let sum: f64 = arrivals.iter().map(|a| f64::from(of(a))).sum();
            Lengths::Fixed((sum / arrivals.len() as f64).round() as u32)
        };
        let (input, output) = (mean(|a| a.input), mean(|a| a.output));
        Ok(Load { arrivals, per_hour, input, output })
    }

    /// The same requests, so many an hour.
    fn at(&self, per_hour: f64) -> Vec<Arrival> {
        let stretch = self.per_hour / per_hour;
        self.arrivals.iter().map(|a| Arrival { at_s: a.at_s * stretch, ..*a }).collect()
    }

    /// Mean tokens in and out.
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        (self.input.mean(), self.output.mean())
    }

    /// What happens to this load on so many machines.
    #[must_use]
    pub fn on(&self, machines: usize, cost: &StepCost, plan: &FleetPlan) -> Outcome {
        simulation::run(&self.arrivals, machines, cost, plan)
    }
}

impl Slo {
    /// Whether an outcome keeps it, and refuses nobody.
    #[must_use]
    pub fn kept(&self, outcome: &Outcome) -> bool {
        let found = [outcome.ttft_ms.p95, outcome.tpot_ms.p95, outcome.latency_ms.p95];
        let within = |((_, asked), found): ((_, Option<f64>), f64)| asked.is_none_or(|asked| found <= asked);
        outcome.refused == 0 && self.fields().into_iter().zip(found).all(within)
    }
}

/// The fewest machines that keep `slo`, with what happens on them.
///
/// # Errors
/// No service level; one that an empty machine does not keep, with what it takes there; more machines than the plan tries.
pub fn fewest(load: &Load, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Result<Outcome, Error> {
    plan.check()?;
    slo.check()?;
    if slo.is_empty() {
        let why = "without machines, a level that they must keep: ttft_p95_ms, tpot_p95_ms or latency_p95_ms";
        return needed("slo", None, why);
    }
    possible(load, slo, cost, plan)?;
    let try_with = |machines| load.on(machines, cost, plan);
    // Double until it is kept, then halve the gap.
    let (mut low, mut high) = (0, 1);
    let mut best = try_with(high);
    while !slo.kept(&best) {
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
        if slo.kept(&outcome) {
            (high, best) = (middle, outcome);
        } else {
            low = middle;
        }
    }
    Ok(best)
}

/// What one machine to `all` keep `slo` for, where `all` are the [`fewest`] that keep it at this load. Of many machines only some
/// numbers are simulated. None for no load.
#[must_use]
pub fn capacity(load: &Load, all: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Option<Capacity> {
    let fewer = ladder(all).map(|machines| (machines, most_kept(load, machines, slo, cost, plan)));
    Capacity::found(fewer.chain([(all, load.per_hour)]))
}

/// Numbers below `most`, each half as much again as the one before it.
fn ladder(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |n| Some(n + (n / 2).max(1))).take_while(move |n| *n < most)
}

/// Requests of a load, at most, that a look simulates when only the limit is sought.
const LOOK: usize = 4000;

/// The most requests an hour, below this load's, for which so many machines keep the level; to a hundredth of it.
fn most_kept(load: &Load, machines: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> f64 {
    let (mut kept, mut missed) = (0.0, load.per_hour);
    while missed - kept > load.per_hour / 100.0 {
        let middle = f64::midpoint(kept, missed);
        let arrivals = load.at(middle);
        let outcome = simulation::run(&arrivals[..arrivals.len().min(LOOK)], machines, cost, plan);
        if slo.kept(&outcome) { kept = middle } else { missed = middle }
    }
    kept
}

/// Refuses a level that a request alone on a machine does not keep in 95 of 100 cases.
fn possible(load: &Load, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Result<(), Error> {
    let alone = |a: &Arrival| simulation::run(&[Arrival { at_s: 0.0, ..*a }], 1, cost, plan);
    // Five hundred of them tell the p95.
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

/// What happens from a tenth of a load that `machines` machines can hardly do up to that load.
#[must_use]
pub fn sweep(load: &Load, machines: usize, slo: &Slo, cost: &StepCost, plan: &FleetPlan) -> Vec<SweepPoint> {
    // What they do when all requests come at once is the most that they do.
    let burst: Vec<Arrival> = load.arrivals.iter().take(400).map(|a| Arrival { at_s: 0.0, ..*a }).collect();
    let endless = FleetPlan { max_queued: usize::MAX, ..plan.clone() };
    let one = simulation::run(&burst, 1, cost, &endless);
    let (_, output) = load.means();
    let most = one.tokens_per_s / output.max(1.0) * 3600.0 * machines as f64;
    let point = |tenth: u32| {
        let per_hour = most * f64::from(tenth) / 10.0;
        let outcome = simulation::run(&load.at(per_hour), machines, cost, plan);
        SweepPoint { per_hour, kept: slo.kept(&outcome), outcome }
    };
    (1..=10).map(point).collect()
}

/// Requests, waiting and running, that a machine has on average at the greatest load of a sweep that keeps the level: more of
/// them mean that a machine more is due. At least 1. None if no load keeps it.
#[must_use]
pub fn scale_at(sweep: &[SweepPoint]) -> Option<f64> {
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
        let found = fewest(&load, &slo, &cost(), &plan()).unwrap();
        assert!(found.machines > 1 && slo.kept(&found), "{found:?}");
        assert!(!slo.kept(&load.on(found.machines - 1, &cost(), &plan())));
    }

    #[test]
    fn what_fewer_machines_keep_leads_up_to_what_all_do() {
        let slo = Slo { latency_p95_ms: Some(15_000.0), ..Slo::default() };
        let load = load(9_000.0);
        let all = fewest(&load, &slo, &cost(), &plan()).unwrap().machines;
        let found = capacity(&load, all, &slo, &cost(), &plan()).unwrap();
        let all = all as u64;
        assert_eq!((found.machines(9_000.0), found.of(all)), (all, 9_000.0));
        for machines in 1..all {
            let (some, more) = (found.of(machines), found.of(machines + 1));
            assert!(0.0 < some && some < more, "{machines}: {some}, then {more}");
            // What is said to be kept is; a tenth more than what two machines keep is not.
            if machines <= 2 {
                assert!(slo.kept(&simulation::run(&load.at(some), machines as usize, &cost(), &plan())));
            }
            if machines == 2 {
                assert!(!slo.kept(&simulation::run(&load.at(some * 1.1), 2, &cost(), &plan())));
            }
        }
    }

    #[test]
    fn what_cannot_be_says_so_with_the_limit() {
        let said =
            |slo: Slo, plan: FleetPlan| fewest(&load(900.0), &slo, &cost(), &plan).unwrap_err().to_string();
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
        let busy = fewest(&load(90_000.0), &slo, &cost(), &few).unwrap_err().to_string();
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
        let target = scale_at(&points).unwrap();
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
