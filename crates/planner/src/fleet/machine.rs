//! One machine: which rows its next step computes, as the engine's scheduler decides, and what they come to.

use std::collections::VecDeque;

use super::arrivals::Arrival;
use super::{FleetPlan, StepCost};

/// Prompt rows beside rows that decode, at least: the engine's `pace`.
const FEWEST: u32 = 4;
/// What prompt rows may add to a step that decodes, of its own time, however long that is; likewise.
const LEAST_SHARE: f64 = 1.0;
/// The engine tells numbers of rows apart that differ by one in so many: its `costs`.
const CLASS: u32 = 8;
/// Seconds of prompt that a second of waiting is worth: the engine's `queue`.
const PATIENCE: f64 = 0.5;

/// A request that is in a machine or waits for one.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) arrival: Arrival,
    pub(super) counted: bool,
}

/// A request that runs.
pub(super) struct Running {
    pub(super) request: Request,
    pub(super) began_s: f64,
    pub(super) first_s: f64,
    /// Tokens of the prompt not computed yet.
    prompt_left: u32,
    pub(super) generated: u32,
    /// Rows in the step that runs.
    rows: u32,
}

#[derive(Default)]
pub(super) struct Machine {
    pub(super) waiting: VecDeque<Request>,
    running: Vec<Running>,
    pub(super) busy_s: f64,
    pub(super) stepping: bool,
}

impl Machine {
    pub(super) fn requests(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Plans the next step; new requests come from `shared`, if there is one, else from its own queue. Gives back the seconds
    /// that the step takes; none if there is nothing to do.
    pub(super) fn begin_step(
        &mut self,
        shared: Option<&mut VecDeque<Request>>,
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
            let of = |request: &Request| urgency(request.arrival.input, &request.arrival);
            let next = (0..waiting.len()).min_by(|a, b| of(&waiting[*a]).total_cmp(&of(&waiting[*b])));
            let Some(request) = next.and_then(|at| waiting.remove(at)) else { break };
            let prompt_left = request.arrival.input;
            let rows = prompt_left.min(left);
            left -= rows;
            self.running.push(Running {
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

    /// Gives each row of the step what it computed. Returns the tokens generated; those that are done go to `done`.
    pub(super) fn end_step(&mut self, now_s: f64, mut done: impl FnMut(&Running)) -> u64 {
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

/// What the scheduler knows of time.
pub(super) struct Pace<'a> {
    cost: &'a StepCost,
    plan: &'a FleetPlan,
    /// The rows of a step that the engine tells apart, ascending, and the seconds that it takes with so many.
    classes: Vec<(u32, f64)>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(cost: &'a StepCost, plan: &'a FleetPlan) -> Pace<'a> {
        let rows = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let most = rows(plan.prefill_chunk).saturating_add(rows(plan.max_running));
        let next = |rows: &u32| Some((rows + (rows / CLASS).max(1)).min(most)).filter(|next| next > rows);
        let classes = std::iter::successors(Some(1), next);
        let classes = classes.map(|rows| (rows, cost.seconds(f64::from(rows)))).collect();
        Pace { cost, plan, classes }
    }

    /// At a moment.
    pub(super) fn at(&self, now_s: f64) -> Now<'_> {
        Now { of: self, now_s, factor: self.plan.factor_at(now_s) }
    }
}

/// The same at a moment: the engine's scheduler goes by what steps took lately.
pub(super) struct Now<'a> {
    of: &'a Pace<'a>,
    now_s: f64,
    /// How many times as long steps take.
    factor: f64,
}

impl Now<'_> {
    fn seconds(&self, rows: f64) -> f64 {
        self.of.cost.seconds(rows) * self.factor
    }

    /// Rows of prompts for a step: a whole chunk where nothing decodes, else as many as keep the step within the longest stall,
    /// or within twice what it takes without them. With those that decode they are one of the classes: in the mean a sixteenth
    /// fewer than would fit, which a machine that is nearly full feels.
    pub(super) fn prompt_rows(&self, decoding: u32) -> u32 {
        let Pace { plan, classes, .. } = self.of;
        let chunk = u32::try_from(plan.prefill_chunk).unwrap_or(u32::MAX);
        if decoding == 0 {
            return chunk;
        }
        let alone = self.seconds(f64::from(decoding));
        let target = (plan.max_stall_ms / 1e3).max(alone * (1.0 + LEAST_SHARE));
        let fit = classes.partition_point(|(_, seconds)| seconds * self.factor <= target);
        let most = fit.checked_sub(1).map_or(0, |at| classes[at].0);
        most.saturating_sub(decoding).max(FEWEST).min(chunk)
    }

    /// Who comes first, the least: the shortest prompt, but who has waited goes before.
    fn urgency(&self, tokens: u32, arrival: &Arrival) -> f64 {
        let chunk = f64::from(tokens).min(self.of.plan.prefill_chunk as f64).max(1.0);
        self.seconds(chunk) * f64::from(tokens) / chunk - PATIENCE * (self.now_s - arrival.at_s)
    }
}
