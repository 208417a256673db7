//! Load balancing by the gateway: the machine of each request is chosen by `routing`, the code that serves.
//!
//! The router knows the step times and limits of the machines as they were measured, and their load from a record with
//! each answer and its own requests. It does not know how long answers will be. Requests have no prefixes here: a log
//! has none, and the machines' prefix caches are not simulated.

use std::time::Duration;

use routing::{
    Answer, Ask, Flight, NodeRecord, Outcome, Policy, Router, Speed, StepTimes, Target, TargetId, Tier,
};

use super::machine::{RunningRequest, SimulatedMachine};
use super::{FleetPlan, StepCost};

/// Upper bound of an answer as requests ask for it.
const MAX_TOKENS: u64 = 1 << 20;

/// The router of a simulated fleet, with its requests in flight.
pub(super) struct Gateway {
    router: Router,
    ids: Vec<TargetId>,
    /// Flights by the number of the request.
    flights: Vec<Option<Flight>>,
}

impl Gateway {
    /// A router for `machines` machines and `requests` requests.
    pub(super) fn new(machines: usize, requests: usize, cost: &StepCost, plan: &FleetPlan) -> Gateway {
        let rows = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let chunk = plan.prefill_chunk as f64;
        let doubled = std::iter::successors(Some(1_usize), |rows| Some(rows * 2));
        let doubled = doubled.take_while(|rows| *rows < plan.max_running).chain([plan.max_running]);
        let steps = StepTimes::new(doubled.map(|rows| (rows as f64, cost.seconds(rows as f64))));
        let speed = steps.map(|steps| Speed {
            prompt_tokens_per_s: chunk / cost.seconds(chunk),
            steps,
            slots: Some(rows(plan.max_running)),
        });
        let target = |at: usize| Target {
            max_in_flight: Some(rows(plan.max_running.saturating_add(plan.max_queued))),
            prior: speed,
            ..Target::new(format!("machine {at}"), Tier::Own)
        };
        let router = Router::new(Policy::default(), (0..machines).map(target).collect(), plan.seed);
        let ids = router.targets().collect();
        Gateway { router, ids, flights: std::iter::repeat_with(|| None).take(requests).collect() }
    }

    /// The machine for a request; none if all are full.
    pub(super) fn dispatch(&mut self, now_s: f64, request: usize, input: u32) -> Option<usize> {
        let ask = Ask::of_size(u64::from(input), MAX_TOKENS);
        let flight = self.router.dispatch(Duration::from_secs_f64(now_s), &ask).ok()?;
        let machine = self.ids.iter().position(|id| *id == flight.target);
        self.flights[request] = Some(flight);
        machine
    }

    /// A machine has answered a request.
    pub(super) fn answered(&mut self, now_s: f64, done: &RunningRequest) {
        let Some(flight) = self.flights[done.request.number].take() else { return };
        let came_s = done.request.arrival.at_s;
        let answer = Answer {
            first_token_s: done.first_s - came_s,
            total_s: now_s - came_s,
            prompt_tokens: u64::from(done.request.arrival.input),
            cached_tokens: Some(0),
            output_tokens: u64::from(done.generated),
        };
        self.router.finished(Duration::from_secs_f64(now_s), flight, &Outcome::Answered(answer));
    }

    /// A machine tells its load, as it does with answers.
    pub(super) fn observe(&mut self, now_s: f64, index: usize, machine: &SimulatedMachine) {
        let (running, waiting, backlog_tokens) = machine.load();
        let record = NodeRecord { running, waiting, backlog_tokens, ..NodeRecord::default() };
        self.router.observe(Duration::from_secs_f64(now_s), self.ids[index], &record);
    }
}
