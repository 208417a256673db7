//! Snapshots of recurrent states: states to return to, each after the last token of a block in the prefix cache.
//!
//! Keys and values of any beginning are in its blocks; the state of a recurrent layer after that beginning is nowhere,
//! unless it was kept. There are as many snapshots as there are states that running sequences do not need. The one goes
//! whose use is longest ago, those that were taken on the way through a long prompt before all others: they are many,
//! and each is worth little. A snapshot goes with its block. One that is about to be copied has a second handle
//! ([`StateSlot::share`]) and does not go before.

use std::collections::{BTreeSet, HashMap};

use crate::states::{StateSlot, StateSlots};

/// Why a snapshot is kept, what is worth least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    /// Taken on the way through a long prompt, in case another text parts from it there.
    Interval,
    /// The latest of an answer that is being generated; gives way to the next of the same answer.
    Rolling,
    /// A prompt ends or texts part there, or it was of use before.
    Kept,
}

/// The snapshots of a pool of blocks, by block.
#[derive(Debug)]
pub(crate) struct Snapshots {
    slots: StateSlots,
    by_block: HashMap<u32, Snapshot>,
    /// Ranks of all snapshots: what is worth little first, then the least recently used.
    order: BTreeSet<Rank>,
    /// Counts uses.
    now: u64,
}

/// Whether a snapshot is worth more than an interval's, its last use, its block.
type Rank = (bool, u64, u32);

#[derive(Debug)]
struct Snapshot {
    slot: StateSlot,
    worth: Worth,
    used: u64,
}

impl Snapshot {
    fn rank(&self, block: u32) -> Rank {
        (self.worth != Worth::Interval, self.used, block)
    }
}

impl Snapshots {
    /// No snapshots yet, of states that are among `slots`.
    pub(crate) fn new(slots: StateSlots) -> Snapshots {
        let by_block = HashMap::with_capacity(slots.total());
        Snapshots { slots, by_block, order: BTreeSet::new(), now: 0 }
    }

    /// All states, those of snapshots included.
    pub(crate) fn slots(&self) -> &StateSlots {
        &self.slots
    }

    /// Snapshots there are.
    pub(crate) fn len(&self) -> usize {
        self.by_block.len()
    }

    /// Whether there is one after this block.
    pub(crate) fn has(&self, block: u32) -> bool {
        self.by_block.contains_key(&block)
    }

    /// A free state, at the cost of the snapshot of least use if need be.
    pub(crate) fn take_slot(&mut self) -> Option<StateSlot> {
        self.slots.take().or_else(|| self.evict(true))
    }

    /// A state for a snapshot of this worth: one of an interval displaces only its like.
    pub(crate) fn slot_for(&mut self, worth: Worth) -> Option<StateSlot> {
        self.slots.take().or_else(|| self.evict(worth != Worth::Interval))
    }

    /// Keeps a state as that after `block`. Where there is one, that is as good, and the given one is freed.
    pub(crate) fn insert(&mut self, block: u32, slot: StateSlot, worth: Worth) {
        if self.by_block.contains_key(&block) {
            self.touch(block, worth);
            return;
        }
        self.now += 1;
        let snapshot = Snapshot { slot, worth, used: self.now };
        self.order.insert(snapshot.rank(block));
        self.by_block.insert(block, snapshot);
    }

    /// A handle of the state after `block`, which is of use: it is kept longer from now on.
    pub(crate) fn hold(&mut self, block: u32) -> Option<StateSlot> {
        self.touch(block, Worth::Kept);
        self.by_block.get(&block).map(|snapshot| snapshot.slot.share())
    }

    /// Takes away the state after `block`, of an answer that is past it, if it was of no other use and nobody is
    /// about to copy it.
    pub(crate) fn take_rolling(&mut self, block: u32) -> Option<StateSlot> {
        let snapshot = self.by_block.get(&block)?;
        let takes = snapshot.worth == Worth::Rolling && !snapshot.slot.is_shared();
        if takes { self.remove(block) } else { None }
    }

    /// Takes away the state after `block`.
    pub(crate) fn remove(&mut self, block: u32) -> Option<StateSlot> {
        let snapshot = self.by_block.remove(&block)?;
        self.order.remove(&snapshot.rank(block));
        Some(snapshot.slot)
    }

    /// Records that the state after `block` is wanted, for what is worth that much.
    pub(crate) fn touch(&mut self, block: u32, worth: Worth) {
        let Some(snapshot) = self.by_block.get_mut(&block) else { return };
        self.order.remove(&snapshot.rank(block));
        self.now += 1;
        snapshot.used = self.now;
        snapshot.worth = snapshot.worth.max(worth);
        self.order.insert(snapshot.rank(block));
    }

    /// The state of the snapshot that goes first; one of an interval unless `any` may go.
    fn evict(&mut self, any: bool) -> Option<StateSlot> {
        let may_go = |rank: &&Rank| {
            let held = self.by_block.get(&rank.2).is_none_or(|snapshot| snapshot.slot.is_shared());
            (any || !rank.0) && !held
        };
        let block = self.order.iter().find(may_go)?.2;
        self.remove(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(snapshots: &mut Snapshots, block: u32, worth: Worth) -> bool {
        let slot = snapshots.slot_for(worth);
        slot.map(|slot| snapshots.insert(block, slot, worth)).is_some()
    }

    #[test]
    fn what_was_used_last_stays_and_intervals_go_first() {
        let mut all = Snapshots::new(StateSlots::new(3));
        assert!(keep(&mut all, 1, Worth::Kept) && keep(&mut all, 2, Worth::Kept));
        assert!(keep(&mut all, 3, Worth::Interval));
        assert!(keep(&mut all, 4, Worth::Interval), "in place of the other interval's");
        assert!(!all.has(3) && all.has(4));
        assert!(keep(&mut all, 5, Worth::Rolling), "an interval's goes first, though it is the latest");
        assert!(!all.has(4) && all.has(1));
        assert!(!keep(&mut all, 6, Worth::Interval), "it displaces nothing that is worth more");
        all.hold(1).unwrap();
        assert!(keep(&mut all, 7, Worth::Kept));
        assert!(all.has(1) && !all.has(2), "the first one was of use later");
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn an_interval_that_was_of_use_is_worth_as_much_as_others() {
        let mut all = Snapshots::new(StateSlots::new(2));
        keep(&mut all, 1, Worth::Interval);
        keep(&mut all, 2, Worth::Kept);
        drop(all.hold(1));
        keep(&mut all, 3, Worth::Kept);
        assert!(all.has(1) && !all.has(2));
    }

    #[test]
    fn a_state_that_is_about_to_be_copied_stays() {
        let mut all = Snapshots::new(StateSlots::new(2));
        keep(&mut all, 1, Worth::Kept);
        keep(&mut all, 2, Worth::Kept);
        let first = all.hold(1).unwrap();
        let second = all.hold(2).unwrap();
        assert!(all.take_slot().is_none());
        drop(second);
        let taken = all.take_slot().unwrap();
        assert!(!all.has(2) && taken.number() != first.number());
        // The block of the first goes; its state is nobody else's while it is held.
        drop((all.remove(1), taken));
        let free = all.take_slot().unwrap();
        assert!(all.take_slot().is_none() && free.number() != first.number());
    }

    #[test]
    fn a_rolling_one_is_taken_back_unless_it_was_of_use() {
        let mut all = Snapshots::new(StateSlots::new(2));
        keep(&mut all, 1, Worth::Rolling);
        keep(&mut all, 2, Worth::Rolling);
        drop(all.hold(2));
        assert!(all.take_rolling(1).is_some() && all.take_rolling(2).is_none());
        assert!(all.has(2) && !all.has(1) && all.take_rolling(9).is_none());
    }
}
