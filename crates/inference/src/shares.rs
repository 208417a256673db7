//! An amount that all clients share, of which none may hold more than a part.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Owner;

/// Which of the two bounds is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// All clients together hold as much as there is.
    Sum,
    /// This client holds its part.
    Own,
}

/// A bounded amount, and who holds how much of it.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    most_each: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sum: usize,
    /// Only owners that hold something, so at most as many as there are shares.
    by: HashMap<Owner, usize>,
}

/// What one request holds; dropped, it is free again.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    owner: Owner,
    amount: usize,
}

impl Shares {
    /// `most` in all and `most_each` for one owner.
    pub fn new(most: usize, most_each: usize) -> Arc<Shares> {
        Arc::new(Shares { most, most_each: most_each.min(most), held: Mutex::default() })
    }

    /// An amount for `owner`, at once or not at all.
    pub fn take(self: &Arc<Self>, owner: Owner, amount: usize) -> Result<Share, Full> {
        let mut share = Share { shares: self.clone(), owner, amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// The bound of one owner.
    pub fn most_each(&self) -> usize {
        self.most_each
    }

    /// The bound of all owners together.
    pub fn most(&self) -> usize {
        self.most
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Holds `more` from now on, at once or not at all.
    pub fn grow(&mut self, more: usize) -> Result<(), Full> {
        let mut held = self.shares.lock();
        let own = held.by.get(&self.owner).copied().unwrap_or(0);
        if own.saturating_add(more) > self.shares.most_each {
            return Err(Full::Own);
        }
        if held.sum.saturating_add(more) > self.shares.most {
            return Err(Full::Sum);
        }
        if more > 0 {
            held.sum += more;
            held.by.insert(self.owner, own + more);
            self.amount += more;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        held.sum -= self.amount;
        if let Some(own) = held.by.get_mut(&self.owner) {
            *own -= self.amount;
            if *own == 0 {
                held.by.remove(&self.owner);
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
        assert_eq!(first.grow(2), Err(Full::Own));
        first.grow(1).unwrap();
        assert_eq!(shares.take(a, 1).unwrap_err(), Full::Own);
        let _others = [shares.take(b, 4).unwrap(), shares.take(c, 2).unwrap()];
        assert_eq!(shares.take(c, 1).unwrap_err(), Full::Sum);
        drop(first);
        let left = {
            let held = shares.lock();
            (held.sum, held.by.len())
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
