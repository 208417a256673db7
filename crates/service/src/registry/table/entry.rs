//! A model of the table: where it stands, what it holds, when it was used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use events::ModelState;

use crate::LoadedModel;

/// A model that is wanted stays at least this many times as long as its load took, so that loads of one place take at most a
/// ninth of the time.
pub(super) const RESIDENCY: u32 = 8;
/// Bounds of that time: whoever waited for the model has taken it by then, and others do not wait longer for one that took
/// minutes to load.
const RESIDENCY_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// In this time a request counts half as much for the worth of a model.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// Where a model is between not loaded and in use.
pub enum State<M = LoadedModel> {
    /// Known, and loaded when it is asked for.
    Registered,
    /// The model is being loaded, and the load is so far.
    Loading(String),
    /// The model answers.
    Ready(Arc<M>),
    /// The model finishes what it has, and is then unloaded.
    Draining,
    /// The last load failed.
    Failed(String),
}

impl<M> Clone for State<M> {
    fn clone(&self) -> State<M> {
        match self {
            State::Registered => State::Registered,
            State::Loading(what) => State::Loading(what.clone()),
            State::Ready(model) => State::Ready(model.clone()),
            State::Draining => State::Draining,
            State::Failed(why) => State::Failed(why.clone()),
        }
    }
}

impl<M> State<M> {
    /// The model, if it is loaded and answers.
    pub fn model(&self) -> Option<&Arc<M>> {
        match self {
            State::Ready(model) => Some(model),
            _ => None,
        }
    }

    /// The state's name, the same in the API and in the metrics.
    pub fn name(&self) -> &'static str {
        let state = match self {
            State::Registered => ModelState::Registered,
            State::Loading(_) => ModelState::Loading,
            State::Ready(_) => ModelState::Ready,
            State::Draining => ModelState::Draining,
            State::Failed(_) => ModelState::Failed,
        };
        state.name()
    }
}

/// A model of the registry. A place is used again after its model was removed, with another epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelId {
    pub(in super::super) place: usize,
    pub(super) epoch: u32,
}

/// Whether requests find a model by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Standing {
    /// They do.
    Listed,
    /// Not yet: it is to replace the model that has them.
    Candidate,
    /// No more: it was replaced or removed, and goes when nobody uses it.
    Retired,
}

/// What is told of a model.
pub struct Facts<M = LoadedModel> {
    /// Which one it is.
    pub id: ModelId,
    /// The names that it goes by.
    pub names: Vec<String>,
    /// Where it is.
    pub state: State<M>,
    /// Whether it stays loaded.
    pub pinned: bool,
    /// Bytes of memory that it holds, or will hold as far as that is known.
    pub bytes: Option<u64>,
    /// Requests that use it.
    pub uses: usize,
    /// How long it has not been used.
    pub idle: Duration,
    /// How long it stays loaded without a request.
    pub keep_alive: Option<Duration>,
    /// Why the last generation that was to replace it did not.
    pub rejected: Option<String>,
}

pub(in super::super) struct Entry<M> {
    pub(in super::super) names: Vec<String>,
    pub(in super::super) standing: Standing,
    pub(super) epoch: u32,
    /// The place in the list of models; another generation of a model has the same.
    pub(super) rank: u64,
    pub(in super::super) pinned: bool,
    /// Why the last candidate for its names was retired.
    pub(in super::super) rejected: Option<String>,
    /// Requests, each counting half as much after every [`HALF_LIFE`], as of the time of the last one.
    pub(super) requests: (f64, Instant),
    pub(super) keep_alive: Option<Duration>,
    /// What a request asked for in place of `keep_alive`, until the model is unloaded.
    pub(super) asked: Option<Option<Duration>>,
    pub(in super::super) state: State<M>,
    /// Bytes that are reserved for it; 0 while it is not loaded.
    pub(super) reserved: u64,
    /// Bytes that it takes, once that is known.
    pub(super) bytes: Option<u64>,
    pub(super) uses: usize,
    /// When it was last asked for or released.
    pub(super) last: Instant,
    /// When the last load failed.
    pub(super) failed: Option<Instant>,
    /// When the last load began.
    pub(super) load_began: Instant,
    /// Duration of the last load that ended.
    pub(super) load_time: Duration,
    /// Since when it has been ready.
    pub(super) ready: Instant,
    /// Requests that wait for it, and since when there have been any.
    pub(super) waiters: usize,
    pub(super) waiting: Instant,
    /// Since when requests wait that want it together with others: it does not go for whoever waits for less long.
    pub(super) kept: Vec<Instant>,
    /// The model that it makes room for: it takes no new requests while that one is waited for.
    pub(super) yields_to: Option<usize>,
}

impl<M> Entry<M> {
    pub(super) fn new(names: Vec<String>, now: Instant) -> Entry<M> {
        Entry {
            names,
            standing: Standing::Listed,
            epoch: 0,
            rank: 0,
            pinned: false,
            rejected: None,
            requests: (0.0, now),
            keep_alive: None,
            asked: None,
            state: State::Registered,
            reserved: 0,
            bytes: None,
            uses: 0,
            last: now,
            failed: None,
            load_began: now,
            load_time: Duration::ZERO,
            ready: now,
            waiters: 0,
            waiting: now,
            kept: Vec::new(),
            yields_to: None,
        }
    }

    /// Whether its place can be used for another model.
    pub(super) fn is_free(&self) -> bool {
        let idle = matches!(self.state, State::Registered | State::Failed(_));
        self.standing == Standing::Retired && idle && self.uses + self.waiters == 0
    }

    /// Whether it stays for a request that wants it with others, and waits since this time or longer.
    pub(super) fn is_kept(&self, since: Instant) -> bool {
        self.kept.iter().any(|kept| *kept <= since)
    }

    /// Recent requests, as of `now`.
    pub(super) fn requests(&self, now: Instant) -> f64 {
        let (requests, at) = self.requests;
        let halves = now.saturating_duration_since(at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        requests * (-halves).exp2()
    }

    /// Seconds of loading that a byte of its memory saves in a half-life, about.
    pub(super) fn worth(&self, now: Instant) -> f64 {
        self.requests(now) * self.load_time.as_secs_f64() / self.reserved.max(1) as f64
    }

    /// When it has been loaded for long enough to make room for others.
    pub(super) fn turn_ends(&self) -> Instant {
        let (least, most) = RESIDENCY_BOUNDS;
        self.ready + (self.load_time * RESIDENCY).clamp(least, most)
    }

    /// When it may be unloaded for others if nobody uses it until then; requests that wait for it are about to.
    pub(super) fn idle_enough(&self) -> Instant {
        let idle = self.last + self.load_time;
        if self.waiters > 0 { self.turn_ends() } else { idle.min(self.turn_ends()) }
    }

    /// Whether it is not loaded and requests wait for it.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiters > 0 && matches!(self.state, State::Registered | State::Failed(_))
    }

    /// How long it stays loaded without a request.
    pub(super) fn keep_alive(&self) -> Option<Duration> {
        self.asked.unwrap_or(self.keep_alive)
    }
}
