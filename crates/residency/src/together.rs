//! Several models that are taken at once, all or none.

use std::sync::Arc;
use std::time::Duration;

use crate::{Answer, State, Table};

/// The answer to a request for several models.
pub enum Together<M> {
    /// All may be used, and are counted as in use.
    Use(Vec<Arc<M>>),
    /// None is taken; what is to be done for those that cannot be used yet, by place.
    Not(Vec<(usize, Answer<M>)>),
}

impl<M> Table<M> {
    /// Whether all of these models can be used now.
    pub fn are_usable(&self, wanted: &[(usize, u64)]) -> bool {
        wanted
            .iter()
            .all(|(place, _)| matches!(self.entries[*place].state, State::Ready(_)) && !self.yields(*place))
    }

    /// Takes models with the bytes that each takes when it is loaded, or none of them. What is not loaded is asked for, so
    /// that all of them come at the same time; nobody holds one while it waits for another.
    pub fn take_all(&mut self, wanted: &[(usize, u64)], now: Duration) -> Together<M> {
        let is_usable =
            |place: usize| matches!(self.entries[place].state, State::Ready(_)) && !self.yields(place);
        let missing: Vec<(usize, u64)> =
            wanted.iter().copied().filter(|(place, _)| !is_usable(*place)).collect();
        let asked = if missing.is_empty() { wanted } else { &missing };
        let mut models = Vec::with_capacity(asked.len());
        let mut answers = Vec::new();
        for (place, bytes) in asked {
            match self.ask(*place, *bytes, now) {
                Answer::Use(model) => models.push(model),
                answer => answers.push((*place, answer)),
            }
        }
        if answers.is_empty() { Together::Use(models) } else { Together::Not(answers) }
    }

    /// A request begins to wait for models that it wants together; [`Table::stop_gathering`] ends it. Those that are there
    /// stay for it, unless a request that has waited for longer wants their memory: whoever has waited longest gets all.
    pub fn gather(&mut self, places: &[usize], now: Duration) {
        for place in places {
            self.wait(*place, now);
            self.entries[*place].kept.push(now);
        }
    }

    /// A request no longer waits that began to at this time.
    pub fn stop_gathering(&mut self, places: &[usize], since: Duration) {
        for place in places {
            self.stop_waiting(*place);
            let kept = &mut self.entries[*place].kept;
            if let Some(at) = kept.iter().position(|kept| *kept == since) {
                kept.swap_remove(at);
            }
        }
    }

    /// Bytes of models that stay loaded, but for these.
    pub fn pinned_beside(&self, places: &[usize]) -> u64 {
        let others = self.entries.iter().enumerate().filter(|(place, _)| !places.contains(place));
        others.filter(|(_, entry)| entry.pinned).map(|(_, entry)| entry.reserved).sum()
    }

    /// Counts one more request that uses a model which is in use.
    pub fn use_again(&mut self, place: usize) {
        self.entries[place].uses += 1;
    }
}
