//! The table: what each model asks for, holds and waits for.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, Facts, ModelId, Standing, State};

/// The answer to a request for a model.
pub enum Answer<M> {
    /// The model may be used; it is counted as in use.
    Use(Arc<M>),
    /// Something must end first, or this time must have come.
    Wait(Option<Duration>),
    /// The model is marked as loading: whoever asked loads it.
    Load,
    /// These are marked as draining: whoever asked unloads them, and then asks again.
    Unload(Vec<(usize, Arc<M>)>),
    /// The last load failed a moment ago.
    Failed(String),
    /// The model was removed or replaced; its name may find another.
    Gone,
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
pub struct Table<M> {
    pub(crate) entries: Vec<Entry<M>>,
    /// Bytes that models may take together.
    limit: u64,
    /// Models that were added so far.
    added: u64,
    /// No model is loaded any more.
    closed: bool,
}

impl<M> Table<M> {
    /// No models, which may take so many bytes together.
    #[must_use]
    pub fn new(limit: u64) -> Table<M> {
        Table { entries: Vec::new(), limit, added: 0, closed: false }
    }

    /// Bytes that models may take together.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that models take: loading, ready, or on their way out.
    pub fn reserved(&self) -> u64 {
        self.entries.iter().map(|entry| entry.reserved).sum()
    }

    /// Adds a model that is not loaded.
    pub fn add(
        &mut self,
        names: Vec<String>,
        pinned: bool,
        keep_alive: Option<Duration>,
        now: Duration,
    ) -> usize {
        let free = self.entries.iter().position(Entry::is_free);
        self.added += 1;
        let entry = Entry { pinned, keep_alive, rank: self.added, ..Entry::new(names, now) };
        match free {
            Some(place) => {
                let epoch = self.entries[place].epoch.wrapping_add(1);
                self.entries[place] = Entry { epoch, ..entry };
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// What stands in a place.
    ///
    /// # Panics
    /// A place that no model has had.
    #[must_use]
    pub fn entry(&self, place: usize) -> &Entry<M> {
        &self.entries[place]
    }

    /// As [`Table::entry`], to change what does not concern memory.
    ///
    /// # Panics
    /// As [`Table::entry`].
    pub fn entry_mut(&mut self, place: usize) -> &mut Entry<M> {
        &mut self.entries[place]
    }

    /// All places.
    pub fn entries(&self) -> &[Entry<M>] {
        &self.entries
    }

    /// The model in a place.
    pub fn id(&self, place: usize) -> ModelId {
        ModelId { place, epoch: self.entries[place].epoch }
    }

    /// The place of a model, unless it was removed.
    pub fn place(&self, id: ModelId) -> Option<usize> {
        self.entries.get(id.place).filter(|entry| entry.epoch == id.epoch).map(|_| id.place)
    }

    /// The models that requests find, with their places; in no order.
    pub fn listed(&self) -> impl Iterator<Item = (usize, &Entry<M>)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.standing == Standing::Listed)
    }

    /// The place of the model that was added first.
    pub fn first(&self) -> Option<usize> {
        self.listed().min_by_key(|(_, entry)| entry.rank).map(|(place, _)| place)
    }

    /// The places of the models that requests find, in the order in which they were added.
    pub fn in_order(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.listed().map(|(place, _)| place).collect();
        places.sort_by_key(|place| self.entries[*place].rank);
        places
    }

    /// Gives the names of `old` to `new`, unless the old one was removed meanwhile: gives back whether it was there. What
    /// the old one has is finished.
    pub fn replace(&mut self, old: ModelId, new: usize) -> bool {
        let Some(old) = self.place(old).filter(|place| self.entries[*place].standing == Standing::Listed)
        else {
            return false;
        };
        let rank = self.entries[old].rank;
        let entry = &mut self.entries[new];
        (entry.standing, entry.rejected, entry.rank) = (Standing::Listed, None, rank);
        self.retire(old);
        true
    }

    /// Lets no more requests find a model. It goes with [`Table::expire`] when nobody uses it.
    pub fn retire(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        (entry.standing, entry.pinned) = (Standing::Retired, false);
    }

    /// Takes the model that takes `bytes` when it is loaded. Marks what the answer says.
    pub fn ask(&mut self, index: usize, bytes: u64, now: Duration) -> Answer<M> {
        let closed = self.closed;
        let yields = self.yields(index);
        let entry = &mut self.entries[index];
        match &entry.state {
            State::Ready(_) if yields => return Answer::Wait(None),
            State::Ready(model) => {
                let model = model.clone();
                entry.requests = (entry.requests(now) + 1.0, now);
                (entry.uses, entry.last, entry.yields_to) = (entry.uses + 1, now, None);
                return Answer::Use(model);
            }
            State::Loading(_) | State::Draining => return Answer::Wait(None),
            State::Failed(why) if entry.is_failed(now) => {
                return Answer::Failed(why.clone());
            }
            State::Failed(_) | State::Registered => {}
        }
        if closed {
            return Answer::Failed("the server is shutting down".into());
        }
        if entry.standing == Standing::Retired {
            return Answer::Gone;
        }
        entry.bytes = Some(bytes);
        self.room(index, bytes, now)
    }

    /// Whether a model takes no new requests, for another one that is still waited for.
    pub(crate) fn yields(&self, index: usize) -> bool {
        self.entries[index].yields_to.is_some_and(|other| self.entries[other].is_waited_for())
    }

    /// A request begins to wait for a model; [`Table::stop_waiting`] ends it.
    pub fn wait(&mut self, index: usize, now: Duration) {
        let entry = &mut self.entries[index];
        if entry.waiters == 0 {
            entry.waiting = now;
        }
        entry.waiters += 1;
    }

    /// A request no longer waits.
    pub fn stop_waiting(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        entry.waiters = entry.waiters.saturating_sub(1);
    }

    /// Since when a model is waited for.
    fn waits_since(&self, index: usize, now: Duration) -> Duration {
        let entry = &self.entries[index];
        if entry.waiters > 0 { entry.waiting } else { now }
    }

    /// Reserves room for a model and marks it as loading, or says what must go first.
    fn room(&mut self, index: usize, bytes: u64, now: Duration) -> Answer<M> {
        let pinned: u64 = self.entries.iter().filter(|entry| entry.pinned).map(|entry| entry.reserved).sum();
        if bytes > self.limit.saturating_sub(pinned) {
            return Answer::TooLarge { bytes, limit: self.limit, pinned };
        }
        let free = self.limit.saturating_sub(self.reserved());
        let since = self.waits_since(index, now);
        // Room goes to whoever has waited longest: otherwise small models would take what a large one waits for.
        let others =
            self.entries.iter().enumerate().filter(|(at, entry)| *at != index && entry.is_waited_for());
        if others.min_by_key(|(_, entry)| entry.waiting).is_some_and(|(_, entry)| entry.waiting < since) {
            return Answer::Wait(None);
        }
        if bytes <= free {
            let entry = &mut self.entries[index];
            (entry.reserved, entry.state) = (bytes, State::Loading("waiting for the file".into()));
            entry.load_began = now;
            return Answer::Load;
        }
        // What is on its way out already counts: nobody else is unloaded for it.
        let draining = self.entries.iter().filter(|entry| matches!(entry.state, State::Draining));
        let coming: u64 = draining.map(|entry| entry.reserved).sum();
        if bytes <= free + coming {
            return Answer::Wait(None);
        }
        self.make_room(index, bytes - free - coming, now)
    }

    /// Chooses the models that go so that so many bytes become free. Those whose turn is over while they are in use take no
    /// new requests from now on.
    fn make_room(&mut self, index: usize, bytes: u64, now: Duration) -> Answer<M> {
        let since = self.waits_since(index, now);
        let going = self.least_worth(bytes, since, now);
        if !going.is_empty() {
            let drained = going.into_iter().filter_map(|index| Some((index, self.drain(index)?)));
            return Answer::Unload(drained.collect());
        }
        let may_go = |entry: &Entry<M>| {
            matches!(entry.state, State::Ready(_)) && !entry.pinned && !entry.is_kept(since)
        };
        let mut candidates: Vec<usize> =
            (0..self.entries.len()).filter(|at| may_go(&self.entries[*at])).collect();
        candidates.sort_by_key(|at| self.entries[*at].turn_ends());
        let mut freed = 0;
        let mut until: Option<Duration> = None;
        for at in candidates {
            if freed >= bytes {
                break;
            }
            let entry = &mut self.entries[at];
            let over = entry.turn_ends() <= now;
            if over {
                freed += entry.reserved;
                entry.yields_to = Some(index);
            }
            let next = if entry.uses == 0 { entry.idle_enough() } else { entry.turn_ends() };
            if !over || entry.uses == 0 {
                until = Some(until.map_or(next, |until| until.min(next)));
            }
        }
        Answer::Wait(until.filter(|until| *until > now))
    }

    /// Models that are not in use and may go, those of least worth (and among equals the one that was used longest ago) first,
    /// until they free so many bytes; none if all of them together do not.
    fn least_worth(&self, bytes: u64, since: Duration, now: Duration) -> Vec<usize> {
        let idle = |(_, entry): &(usize, &Entry<M>)| {
            let unused = matches!(entry.state, State::Ready(_)) && entry.uses == 0 && !entry.pinned;
            unused && entry.idle_enough() <= now && !entry.is_kept(since)
        };
        let mut idle: Vec<(usize, &Entry<M>)> = self.entries.iter().enumerate().filter(idle).collect();
        idle.sort_by(|(_, a), (_, b)| a.worth(now).total_cmp(&b.worth(now)).then(a.last.cmp(&b.last)));
        let (mut freed, mut going) = (0, Vec::new());
        for (place, entry) in idle {
            if freed >= bytes {
                break;
            }
            freed += entry.reserved;
            going.push(place);
        }
        if freed < bytes {
            return Vec::new();
        }
        // Those of most worth stay if the others free enough without them.
        let mut spare = freed - bytes;
        for at in (0..going.len()).rev() {
            let held = self.entries[going[at]].reserved;
            if held <= spare {
                spare -= held;
                going.remove(at);
            }
        }
        going
    }

    /// Marks a model that is ready and not in use as draining.
    pub fn drain(&mut self, index: usize) -> Option<Arc<M>> {
        let entry = &mut self.entries[index];
        let State::Ready(model) = &entry.state else { return None };
        let model = model.clone();
        entry.state = State::Draining;
        Some(model)
    }

    /// How far a load is.
    pub fn progress(&mut self, index: usize, what: String) {
        if let State::Loading(now) = &mut self.entries[index].state {
            *now = what;
        }
    }

    /// A load has ended.
    pub fn loaded(&mut self, index: usize, outcome: Result<Arc<M>, String>, now: Duration) {
        let entry = &mut self.entries[index];
        (entry.last, entry.ready, entry.yields_to) = (now, now, None);
        entry.load_time = now.saturating_sub(entry.load_began);
        match outcome {
            Ok(model) => entry.state = State::Ready(model),
            Err(why) => {
                (entry.state, entry.failed, entry.reserved) = (State::Failed(why), Some(now), 0);
            }
        }
    }

    /// An unload has ended.
    pub fn unloaded(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        (entry.state, entry.reserved, entry.asked) = (State::Registered, 0, None);
    }

    /// A request no longer uses the model.
    pub fn release(&mut self, index: usize, now: Duration) {
        let entry = &mut self.entries[index];
        entry.uses = entry.uses.saturating_sub(1);
        entry.last = now;
    }

    /// Keeps a model so long without a request, for ever without a time, until it is unloaded or asked to be kept otherwise.
    /// Gives back whether it does: a pinned one stays.
    pub fn keep(&mut self, index: usize, keep_alive: Option<Duration>) -> bool {
        let entry = &mut self.entries[index];
        if entry.pinned {
            return false;
        }
        entry.asked = Some(keep_alive);
        true
    }

    /// Marks those as draining that nobody has asked for as long as they are kept, and those that are retired.
    pub fn expire(&mut self, now: Duration) -> Vec<(usize, Arc<M>)> {
        let expired = |entry: &Entry<M>| {
            let idle = now.saturating_sub(entry.last);
            let is_over =
                entry.keep_alive().is_some_and(|keep| idle >= keep) || entry.standing == Standing::Retired;
            entry.uses == 0 && !entry.pinned && is_over
        };
        let all = 0..self.entries.len();
        let expired: Vec<usize> = all.filter(|index| expired(&self.entries[*index])).collect();
        expired.into_iter().filter_map(|index| Some((index, self.drain(index)?))).collect()
    }

    /// No model is loaded from now on; gives back those that are.
    pub fn close(&mut self) -> Vec<Arc<M>> {
        self.closed = true;
        self.ready()
    }

    /// The models that are loaded.
    pub fn ready(&self) -> Vec<Arc<M>> {
        self.entries.iter().filter_map(|entry| entry.state.model().cloned()).collect()
    }

    /// What is told of a model.
    pub fn facts(&self, index: usize, now: Duration) -> Facts<M> {
        let entry = &self.entries[index];
        Facts {
            id: self.id(index),
            names: entry.names.clone(),
            state: entry.state.clone(),
            pinned: entry.pinned,
            bytes: entry.bytes,
            uses: entry.uses,
            idle: now.saturating_sub(entry.last),
            keep_alive: entry.keep_alive(),
            rejected: entry.rejected.clone(),
        }
    }
}
