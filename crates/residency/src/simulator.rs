//! A seeded simulation of the table: requests, loads and unloads that take their time, a folder whose models come, change
//! and go, and someone who loads, unloads, pins and keeps by hand, all in simulated time.
//!
//! What the registry does around the table (`registry.rs`, `generations.rs`, `unloading.rs`) is done here by events: a
//! request asks again whenever the registry would be told that something changed, and at no other time, so a change that
//! nobody is told of shows as a request that is late. Checked after every event: no model is loaded twice at a time, what
//! goes is not in use, loading or pinned, the memory of all that is there is within the limit, and every answer comes from
//! the model that had the name while the request waited.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use crate::{Answer, ModelId, Standing, State, Table};

/// Memory of all models together.
const LIMIT: u64 = 100;
/// Names that the folder may have a model for.
const NAMES: usize = 16;
/// The longest that a request waits. Turns are over long before.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// A model in the folder, or one that was.
#[derive(Debug, Clone, Copy)]
struct Version {
    name: usize,
    generation: usize,
    bytes: u64,
    load: Duration,
    /// Whether its file is damaged.
    damaged: bool,
    /// Whether it passes its probes, if it has any.
    passes: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Arrives,
    /// A request asks again although nothing has changed, at the time that it was told.
    Wakes(usize),
    Answered(usize),
    Loaded(usize),
    Unloaded(usize),
    Polls,
    ByHand,
    Expires,
    Probed(usize),
}

/// Who asks for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A client, by name.
    Client(usize),
    /// The folder, for a candidate that is to replace this model.
    Candidate(ModelId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Asks,
    Waits,
    Uses,
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Answered,
    /// The model's last load failed.
    Failed,
    TooLarge,
    /// No model has the name any more.
    Removed,
    Late,
}

#[derive(Clone, Copy)]
struct Request {
    asker: Asker,
    id: ModelId,
    asked: Duration,
    stage: Stage,
    /// When it asks again if nothing has changed until then.
    wake: Option<Duration>,
}

struct World {
    table: Table<Version>,
    now: Duration,
    random: u64,
    events: BinaryHeap<Reverse<(Duration, u64, Happens)>>,
    scheduled: u64,
    /// What stands in each place of the table.
    placed: BTreeMap<usize, Version>,
    /// The listed model of each name, as the folder's poll has left it.
    folder: [Option<ModelId>; NAMES],
    /// Names whose candidate is loaded or probed.
    replacing: [bool; NAMES],
    generations: usize,
    requests: Vec<Request>,
    /// Requests that are not done.
    open: usize,
    /// Requests that wait for a change.
    waiting: Vec<usize>,
    has_changed: bool,
    /// Models that take memory, by place: from the begin of the load to the end of the unload.
    held: BTreeMap<usize, Version>,
    loads: usize,
    arrivals_left: usize,
    outcomes: BTreeMap<Outcome, usize>,
    steps: usize,
}

impl World {
    fn new(seed: u64, arrivals: usize) -> World {
        let start = Duration::ZERO;
        let mut world = World {
            table: Table::new(LIMIT),
            now: start,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            events: BinaryHeap::new(),
            scheduled: 0,
            placed: BTreeMap::new(),
            folder: [None; NAMES],
            replacing: [false; NAMES],
            generations: 0,
            requests: Vec::new(),
            open: 0,
            waiting: Vec::new(),
            has_changed: false,
            held: BTreeMap::new(),
            loads: 0,
            arrivals_left: arrivals,
            outcomes: BTreeMap::new(),
            steps: 0,
        };
        for name in 0..NAMES - 2 {
            let version = world.version(name);
            world.folder[name] = Some(world.add(version, Standing::Listed));
        }
        for happens in [Happens::Arrives, Happens::Polls, Happens::ByHand, Happens::Expires] {
            world.schedule(0, happens);
        }
        world
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % limit
    }

    /// Whether something of this many per cent happens.
    fn happens(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }

    fn schedule(&mut self, ms: u64, happens: Happens) {
        self.schedule_at(self.now + Duration::from_millis(ms), happens);
    }

    fn schedule_at(&mut self, at: Duration, happens: Happens) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, happens)));
    }

    /// Another version of a model. Two of any size fit, so that a candidate fits beside any model.
    fn version(&mut self, name: usize) -> Version {
        self.generations += 1;
        Version {
            name,
            generation: self.generations,
            bytes: 1 + self.below(LIMIT as usize / 3) as u64,
            load: Duration::from_millis(1 + self.below(3_000) as u64),
            damaged: self.happens(4),
            passes: if self.happens(50) { Some(self.happens(75)) } else { None },
        }
    }

    fn add(&mut self, version: Version, standing: Standing) -> ModelId {
        let keep_alive = self.happens(50).then(|| Duration::from_secs(1 + self.below(30) as u64));
        let place = self.table.add(vec![version.name.to_string()], false, keep_alive, self.now);
        assert!(!self.held.contains_key(&place), "the place of a model that still has memory");
        self.table.entries[place].standing = standing;
        self.placed.insert(place, version);
        self.table.id(place)
    }

    fn find(&self, name: usize) -> Option<ModelId> {
        let found = self.table.listed().find(|(place, _)| self.placed[place].name == name);
        found.map(|(place, _)| self.table.id(place))
    }

    /// Runs until nothing is left to do.
    fn run(&mut self) {
        while let Some(Reverse((at, _, happens))) = self.events.pop() {
            self.now = at;
            self.steps += 1;
            self.step(happens);
            self.check();
            while std::mem::take(&mut self.has_changed) {
                for request in self.waiting.clone() {
                    self.ask(request);
                }
                self.check();
            }
        }
    }

    fn step(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives => self.arrives(),
            Happens::Wakes(request) if self.requests[request].wake == Some(self.now) => self.ask(request),
            Happens::Wakes(_) => self.steps -= 1,
            Happens::Answered(request) => self.answered(request),
            Happens::Loaded(place) => self.load_ends(place),
            Happens::Unloaded(place) => {
                self.held.remove(&place).expect("an unload of a model that was there");
                self.table.unloaded(place);
                self.changed();
            }
            Happens::Polls => {
                self.poll();
                self.again(200, happens);
            }
            Happens::ByHand => {
                self.by_hand();
                self.again(300, happens);
            }
            Happens::Expires => {
                self.expire();
                self.again(1_000, happens);
            }
            Happens::Probed(request) => self.probed(request),
        }
    }

    /// Has something that repeats happen again, until the last request is done.
    fn again(&mut self, most_ms: usize, happens: Happens) {
        if self.arrivals_left > 0 || (self.open > 0 && happens == Happens::Expires) {
            let after = 1 + self.below(most_ms) as u64;
            self.schedule(after, happens);
        }
    }

    fn arrives(&mut self) {
        let name = self.below(NAMES);
        if let Some(id) = self.find(name) {
            self.request(Asker::Client(name), id);
        }
        self.arrivals_left -= 1;
        if self.arrivals_left > 0 {
            let pause = if self.happens(5) { 20_000 } else { 500 };
            let after = self.below(pause) as u64;
            self.schedule(after, Happens::Arrives);
        }
    }

    fn request(&mut self, asker: Asker, id: ModelId) {
        self.requests.push(Request { asker, id, asked: self.now, stage: Stage::Asks, wake: None });
        self.open += 1;
        self.ask(self.requests.len() - 1);
    }

    /// What the registry's `acquire` does between two waits.
    fn ask(&mut self, at: usize) {
        let Request { id, stage, asker, asked, wake } = self.requests[at];
        if !matches!(stage, Stage::Asks | Stage::Waits) {
            return;
        }
        let answer = match self.table.place(id) {
            Some(place) => self.table.ask(place, self.placed[&place].bytes, self.now),
            None => Answer::Gone,
        };
        match answer {
            Answer::Use(model) => return self.uses(at, *model),
            Answer::Load => self.begin_load(id.place),
            Answer::Unload(going) => self.begin_unload(going, false),
            Answer::Wait(until) => {
                let until = until.unwrap_or(asked + LONGEST_WAIT);
                if wake != Some(until) {
                    self.requests[at].wake = Some(until);
                    self.schedule_at(until, Happens::Wakes(at));
                }
            }
            Answer::Failed(_) => return self.ends(at, Outcome::Failed),
            Answer::TooLarge { bytes, pinned, .. } => {
                assert!(bytes + pinned > LIMIT);
                return self.ends(at, Outcome::TooLarge);
            }
            Answer::Gone => return self.follow(at, asker),
        }
        if self.now >= asked + LONGEST_WAIT {
            return self.ends(at, Outcome::Late);
        }
        if stage == Stage::Asks {
            self.requests[at].stage = Stage::Waits;
            self.waiting.push(at);
            self.table.wait(id.place, self.now);
        }
    }

    /// The model of a request was removed or replaced: its name may find another.
    fn follow(&mut self, at: usize, asker: Asker) {
        let next = match asker {
            Asker::Client(name) => self.find(name).filter(|next| *next != self.requests[at].id),
            Asker::Candidate(_) => None,
        };
        let Some(next) = next else { return self.ends(at, Outcome::Removed) };
        self.no_longer_waits(at);
        let request = &mut self.requests[at];
        (request.id, request.stage) = (next, Stage::Asks);
        self.ask(at);
    }

    fn no_longer_waits(&mut self, at: usize) {
        if self.requests[at].stage == Stage::Waits {
            self.table.stop_waiting(self.requests[at].id.place);
            self.requests[at].stage = Stage::Asks;
            self.waiting.retain(|waiting| *waiting != at);
        }
    }

    fn uses(&mut self, at: usize, model: Version) {
        self.no_longer_waits(at);
        let Request { id, asker, .. } = self.requests[at];
        assert_eq!(model.generation, self.placed[&id.place].generation, "another model answers");
        assert!(self.held.contains_key(&id.place), "a model without memory answers");
        self.requests[at].stage = Stage::Uses;
        match asker {
            Asker::Client(name) => {
                assert_eq!(model.name, name, "a model of another name answers");
                let standing = self.table.entries[id.place].standing;
                assert_ne!(standing, Standing::Candidate, "a model that is not checked yet answers");
                let takes = 1 + self.below(800) as u64;
                self.schedule(takes, Happens::Answered(at));
            }
            Asker::Candidate(_) => {
                let takes = if model.passes.is_some() { self.below(500) as u64 } else { 0 };
                self.schedule(takes, Happens::Probed(at));
            }
        }
        self.changed();
    }

    fn answered(&mut self, at: usize) {
        self.table.release(self.requests[at].id.place, self.now);
        self.ends(at, Outcome::Answered);
    }

    /// The request gets its answer, or is told why there is none.
    fn ends(&mut self, at: usize, outcome: Outcome) {
        self.no_longer_waits(at);
        self.requests[at].stage = Stage::Done(outcome);
        self.open -= 1;
        match self.requests[at].asker {
            Asker::Client(_) => *self.outcomes.entry(outcome).or_default() += 1,
            Asker::Candidate(old) => {
                if outcome != Outcome::Answered {
                    self.replaced(at, old, false);
                }
            }
        }
        self.changed();
    }

    fn begin_load(&mut self, place: usize) {
        let version = self.placed[&place];
        assert!(self.held.insert(place, version).is_none(), "loaded twice");
        let twice = |other: &&Version| other.generation == version.generation;
        assert_eq!(self.held.values().filter(twice).count(), 1, "loaded twice");
        self.loads += 1;
        self.schedule_at(self.now + version.load, Happens::Loaded(place));
    }

    fn load_ends(&mut self, place: usize) {
        let version = self.placed[&place];
        let outcome = if version.damaged { Err("damaged".to_owned()) } else { Ok(Arc::new(version)) };
        if outcome.is_err() {
            self.held.remove(&place);
        }
        self.table.loaded(place, outcome, self.now);
        self.changed();
    }

    fn begin_unload(&mut self, going: Vec<(usize, Arc<Version>)>, by_hand: bool) {
        for (place, model) in going {
            let entry = &self.table.entries[place];
            assert!(entry.uses == 0, "a model in use goes");
            assert!(by_hand || !entry.pinned, "a pinned model goes");
            assert_eq!(model.generation, self.placed[&place].generation);
            let takes = self.below(100) as u64;
            self.schedule(takes, Happens::Unloaded(place));
        }
    }

    /// Everyone who waits is told that something changed, as by the registry's `changed`.
    fn changed(&mut self) {
        self.has_changed = true;
    }

    /// A look at the folder: a model that is new, changed or gone, now and then.
    fn poll(&mut self) {
        let name = self.below(NAMES);
        if !self.happens(15) {
            return;
        }
        let goes = self.happens(20);
        match self.folder[name] {
            // The candidate ends first, whatever becomes of it.
            _ if self.replacing[name] && !goes => {}
            None if self.replacing[name] => {}
            None => {
                let version = self.version(name);
                self.folder[name] = Some(self.add(version, Standing::Listed));
            }
            Some(id) if goes => {
                self.remove(id);
                self.folder[name] = None;
            }
            Some(old) => {
                let version = self.version(name);
                let place = self.table.place(old).expect("nobody else removes models");
                let is_loaded = self.table.entries[place].state.model().is_some();
                let candidate = self.add(version, Standing::Candidate);
                self.replacing[name] = true;
                if is_loaded || version.passes.is_some() {
                    self.request(Asker::Candidate(old), candidate);
                } else {
                    assert!(self.table.replace(old, candidate.place));
                    (self.folder[name], self.replacing[name]) = (Some(candidate), false);
                    self.expire();
                }
            }
        }
    }

    fn remove(&mut self, id: ModelId) {
        let place = self.table.place(id).expect("nobody else removes models");
        self.table.retire(place);
        self.expire();
    }

    fn probed(&mut self, at: usize) {
        let Request { id, asker, .. } = self.requests[at];
        let Asker::Candidate(old) = asker else { panic!("only candidates are probed") };
        self.table.release(id.place, self.now);
        let passes = self.placed[&id.place].passes != Some(false);
        self.replaced(at, old, passes);
        self.requests[at].stage = Stage::Done(Outcome::Answered);
        self.open -= 1;
        self.changed();
    }

    /// A candidate takes the place of the old one, or goes.
    fn replaced(&mut self, at: usize, old: ModelId, passes: bool) {
        let id = self.requests[at].id;
        let name = self.placed[&id.place].name;
        self.replacing[name] = false;
        let is_there = self.folder[name] == Some(old);
        if passes {
            let replaces = self.table.replace(old, id.place);
            assert_eq!(replaces, is_there, "a candidate takes the place of a model that was removed");
        }
        if passes && is_there {
            self.folder[name] = Some(id);
        } else {
            self.table.retire(id.place);
        }
        self.expire();
    }

    fn expire(&mut self) {
        let going = self.table.expire(self.now);
        self.begin_unload(going, false);
        self.changed();
    }

    /// Someone loads, unloads, pins or keeps a model.
    fn by_hand(&mut self) {
        let name = self.below(NAMES);
        let Some(id) = self.find(name) else { return };
        match self.below(5) {
            0 => self.request(Asker::Client(name), id),
            1 => {
                let busy = matches!(self.table.entries[id.place].state, State::Loading(_));
                if self.table.entries[id.place].uses == 0 && !busy {
                    let going = self.table.drain(id.place);
                    self.begin_unload(going.map(|model| (id.place, model)).into_iter().collect(), true);
                }
            }
            2 => {
                self.table.keep(id.place, Some(Duration::from_millis(500)));
            }
            3 => {
                let pinned = self.table.entries.iter().filter(|entry| entry.pinned).count();
                self.table.entries[id.place].pinned = pinned == 0;
                self.changed();
            }
            _ => {
                self.table.entries.iter_mut().for_each(|entry| entry.pinned = false);
                self.changed();
            }
        }
    }

    /// What always holds.
    fn check(&self) {
        let held: u64 = self.held.values().map(|version| version.bytes).sum();
        assert_eq!(held, self.table.reserved(), "what is reserved is what is there");
        assert!(held <= LIMIT, "{held} bytes of {LIMIT}");
        let mut listed = [None; NAMES];
        for (place, _) in self.table.listed() {
            let before = listed[self.placed[&place].name].replace(self.table.id(place));
            assert!(before.is_none(), "two models have one name");
        }
        assert_eq!(listed, self.folder, "the folder's models are those that are found");
    }
}

/// Issue 49: ten thousand random steps, for several seeds: no answer is lost, no model is loaded twice at a time, and none
/// goes that is in use.
#[test]
fn random_loads_unloads_polls_and_requests_lose_nothing() {
    let mut all: BTreeMap<Outcome, usize> = BTreeMap::new();
    for seed in 1..=6 {
        let mut world = World::new(seed, 2_500);
        world.run();
        let done = |request: &Request| matches!(request.stage, Stage::Done(_));
        assert!(world.requests.iter().all(done), "seed {seed}: a request without an answer");
        assert!(world.steps >= 10_000, "seed {seed}: {} steps", world.steps);
        assert_eq!(world.outcomes.get(&Outcome::Late), None, "seed {seed}: {:?}", world.outcomes);
        assert!(world.loads > 300 && world.generations > 60, "seed {seed}: {} loads", world.loads);
        // Places of models that went are used again: there are not many more than names.
        assert!(world.table.entries.len() <= 2 * NAMES, "seed {seed}: {}", world.table.entries.len());
        let is_left = |entry: &crate::Entry<Version>| entry.standing == Standing::Retired && !entry.is_free();
        assert!(!world.table.entries.iter().any(is_left), "seed {seed}: a model that went is still there");
        world.outcomes.into_iter().for_each(|(outcome, count)| *all.entry(outcome).or_default() += count);
    }
    let total: usize = all.values().sum();
    assert!(all[&Outcome::Answered] * 10 > total * 8, "{all:?}");
    for refused in [Outcome::Failed, Outcome::Removed] {
        assert!(all.contains_key(&refused), "no seed has {refused:?}: {all:?}");
    }
}
