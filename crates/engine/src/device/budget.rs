//! One memory budget for everything that is large: weights, KV caches, scratch buffers, other caches.
//!
//! Memory is reserved here before it is allocated. A [`Reservation`] releases its bytes on drop, so it is stored with
//! the memory it stands for. The budget counts; it does not allocate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of bytes to be shared out. Clones share one account.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    limit: u64,
    reserved: u64,
    /// Reserved bytes by owner. Owners without reservations are removed, so the map does not grow with ended models.
    owners: BTreeMap<Arc<str>, MemoryUse>,
}

/// The purpose of reserved memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Packed weights.
    Weights,
    /// The KV cache.
    KvCache,
    /// Recurrent states and their snapshots.
    State,
    /// Buffers of the forward pass.
    Scratch,
    /// Whatever may be thrown away.
    Cache,
}

/// Reserved bytes, by what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Packed weights, bytes.
    pub weights: u64,
    /// KV caches, bytes.
    pub kv_cache: u64,
    /// Recurrent states and their snapshots, bytes.
    pub state: u64,
    /// Buffers of forward passes, bytes.
    pub scratch: u64,
    /// Other caches, bytes.
    pub cache: u64,
}

/// The budget has less left than requested; nothing was reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes of memory are wanted and {free} are free, of a budget of {limit}")]
pub struct Full {
    /// Bytes requested.
    pub wanted: u64,
    /// Bytes that were left.
    pub free: u64,
    /// All bytes of the budget.
    pub limit: u64,
}

/// Reserved bytes, released on drop.
#[derive(Debug)]
#[must_use = "dropping a reservation gives its memory back"]
pub struct Reservation {
    budget: MemoryBudget,
    owner: Arc<str>,
    kind: MemoryKind,
    bytes: u64,
}

impl MemoryUse {
    /// The whole budget, in bytes.
    pub fn total(&self) -> u64 {
        self.weights + self.kv_cache + self.state + self.scratch + self.cache
    }

    fn of(&mut self, kind: MemoryKind) -> &mut u64 {
        match kind {
            MemoryKind::Weights => &mut self.weights,
            MemoryKind::KvCache => &mut self.kv_cache,
            MemoryKind::State => &mut self.state,
            MemoryKind::Scratch => &mut self.scratch,
            MemoryKind::Cache => &mut self.cache,
        }
    }
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget(Arc::new(Mutex::new(Account { limit, reserved: 0, owners: BTreeMap::new() })))
    }

    /// A budget that refuses nothing, for a process with one model whose memory was checked before.
    pub fn unlimited() -> MemoryBudget {
        MemoryBudget::new(u64::MAX)
    }

    /// Takes `bytes` for `owner`, all or nothing.
    ///
    /// # Errors
    /// [`Full`] when less is left.
    pub fn reserve(&self, owner: &str, kind: MemoryKind, bytes: u64) -> Result<Reservation, Full> {
        let mut account = self.account();
        account.take(bytes)?;
        let owner = match account.owners.get_key_value(owner) {
            Some((known, _)) => known.clone(),
            None => Arc::from(owner),
        };
        *account.owners.entry(owner.clone()).or_default().of(kind) += bytes;
        Ok(Reservation { budget: self.clone(), owner, kind, bytes })
    }

    /// All bytes of the budget.
    pub fn limit(&self) -> u64 {
        self.account().limit
    }

    /// Bytes that are reserved.
    pub fn reserved(&self) -> u64 {
        self.account().reserved
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        self.account().free()
    }

    /// The memory reserved by each owner, by name.
    pub fn owners(&self) -> Vec<(Arc<str>, MemoryUse)> {
        self.account().owners.iter().map(|(name, used)| (name.clone(), *used)).collect()
    }

    /// What this owner has reserved.
    pub fn of(&self, owner: &str) -> MemoryUse {
        self.account().owners.get(owner).copied().unwrap_or_default()
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.reserved)
    }

    fn take(&mut self, bytes: u64) -> Result<(), Full> {
        if bytes > self.free() {
            return Err(Full { wanted: bytes, free: self.free(), limit: self.limit });
        }
        self.reserved += bytes;
        Ok(())
    }

    fn give_back(&mut self, owner: &Arc<str>, kind: MemoryKind, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
        if let Some(used) = self.owners.get_mut(owner) {
            let part = used.of(kind);
            *part = part.saturating_sub(bytes);
            if used.total() == 0 {
                self.owners.remove(owner);
            }
        }
    }
}

impl Reservation {
    /// Reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The purpose of the bytes.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Resizes the reservation to `bytes`.
    ///
    /// # Errors
    /// [`Full`] when the budget has not that much left; the reservation is unchanged.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Full> {
        let budget = self.budget.clone();
        let mut account = budget.account();
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                account.take(more)?;
                *account.owners.entry(self.owner.clone()).or_default().of(self.kind) += more;
            }
            None => account.give_back(&self.owner, self.kind, self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.account().give_back(&self.owner, self.kind, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [MemoryKind; 5] =
        [MemoryKind::Weights, MemoryKind::KvCache, MemoryKind::State, MemoryKind::Scratch, MemoryKind::Cache];

    #[test]
    fn what_does_not_fit_is_refused_with_its_numbers() {
        let budget = MemoryBudget::new(100);
        let mut held = budget.reserve("a", MemoryKind::Weights, 70).unwrap();
        let full = budget.reserve("b", MemoryKind::KvCache, 31).unwrap_err();
        assert_eq!(full, Full { wanted: 31, free: 30, limit: 100 });
        assert_eq!(full.to_string(), "31 bytes of memory are wanted and 30 are free, of a budget of 100");
        assert_eq!(held.resize(101).unwrap_err(), Full { wanted: 31, free: 30, limit: 100 });
        held.resize(20).unwrap();
        assert_eq!((budget.reserved(), budget.free()), (20, 80));
        let everything = MemoryBudget::unlimited();
        let most = everything.reserve("a", MemoryKind::Cache, u64::MAX).unwrap();
        assert!(everything.reserve("a", MemoryKind::Cache, 1).is_err());
        drop(most);
        assert_eq!((everything.reserved(), everything.owners().len()), (0, 0));
    }

    #[test]
    fn threads_never_reserve_more_than_there_is() {
        let budget = MemoryBudget::new(1000);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let budget = &budget;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..2000_u64 {
                        match budget.reserve(&format!("{thread}"), MemoryKind::Scratch, 1 + round % 90) {
                            Ok(reservation) => held.push(reservation),
                            Err(full) => {
                                assert!(full.free < full.wanted);
                                held.clear();
                            }
                        }
                        assert!(budget.reserved() <= 1000);
                    }
                });
            }
        });
        assert_eq!((budget.reserved(), budget.owners().len()), (0, 0));
    }

    proptest! {
        /// Against a plain list of what is held.
        #[test]
        fn the_sums_are_those_of_what_is_held(
            acts in prop::collection::vec((0usize..4, 0usize..3, 0usize..5, 0u64..60), 0..100),
        ) {
            let budget = MemoryBudget::new(200);
            let mut held: Vec<(usize, Reservation)> = Vec::new();
            for (act, owner, kind, bytes) in acts {
                let sum: u64 = held.iter().map(|(_, r)| r.bytes()).sum();
                prop_assert_eq!(budget.reserved(), sum);
                match act {
                    0 | 1 => match budget.reserve(&owner.to_string(), KINDS[kind], bytes) {
                        Ok(reservation) => held.push((owner, reservation)),
                        Err(full) => prop_assert!(full.free == 200 - sum && bytes > full.free),
                    },
                    2 if !held.is_empty() => drop(held.swap_remove(bytes as usize % held.len())),
                    3 if !held.is_empty() => {
                        let at = kind % held.len();
                        let more = bytes.saturating_sub(held[at].1.bytes());
                        prop_assert_eq!(held[at].1.resize(bytes).is_ok(), more <= 200 - sum);
                    }
                    _ => {}
                }
                for (name, used) in budget.owners() {
                    let own = |kind| {
                        let of = |(owner, r): &&(usize, Reservation)| {
                            owner.to_string() == *name && kind == r.kind()
                        };
                        held.iter().filter(of).map(|(_, r)| r.bytes()).sum::<u64>()
                    };
                    let [weights, kv_cache, state, scratch, cache] = KINDS.map(own);
                    prop_assert_eq!(used, MemoryUse { weights, kv_cache, state, scratch, cache });
                    prop_assert!(used.total() > 0 || held.iter().any(|(o, _)| o.to_string() == *name));
                }
            }
        }
    }
}
