//! Which model is loaded, which is unloaded for it, and who must wait: a plain table, with the time as an argument.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::LoadedModel;

/// After a load that failed, requests are told so for this long before it is tried again.
const FAILED_FOR: Duration = Duration::from_secs(10);

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

    /// The state's name, as the API tells it.
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

/// What is told of a model.
pub struct Facts<M = LoadedModel> {
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
}

pub(super) struct Entry<M> {
    pub(super) names: Vec<String>,
    pub(super) pinned: bool,
    pub(super) keep_alive: Option<Duration>,
    pub(super) state: State<M>,
    /// Bytes that are reserved for it; 0 while it is not loaded.
    reserved: u64,
    /// Bytes that it takes, once that is known.
    bytes: Option<u64>,
    uses: usize,
    /// When it was last asked for or released.
    last: Instant,
    /// When the last load failed.
    failed: Option<Instant>,
}

/// The answer to a request for a model.
pub(super) enum Answer<M> {
    /// The model may be used; it is counted as in use.
    Use(Arc<M>),
    /// Something must end first.
    Wait,
    /// The model is marked as loading: whoever asked loads it.
    Load,
    /// These are marked as draining: whoever asked unloads them, and then asks again.
    Unload(Vec<(usize, Arc<M>)>),
    /// The last load failed a moment ago.
    Failed(String),
    /// The model takes more memory than there can be for it.
    TooLarge {
        /// Bytes that it takes.
        bytes: u64,
        /// Bytes that models may take together.
        limit: u64,
        /// Of these, bytes of models that stay loaded.
        pinned: u64,
    },
}

/// The models and the memory that they share.
pub(super) struct Table<M = LoadedModel> {
    pub(super) entries: Vec<Entry<M>>,
    /// Bytes that models may take together.
    limit: u64,
    /// No model is loaded any more.
    closed: bool,
}

impl<M> Table<M> {
    pub(super) fn new(limit: u64) -> Table<M> {
        Table { entries: Vec::new(), limit, closed: false }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn reserved(&self) -> u64 {
        self.entries.iter().map(|entry| entry.reserved).sum()
    }

    /// Adds a model that is not loaded.
    pub(super) fn add(
        &mut self,
        names: Vec<String>,
        pinned: bool,
        keep_alive: Option<Duration>,
        now: Instant,
    ) -> usize {
        self.entries.push(Entry {
            names,
            pinned,
            keep_alive,
            state: State::Registered,
            reserved: 0,
            bytes: None,
            uses: 0,
            last: now,
            failed: None,
        });
        self.entries.len() - 1
    }

    /// Takes the model that takes `bytes` when it is loaded. Marks what the answer says.
    pub(super) fn ask(&mut self, index: usize, bytes: u64, now: Instant) -> Answer<M> {
        let closed = self.closed;
        let entry = &mut self.entries[index];
        entry.last = now;
        match &entry.state {
            State::Ready(model) => {
                let model = model.clone();
                entry.uses += 1;
                return Answer::Use(model);
            }
            State::Loading(_) | State::Draining => return Answer::Wait,
            State::Failed(why) if entry.failed.is_some_and(|at| now < at + FAILED_FOR) => {
                return Answer::Failed(why.clone());
            }
            State::Failed(_) | State::Registered => {}
        }
        if closed {
            return Answer::Failed("the server is shutting down".into());
        }
        entry.bytes = Some(bytes);
        self.room(index, bytes, now)
    }

    /// Reserves room for a model and marks it as loading, or says what must go first.
    fn room(&mut self, index: usize, bytes: u64, now: Instant) -> Answer<M> {
        let pinned: u64 = self.entries.iter().filter(|entry| entry.pinned).map(|entry| entry.reserved).sum();
        if bytes > self.limit.saturating_sub(pinned) {
            return Answer::TooLarge { bytes, limit: self.limit, pinned };
        }
        let free = self.limit.saturating_sub(self.reserved());
        if bytes <= free {
            let entry = &mut self.entries[index];
            (entry.reserved, entry.state) = (bytes, State::Loading("waiting for the file".into()));
            return Answer::Load;
        }
        // What is on its way out already counts: nobody else is unloaded for it.
        let draining = self.entries.iter().filter(|entry| matches!(entry.state, State::Draining));
        let coming: u64 = draining.map(|entry| entry.reserved).sum();
        if bytes <= free + coming {
            return Answer::Wait;
        }
        let going = self.least_used(bytes - free - coming, now);
        if going.is_empty() {
            return Answer::Wait;
        }
        Answer::Unload(going.into_iter().filter_map(|index| Some((index, self.drain(index)?))).collect())
    }

    /// Models that are not in use, the one that was used longest ago first, until they free so many bytes; none if all of
    /// them together do not.
    fn least_used(&self, bytes: u64, now: Instant) -> Vec<usize> {
        let idle = |(_, entry): &(usize, &Entry<M>)| {
            matches!(entry.state, State::Ready(_)) && entry.uses == 0 && !entry.pinned
        };
        let mut idle: Vec<(usize, &Entry<M>)> = self.entries.iter().enumerate().filter(idle).collect();
        idle.sort_by_key(|(_, entry)| std::cmp::Reverse(now.saturating_duration_since(entry.last)));
        let (mut freed, mut going) = (0, Vec::new());
        for (index, entry) in idle {
            if freed >= bytes {
                break;
            }
            freed += entry.reserved;
            going.push(index);
        }
        if freed >= bytes { going } else { Vec::new() }
    }

    /// Marks a model that is ready and not in use as draining.
    pub(super) fn drain(&mut self, index: usize) -> Option<Arc<M>> {
        let entry = &mut self.entries[index];
        let State::Ready(model) = &entry.state else { return None };
        let model = model.clone();
        entry.state = State::Draining;
        Some(model)
    }

    /// How far a load is.
    pub(super) fn progress(&mut self, index: usize, what: String) {
        if let State::Loading(now) = &mut self.entries[index].state {
            *now = what;
        }
    }

    /// A load has ended.
    pub(super) fn loaded(&mut self, index: usize, outcome: Result<Arc<M>, String>, now: Instant) {
        let entry = &mut self.entries[index];
        entry.last = now;
        match outcome {
            Ok(model) => entry.state = State::Ready(model),
            Err(why) => {
                (entry.state, entry.failed, entry.reserved) = (State::Failed(why), Some(now), 0);
            }
        }
    }

    /// An unload has ended.
    pub(super) fn unloaded(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        (entry.state, entry.reserved) = (State::Registered, 0);
    }

    /// A request no longer uses the model.
    pub(super) fn release(&mut self, index: usize, now: Instant) {
        let entry = &mut self.entries[index];
        entry.uses = entry.uses.saturating_sub(1);
        entry.last = now;
    }

    /// Marks those as draining that nobody has asked for as long as they are kept.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(usize, Arc<M>)> {
        let expired = |entry: &Entry<M>| {
            let idle = now.saturating_duration_since(entry.last);
            entry.uses == 0 && !entry.pinned && entry.keep_alive.is_some_and(|keep| idle >= keep)
        };
        let all = 0..self.entries.len();
        let expired: Vec<usize> = all.filter(|index| expired(&self.entries[*index])).collect();
        expired.into_iter().filter_map(|index| Some((index, self.drain(index)?))).collect()
    }

    /// No model is loaded from now on; gives back those that are.
    pub(super) fn close(&mut self) -> Vec<Arc<M>> {
        self.closed = true;
        self.ready()
    }

    /// The models that are loaded.
    pub(super) fn ready(&self) -> Vec<Arc<M>> {
        self.entries.iter().filter_map(|entry| entry.state.model().cloned()).collect()
    }

    pub(super) fn facts(&self, index: usize, now: Instant) -> Facts<M> {
        let entry = &self.entries[index];
        Facts {
            names: entry.names.clone(),
            state: entry.state.clone(),
            pinned: entry.pinned,
            bytes: entry.bytes,
            uses: entry.uses,
            idle: now.saturating_duration_since(entry.last),
            keep_alive: entry.keep_alive,
        }
    }
}

#[cfg(test)]
mod tests;
