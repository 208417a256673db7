//! A seeded simulation of the table: requests, loads and unloads that take their time, a folder whose models come, change
//! and go, and someone who loads, unloads, pins and keeps by hand, all in simulated time.
//!
//! What the registry does around the table (`registry.rs`, `generations.rs`, `unloading.rs`) is done here by events: a
//! request asks again whenever the registry would be told that something changed, and at no other time, so a change that
//! nobody is told of shows as a request that is late. Checked after every event: no model is loaded twice at a time, what
//! goes is not in use, loading or pinned, the memory of all that is there is within the limit, and every answer comes from
//! the model that had the name while the request waited.

mod folder;
mod requests;

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

    /// What always holds.
    fn check(&self) {
        let held: u64 = self.held.values().map(|version| version.bytes).sum();
        assert_eq!(held, self.table.reserved(), "what is reserved is what is there");
        assert!(held <= LIMIT, "{held} bytes of {LIMIT}");
        let is_stuck = |entry: &crate::Entry<Version>| entry.standing == Standing::Retired && entry.pinned;
        assert!(!self.table.entries.iter().any(is_stuck), "a model that was removed stays pinned");
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
