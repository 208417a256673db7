//! What an encoder's thread does with its jobs: a plain struct, with the time as an argument.
//!
//! A step is filled from the queue, computed unit by unit, and delivered text by text. The caller decides between two
//! units whether the turn on the device goes on; a step may span many turns.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::queue::{Charge, Class, EncodeQueue, JobId, StepBuilder};
use super::stats::EncoderCounters;
use super::{Encode, EncodeCosts, EncodeError, EncodeWatch, EncoderStepReport, Reply, Text, Want};
use super::{MIN_UNIT_ROWS, UNIT_ROWS};
use crate::device::turns::Urgency;
use crate::device::{EndedTurn, Streams};
use crate::inbox::Worker;
use crate::meter::Meter;

/// Milliseconds that a step of several texts should take at most: interactive jobs wait for the step before them.
const STEP_MS: f64 = 100.0;
/// Least tokens of that: with fewer the weights are read too often for the arithmetic done with them.
const MIN_STEP_TOKENS: usize = 128;
/// Milliseconds a token until the first step was measured.
const FIRST_MS_PER_TOKEN: f64 = 0.1;
/// Weight of a new measurement in the moving average, and its bound as a multiple of that.
const NEW_SAMPLE_WEIGHT: f64 = 0.2;
const MAX_OUTLIER_RATIO: f64 = 4.0;
/// Interactive work of at most so many milliseconds is as urgent as the next token of a stream.
const SHORT_MS: f64 = 50.0;
/// Least time of a turn that others wait for, where none of them has a stream.
const TURN: Duration = Duration::from_millis(10);
/// Share of a stream's own step that bulk work may take before each of its steps.
const BULK_TURN_SHARE: f64 = 0.15;

/// A job that was accepted. Equal texts of it are one text here.
pub(crate) struct AcceptedJob {
    pub(crate) client: u64,
    pub(crate) class: Class,
    pub(crate) want: Want,
    pub(crate) texts: Vec<Text>,
    /// The job's own indices of each of `texts`.
    pub(crate) indices: Vec<Vec<usize>>,
    pub(crate) submitted: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) reply: Box<dyn Reply>,
}

struct RunningJob {
    job: AcceptedJob,
    started: Option<Duration>,
    /// Texts that were not delivered.
    left: usize,
    costs: EncodeCosts,
}

/// The step that is being computed.
struct Step {
    class: Class,
    slots: Vec<Slot>,
    charges: Vec<Charge>,
    tokens: usize,
    /// Time of its units.
    spent_ns: u64,
    /// The slot that is delivered next; none while layers are computed.
    delivers: Option<usize>,
    /// Texts that were delivered.
    texts: usize,
}

/// A text of a step.
struct Slot {
    tokens: usize,
    /// The jobs that want it, and its place among their texts.
    takers: Vec<(JobId, usize)>,
}

/// Everything that an encoder's thread owns.
pub(crate) struct EncoderCore<E> {
    encode: E,
    queue: EncodeQueue,
    jobs: HashMap<JobId, RunningJob>,
    accepted: JobId,
    step: Option<Step>,
    ms_per_token: f64,
    /// Milliseconds that a unit takes for each of its rows; 0 before the first.
    unit_ms_per_row: f64,
    /// Rows that a unit has at most.
    unit_rows: usize,
    max_wait: Duration,
    counters: Arc<EncoderCounters>,
    watch: Box<dyn EncodeWatch>,
    meter: Meter,
    /// The numbers of one text.
    values: Vec<f32>,
}

/// Fills a step: texts of one client that are equal share a slot.
struct Filling<'a> {
    jobs: &'a HashMap<JobId, RunningJob>,
    slots: Vec<Slot>,
    known: HashMap<(u64, &'a Text), usize>,
}

impl<'a> Filling<'a> {
    fn key(&self, job: JobId, text: usize) -> Option<(u64, &'a Text)> {
        let running = self.jobs.get(&job)?;
        Some((running.job.client, running.job.texts.get(text)?))
    }
}

impl StepBuilder for Filling<'_> {
    fn adds(&self, job: JobId, text: usize) -> usize {
        let new = self.key(job, text).filter(|key| !self.known.contains_key(key));
        new.map_or(0, |(_, text)| text.tokens.len())
    }

    fn add(&mut self, job: JobId, text: usize) {
        let Some(key) = self.key(job, text) else { return };
        match self.known.entry(key) {
            Entry::Occupied(slot) => self.slots[*slot.get()].takers.push((job, text)),
            Entry::Vacant(slot) => {
                slot.insert(self.slots.len());
                self.slots.push(Slot { tokens: key.1.tokens.len(), takers: vec![(job, text)] });
            }
        }
    }
}

/// Longest time to compute in a turn that others wait for, where `streams` are those of other engines.
pub(crate) fn longest_turn(urgency: Urgency, streams: Option<Streams>) -> Duration {
    let Some(Streams { step, max_stall }) = streams else { return TURN };
    match urgency {
        Urgency::Batch => step.mul_f64(BULK_TURN_SHARE).min(max_stall / 2),
        Urgency::Decode | Urgency::Prompt => step.min(max_stall / 2),
    }
}

impl<E: Encode> Worker for EncoderCore<E> {
    type Work = AcceptedJob;
    type Outcome = Result<(), EncodeError>;

    fn accept(&mut self, job: AcceptedJob) {
        self.accepted += 1;
        let lengths: Vec<usize> = job.texts.iter().map(|text| text.tokens.len()).collect();
        self.queue.add(self.accepted, job.client, job.class, &lengths, job.submitted);
        let (left, costs) = (job.texts.len(), EncodeCosts::default());
        self.jobs.insert(self.accepted, RunningJob { job, started: None, left, costs });
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.step.is_none()
    }

    fn watch_turn(&mut self, ended: Option<EndedTurn>) {
        if let Some(EndedTurn { waited, held }) = ended {
            self.watch.turn(waited, held);
        }
    }

    fn end_wait(&mut self, now: Duration) {
        self.meter.end_wait(now, &self.counters.times);
    }

    fn end_one(&mut self, outcome: &Result<(), EncodeError>, now: Duration) {
        self.step = None;
        self.counters.running.store(0, Ordering::Relaxed);
        if let Some(id) = self.jobs.keys().min().copied() {
            self.end(id, outcome.clone(), now);
        }
        if self.is_idle() {
            self.meter.idle(&self.counters.times);
        }
    }
}

impl<E: Encode> EncoderCore<E> {
    pub(crate) fn new(
        encode: E,
        max_wait: Duration,
        counters: Arc<EncoderCounters>,
        watch: Box<dyn EncodeWatch>,
    ) -> EncoderCore<E> {
        EncoderCore {
            encode,
            queue: EncodeQueue::default(),
            jobs: HashMap::new(),
            accepted: 0,
            step: None,
            ms_per_token: FIRST_MS_PER_TOKEN,
            unit_ms_per_row: 0.0,
            unit_rows: UNIT_ROWS,
            max_wait,
            counters,
            watch,
            meter: Meter::default(),
            values: Vec::new(),
        }
    }

    /// The earliest deadline of a job.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.jobs.values().filter_map(|running| running.job.deadline).min()
    }

    /// Begins to wait for a turn, if there is something to do: drops what is cancelled or overdue and returns how
    /// urgent the rest is.
    pub(crate) fn begin_wait(&mut self, now: Duration) -> Option<Urgency> {
        self.meter.busy(now, &self.counters.times);
        self.sweep(now);
        if self.is_idle() {
            self.end_wait(now);
            self.meter.idle(&self.counters.times);
            return None;
        }
        self.meter.begin_wait(now);
        Some(self.urgency())
    }

    /// How urgent the present step is, or the next. A bulk step that interactive jobs wait for is as urgent as these.
    pub(crate) fn urgency(&self) -> Urgency {
        let waiting_ms = self.queue.waiting_ms(Class::Interactive, self.ms_per_token);
        let step_ms = self.step.as_ref().map_or(0.0, |step| step.tokens as f64 * self.ms_per_token);
        let interactive = self.step.as_ref().is_some_and(|step| step.class == Class::Interactive);
        match interactive || waiting_ms > 0.0 {
            false => Urgency::Batch,
            true if waiting_ms + step_ms <= SHORT_MS => Urgency::Decode,
            true => Urgency::Prompt,
        }
    }

    /// Makes units fit into `longest`, as far as their rows allow it; none lets them be as large as is best for speed.
    pub(crate) fn fit_units(&mut self, longest: Option<Duration>) {
        let rows = match longest {
            Some(longest) if self.unit_ms_per_row > 0.0 => {
                let rows = longest.as_secs_f64() * 1000.0 / self.unit_ms_per_row;
                (rows as usize / MIN_UNIT_ROWS * MIN_UNIT_ROWS).clamp(MIN_UNIT_ROWS, UNIT_ROWS)
            }
            Some(_) => MIN_UNIT_ROWS,
            None => UNIT_ROWS,
        };
        if rows != self.unit_rows {
            self.unit_rows = rows;
            self.encode.fit_units(rows);
        }
    }

    /// Computes one unit within a turn: begins a step, advances it, or delivers one of its texts. Returns whether the
    /// step goes on.
    pub(crate) fn work(&mut self, clock: &dyn Fn() -> Duration) -> bool {
        let now = clock();
        self.end_wait(now);
        self.meter.busy(now, &self.counters.times);
        if self.step.is_some() {
            self.sweep_step(now);
        } else {
            self.sweep(now);
        }
        let advances = self.step.as_ref().is_some_and(|step| step.delivers.is_none());
        let outcome = self.unit(now);
        let ended = clock();
        if advances {
            self.observe_unit(ended.saturating_sub(now));
        }
        self.charge(ended);
        self.watch.unit();
        match outcome {
            Ok(true) => return true,
            Ok(false) => {}
            Err(message) => self.fail_step(&EncodeError::Model(message), clock()),
        }
        self.end_step(clock());
        if self.is_idle() {
            self.meter.idle(&self.counters.times);
        }
        false
    }

    /// One unit of the step, which is planned first if there is none. Returns whether it goes on.
    fn unit(&mut self, now: Duration) -> Result<bool, String> {
        let Some(step) = &mut self.step else { return self.begin_step(now) };
        if step.slots.iter().all(|slot| slot.takers.is_empty()) {
            return Ok(false);
        }
        match step.delivers {
            None => {
                if !self.encode.advance()? {
                    step.delivers = Some(0);
                }
                Ok(true)
            }
            Some(slot) => {
                self.deliver(slot, now);
                let Some(step) = &mut self.step else { return Ok(false) };
                step.delivers = Some(slot + 1);
                Ok(slot + 1 < step.slots.len())
            }
        }
    }

    /// Most tokens of the next step of several texts.
    fn budget(&self) -> usize {
        let in_time = (STEP_MS / self.ms_per_token.max(1e-6)) as usize;
        self.encode.step_tokens().min(in_time.max(MIN_STEP_TOKENS)).max(1)
    }

    fn begin_step(&mut self, now: Duration) -> Result<bool, String> {
        let budget = self.budget();
        let mut filling = Filling { jobs: &self.jobs, slots: Vec::new(), known: HashMap::new() };
        let taken = self.queue.take(now, budget, self.ms_per_token, &mut filling);
        let Some((class, charges)) = taken else { return Ok(false) };
        let slots = std::mem::take(&mut filling.slots);
        drop(filling);
        let mut tokens = 0;
        for slot in &slots {
            tokens += slot.tokens;
            for (job, _) in &slot.takers {
                self.counters.leave_queue(1, slot.tokens);
                if let Some(running) = self.jobs.get_mut(job) {
                    running.started.get_or_insert(now);
                }
            }
        }
        let owner = |slot: &Slot| {
            let (job, text) = slot.takers.first()?;
            self.jobs.get(job)?.job.texts.get(*text)
        };
        let texts: Vec<&Text> = slots.iter().filter_map(owner).collect();
        self.counters.running.store(slots.len(), Ordering::Relaxed);
        let begun = self.encode.begin(&texts);
        self.step = Some(Step { class, slots, charges, tokens, spent_ns: 0, delivers: None, texts: 0 });
        begun.map(|()| true)
    }

    /// Hands the numbers of a slot to those that want them, each kind computed once.
    fn deliver(&mut self, slot: usize, now: Duration) {
        let Some(takers) = self.step.as_ref().map(|step| step.slots[slot].takers.clone()) else { return };
        let mut computed: Option<(Want, Result<(), String>)> = None;
        for (id, text) in takers {
            let Some(running) = self.jobs.get_mut(&id) else { continue };
            let want = running.job.want;
            if computed.as_ref().is_none_or(|(kind, _)| *kind != want) {
                self.values.clear();
                computed = Some((want, self.encode.output(slot, want, &mut self.values)));
            }
            let indices = std::mem::take(&mut running.job.indices[text]);
            let first = indices.first().copied().unwrap_or_default();
            let outcome = match &computed {
                Some((_, Err(message))) => Err(EncodeError::Model(message.clone())),
                _ => check(&self.values, first),
            };
            if let Err(error) = outcome {
                self.end(id, Err(error), now);
                continue;
            }
            indices.iter().for_each(|index| running.job.reply.text(*index, &self.values));
            running.left -= 1;
            running.costs.texts += indices.len();
            if let Some(step) = &mut self.step {
                step.texts += indices.len();
            }
        }
    }

    /// Charges the time since the last charge to the step.
    fn charge(&mut self, now: Duration) {
        let passed = self.meter.pass(now);
        self.counters.times.add_prompt(passed);
        if let Some(step) = &mut self.step {
            step.spent_ns += passed;
        }
    }

    /// Ends what wants a text of the step.
    fn fail_step(&mut self, error: &EncodeError, now: Duration) {
        let slots = self.step.iter().flat_map(|step| &step.slots);
        let ids: Vec<JobId> = slots.flat_map(|slot| &slot.takers).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end(id, Err(error.clone()), now));
    }

    /// Ends the step: its time is split over its texts, and jobs that have all of theirs are done.
    fn end_step(&mut self, now: Duration) {
        let Some(step) = self.step.take() else { return };
        self.counters.running.store(0, Ordering::Relaxed);
        let took = Duration::from_nanos(step.spent_ns);
        let took_ms = took.as_secs_f64() * 1000.0;
        self.queue.settle(step.class, &step.charges, took_ms);
        self.observe(step.tokens, took_ms);
        let (mut tokens, mut given) = (0, 0);
        let mut finished = Vec::new();
        for slot in &step.slots {
            tokens += slot.tokens;
            let until = u128::from(step.spent_ns) * tokens as u128 / step.tokens.max(1) as u128;
            let until = u64::try_from(until).unwrap_or(step.spent_ns);
            let share = (until - given) / slot.takers.len().max(1) as u64;
            given = until;
            for (at, (id, _)) in slot.takers.iter().enumerate() {
                let Some(running) = self.jobs.get_mut(id) else { continue };
                running.costs.machine += Duration::from_nanos(share);
                running.costs.tokens += if at == 0 { slot.tokens } else { 0 };
                if running.left == 0 {
                    finished.push(*id);
                }
            }
        }
        self.count(&step, took);
        finished.into_iter().for_each(|id| self.end(id, Ok(()), now));
    }

    fn count(&mut self, step: &Step, took: Duration) {
        let counters = &self.counters;
        counters.steps.fetch_add(1, Ordering::Relaxed);
        counters.texts.fetch_add(step.texts as u64, Ordering::Relaxed);
        counters.tokens.fetch_add(step.tokens as u64, Ordering::Relaxed);
        let shared = step.texts.saturating_sub(step.slots.len());
        counters.shared_texts.fetch_add(shared as u64, Ordering::Relaxed);
        self.watch.step(&EncoderStepReport { texts: step.texts, tokens: step.tokens, took });
    }

    /// Learns how long a unit takes.
    fn observe_unit(&mut self, took: Duration) {
        let rows = self.step.as_ref().map_or(0, |step| step.tokens).min(self.unit_rows);
        if rows > 0 {
            let (known, seen) = (self.unit_ms_per_row, took.as_secs_f64() * 1000.0 / rows as f64);
            let weight = if known > 0.0 { NEW_SAMPLE_WEIGHT } else { 1.0 };
            self.unit_ms_per_row += weight * (seen - known);
        }
    }

    /// Learns how long a token takes.
    fn observe(&mut self, tokens: usize, took_ms: f64) {
        if tokens > 0 {
            let known = self.ms_per_token;
            let seen = (took_ms / tokens as f64).clamp(1e-6, known.max(1e-3) * MAX_OUTLIER_RATIO);
            self.ms_per_token += NEW_SAMPLE_WEIGHT * (seen - known);
        }
    }

    /// Ends jobs that are cancelled or overdue.
    fn sweep(&mut self, now: Duration) {
        let ids = self.jobs.iter().filter_map(|(id, running)| Some((*id, self.over(running, now)?)));
        let over: Vec<(JobId, EncodeError)> = ids.collect();
        over.into_iter().for_each(|(id, error)| self.end(id, Err(error), now));
    }

    /// As [`EncoderCore::sweep`], for the jobs of the step only: between two units.
    fn sweep_step(&mut self, now: Duration) {
        let slots = self.step.iter().flat_map(|step| &step.slots);
        let mut ids: Vec<JobId> = slots.flat_map(|slot| &slot.takers).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if let Some(error) = self.jobs.get(&id).and_then(|running| self.over(running, now)) {
                self.end(id, Err(error), now);
            }
        }
    }

    /// Why a job is over before its end, if it is.
    fn over(&self, running: &RunningJob, now: Duration) -> Option<EncodeError> {
        let job = &running.job;
        if job.cancelled.load(Ordering::Acquire) || job.reply.is_gone() {
            return Some(EncodeError::Cancelled);
        }
        if job.deadline.is_some_and(|deadline| now >= deadline) {
            let texts = running.costs.texts + job.indices.iter().map(Vec::len).sum::<usize>();
            return Some(EncodeError::Expired { done: running.costs.texts, texts });
        }
        let waited = now.saturating_sub(job.submitted);
        let overdue = running.started.is_none() && waited > self.max_wait;
        overdue.then_some(EncodeError::Waited { waited, limit: self.max_wait })
    }

    /// Ends a job; what of it is in the step is not delivered.
    fn end(&mut self, id: JobId, outcome: Result<(), EncodeError>, now: Duration) {
        let Some(running) = self.jobs.remove(&id) else { return };
        let (texts, tokens) = self.queue.remove(id);
        self.counters.leave_queue(texts, tokens);
        if let Some(step) = &mut self.step {
            step.slots.iter_mut().for_each(|slot| slot.takers.retain(|(taker, _)| *taker != id));
        }
        let RunningJob { mut job, started, mut costs, .. } = running;
        costs.queued = started.unwrap_or(now).saturating_sub(job.submitted);
        self.counters.count(&outcome);
        job.reply.done(outcome, costs);
    }
}

/// Checks that all numbers are finite.
fn check(values: &[f32], text: usize) -> Result<(), EncodeError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(EncodeError::NotFinite { text, at, value: values[at].to_string() }),
    }
}
