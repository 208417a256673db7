//! A simulated machine, which chooses the rows of each step as the engine's scheduler does.

use std::collections::VecDeque;

use super::arrivals::Arrival;
use super::{FleetPlan, StepCost};

/// Least prefill rows of a step with decode rows, as in the engine's `pace`.
const MIN_PROMPT_ROWS: u32 = 4;
/// Time that prefill rows may always add to a step, as a share of its decode rows' time; as in the engine's `pace`.
const MIN_PROMPT_SHARE: f64 = 1.0;
/// Classes of steps grow by `rows / CLASS_GROWTH` rows, as in the engine's `costs`.
const CLASS_GROWTH: u32 = 8;
/// Seconds of prefill that a second of waiting offsets in the order of the queue, as in the engine's `queue`.
const AGING: f64 = 0.5;

/// A waiting or running request.
#[derive(Clone, Copy)]
pub(super) struct QueuedRequest {
    pub(super) arrival: Arrival,
    /// Number of the request, from 0.
    pub(super) number: usize,
    /// Whether the request is part of the statistics (it did not arrive in the warm-up).
    pub(super) counted: bool,
}

/// A running request.
pub(super) struct RunningRequest {
    pub(super) request: QueuedRequest,
    /// Start of the first step with a row of the request, in seconds.
    pub(super) began_s: f64,
    /// Time of the first token, in seconds; 0 before it.
    pub(super) first_s: f64,
    /// Prompt tokens not yet computed.
    prompt_left: u32,
    /// Tokens generated.
    pub(super) generated: u32,
    /// Rows of the request in the current step.
    rows: u32,
}

/// A machine with its queue and its running requests.
#[derive(Default)]
pub(super) struct SimulatedMachine {
    pub(super) waiting: VecDeque<QueuedRequest>,
    running: Vec<RunningRequest>,
    /// Seconds of all steps.
    pub(super) busy_s: f64,
    /// Whether a step is being computed.
    pub(super) stepping: bool,
}

impl SimulatedMachine {
    /// The number of waiting and running requests.
    pub(super) fn requests(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Running requests, waiting ones, and their prompt tokens that are not computed yet.
    pub(super) fn load(&self) -> (u32, u32, u64) {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let waiting = self.waiting.iter().map(|request| u64::from(request.arrival.input));
        let running = self.running.iter().map(|running| u64::from(running.prompt_left));
        (count(self.running.len()), count(self.waiting.len()), waiting.chain(running).sum())
    }

    /// Plans the next step. New requests come from the queue `shared` if given, else from the machine's own. Returns
    /// the seconds of the step; none without rows.
    pub(super) fn begin_step(
        &mut self,
        shared: Option<&mut VecDeque<QueuedRequest>>,
        pace: &Pace<'_>,
        now_s: f64,
    ) -> Option<f64> {
        let mut decoding = 0;
        for running in &mut self.running {
            running.rows = u32::from(running.prompt_left == 0);
            decoding += running.rows;
        }
        let pace = pace.at(now_s);
        let mut left = pace.prompt_rows(decoding);
        let urgency = |tokens, arrival: &Arrival| pace.urgency(tokens, arrival);
        let mut order = Vec::new();
        order.extend((0..self.running.len()).filter(|i| self.running[*i].prompt_left > 0));
        let of = |i: &usize| urgency(self.running[*i].prompt_left, &self.running[*i].request.arrival);
        order.sort_by(|a, b| of(a).total_cmp(&of(b)));
        for i in order {
            let running = &mut self.running[i];
            running.rows = left.min(running.prompt_left);
            left -= running.rows;
        }
        let waiting = shared.unwrap_or(&mut self.waiting);
        while left > 0 && self.running.len() < pace.of.plan.max_running {
            let of = |request: &QueuedRequest| urgency(request.arrival.input, &request.arrival);
            let next = (0..waiting.len()).min_by(|a, b| of(&waiting[*a]).total_cmp(&of(&waiting[*b])));
            let Some(request) = next.and_then(|at| waiting.remove(at)) else { break };
            let prompt_left = request.arrival.input;
            let rows = prompt_left.min(left);
            left -= rows;
            self.running.push(RunningRequest {
                request,
                began_s: now_s,
                first_s: 0.0,
                prompt_left,
                generated: 0,
                rows,
            });
        }
        let rows: u32 = self.running.iter().map(|running| running.rows).sum();
        self.stepping = rows > 0;
        let seconds = self.stepping.then(|| pace.seconds(f64::from(rows)));
        self.busy_s += seconds.unwrap_or(0.0);
        seconds
    }

    /// Ends the step: updates the requests with rows in it and passes finished ones to `done`. Returns the tokens
    /// generated.
    pub(super) fn end_step(&mut self, now_s: f64, mut done: impl FnMut(&RunningRequest)) -> u64 {
        let mut tokens = 0;
        self.running.retain_mut(|running| {
            let decodes = running.prompt_left == 0;
            running.prompt_left -= if decodes { 0 } else { running.rows };
            if running.rows == 0 || running.prompt_left > 0 {
                return true;
            }
            if !decodes {
                running.first_s = now_s;
            }
            running.generated += 1;
            tokens += 1;
            if running.generated < running.request.arrival.output {
                return true;
            }
            done(running);
            false
        });
        tokens
    }
}

/// The scheduler's cost model of a step.
pub(super) struct Pace<'a> {
    cost: &'a StepCost,
    plan: &'a FleetPlan,
    /// The engine's classes of steps: points of (rows, seconds), ascending.
    classes: Vec<(u32, f64)>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(cost: &'a StepCost, plan: &'a FleetPlan) -> Pace<'a> {
        let rows = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let most = rows(plan.prefill_chunk).saturating_add(rows(plan.max_running));
        let next =
            |rows: &u32| Some((rows + (rows / CLASS_GROWTH).max(1)).min(most)).filter(|next| next > rows);
        let classes = std::iter::successors(Some(1), next);
        let classes = classes.map(|rows| (rows, cost.seconds(f64::from(rows)))).collect();
        Pace { cost, plan, classes }
    }

    /// The cost model at a time.
    pub(super) fn at(&self, now_s: f64) -> PaceAt<'_> {
        PaceAt { of: self, now_s, factor: self.plan.factor_at(now_s) }
    }
}

/// The cost model at a time, with the current slowdown: the engine's scheduler measures recent steps.
pub(super) struct PaceAt<'a> {
    of: &'a Pace<'a>,
    now_s: f64,
    /// Slowdown of steps.
    factor: f64,
}

impl PaceAt<'_> {
    fn seconds(&self, rows: f64) -> f64 {
        self.of.cost.seconds(rows) * self.factor
    }

    /// Prefill rows of a step: a whole chunk without decode rows. Else as many as keep the step within the longest
    /// stall, or within twice the time of its decode rows. Decode and prefill rows together are one of the classes: on
    /// average a sixteenth fewer than would fit, which matters on a machine close to saturation.
    pub(super) fn prompt_rows(&self, decoding: u32) -> u32 {
        let Pace { plan, classes, .. } = self.of;
        let chunk = u32::try_from(plan.prefill_chunk).unwrap_or(u32::MAX);
        if decoding == 0 {
            return chunk;
        }
        let alone = self.seconds(f64::from(decoding));
        let target = (plan.max_stall_ms / 1e3).max(alone * (1.0 + MIN_PROMPT_SHARE));
        let fit = classes.partition_point(|(_, seconds)| seconds * self.factor <= target);
        let most = fit.checked_sub(1).map_or(0, |at| classes[at].0);
        most.saturating_sub(decoding).max(MIN_PROMPT_ROWS).min(chunk)
    }

    /// Rank in the queue, the least first: seconds of remaining prefill less the credit for waiting.
    fn urgency(&self, tokens: u32, arrival: &Arrival) -> f64 {
        let chunk = f64::from(tokens).min(self.of.plan.prefill_chunk as f64).max(1.0);
        self.seconds(chunk) * f64::from(tokens) / chunk - AGING * (self.now_s - arrival.at_s)
    }
}
