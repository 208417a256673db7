//! Requests through machines, step by step.
//!
//! A machine plans each step as the engine's scheduler does: a row of every request that decodes, then chunks of prompts, the
//! shortest first but none forever, as many rows as stall the others no longer than they may; then new requests, in the order in which
//! they came, while there are rows and places. The step ends after what [`StepCost`] says, and each
//! row that decoded, and each prompt that ended, has a token more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::Serialize;

use super::arrivals::Arrival;
use super::{Balance, FleetPlan, StepCost, quantile};

/// Of the requests, the share at the start that is not counted: the machines were empty.
const WARM_UP: f64 = 0.1;
/// Prompt rows beside rows that decode, at least: the engine's `pace`.
const FEWEST: u32 = 4;
/// What prompt rows may add to a step that decodes, of its own time, however long that is; likewise.
const LEAST_SHARE: f64 = 0.5;
/// Seconds of prompt that a second of waiting is worth: the engine's scheduler.
const PATIENCE: f64 = 0.5;

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Machines.
    pub machines: usize,
    /// Requests that were counted.
    pub requests: usize,
    /// Requests refused because too many waited.
    pub refused: usize,
    /// Share of their time in which machines computed.
    pub utilization: f64,
    /// Time to the first token.
    pub ttft_ms: Spread,
    /// Time for each further token; of requests with more than one.
    pub tpot_ms: Spread,
    /// Time to the last token.
    pub latency_ms: Spread,
    /// Time until the first step with a row of the request.
    pub wait_ms: Spread,
    /// Requests that a machine has, waiting or running, over time.
    pub in_machine: f64,
    /// Requests waiting, all machines, when one comes.
    pub queued: Spread,
    /// Tokens generated a second, all machines.
    pub tokens_per_s: f64,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half are no greater.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |share| quantile(&values, share).unwrap_or(0.0);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Spread { mean, p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

/// A request that is in a machine or waits for one.
#[derive(Clone, Copy)]
struct Request {
    arrival: Arrival,
    counted: bool,
}

/// A request that runs.
struct Running {
    request: Request,
    began_s: f64,
    first_s: f64,
    /// Tokens of the prompt not computed yet.
    prompt_left: u32,
    generated: u32,
    /// Rows in the step that runs.
    rows: u32,
}

#[derive(Default)]
struct Machine {
    waiting: VecDeque<Request>,
    running: Vec<Running>,
    busy_s: f64,
    stepping: bool,
}

impl Machine {
    fn requests(&self) -> usize {
        self.waiting.len() + self.running.len()
    }
}

/// A time that can be ordered; no time here is NaN.
#[derive(Clone, Copy, PartialEq)]
struct At(f64);

impl Eq for At {}

impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
struct Samples {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    latency: Vec<f64>,
    wait: Vec<f64>,
    queued: Vec<f64>,
}

struct Simulation<'a> {
    plan: &'a FleetPlan,
    cost: &'a StepCost,
    machines: Vec<Machine>,
    /// Of [`Balance::OneQueue`].
    shared: VecDeque<Request>,
    ends: BinaryHeap<Reverse<(At, usize)>>,
    now_s: f64,
    /// Requests that came, were not refused and have not left.
    held: usize,
    /// The same, times the seconds that there were so many.
    held_s: f64,
    refused: usize,
    tokens: u64,
    samples: Samples,
}

/// Sends `arrivals` through `machines` machines with the limits of `plan`.
#[must_use]
pub fn run(arrivals: &[Arrival], machines: usize, cost: &StepCost, plan: &FleetPlan) -> Outcome {
    let mut simulation = Simulation {
        plan,
        cost,
        machines: (0..machines.max(1)).map(|_| Machine::default()).collect(),
        shared: VecDeque::new(),
        ends: BinaryHeap::new(),
        now_s: 0.0,
        held: 0,
        held_s: 0.0,
        refused: 0,
        tokens: 0,
        samples: Samples::default(),
    };
    let uncounted = (arrivals.len() as f64 * WARM_UP) as usize;
    for (index, arrival) in arrivals.iter().enumerate() {
        simulation.advance(arrival.at_s);
        simulation.arrive(Request { arrival: *arrival, counted: index >= uncounted });
    }
    simulation.advance(f64::INFINITY);
    simulation.outcome(arrivals.last().map_or(0.0, |last| last.at_s))
}

impl Simulation<'_> {
    /// Ends every step that ends by `until`.
    fn advance(&mut self, until: f64) {
        while let Some(&Reverse((At(end), machine))) = self.ends.peek().filter(|next| next.0.0.0 <= until) {
            self.ends.pop();
            self.pass(end);
            self.end_step(machine);
            self.begin_step(machine);
        }
        if until.is_finite() {
            self.pass(until);
        }
    }

    fn pass(&mut self, to: f64) {
        self.held_s += self.held as f64 * (to - self.now_s);
        self.now_s = to;
    }

    fn arrive(&mut self, request: Request) {
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
                self.held += 1;
                self.shared.push_back(request);
                let idle = (0..self.machines.len()).find(|&m| !self.machines[m].stepping);
                if let Some(machine) = idle {
                    self.begin_step(machine);
                }
            }
            Balance::LeastRequests => {
                let least = (0..self.machines.len()).min_by_key(|&m| self.machines[m].requests());
                let Some(index) = least else { return };
                let machine = &mut self.machines[index];
                if machine.waiting.len() >= most {
                    self.refused += 1;
                    return;
                }
                self.held += 1;
                machine.waiting.push_back(request);
                if !machine.stepping {
                    self.begin_step(index);
                }
            }
        }
    }

    /// Plans the next step of a machine and sets it off; nothing if it has nothing to do.
    fn begin_step(&mut self, index: usize) {
        let (plan, now) = (self.plan, self.now_s);
        let machine = &mut self.machines[index];
        let mut decoding = 0;
        for running in &mut machine.running {
            running.rows = u32::from(running.prompt_left == 0);
            decoding += running.rows;
        }
        let mut left = prompt_rows(self.cost, plan, decoding);
        // The shortest first, but who has waited goes before.
        let (cost, mut order) = (self.cost, Vec::new());
        order.extend((0..machine.running.len()).filter(|i| machine.running[*i].prompt_left > 0));
        let urgency = |i: &usize| {
            let running = &machine.running[*i];
            cost.seconds(f64::from(running.prompt_left)) - PATIENCE * (now - running.request.arrival.at_s)
        };
        order.sort_by(|a, b| urgency(a).total_cmp(&urgency(b)));
        for i in order {
            let running = &mut machine.running[i];
            running.rows = left.min(running.prompt_left);
            left -= running.rows;
        }
        while left > 0 && machine.running.len() < plan.max_running {
            let next = match plan.balance {
                Balance::OneQueue => self.shared.pop_front(),
                Balance::LeastRequests => machine.waiting.pop_front(),
            };
            let Some(request) = next else { break };
            let rows = request.arrival.input.min(left);
            left -= rows;
            let prompt_left = request.arrival.input;
            let running = Running { request, began_s: now, first_s: 0.0, prompt_left, generated: 0, rows };
            machine.running.push(running);
        }
        let rows: u32 = machine.running.iter().map(|running| running.rows).sum();
        machine.stepping = rows > 0;
        if machine.stepping {
            let seconds = self.cost.seconds(f64::from(rows));
            machine.busy_s += seconds;
            self.ends.push(Reverse((At(now + seconds), index)));
        }
    }

    /// Gives each row of the step what it computed.
    fn end_step(&mut self, index: usize) {
        let now = self.now_s;
        let (samples, tokens, held) = (&mut self.samples, &mut self.tokens, &mut self.held);
        self.machines[index].running.retain_mut(|running| {
            let decodes = running.prompt_left == 0;
            running.prompt_left -= if decodes { 0 } else { running.rows };
            if running.rows == 0 || running.prompt_left > 0 {
                return true;
            }
            if !decodes {
                running.first_s = now;
            }
            running.generated += 1;
            *tokens += 1;
            if running.generated < running.request.arrival.output {
                return true;
            }
            *held -= 1;
            if running.request.counted {
                samples.add(running, now);
            }
            false
        });
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
            in_machine: self.held_s / (span * machines as f64),
            queued: Spread::of(self.samples.queued),
            tokens_per_s: self.tokens as f64 / span,
        }
    }
}

/// Rows of prompts for a step: a whole chunk where nothing decodes, else as many as keep the step within the longest stall, or
/// within half as much again of what it takes without them.
fn prompt_rows(cost: &StepCost, plan: &FleetPlan, decoding: u32) -> u32 {
    let chunk = u32::try_from(plan.prefill_chunk).unwrap_or(u32::MAX);
    if decoding == 0 {
        return chunk;
    }
    let target = (plan.max_stall_ms / 1e3).max(cost.seconds(f64::from(decoding)) * (1.0 + LEAST_SHARE));
    let (mut fits, mut beyond) = (0, chunk.saturating_add(1));
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        if cost.seconds(f64::from(decoding) + f64::from(middle)) <= target {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    fits.max(FEWEST).min(chunk)
}

impl Samples {
    fn add(&mut self, done: &Running, now: f64) {
        let came = done.request.arrival.at_s;
        self.ttft.push((done.first_s - came) * 1e3);
        self.latency.push((now - came) * 1e3);
        self.wait.push((done.began_s - came) * 1e3);
        if done.generated > 1 {
            self.tpot.push((now - done.first_s) * 1e3 / f64::from(done.generated - 1));
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
            prompt_rows(&cost, &plan, decoding)
        };
        assert_eq!((rows(100.0, 0), rows(100.0, 8), rows(1000.0, 8)), (256, 92, 248 + 8));
        // Half as much again of 10 ms; and never so few that a prompt would not end.
        assert_eq!((rows(0.0, 8), rows(0.0, 1)), (7, 14));
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
    fn a_full_queue_refuses() {
        let requests: Vec<Arrival> = (0..20).map(|_| Arrival { at_s: 0.0, input: 1, output: 5 }).collect();
        for balance in [Balance::LeastRequests, Balance::OneQueue] {
            let small = FleetPlan { max_running: 2, max_queued: 3, balance, ..FleetPlan::default() };
            let out = run(&requests, 2, &flat(10.0), &small);
            // The first of each machine begins at once and alone.
            assert_eq!(out.refused, 20 - 2 - 6, "{balance:?}");
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
