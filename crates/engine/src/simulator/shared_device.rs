//! Several engines on one device: they are loaded, serve, and are drained in the middle of it, in simulated time.
//!
//! A simulation of events: what an engine's thread would do between two waits happens at one moment, and its step
//! ends later. The policy is the device's own (`device::turns`); the threads around it are tested in `device::tests`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::encoders::{EncoderHappens, PlacedEncoder};
use super::*;
use crate::device::turns::{MemberId, Turns};
use crate::inbox::Worker;

/// What happens to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happens {
    Loaded,
    Arrives,
    Cancelled(usize),
    /// Its model has computed; what follows needs no turn.
    Computed,
    /// Its step is over, sampling and delivery with it.
    StepEnds,
    Drained,
    DrainEnds,
    /// The same of an encoder.
    Encoder(EncoderHappens),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Waiting,
    InStep,
    Gone,
}

/// An engine on the device.
struct Placed {
    engine: SimulatedEngine,
    id: MemberId,
    /// When it was loaded; its own clock begins there.
    loaded: Duration,
    state: State,
    holds: bool,
    inbox: Vec<Sequence>,
    closed: bool,
    deadline: Option<Duration>,
    arrivals_left: usize,
    /// When its model had computed, one each step.
    computed: Vec<Duration>,
}

pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) now: Duration,
    pub(super) turns: Turns,
    engines: Vec<Placed>,
    pub(super) encoders: Vec<PlacedEncoder>,
    events: BinaryHeap<Reverse<(Duration, u64, usize, Happens)>>,
    scheduled: u64,
    /// Time in which somebody held the device.
    held: Duration,
    /// Turns of those that left.
    pub(super) computed: Duration,
    /// Longest time between a step and the next, for sampling and delivery, microseconds.
    most_away_us: usize,
}

/// The turn of a step: notes when the model had computed.
struct SharedTurn {
    foreign_stall: Option<Duration>,
    clock: Arc<Mutex<Duration>>,
    computed: Option<Duration>,
}

impl Turn for SharedTurn {
    fn foreign_stall(&self) -> Option<Duration> {
        self.foreign_stall
    }

    fn computed(&mut self) {
        self.computed = Some(*self.clock.lock().unwrap());
    }
}

impl World {
    fn new(chance: Chance) -> World {
        World {
            chance,
            now: Duration::ZERO,
            turns: Turns::default(),
            engines: Vec::new(),
            encoders: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            held: Duration::ZERO,
            computed: Duration::ZERO,
            most_away_us: 2000,
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, engine: usize, happens: Happens) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, engine, happens)));
    }

    pub(super) fn later_us(&mut self, most: usize) -> Duration {
        self.now + Duration::from_micros(self.chance.below(most + 1) as u64)
    }

    /// Puts an engine on the device now.
    fn load(&mut self, engine: SimulatedEngine, arrivals: usize) -> usize {
        let id = self.turns.join(engine.bounds.max_stall);
        self.engines.push(Placed {
            engine,
            id,
            loaded: self.now,
            state: State::Idle,
            holds: false,
            inbox: Vec::new(),
            closed: false,
            deadline: None,
            arrivals_left: arrivals,
            computed: Vec::new(),
        });
        let index = self.engines.len() - 1;
        self.schedule(self.now, index, Happens::Arrives);
        index
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, index, happens))) = self.events.pop() {
            assert!(at >= self.now, "time stands still or goes on");
            assert!(self.scheduled < 1_000_000, "no end");
            let engines = self.engines.iter().map(|placed| placed.id);
            if engines.chain(self.encoders.iter().map(|placed| placed.id)).any(|id| self.turns.holds(id)) {
                self.held += at - self.now;
            }
            self.now = at;
            self.happen(index, happens);
        }
    }

    fn happen(&mut self, index: usize, happens: Happens) {
        if let Happens::Encoder(happens) = happens {
            self.encoder_happens(index, happens);
            return;
        }
        if happens == Happens::Loaded {
            let engine = SimulatedEngine::new(&mut self.chance);
            let arrivals = 5 + self.chance.below(20);
            self.load(engine, arrivals);
            return;
        }
        let Placed { state, id, .. } = self.engines[index];
        match happens {
            Happens::Arrives => self.arrive(index),
            Happens::Cancelled(request) => {
                let asked = &mut self.engines[index].engine.requests[request];
                asked.cancelled = true;
                asked.cancel.store(true, Ordering::Release);
            }
            Happens::Computed if self.turns.outranked(id, self.now) => {
                self.engines[index].holds = false;
                let next = self.turns.release(id, self.now);
                self.begin(next);
            }
            Happens::Drained if state != State::Gone => {
                let deadline = self.later_us(20_000);
                self.schedule(deadline, index, Happens::DrainEnds);
                let placed = &mut self.engines[index];
                (placed.closed, placed.deadline) = (true, Some(deadline));
                placed.engine.requests.iter_mut().for_each(|asked| asked.cancelled = true);
            }
            _ => {}
        }
        let awake = matches!(self.engines[index].state, State::Idle | State::Waiting);
        if happens == Happens::StepEnds || (awake && happens != Happens::Computed) {
            self.look(index);
        }
    }

    fn arrive(&mut self, index: usize) {
        let placed = &mut self.engines[index];
        if placed.closed || placed.state == State::Gone || placed.arrivals_left == 0 {
            return;
        }
        placed.arrivals_left -= 1;
        let now = self.now - placed.loaded;
        let sequence = placed.engine.submit(&mut self.chance, now);
        placed.inbox.push(sequence);
        let request = placed.engine.requests.len() - 1;
        if self.chance.below(8) == 0 {
            let at = self.later_us(30_000);
            self.schedule(at, index, Happens::Cancelled(request));
        }
        // Some come together, some after a while.
        let pause = [0, 2_000, 30_000][self.chance.below(3)];
        let next = self.later_us(pause);
        self.schedule(next, index, Happens::Arrives);
    }

    /// What an engine's thread does when it is woken or its step is over.
    fn look(&mut self, index: usize) {
        let now = self.now;
        loop {
            let placed = &mut self.engines[index];
            let own = now - placed.loaded;
            placed.engine.set_clock(own);
            placed.inbox.drain(..).for_each(|sequence| placed.engine.core.accept(sequence));
            let over = placed.deadline.is_some_and(|deadline| now >= deadline);
            if over || (placed.closed && placed.engine.core.is_idle()) {
                self.leave(index);
                return;
            }
            if placed.engine.core.is_idle() {
                (placed.state, placed.holds) = (State::Idle, false);
                let next = self.turns.rest(placed.id, now);
                self.begin(next);
                return;
            }
            let Some(urgency) = placed.engine.core.begin_wait(own) else { continue };
            let (id, renews) = (placed.id, std::mem::take(&mut placed.holds));
            placed.state = State::Waiting;
            let next =
                if renews { self.turns.renew(id, urgency, now) } else { self.turns.ask(id, urgency, now) };
            self.begin(next);
            return;
        }
    }

    /// A turn begins, if it is somebody's: the step of this engine.
    pub(super) fn begin(&mut self, next: Option<MemberId>) {
        let Some(next) = next else { return };
        if let Some(index) = self.encoders.iter().position(|placed| placed.id == next) {
            self.begin_units(index);
            return;
        }
        let index = self.engines.iter().position(|placed| placed.id == next).expect("a member");
        let foreign_stall = self.turns.max_stall(next);
        let placed = &mut self.engines[index];
        assert_eq!(placed.state, State::Waiting, "a turn is for who asked");
        (placed.state, placed.holds) = (State::InStep, true);
        let loaded = placed.loaded;
        placed.engine.set_clock(self.now - loaded);
        let mut turn = SharedTurn { foreign_stall, clock: placed.engine.clock.clone(), computed: None };
        placed.engine.step(&mut turn);
        let ended = loaded + placed.engine.now();
        let computed = turn.computed.map_or(ended, |at| loaded + at);
        placed.computed.push(computed);
        self.schedule(computed, index, Happens::Computed);
        let away = Duration::from_micros(self.chance.below(self.most_away_us + 1) as u64);
        self.schedule(ended + away, index, Happens::StepEnds);
    }

    /// The engine's thread ends: what is left is cancelled.
    fn leave(&mut self, index: usize) {
        let placed = &mut self.engines[index];
        let own = self.now - placed.loaded;
        placed.engine.core.end_wait(own);
        while !placed.engine.core.is_idle() {
            placed.engine.core.end_one(&Ok(FinishReason::Cancelled), own);
        }
        (placed.state, placed.holds) = (State::Gone, false);
        let id = placed.id;
        let next = self.turns.rest(id, self.now);
        self.check_turns(index);
        self.computed += self.turns.totals(id).computed;
        self.turns.leave(id, self.now);
        self.begin(next);
    }

    /// The device's account of waits is the engine's own.
    fn check_turns(&self, index: usize) {
        let placed = &self.engines[index];
        let totals = self.turns.totals(placed.id);
        let stats = placed.engine.stats();
        assert_eq!(totals.waited, stats.waiting_time, "engine {index}");
        assert_eq!(totals.turns, placed.computed.len() as u64, "engine {index}");
        // Its own account has what it did without the device too.
        assert!(stats.prompt_time + stats.completion_time + stats.idle_time >= totals.computed);
        let others = (self.engines.len() + self.encoders.len()) as u32 - 1;
        let bound = others * (Duration::from_millis(2_100) + 40 * MILLISECOND);
        assert!(totals.longest_wait <= bound, "engine {index} starves: {totals:?}");
    }
}

/// Several engines, loaded and drained at random.
fn simulate(seed: u64) -> Outcomes {
    let mut world = World::new(Chance(Rng::new(seed)));
    let loads = 2 + world.chance.below(4);
    let mut at = Duration::ZERO;
    for index in 0..loads {
        world.schedule(at, index, Happens::Loaded);
        if world.chance.below(2) == 0 {
            let drained = at + Duration::from_micros(world.chance.below(150_000) as u64);
            world.schedule(drained, index, Happens::Drained);
        }
        at += Duration::from_micros(world.chance.below(60_000) as u64);
    }
    for _ in 0..world.chance.below(3) {
        world.load_encoder_of_chance();
    }
    world.run();
    let mut outcomes = Outcomes::new();
    let mut computed = world.computed;
    assert_eq!(world.engines.len(), loads);
    for (index, placed) in world.engines.iter().enumerate() {
        assert!(matches!(placed.state, State::Idle | State::Gone), "seed {seed}: engine {index} is stuck");
        if placed.state == State::Idle {
            world.check_turns(index);
            computed += world.turns.totals(placed.id).computed;
        }
        add(&mut outcomes, placed.engine.check(seed));
    }
    for placed in &world.encoders {
        computed +=
            if placed.state == State::Idle { world.turns.totals(placed.id).computed } else { Duration::ZERO };
        add(&mut outcomes, placed.check(seed));
    }
    let drained = world.engines.iter().filter(|placed| placed.state == State::Gone).count();
    assert_eq!(computed, world.held, "seed {seed}: all time that the device was held is somebody's");
    outcomes.insert("drained", drained);
    outcomes
}

#[test]
fn engines_that_share_a_device_answer_as_if_alone_while_others_come_and_go() {
    let mut total = Outcomes::new();
    for seed in 0..400 {
        add(&mut total, simulate(seed));
    }
    let generated =
        ["stop", "length", "cancelled", "waited", "expired", "preempted", "cached", "accepted", "drained"];
    let encoded = ["encoded", "encode cancelled", "encode expired", "encode shared", "encoder drained"];
    for name in generated.into_iter().chain(encoded) {
        assert!(total.get(name).is_some_and(|n| *n >= 50), "too few of {name}: {total:?}");
    }
}

const LONG: usize = 8192;

/// An engine whose steps take a millisecond and a quarter of one for each row, and whose streams may wait for
/// `max_stall`.
fn steady(max_stall: Duration) -> SimulatedEngine {
    steady_by(max_stall, (MILLISECOND, MILLISECOND / 4))
}

/// The same with steps that take so long, and so long for each row.
fn steady_by(max_stall: Duration, took: (Duration, Duration)) -> SimulatedEngine {
    let bounds = StepBounds {
        max_running: 4,
        prefill_chunk: 256,
        max_stall,
        speculation: Speculation::OFF,
        prompt_logits: 1,
        snapshots: SnapshotSpacing { every: 512, least: 64 },
    };
    let model = FakeModel::new(VOCAB, LONG, LONG / 8, 16);
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    SimulatedEngine::with(model, bounds, took, clock, None, false)
}

fn submit(world: &mut World, index: usize, prompt: usize, tokens: usize) {
    let placed = &mut world.engines[index];
    let request = Request {
        prompt: (0..prompt).map(|i| 1 + (i * i % (VOCAB - 1)) as u32).collect(),
        max_tokens: Some(tokens),
        ignore_end: true,
        params: Params::greedy(),
        ..Request::default()
    };
    let now = world.now - placed.loaded;
    let sequence = placed.engine.submit_request(request, 1, None, now);
    placed.inbox.push(sequence);
    world.schedule(world.now, index, Happens::Arrives);
}

/// The gap between two tokens is at most twice the longest stall, while another engine reads 4,096 tokens, and while
/// two do.
#[test]
fn tokens_keep_coming_while_other_engines_read_long_prompts() {
    for readers in 1..=3 {
        let stall = 20 * MILLISECOND;
        let mut world = World::new(Chance(Rng::new(readers)));
        world.most_away_us = 300;
        let stream = world.load(steady(stall), 0);
        submit(&mut world, stream, 8, 2000);
        for _ in 0..readers {
            let reader = world.load(steady(stall), 0);
            submit(&mut world, reader, 4096, 1);
        }
        world.run();
        let read = world.engines[1..].iter().map(|placed| *placed.computed.last().unwrap()).max().unwrap();
        let steps = &world.engines[stream].computed;
        // From its first token on, until the last prompt is read.
        let gaps = steps.windows(2).skip(1).filter(|w| w[0] < read).map(|w| w[1] - w[0]);
        let worst = gaps.clone().max().unwrap();
        assert!(worst <= 2 * stall, "{worst:?} beside {readers}");
        assert!(gaps.clone().count() > 100, "streams go on: {}", gaps.count());
        // The readers have their share of the time: 16 s of one row after the other would be no chunks at all.
        let chunks = world.engines[1].computed.len();
        assert!(chunks < 4096 / 32, "{chunks} chunks");
        for placed in &world.engines {
            let tokens = placed.engine.requests[0].seen.lock().unwrap().tokens.len();
            assert_eq!(tokens, placed.engine.requests[0].request.max_tokens.unwrap());
        }
    }
}

/// The time between two tokens rises by a bounded part while an encoder has a bulk job, which goes on all the same.
#[test]
fn tokens_keep_coming_beside_bulk_texts() {
    for (unit_us, few) in [(500, false), (2_000, false), (2_000, true)] {
        let mut gaps = [false, true].map(|bulk| {
            let mut world = World::new(Chance(Rng::new(1)));
            world.most_away_us = 300;
            let stream = world.load(steady_by(100 * MILLISECOND, (10 * MILLISECOND, MILLISECOND)), 0);
            submit(&mut world, stream, 8, 1000);
            if bulk {
                let encoder = world.load_encoder(Duration::from_micros(unit_us), 0);
                world.submit_texts(encoder, 1, 2000, 40, None);
                if few {
                    for _ in 0..50 {
                        world.submit_texts(encoder, 2, 1, 20, None);
                    }
                }
            }
            world.run();
            let steps = &world.engines[stream].computed;
            let mut gaps: Vec<Duration> = steps.windows(2).skip(1).map(|w| w[1] - w[0]).collect();
            gaps.sort_unstable();
            if bulk {
                let placed = &world.encoders[0];
                let before = placed.units.iter().filter(|at| **at < *steps.last().unwrap()).count();
                let share = Duration::from_micros(unit_us) * before as u32;
                let all = *steps.last().unwrap();
                assert!(share * 12 > all, "bulk work has a part of the time: {share:?} of {all:?}");
                assert_eq!(placed.check(1)["encoded"], 1 + if few { 50 } else { 0 });
            }
            gaps
        });
        let p95 = |gaps: &mut Vec<Duration>| gaps[gaps.len() * 95 / 100];
        let (alone, beside) = (p95(&mut gaps[0]), p95(&mut gaps[1]));
        assert!(beside <= alone.mul_f64(1.25), "{alone:?} alone, {beside:?} beside units of {unit_us} us");
    }
}
