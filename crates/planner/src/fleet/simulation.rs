//! The event loop of the simulation: requests arrive at machines, which compute steps.
//!
//! A machine plans each step as the engine's scheduler does: the decode rows first, then prefill chunks of running
//! requests, shortest prompt first with aging, as many rows as keep the longest stall; then new requests in the same
//! order, while rows and slots are left. The step ends after the seconds of [`StepCost`]. Then each decode row and each
//! finished prompt has one more token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::arrivals::Arrival;
use super::gateway::Gateway;
use super::machine::{Pace, QueuedRequest, SimulatedMachine};
use super::outcome::{Outcome, Samples, Spread};
use super::{Balance, FleetPlan, StepCost};

/// Share of the requests at the start that are left out of the statistics, because machines were empty.
const WARM_UP: f64 = 0.1;
/// A time in seconds with a total order; never NaN.
#[derive(Clone, Copy, PartialEq)]
struct OrderedTime(f64);

impl Eq for OrderedTime {}

impl Ord for OrderedTime {
    fn cmp(&self, other: &OrderedTime) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedTime {
    fn partial_cmp(&self, other: &OrderedTime) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Simulation<'a> {
    plan: &'a FleetPlan,
    pace: Pace<'a>,
    machines: Vec<SimulatedMachine>,
    /// The queue of [`Balance::OneQueue`].
    shared: VecDeque<QueuedRequest>,
    /// The router of [`Balance::Gateway`].
    gateway: Option<Gateway>,
    /// Ends of the running steps, with the index of the machine.
    ends: BinaryHeap<Reverse<(OrderedTime, usize)>>,
    now_s: f64,
    /// Waiting and running requests.
    in_system: usize,
    /// The integral of `in_system` over time, in request-seconds.
    in_system_s: f64,
    refused: usize,
    tokens: u64,
    samples: Samples,
}

/// Simulates `arrivals` on `machines` machines with the limits of `plan`.
#[must_use]
pub fn run(arrivals: &[Arrival], machines: usize, cost: &StepCost, plan: &FleetPlan) -> Outcome {
    let mut simulation = Simulation {
        plan,
        pace: Pace::new(cost, plan),
        machines: (0..machines.max(1)).map(|_| SimulatedMachine::default()).collect(),
        shared: VecDeque::new(),
        gateway: (plan.balance == Balance::Gateway)
            .then(|| Gateway::new(machines.max(1), arrivals.len(), cost, plan)),
        ends: BinaryHeap::new(),
        now_s: 0.0,
        in_system: 0,
        in_system_s: 0.0,
        refused: 0,
        tokens: 0,
        samples: Samples::default(),
    };
    let uncounted = (arrivals.len() as f64 * WARM_UP) as usize;
    for (index, arrival) in arrivals.iter().enumerate() {
        simulation.advance(arrival.at_s);
        simulation.arrive(QueuedRequest { arrival: *arrival, number: index, counted: index >= uncounted });
    }
    simulation.advance(f64::INFINITY);
    simulation.outcome(arrivals.last().map_or(0.0, |last| last.at_s))
}

impl Simulation<'_> {
    /// Processes all ends of steps up to the time `until`.
    fn advance(&mut self, until: f64) {
        while let Some(&Reverse((OrderedTime(end), machine))) =
            self.ends.peek().filter(|next| next.0.0.0 <= until)
        {
            self.ends.pop();
            self.advance_clock(end);
            self.end_step(machine);
            self.begin_step(machine);
        }
        if until.is_finite() {
            self.advance_clock(until);
        }
    }

    fn advance_clock(&mut self, to: f64) {
        self.in_system_s += self.in_system as f64 * (to - self.now_s);
        self.now_s = to;
    }

    fn arrive(&mut self, request: QueuedRequest) {
        let queued = self.shared.len() + self.machines.iter().map(|m| m.waiting.len()).sum::<usize>();
        if request.counted {
            self.samples.queued.push(queued as f64);
        }
        let most = self.plan.max_queued;
        match self.plan.balance {
            Balance::OneQueue => {
                if self.shared.len() >= most.saturating_mul(self.machines.len()) {
                    self.refused += 1;
                    return;
                }
                self.in_system += 1;
                self.shared.push_back(request);
                let idle = (0..self.machines.len()).find(|&m| !self.machines[m].stepping);
                if let Some(machine) = idle {
                    self.begin_step(machine);
                }
            }
            Balance::LeastRequests => {
                let least = (0..self.machines.len()).min_by_key(|&m| self.machines[m].requests());
                let Some(index) = least else { return };
                if self.machines[index].waiting.len() >= most {
                    self.refused += 1;
                    return;
                }
                self.enqueue(index, request);
            }
            Balance::Gateway => {
                let (now_s, Some(gateway)) = (self.now_s, &mut self.gateway) else { return };
                match gateway.dispatch(now_s, request.number, request.arrival.input) {
                    Some(index) => self.enqueue(index, request),
                    None => self.refused += 1,
                }
            }
        }
    }

    /// Has a request wait at a machine.
    fn enqueue(&mut self, index: usize, request: QueuedRequest) {
        self.in_system += 1;
        self.machines[index].waiting.push_back(request);
        if !self.machines[index].stepping {
            self.begin_step(index);
        }
    }

    /// Plans and starts the next step of a machine, if it has rows.
    fn begin_step(&mut self, index: usize) {
        let shared = match self.plan.balance {
            Balance::OneQueue => Some(&mut self.shared),
            Balance::LeastRequests | Balance::Gateway => None,
        };
        let seconds = self.machines[index].begin_step(shared, &self.pace, self.now_s);
        if let Some(seconds) = seconds {
            self.ends.push(Reverse((OrderedTime(self.now_s + seconds), index)));
        }
    }

    fn end_step(&mut self, index: usize) {
        let (now_s, samples, in_system) = (self.now_s, &mut self.samples, &mut self.in_system);
        let gateway = &mut self.gateway;
        let mut answered = false;
        self.tokens += self.machines[index].end_step(now_s, |running| {
            *in_system -= 1;
            answered = true;
            if let Some(gateway) = gateway {
                gateway.answered(now_s, running);
            }
            if running.request.counted {
                samples.add(running, now_s);
            }
        });
        if let Some(gateway) = self.gateway.as_mut().filter(|_| answered) {
            gateway.observe(now_s, index, &self.machines[index]);
        }
    }

    fn outcome(self, last_arrival_s: f64) -> Outcome {
        let machines = self.machines.len();
        let span = self.now_s.max(last_arrival_s).max(f64::MIN_POSITIVE);
        let busy: f64 = self.machines.iter().map(|machine| machine.busy_s).sum();
        Outcome {
            machines,
            requests: self.samples.latency.len(),
            refused: self.refused,
            utilization: busy / (span * machines as f64),
            ttft_ms: Spread::of(self.samples.ttft),
            tpot_ms: Spread::of(self.samples.tpot),
            latency_ms: Spread::of(self.samples.latency),
            wait_ms: Spread::of(self.samples.wait),
            in_machine: self.in_system_s / (span * machines as f64),
            queued: Spread::of(self.samples.queued),
            tokens_per_s: self.tokens as f64 / span,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lengths::Lengths;
    use super::super::{arrivals, queueing};
    use super::*;

    fn plan(max_running: usize, balance: Balance) -> FleetPlan {
        FleetPlan { max_running, balance, max_queued: 100_000, ..FleetPlan::default() }
    }

    /// A step of any number of rows.
    fn flat(ms: f64) -> StepCost {
        StepCost::measured(&[(1.0, ms), (4096.0, ms)]).unwrap()
    }

    /// Once the machine is half as fast, a request takes twice as long, and half as many prefill rows fit beside it.
    #[test]
    fn a_slow_machine_takes_longer_and_reads_less_at_once() {
        let plan = FleetPlan { step_factor: vec![(10.0, 2.0)], ..plan(8, Balance::OneQueue) };
        let at = |at_s| [Arrival { at_s, input: 10, output: 50 }];
        let took = |at_s| run(&at(at_s), 1, &flat(20.0), &plan).latency_ms.p50;
        assert!((took(0.0) - 1000.0).abs() < 1e-6 && (took(20.0) - 2000.0).abs() < 1e-6);
        // Six steps begin while it is fast.
        assert!((took(9.89) - 1880.0).abs() < 1e-6, "{}", took(9.89));
        // A millisecond a row: of the classes, 91 rows fit 100 ms, and 46 where they take twice the time.
        let cost = StepCost::measured(&[(1.0, 1.0), (256.0, 256.0)]).unwrap();
        let pace = Pace::new(&cost, &plan);
        assert_eq!([0.0, 11.0].map(|now| pace.at(now).prompt_rows(1) + 1), [91, 46]);
    }

    /// One request at a time, exponential lengths, one queue: M/M/c, whose waits are known.
    #[test]
    fn it_is_erlangs_queue_where_that_applies() {
        for (servers, utilization) in [(1, 0.7), (3, 0.8), (8, 0.8)] {
            // 50 steps of 20 ms on average.
            let (mean, service_s) = (50.0, 1.0);
            let per_s = utilization * servers as f64 / service_s;
            let lengths = Lengths::Exponential { exponential: mean };
            let seeds = 1..=4;
            let runs = seeds.map(|seed| {
                let requests =
                    arrivals::poisson(per_s * 3600.0, 100_000, &Lengths::Fixed(1), &lengths, seed).unwrap();
                run(&requests, servers, &flat(20.0), &plan(1, Balance::OneQueue))
            });
            let outcomes: Vec<Outcome> = runs.collect();
            let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / 4.0;
            let erlang = queueing::mmc(per_s, service_s, servers).unwrap();
            let response = mean(&|o| o.latency_ms.mean) / 1e3;
            let wait = mean(&|o| o.wait_ms.mean) / 1e3;
            let near = |found: f64, right: f64| (found / right - 1.0).abs() < 0.03;
            assert!(near(response, erlang.mean_response_s), "{servers}: {response} {erlang:?}");
            assert!(near(wait, erlang.mean_wait_s), "{servers}: {wait} {erlang:?}");
            assert!(near(mean(&|o| o.utilization), erlang.utilization), "{servers}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome() {
        let lengths = Lengths::LogNormal { mean: 100.0, p95: 250.0 };
        let go = |seed| {
            let requests = arrivals::poisson(900.0, 500, &lengths, &lengths, seed).unwrap();
            run(&requests, 2, &flat(30.0), &plan(8, Balance::LeastRequests))
        };
        assert_eq!(go(1), go(1));
        assert_ne!(go(1), go(2));
    }

    #[test]
    fn one_request_takes_its_steps() {
        let requests = [Arrival { at_s: 0.0, input: 600, output: 11 }];
        // 256 + 256 + 88 rows of prompt, then ten rows: 13 steps; the third gives the first token.
        let out = run(&requests, 1, &flat(10.0), &plan(8, Balance::LeastRequests));
        let rounded = |ms: f64| ms.round();
        assert_eq!((rounded(out.ttft_ms.p50), rounded(out.latency_ms.p50)), (30.0, 130.0));
        assert_eq!((rounded(out.tpot_ms.p50), out.utilization.round(), out.refused), (10.0, 1.0, 0));
    }

    #[test]
    fn prompts_beside_decoding_are_cut_by_time() {
        // A millisecond a row, 10 ms at least.
        let cost = StepCost::measured(&[(1.0, 10.0), (10.0, 10.0), (256.0, 256.0)]).unwrap();
        let rows = |max_stall_ms, decoding| {
            let plan = FleetPlan { max_stall_ms, ..FleetPlan::default() };
            Pace::new(&cost, &plan).at(0.0).prompt_rows(decoding)
        };
        assert_eq!((rows(100.0, 0), rows(100.0, 8), rows(1000.0, 8)), (256, 91 - 8, 248 + 8));
        // 91 is the last class that fits, the next is 102. As much again as 10 ms:
        assert_eq!((rows(0.0, 8), rows(0.0, 1)), (12, 19));
        let requests =
            [Arrival { at_s: 0.0, input: 1, output: 1000 }, Arrival { at_s: 0.1, input: 640, output: 1 }];
        let took = |max_stall_ms| {
            let plan = FleetPlan { max_stall_ms, ..plan(8, Balance::LeastRequests) };
            let out = run(&requests, 1, &cost, &plan);
            (out.ttft_ms.p95, out.latency_ms.p99)
        };
        let (gentle, hasty) = (took(20.0), took(300.0));
        assert!(gentle.0 > hasty.0, "{gentle:?} {hasty:?}");
    }

    #[test]
    fn short_prompts_come_first_until_a_long_one_has_waited() {
        // One place, taken for a second; then a long prompt of 256 ms, and a short one later by 0.2 or 2 s.
        let cost = StepCost::measured(&[(1.0, 10.0), (10.0, 10.0), (256.0, 256.0)]).unwrap();
        let first_token = |later_s: f64| {
            let came = [(0.0, 1, 500), (0.1, 256, 1), (0.1 + later_s, 10, 1)];
            let requests = came.map(|(at_s, input, output)| Arrival { at_s, input, output });
            run(&requests, 1, &cost, &plan(1, Balance::LeastRequests)).ttft_ms.p99
        };
        // The long one waits 4.9 s, and the short one's step of 10 ms before its own of 256.
        let (behind, before) = (first_token(0.2), first_token(2.0));
        assert!((behind - 5166.0).abs() < 1.0 && (before - 5156.0).abs() < 1.0, "{behind} {before}");
    }

    #[test]
    fn a_full_queue_refuses() {
        let requests: Vec<Arrival> = (0..20).map(|_| Arrival { at_s: 0.0, input: 1, output: 5 }).collect();
        // The first of each machine begins at once and alone. The gateway counts requests, running or not.
        let taken = [(Balance::LeastRequests, 2 + 6), (Balance::OneQueue, 2 + 6), (Balance::Gateway, 4 + 6)];
        for (balance, taken) in taken {
            let small = FleetPlan { max_running: 2, max_queued: 3, balance, ..FleetPlan::default() };
            let out = run(&requests, 2, &flat(10.0), &small);
            assert_eq!(out.refused, 20 - taken, "{balance:?}");
        }
    }

    /// Prompts of very different lengths: the fewest requests are not the least time.
    #[test]
    fn the_gateways_policy_waits_less_than_the_fewest_requests() {
        let cost =
            StepCost::measured(&[(1.0, 13.0), (4.0, 20.0), (8.0, 30.0), (64.0, 130.0), (256.0, 530.0)])
                .unwrap();
        let input = Lengths::LogNormal { mean: 600.0, p95: 2000.0 };
        let output = Lengths::LogNormal { mean: 100.0, p95: 250.0 };
        let mean = |balance, of: fn(&Outcome) -> f64| {
            let of_seed = |seed| {
                let requests = arrivals::poisson(5_000.0, 4_000, &input, &output, seed).unwrap();
                let out = run(&requests, 4, &cost, &plan(8, balance));
                assert_eq!((out.requests, out.refused), (3_600, 0));
                of(&out)
            };
            (1..=3).map(of_seed).sum::<f64>() / 3.0
        };
        for of in
            [|o: &Outcome| o.latency_ms.mean, |o: &Outcome| o.latency_ms.p95, |o: &Outcome| o.ttft_ms.p95]
        {
            let (gateway, least) = (mean(Balance::Gateway, of), mean(Balance::LeastRequests, of));
            assert!(gateway < least, "{gateway} {least}");
        }
    }

    #[test]
    fn nothing_is_lost() {
        let lengths = Lengths::Uniform { min: 1.0, max: 300.0 };
        let requests = arrivals::poisson(4000.0, 1000, &lengths, &lengths, 9).unwrap();
        let out = run(&requests, 3, &flat(5.0), &plan(4, Balance::LeastRequests));
        assert_eq!((out.requests, out.refused), (900, 0));
        let tokens: u64 = requests.iter().map(|r| u64::from(r.output)).sum();
        let span = out.tokens_per_s.recip() * tokens as f64;
        assert!(span >= requests[999].at_s, "{span}");
    }
}
