//! What an administrator has changed, and what nodes have told: kept over reloads, lost with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use wire::node::NodeRecord;

/// Most records of nodes, and most drained upstreams.
const MOST: usize = 2_048;
/// A record that is older is forgotten.
const FORGET: Duration = Duration::from_secs(600);

/// The state of the admin API.
#[derive(Default)]
pub(crate) struct State {
    /// Names of upstreams that get no further requests.
    drained: ArcSwap<BTreeSet<String>>,
    /// The last record of each node, by the upstream's name.
    records: Mutex<BTreeMap<String, (NodeRecord, Instant)>>,
}

impl State {
    /// Whether an upstream gets no further requests.
    pub(crate) fn is_drained(&self, upstream: &str) -> bool {
        let drained = self.drained.load();
        !drained.is_empty() && drained.contains(upstream)
    }

    /// Drains an upstream or takes it back; whether that changed anything. There is no room for more than [`MOST`].
    pub(super) fn set_drained(&self, upstream: &str, drain: bool) -> bool {
        let mut changed = false;
        self.drained.rcu(|drained| {
            let mut drained = BTreeSet::clone(drained);
            changed = match drain {
                true => drained.len() < MOST && drained.insert(upstream.to_owned()),
                false => drained.remove(upstream),
            };
            drained
        });
        changed
    }

    /// Keeps a node's last record.
    pub(crate) fn note(&self, upstream: &str, record: &NodeRecord) {
        let now = Instant::now();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|_, (_, seen)| now.saturating_duration_since(*seen) < FORGET);
        if records.len() < MOST || records.contains_key(upstream) {
            records.insert(upstream.to_owned(), (record.clone(), now));
        }
    }

    /// The last records and their ages.
    pub(super) fn records(&self) -> BTreeMap<String, (NodeRecord, Duration)> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records
            .iter()
            .map(|(name, (record, seen))| (name.clone(), (record.clone(), seen.elapsed())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_taken_back() {
        let state = State::default();
        assert!(state.set_drained("a", true) && !state.set_drained("a", true));
        assert!(state.is_drained("a") && !state.is_drained("b"));
        assert!(state.set_drained("a", false) && !state.is_drained("a"));
    }

    #[test]
    fn records_are_bounded() {
        let state = State::default();
        for number in 0..MOST + 100 {
            state.note(&number.to_string(), &NodeRecord::default());
        }
        assert_eq!(state.records().len(), MOST);
    }
}
