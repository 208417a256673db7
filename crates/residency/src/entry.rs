//! A model of the table: where it stands, what it holds, when it was used.

use std::sync::Arc;
use std::time::Duration;

/// A model that is wanted stays at least this many times as long as its load took, so that loads of one place take at most a
/// ninth of the time.
pub const RESIDENCY: u32 = 8;
/// Bounds of that time: whoever waited for the model has taken it by then, and others do not wait longer for one that took
/// minutes to load.
const RESIDENCY_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// After a load that failed, requests are told so for this long before it is tried again.
const FAILED_FOR: Duration = Duration::from_secs(10);

/// In this time a request counts half as much for the worth of a model.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// Where a model is between not loaded and in use.
pub enum State<M> {
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
        match self {
            State::Registered => "registered",
            State::Loading(_) => "loading",
            State::Ready(_) => "ready",
            State::Draining => "draining",
            State::Failed(_) => "failed",
        }
    }
}

/// A model of the registry. A place is used again after its model was removed, with another epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelId {
    /// The place in the table.
    pub place: usize,
    pub(crate) epoch: u32,
}

/// Whether requests find a model by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They do.
    Listed,
    /// Not yet: it is to replace the model that has them.
    Candidate,
    /// No more: it was replaced or removed, and goes when nobody uses it.
    Retired,
}

/// What is told of a model.
pub struct Facts<M> {
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

/// A model of the table.
pub struct Entry<M> {
    /// The names that it goes by.
    pub names: Vec<String>,
    /// Whether requests find it.
    pub standing: Standing,
    pub(crate) epoch: u32,
    /// The place in the list of models; another generation of a model has the same.
    pub(crate) rank: u64,
    /// Whether it stays loaded whatever else is asked for.
    pub pinned: bool,
    /// Why the last candidate for its names was retired.
    pub rejected: Option<String>,
    /// Requests, each counting half as much after every [`HALF_LIFE`], as of the time of the last one.
    pub(crate) requests: (f64, Duration),
    pub(crate) keep_alive: Option<Duration>,
    /// What a request asked for in place of `keep_alive`, until the model is unloaded.
    pub(crate) asked: Option<Option<Duration>>,
    /// Where it is.
    pub state: State<M>,
    /// Bytes that are reserved for it; 0 while it is not loaded.
    pub(crate) reserved: u64,
    /// Bytes that it takes, once that is known.
    pub(crate) bytes: Option<u64>,
    pub(crate) uses: usize,
    /// When it was last asked for or released.
    pub(crate) last: Duration,
    /// When the last load failed.
    pub(crate) failed: Option<Duration>,
    /// When the last load began.
    pub(crate) load_began: Duration,
    /// Duration of the last load that ended.
    pub(crate) load_time: Duration,
    /// Since when it has been ready.
    pub(crate) ready: Duration,
    /// Requests that wait for it, and since when there have been any.
    pub(crate) waiters: usize,
    pub(crate) waiting: Duration,
    /// Since when requests wait that want it together with others: it does not go for whoever waits for less long.
    pub(crate) kept: Vec<Duration>,
    /// The model that it makes room for: it takes no new requests while that one is waited for.
    pub(crate) yields_to: Option<usize>,
}

impl<M> Entry<M> {
    pub(crate) fn new(names: Vec<String>, now: Duration) -> Entry<M> {
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
    pub(crate) fn is_free(&self) -> bool {
        let idle = matches!(self.state, State::Registered | State::Failed(_));
        self.standing == Standing::Retired && idle && self.uses + self.waiters == 0
    }

    /// Whether its last load failed a moment ago; that of a model which was removed is not told any more.
    pub(crate) fn is_failed(&self, now: Duration) -> bool {
        self.standing != Standing::Retired && self.failed.is_some_and(|at| now < at + FAILED_FOR)
    }

    /// Whether it stays for a request that wants it with others, and waits since this time or longer.
    pub(crate) fn is_kept(&self, since: Duration) -> bool {
        self.kept.iter().any(|kept| *kept <= since)
    }

    /// Recent requests, as of `now`.
    pub(crate) fn requests(&self, now: Duration) -> f64 {
        let (requests, at) = self.requests;
        let halves = now.saturating_sub(at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        requests * (-halves).exp2()
    }

    /// Seconds of loading that a byte of its memory saves in a half-life, about.
    pub(crate) fn worth(&self, now: Duration) -> f64 {
        self.requests(now) * self.load_time.as_secs_f64() / self.reserved.max(1) as f64
    }

    /// When it has been loaded for long enough to make room for others.
    pub(crate) fn turn_ends(&self) -> Duration {
        let (least, most) = RESIDENCY_BOUNDS;
        self.ready + (self.load_time * RESIDENCY).clamp(least, most)
    }

    /// When it may be unloaded for others if nobody uses it until then; requests that wait for it are about to.
    pub(crate) fn idle_enough(&self) -> Duration {
        let idle = self.last + self.load_time;
        if self.waiters > 0 { self.turn_ends() } else { idle.min(self.turn_ends()) }
    }

    /// Whether it is not loaded and requests wait for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters > 0 && matches!(self.state, State::Registered | State::Failed(_))
    }

    /// How long it stays loaded without a request.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        self.asked.unwrap_or(self.keep_alive)
    }
}
