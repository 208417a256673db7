//! A shared limit with a limit per owner: of request bodies, answer memory, queued tokens and the like.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Owner;

/// The limit that a request for a share exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit of all owners together.
    Total,
    /// The limit of one owner.
    PerOwner,
}

/// A limited amount, with the part that each owner holds.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    most_each: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sum: usize,
    /// Amount held by each owner; only owners that hold something.
    by_owner: HashMap<Owner, usize>,
}

/// The amount held by one request, released on drop.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    owner: Owner,
    amount: usize,
}

impl Shares {
    /// A limit of `most` in total and `most_each` for one owner.
    pub fn new(most: usize, most_each: usize) -> Arc<Shares> {
        Arc::new(Shares { most, most_each: most_each.min(most), held: Mutex::default() })
    }

    /// Takes an amount for `owner` without waiting.
    ///
    /// # Errors
    /// The limit that would be exceeded.
    pub fn take(self: &Arc<Self>, owner: Owner, amount: usize) -> Result<Share, LimitReached> {
        let mut share = Share { shares: self.clone(), owner, amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// The limit of one owner.
    pub fn most_each(&self) -> usize {
        self.most_each
    }

    /// The limit of all owners together.
    pub fn most(&self) -> usize {
        self.most
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Adds `more` to the share without waiting.
    ///
    /// # Errors
    /// The limit that would be exceeded; the share is unchanged.
    pub fn grow(&mut self, more: usize) -> Result<(), LimitReached> {
        let mut held = self.shares.lock();
        let own = held.by_owner.get(&self.owner).copied().unwrap_or(0);
        if own.saturating_add(more) > self.shares.most_each {
            return Err(LimitReached::PerOwner);
        }
        if held.sum.saturating_add(more) > self.shares.most {
            return Err(LimitReached::Total);
        }
        if more > 0 {
            held.sum += more;
            held.by_owner.insert(self.owner, own + more);
            self.amount += more;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        held.sum -= self.amount;
        if let Some(own) = held.by_owner.get_mut(&self.owner) {
            *own -= self.amount;
            if *own == 0 {
                held.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_part_and_all_have_the_whole() {
        let shares = Shares::new(10, 4);
        let (a, b, c) = (Owner::Key(1), Owner::Key(2), Owner::of_peer(None));
        let mut first = shares.take(a, 3).unwrap();
        assert_eq!(first.grow(2), Err(LimitReached::PerOwner));
        first.grow(1).unwrap();
        assert_eq!(shares.take(a, 1).unwrap_err(), LimitReached::PerOwner);
        let _others = [shares.take(b, 4).unwrap(), shares.take(c, 2).unwrap()];
        assert_eq!(shares.take(c, 1).unwrap_err(), LimitReached::Total);
        drop(first);
        let left = {
            let held = shares.lock();
            (held.sum, held.by_owner.len())
        };
        assert_eq!(left, (6, 2));
        shares.take(a, 4).unwrap();
    }

    #[test]
    fn addresses_of_one_host_are_one_owner() {
        let owner = |text: &str| Owner::of_peer(text.parse().ok());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:2"));
        assert_ne!(owner("2001:db8:0:1::1"), owner("2001:db8::1"));
        assert_eq!(owner("::ffff:10.0.0.1"), owner("10.0.0.1"));
        assert_ne!(owner("10.0.0.2"), owner("10.0.0.1"));
    }
}
