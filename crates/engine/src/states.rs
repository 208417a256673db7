//! Which recurrent state is whose.
//!
//! A model with recurrent layers has a fixed number of states, each of one sequence after some number of its tokens. A
//! [`StateSlot`] holds one of them and frees it on drop. Slots are alike: what was a running sequence's may become a
//! snapshot without being copied, and the other way round. The slots belong to the engine's thread: `Rc`, no lock.

use std::cell::RefCell;
use std::rc::Rc;

/// All recurrent states of one model.
#[derive(Debug, Clone)]
pub(crate) struct StateSlots(Rc<RefCell<Slots>>);

#[derive(Debug)]
struct Slots {
    /// Free states; the last one is taken next.
    free: Vec<u32>,
    /// Handles of a state, by state.
    holders: Vec<u32>,
}

/// A handle of one state. The state is free when its last handle is dropped.
#[derive(Debug)]
pub(crate) struct StateSlot {
    number: u32,
    slots: StateSlots,
}

impl StateSlots {
    /// `total` states, all free.
    pub(crate) fn new(total: usize) -> StateSlots {
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        StateSlots(Rc::new(RefCell::new(Slots {
            free: (0..total).rev().collect(),
            holders: vec![0; total as usize],
        })))
    }

    /// All states, free or not.
    pub(crate) fn total(&self) -> usize {
        self.0.borrow().holders.len()
    }

    /// States that somebody holds.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        let slots = self.0.borrow();
        slots.holders.len() - slots.free.len()
    }

    /// A free state, if there is one. What is in it is of no meaning.
    pub(crate) fn take(&self) -> Option<StateSlot> {
        let mut slots = self.0.borrow_mut();
        let number = slots.free.pop()?;
        slots.holders[number as usize] = 1;
        Some(StateSlot { number, slots: self.clone() })
    }
}

impl StateSlot {
    /// The state's number in the model.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// A second handle of the state: as long as one is left, the state is not given to anybody else.
    pub(crate) fn share(&self) -> StateSlot {
        self.slots.0.borrow_mut().holders[self.number as usize] += 1;
        StateSlot { number: self.number, slots: self.slots.clone() }
    }

    /// Whether there are other handles of the state.
    pub(crate) fn is_shared(&self) -> bool {
        self.slots.0.borrow().holders[self.number as usize] > 1
    }
}

impl Drop for StateSlot {
    fn drop(&mut self) {
        let mut slots = self.slots.0.borrow_mut();
        let holders = &mut slots.holders[self.number as usize];
        *holders -= 1;
        if *holders == 0 {
            slots.free.push(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_free_when_nobody_holds_it() {
        let slots = StateSlots::new(2);
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        assert_ne!(first.number(), second.number());
        assert!(slots.take().is_none());
        let again = first.share();
        assert!(first.is_shared() && !second.is_shared());
        drop(first);
        assert!(slots.take().is_none() && !again.is_shared());
        drop(again);
        assert_eq!((slots.used(), slots.total()), (1, 2));
        assert!(slots.take().is_some());
    }
}
