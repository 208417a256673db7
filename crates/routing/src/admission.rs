//! Admission: a bounded queue before the router, by class, with fairness between keys.
//!
//! A request runs at once, waits, or is refused at once with the time after which to come again. The queue is bounded
//! in requests, bytes and seconds. A class may only fill the capacity up to its ceiling, so that some is left for the
//! classes above; a request of a lower class that has waited long goes before. Within a class, the key that had the
//! least service lately goes first: service fades by half in a minute, so a key that was away is not owed an hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::ask::Class;
use crate::lru::Lru;

/// Time in which the service that a key had counts half.
const HALF_LIFE_S: f64 = 60.0;
/// Service of this many keys is remembered.
const KEYS: usize = 16_384;
/// Waiting for this share of the longest wait puts a request before those of higher classes.
const STARVED: f64 = 0.5;
/// Longest time that a refusal tells to wait.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Weight of a release in the mean time between releases.
const FOLLOWS: f64 = 0.1;

/// Settings of admission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionPolicy {
    /// Requests that run at once.
    pub capacity: u32,
    /// Requests that wait.
    pub max_waiting: usize,
    /// Bytes of the requests that wait.
    pub max_bytes: u64,
    /// Longest wait.
    pub max_wait: Duration,
    /// The share of the capacity that each class may fill, the most urgent first.
    pub ceilings: [f64; 4],
}

impl AdmissionPolicy {
    /// The usual settings for so many requests at once.
    #[must_use]
    pub fn for_capacity(capacity: u32) -> AdmissionPolicy {
        AdmissionPolicy {
            capacity,
            max_waiting: 5_000,
            max_bytes: 1 << 30,
            max_wait: Duration::from_secs(60),
            ceilings: [1.0, 0.95, 0.9, 0.7],
        }
    }
}

/// A request for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applicant {
    /// Class.
    pub class: Class,
    /// Hash of the key whose service is counted.
    pub key: u64,
    /// Bytes of the request, held while it waits.
    pub bytes: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What happens to an applicant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It runs; [`Admission::release`] is to be called when it has ended.
    Admitted,
    /// It waits until [`Admission::next`] names its ticket, or [`Admission::expire`] does.
    Waits(Ticket),
    /// It is refused.
    Refused {
        /// When to come again.
        retry_after: Duration,
        /// Which bound it met.
        bound: Bound,
    },
}

/// A bound of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Waiting requests.
    Requests,
    /// Their bytes.
    Bytes,
    /// The wait would be longer than the longest.
    Wait,
}

struct Waiting {
    ticket: Ticket,
    bytes: u64,
    since: Duration,
}

#[derive(Clone, Copy, Default)]
struct Service {
    amount: f64,
    at: Duration,
}

/// The queue and the places of a route.
pub struct Admission {
    policy: AdmissionPolicy,
    running: u32,
    /// Waiting requests by class and key, the oldest of a key first.
    queues: [BTreeMap<u64, VecDeque<Waiting>>; 4],
    /// Class and key of each ticket.
    tickets: BTreeMap<Ticket, (Class, u64)>,
    bytes: u64,
    service: Lru<Service>,
    issued: u64,
    released_at: Duration,
    /// Mean seconds between releases; none before two.
    release_s: Option<f64>,
}

impl Admission {
    /// An empty queue.
    #[must_use]
    pub fn new(policy: AdmissionPolicy) -> Admission {
        Admission {
            policy,
            running: 0,
            queues: std::array::from_fn(|_| BTreeMap::new()),
            tickets: BTreeMap::new(),
            bytes: 0,
            service: Lru::new(KEYS),
            issued: 0,
            released_at: Duration::ZERO,
            release_s: None,
        }
    }

    /// Changes the settings; what runs and waits stays.
    pub fn set_policy(&mut self, policy: AdmissionPolicy) {
        self.policy = policy;
    }

    /// Requests that run.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.tickets.len()
    }

    /// Bytes of the requests that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.bytes
    }

    /// Offers a request.
    pub fn offer(&mut self, now: Duration, applicant: &Applicant) -> Offered {
        let Applicant { class, key, bytes } = *applicant;
        let before = self.queues[..=class.rank()].iter().any(|queue| !queue.is_empty());
        if !before && self.has_place(class) {
            self.running += 1;
            return Offered::Admitted;
        }
        let wait_s = self.wait_s(self.tickets.len());
        let bound = match () {
            () if self.tickets.len() >= self.policy.max_waiting => Bound::Requests,
            () if self.bytes.saturating_add(bytes) > self.policy.max_bytes => Bound::Bytes,
            () if wait_s.is_some_and(|wait_s| wait_s > self.policy.max_wait.as_secs_f64()) => Bound::Wait,
            () => {
                let ticket = Ticket(self.issued);
                self.issued += 1;
                let waiting = Waiting { ticket, bytes, since: now };
                self.queues[class.rank()].entry(key).or_default().push_back(waiting);
                self.tickets.insert(ticket, (class, key));
                self.bytes += bytes;
                return Offered::Waits(ticket);
            }
        };
        Offered::Refused { retry_after: self.retry_after(wait_s), bound }
    }

    /// The next request that may run, if one may. It counts as running from now on.
    pub fn next(&mut self, now: Duration) -> Option<Ticket> {
        let (class, key) = self.starved(now).or_else(|| self.least_served(now))?;
        let waiting = self.queues[class.rank()].get_mut(&key)?.pop_front()?;
        self.removed(class, key, &waiting);
        self.running += 1;
        Some(waiting.ticket)
    }

    /// A request of this key has ended after `seconds` of service: machine-seconds, or tokens in their place.
    pub fn release(&mut self, now: Duration, key: u64, seconds: f64) {
        self.running = self.running.saturating_sub(1);
        let service = self.service.use_or_insert(key, Service::default);
        let amount = faded(service, now) + if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
        *service = Service { amount, at: now };
        let passed = now.saturating_sub(self.released_at).as_secs_f64();
        if self.running > 0 || !self.tickets.is_empty() {
            let mean = self.release_s.unwrap_or(passed);
            self.release_s = Some(mean + FOLLOWS * (passed - mean));
        }
        self.released_at = now;
    }

    /// Takes a waiting request out, whose client has left. Whether it waited.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some((class, key)) = self.tickets.get(&ticket).copied() else { return false };
        let queue = self.queues[class.rank()].get_mut(&key);
        let found = queue.and_then(|queue| {
            let at = queue.iter().position(|waiting| waiting.ticket == ticket)?;
            queue.remove(at)
        });
        if let Some(waiting) = &found {
            self.removed(class, key, waiting);
        }
        found.is_some()
    }

    /// Takes out requests that have waited for the longest time, at most 64 in a call. They are to be refused.
    pub fn expire(&mut self, now: Duration) -> Vec<Ticket> {
        let mut expired = Vec::new();
        let last = now.checked_sub(self.policy.max_wait);
        let Some(last) = last else { return expired };
        for class in Class::ALL {
            let late = |(key, queue): (&u64, &VecDeque<Waiting>)| {
                queue.front().is_some_and(|waiting| waiting.since <= last).then_some(*key)
            };
            let keys: Vec<u64> = self.queues[class.rank()].iter().filter_map(late).take(64).collect();
            for key in keys {
                while expired.len() < 64 {
                    let queue = self.queues[class.rank()].get_mut(&key);
                    let Some(waiting) = queue.and_then(|q| q.pop_front_if(|waiting| waiting.since <= last))
                    else {
                        break;
                    };
                    self.removed(class, key, &waiting);
                    expired.push(waiting.ticket);
                }
            }
        }
        expired
    }

    /// The time after which a refused request should come again: that in which those before it are done.
    fn retry_after(&self, wait_s: Option<f64>) -> Duration {
        let wait_s = wait_s.unwrap_or(1.0).ceil().clamp(1.0, LONGEST_RETRY.as_secs_f64());
        Duration::from_secs(wait_s as u64)
    }

    /// Expected seconds until `count` requests before have places.
    fn wait_s(&self, count: usize) -> Option<f64> {
        self.release_s.map(|mean| mean * (count as f64 + 1.0))
    }

    fn has_place(&self, class: Class) -> bool {
        let ceiling = f64::from(self.policy.capacity) * self.policy.ceilings[class.rank()].clamp(0.0, 1.0);
        // At least one place, so that no class is shut out of a small capacity.
        f64::from(self.running) + 1.0 <= ceiling.max(1.0) && self.running < self.policy.capacity
    }

    /// Bookkeeping of a request that was taken out of its queue.
    fn removed(&mut self, class: Class, key: u64, waiting: &Waiting) {
        let queue = &mut self.queues[class.rank()];
        if queue.get(&key).is_some_and(VecDeque::is_empty) {
            queue.remove(&key);
        }
        self.tickets.remove(&waiting.ticket);
        self.bytes = self.bytes.saturating_sub(waiting.bytes);
    }

    /// The oldest ticket, if it has waited so long that its class does not matter.
    fn starved(&self, now: Duration) -> Option<(Class, u64)> {
        let (ticket, place) = self.tickets.first_key_value()?;
        let queue = self.queues[place.0.rank()].get(&place.1)?;
        let oldest = queue.front().filter(|waiting| waiting.ticket == *ticket)?;
        let waited = now.saturating_sub(oldest.since);
        let may = self.running < self.policy.capacity && waited >= self.policy.max_wait.mul_f64(STARVED);
        may.then_some(*place)
    }

    /// Of the highest class that may run, the key that had the least service; of equal ones, that which waits longest.
    fn least_served(&self, now: Duration) -> Option<(Class, u64)> {
        let class = Class::ALL.into_iter().find(|class| !self.queues[class.rank()].is_empty())?;
        let class = if self.has_place(class) { class } else { return None };
        let served = |key: u64| self.service.peek(key).map_or(0.0, |service| faded(service, now));
        let oldest = |queue: &VecDeque<Waiting>| queue.front().map(|waiting| waiting.ticket);
        let all = self.queues[class.rank()].iter().map(|(key, queue)| (*key, served(*key), oldest(queue)));
        let least = all.min_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)))?;
        Some((class, least.0))
    }
}

/// Service that is left of what a key had.
fn faded(service: &Service, now: Duration) -> f64 {
    let passed = now.saturating_sub(service.at).as_secs_f64();
    service.amount * (-passed / HALF_LIFE_S * std::f64::consts::LN_2).exp()
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
