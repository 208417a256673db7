//! Encoders on the device of generating engines: jobs that arrive, are cancelled or run out of time, and drains.
//!
//! Each unit of a step is an event, so that others ask for the device between two units as they do in truth.

use std::time::Duration;

use super::shared_device::{Happens, State, World};
use super::*;
use crate::device::turns::{MemberId, Urgency};
use crate::encoder::core::{AcceptedJob, EncoderCore, longest_turn};
use crate::encoder::fake::{AroundUnits, FakeEncoder};
use crate::encoder::queue::Class;
use crate::encoder::stats::EncoderCounters;
use crate::encoder::{Encode, EncodeCosts, EncodeError, Reply, Text, Want};
use crate::inbox::Worker;

/// What happens to an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EncoderHappens {
    Arrives,
    Cancelled(usize),
    /// A job's deadline: its thread wakes.
    Deadline,
    UnitEnds,
    Drained,
    DrainEnds,
}

const TOKENS: usize = 500;

/// What a job's reply was told.
#[derive(Default)]
struct Told {
    texts: Vec<Option<Vec<f32>>>,
    end: Option<(Result<(), EncodeError>, EncodeCosts)>,
}

struct Tell(Arc<Mutex<Told>>);

impl Reply for Tell {
    fn text(&mut self, index: usize, values: &[f32]) {
        let mut told = self.0.lock().unwrap();
        assert!(told.end.is_none() && told.texts[index].is_none(), "each text once, before the end");
        told.texts[index] = Some(values.to_vec());
    }

    fn done(&mut self, outcome: Result<(), EncodeError>, costs: EncodeCosts) {
        let end = self.0.lock().unwrap().end.replace((outcome, costs));
        assert!(end.is_none(), "one end");
    }
}

/// A job as it was submitted.
struct AskedJob {
    texts: Vec<Text>,
    want: Want,
    deadline: Option<Duration>,
    cancel: Arc<AtomicBool>,
    cancelled: bool,
    told: Arc<Mutex<Told>>,
}

/// An encoder on the device.
pub(super) struct PlacedEncoder {
    core: EncoderCore<Box<dyn Encode>>,
    counters: Arc<EncoderCounters>,
    clock: Arc<Mutex<Duration>>,
    model: FakeEncoder,
    pub(super) id: MemberId,
    /// When it was loaded; its own clock begins there.
    loaded: Duration,
    pub(super) state: State,
    holds: bool,
    urgency: Urgency,
    /// When the present turn began.
    turn: Duration,
    inbox: Vec<AcceptedJob>,
    closed: bool,
    deadline: Option<Duration>,
    arrivals_left: usize,
    jobs: Vec<AskedJob>,
    /// When its units ended.
    pub(super) units: Vec<Duration>,
    step_goes_on: bool,
}

impl Encode for Box<dyn Encode> {
    fn context(&self) -> usize {
        (**self).context()
    }

    fn vocab(&self) -> usize {
        (**self).vocab()
    }

    fn step_tokens(&self) -> usize {
        (**self).step_tokens()
    }

    fn fit_units(&mut self, rows: usize) {
        (**self).fit_units(rows);
    }

    fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
        (**self).begin(texts)
    }

    fn advance(&mut self) -> Result<bool, String> {
        (**self).advance()
    }

    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
        (**self).output(text, want, out)
    }
}

impl PlacedEncoder {
    fn set_clock(&self, now: Duration) {
        *self.clock.lock().unwrap() = now;
    }

    fn now(&self) -> Duration {
        *self.clock.lock().unwrap()
    }

    /// Checks each job against the encoder by itself and the sums against each other, when all have ended.
    pub(super) fn check(&self, seed: u64) -> Outcomes {
        let mut outcomes = Outcomes::from([("encoded", 0)]);
        let mut charged = Duration::ZERO;
        for (i, job) in self.jobs.iter().enumerate() {
            let told = job.told.lock().unwrap();
            let (end, costs) =
                told.end.clone().unwrap_or_else(|| panic!("seed {seed}: job {i} has not ended"));
            for (text, values) in job.texts.iter().zip(&told.texts) {
                assert!(values.as_ref().is_none_or(|values| *values == self.model.values(text, job.want)));
            }
            let delivered = told.texts.iter().flatten().count();
            assert_eq!(delivered, costs.texts, "seed {seed}: job {i}");
            charged += costs.machine;
            let outcome = match end {
                Ok(()) => {
                    assert_eq!(delivered, job.texts.len(), "seed {seed}: job {i}");
                    "encoded"
                }
                Err(EncodeError::Cancelled) if job.cancelled => "encode cancelled",
                Err(EncodeError::Expired { done, texts }) if job.deadline.is_some() => {
                    assert_eq!((done, texts), (delivered, job.texts.len()), "seed {seed}: job {i}");
                    "encode expired"
                }
                Err(EncodeError::Waited { .. }) => "encode waited",
                Err(error) => panic!("seed {seed}: job {i}: {error}"),
            };
            *outcomes.entry(outcome).or_insert(0) += 1;
        }
        let stats = self.counters.snapshot(self.now());
        assert_eq!((stats.running, stats.waiting, stats.waiting_tokens), (0, 0, 0), "seed {seed}");
        assert!(charged <= stats.machine_time, "seed {seed}: {charged:?} of {stats:?}");
        let all = stats.machine_time + stats.waiting_time + stats.idle_time;
        assert_eq!(all, self.now(), "seed {seed}: every moment is somebody's, waiting or idle");
        outcomes.insert("encode shared", stats.shared_texts as usize);
        outcomes.insert("encoder drained", usize::from(self.state == State::Gone));
        outcomes
    }
}

impl World {
    /// Puts an encoder on the device now, each of whose units takes so long.
    pub(super) fn load_encoder(&mut self, unit: Duration, arrivals: usize) -> usize {
        let model = FakeEncoder::new(TOKENS, 128, 64, 3);
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let ticks = clock.clone();
        let encode: Box<dyn Encode> = Box::new(AroundUnits::new(model.clone(), move |_: &FakeEncoder| {
            *ticks.lock().unwrap() += unit;
            Ok(())
        }));
        let counters = Arc::new(EncoderCounters::default());
        let core = EncoderCore::new(encode, MAX_WAIT, counters.clone(), Box::new(Unwatched));
        let id = self.turns.join(Duration::MAX);
        self.encoders.push(PlacedEncoder {
            core,
            counters,
            clock,
            model,
            id,
            loaded: self.now,
            state: State::Idle,
            holds: false,
            urgency: Urgency::Batch,
            turn: Duration::ZERO,
            inbox: Vec::new(),
            closed: false,
            deadline: None,
            arrivals_left: arrivals,
            jobs: Vec::new(),
            units: Vec::new(),
            step_goes_on: false,
        });
        let index = self.encoders.len() - 1;
        self.encoder_event(self.now, index, EncoderHappens::Arrives);
        index
    }

    pub(super) fn load_encoder_of_chance(&mut self) {
        let unit = Duration::from_micros(100 + self.chance.below(2_000) as u64);
        let arrivals = 5 + self.chance.below(20);
        let index = self.load_encoder(unit, arrivals);
        if self.chance.below(2) == 0 {
            let at = self.later_us(150_000);
            self.encoder_event(at, index, EncoderHappens::Drained);
        }
    }

    /// A job of `count` texts of `tokens` tokens.
    pub(super) fn submit_texts(
        &mut self,
        index: usize,
        client: u64,
        count: usize,
        tokens: usize,
        deadline: Option<Duration>,
    ) {
        let text = |i: usize| Text {
            tokens: (0..tokens).map(|at| ((i * 17 + at * at) % TOKENS) as u32).collect(),
            types: Vec::new(),
            skip: 0,
        };
        let texts = (0..count).map(text).collect();
        self.submit_job(index, client, texts, Want::Dense, deadline);
        self.encoder_event(self.now, index, EncoderHappens::Arrives);
    }

    fn submit_job(
        &mut self,
        index: usize,
        client: u64,
        texts: Vec<Text>,
        want: Want,
        deadline: Option<Duration>,
    ) {
        let now = self.now;
        let placed = &mut self.encoders[index];
        let told = Arc::new(Mutex::new(Told { texts: vec![None; texts.len()], end: None }));
        let cancel = Arc::new(AtomicBool::new(false));
        let tokens = texts.iter().map(|text| text.tokens.len()).sum();
        placed.counters.enter_queue(texts.len(), tokens);
        placed.inbox.push(AcceptedJob {
            client,
            class: Class::of(texts.len()),
            want,
            indices: (0..texts.len()).map(|at| vec![at]).collect(),
            texts: texts.clone(),
            submitted: now - placed.loaded,
            deadline: deadline.map(|at| at - placed.loaded),
            cancelled: cancel.clone(),
            reply: Box::new(Tell(told.clone())),
        });
        placed.jobs.push(AskedJob { texts, want, deadline, cancel, cancelled: false, told });
        if let Some(at) = deadline {
            self.encoder_event(at, index, EncoderHappens::Deadline);
        }
    }

    fn encoder_event(&mut self, at: Duration, index: usize, happens: EncoderHappens) {
        self.schedule(at, index, Happens::Encoder(happens));
    }

    pub(super) fn encoder_happens(&mut self, index: usize, happens: EncoderHappens) {
        match happens {
            EncoderHappens::Arrives => self.job_arrives(index),
            EncoderHappens::Cancelled(job) => {
                let job = &mut self.encoders[index].jobs[job];
                job.cancelled = true;
                job.cancel.store(true, Ordering::Release);
            }
            EncoderHappens::Drained if self.encoders[index].state != State::Gone => {
                let deadline = self.later_us(20_000);
                self.encoder_event(deadline, index, EncoderHappens::DrainEnds);
                let placed = &mut self.encoders[index];
                (placed.closed, placed.deadline) = (true, Some(deadline));
                placed.jobs.iter_mut().for_each(|job| job.cancelled = true);
            }
            EncoderHappens::UnitEnds => {
                self.unit_ends(index);
                return;
            }
            EncoderHappens::Deadline | EncoderHappens::Drained | EncoderHappens::DrainEnds => {}
        }
        if matches!(self.encoders[index].state, State::Idle | State::Waiting) {
            self.look_at_encoder(index);
        }
    }

    fn job_arrives(&mut self, index: usize) {
        let placed = &mut self.encoders[index];
        if placed.closed || placed.state == State::Gone || placed.arrivals_left == 0 {
            return;
        }
        placed.arrivals_left -= 1;
        let job = placed.jobs.len();
        let chance = &mut self.chance;
        let count = [1, 1 + chance.below(8), 1 + chance.below(40)][chance.below(3)];
        let texts = (0..count)
            .map(|_| {
                let (seed, longest) = (chance.below(6), [10, 60, 120][chance.below(3)]);
                let tokens = 1 + chance.below(longest);
                let tokens = (0..tokens).map(|at| ((seed * 31 + at) % TOKENS) as u32).collect();
                Text { tokens, types: Vec::new(), skip: 0 }
            })
            .collect();
        let want = [Want::Dense, Want::Tokens, Want::Logits][chance.below(3)];
        let client = chance.below(3) as u64;
        let deadline = (chance.below(6) == 0).then(|| chance.below(60_000) as u64);
        let deadline = deadline.map(|us| self.now + Duration::from_micros(us));
        self.submit_job(index, client, texts, want, deadline);
        if self.chance.below(6) == 0 {
            let at = self.later_us(30_000);
            self.encoder_event(at, index, EncoderHappens::Cancelled(job));
        }
        let pause = [0, 2_000, 30_000][self.chance.below(3)];
        let next = self.later_us(pause);
        self.encoder_event(next, index, EncoderHappens::Arrives);
    }

    /// What an encoder's thread does when it is woken, or when a step or a turn is over.
    fn look_at_encoder(&mut self, index: usize) {
        let now = self.now;
        loop {
            let placed = &mut self.encoders[index];
            let own = now - placed.loaded;
            placed.set_clock(own);
            placed.inbox.drain(..).for_each(|job| placed.core.accept(job));
            let over = placed.deadline.is_some_and(|deadline| now >= deadline);
            if over || (placed.closed && placed.core.is_idle()) {
                self.encoder_leaves(index);
                return;
            }
            if placed.core.is_idle() {
                (placed.state, placed.holds) = (State::Idle, false);
                let next = self.turns.rest(placed.id, now);
                self.begin(next);
                return;
            }
            let Some(urgency) = placed.core.begin_wait(own) else { continue };
            let (id, renews) = (placed.id, std::mem::take(&mut placed.holds));
            (placed.state, placed.urgency) = (State::Waiting, urgency);
            let next =
                if renews { self.turns.renew(id, urgency, now) } else { self.turns.ask(id, urgency, now) };
            self.begin(next);
            return;
        }
    }

    /// The encoder's turn begins.
    pub(super) fn begin_units(&mut self, index: usize) {
        let now = self.now;
        let placed = &mut self.encoders[index];
        assert_eq!(placed.state, State::Waiting, "a turn is for who asked");
        (placed.state, placed.holds, placed.turn) = (State::InStep, true, now);
        let streams = self.turns.streams(placed.id);
        placed.core.fit_units(streams.map(|_| longest_turn(placed.urgency, streams)));
        self.unit(index);
    }

    fn unit(&mut self, index: usize) {
        let placed = &mut self.encoders[index];
        placed.set_clock(self.now - placed.loaded);
        let clock = placed.clock.clone();
        placed.step_goes_on = placed.core.work(&|| *clock.lock().unwrap());
        let ended = placed.loaded + placed.now();
        placed.units.push(ended);
        self.encoder_event(ended, index, EncoderHappens::UnitEnds);
    }

    fn unit_ends(&mut self, index: usize) {
        let now = self.now;
        let Self { turns, encoders, .. } = self;
        let placed = &mut encoders[index];
        if !placed.step_goes_on {
            self.look_at_encoder(index);
            return;
        }
        let longest = longest_turn(placed.urgency, turns.streams(placed.id));
        if now - placed.turn >= longest && turns.outranked(placed.id, now) {
            placed.holds = false;
            let next = turns.release(placed.id, now);
            self.begin(next);
            self.look_at_encoder(index);
            return;
        }
        self.unit(index);
    }

    /// The encoder's thread ends: what is left is cancelled.
    fn encoder_leaves(&mut self, index: usize) {
        let placed = &mut self.encoders[index];
        let own = self.now - placed.loaded;
        placed.core.end_wait(own);
        while !placed.core.is_idle() {
            placed.core.end_one(&Err(EncodeError::Cancelled), own);
        }
        (placed.state, placed.holds) = (State::Gone, false);
        let id = placed.id;
        let next = self.turns.rest(id, self.now);
        self.computed += self.turns.totals(id).computed;
        self.turns.leave(id, self.now);
        self.begin(next);
    }
}
