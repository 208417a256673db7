//! How much is let in, and when to come back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Fault;

/// Places for answers: in work and in the queue together.
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    capacity: usize,
    parallel: usize,
    /// Seconds that an answer may have to wait, by estimate, before it begins.
    longest_wait_s: f64,
    /// Mean seconds that an answer takes from its first row to its end, with newer ones weighing more.
    mean_s: Mutex<f64>,
}

/// Places taken; dropped, they are free again.
pub(crate) struct Permit {
    held: OwnedSemaphorePermit,
    admission: Arc<Admission>,
}

/// Weight of the newest answer in the mean.
const NEWEST: f64 = 0.2;
/// Longest `Retry-After`, seconds.
const LONGEST_S: f64 = 120.0;

impl Admission {
    pub(crate) fn new(capacity: usize, parallel: usize, longest_wait: Option<Duration>) -> Admission {
        Admission {
            places: Arc::new(Semaphore::new(capacity)),
            capacity,
            parallel: parallel.max(1),
            longest_wait_s: longest_wait.map_or(f64::INFINITY, |wait| wait.as_secs_f64()),
            mean_s: Mutex::new(1.0),
        }
    }

    /// A place for one answer, at once or not at all. Whoever would wait longer than is allowed is better told now, with the
    /// queue as it is, than answered too late.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Permit, Fault> {
        let (wait, longest) = (self.wait_s(), self.longest_wait_s);
        if wait > longest {
            let message = format!(
                "an answer would begin in about {wait:.1} s; this server lets wait {longest} s at most"
            );
            return Err(Fault::overdue(message, whole_seconds(wait - longest)));
        }
        match self.places.clone().try_acquire_owned() {
            Ok(held) => Ok(Permit { held, admission: self.clone() }),
            Err(_) => Err(self.full(1)),
        }
    }

    /// The fault of a full house.
    pub(crate) fn full(&self, wanted: usize) -> Fault {
        let message = format!(
            "{} answers are in work or waiting and {wanted} more do not fit: the limit is {}",
            self.inside(),
            self.capacity
        );
        Fault::busy(message, self.retry_after_s())
    }

    /// Seconds until a place is likely free.
    pub(crate) fn retry_after_s(&self) -> u32 {
        whole_seconds(self.turn_s(self.waiting() + 1))
    }

    /// Seconds until an answer that came now would begin: 0 while fewer are inside than are computed at once.
    fn wait_s(&self) -> f64 {
        if self.inside() < self.parallel { 0.0 } else { self.turn_s(self.waiting() + 1) }
    }

    fn inside(&self) -> usize {
        self.capacity - self.places.available_permits().min(self.capacity)
    }

    fn waiting(&self) -> usize {
        self.inside().saturating_sub(self.parallel)
    }

    /// Seconds until as many of those that are computed have ended, each as long as the mean.
    fn turn_s(&self, ended: usize) -> f64 {
        let mean = *self.mean_s.lock().unwrap_or_else(PoisonError::into_inner);
        mean * ended as f64 / self.parallel as f64
    }

    /// Learns how long an answer took. One that never began says nothing.
    pub(crate) fn took(&self, busy: Duration) {
        if busy.is_zero() {
            return;
        }
        let mut mean = self.mean_s.lock().unwrap_or_else(PoisonError::into_inner);
        *mean += NEWEST * (busy.as_secs_f64() - *mean);
    }
}

/// What `Retry-After` takes.
fn whole_seconds(seconds: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 120")]
    return seconds.clamp(1.0, LONGEST_S).ceil() as u32;
}

impl Permit {
    /// Takes places for `answers` in all.
    pub(crate) fn grow(&mut self, answers: usize) -> Result<(), Fault> {
        let more = answers.saturating_sub(self.held.num_permits());
        if answers > self.admission.capacity {
            let message = format!(
                "n asks for {answers} answers in all; this server takes at most {}",
                self.admission.capacity
            );
            return Err(Fault::field("n", message));
        }
        if more == 0 {
            return Ok(());
        }
        let count = u32::try_from(more).unwrap_or(u32::MAX);
        match self.admission.places.clone().try_acquire_many_owned(count) {
            Ok(held) => self.held.merge(held),
            Err(_) => return Err(self.admission.full(answers)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let admission = Arc::new(Admission::new(4, 2, None));
        let mut first = admission.enter().unwrap();
        first.grow(3).unwrap();
        let second = admission.enter().unwrap();
        let fault = admission.enter().err().unwrap();
        assert_eq!((fault.status, fault.retry_after_s.is_some()), (429, true));
        assert!(fault.message.contains('4'), "{fault}");
        drop(first);
        let mut third = admission.enter().unwrap();
        assert_eq!(third.grow(4).unwrap_err().status, 429);
        assert_eq!(third.grow(5).unwrap_err().status, 400);
        drop((second, third));
        assert_eq!(admission.places.available_permits(), 4);
    }

    #[test]
    fn retry_grows_with_the_backlog() {
        let admission = Arc::new(Admission::new(10, 2, None));
        (0..50).for_each(|_| admission.took(Duration::from_secs(10)));
        let mut permit = admission.enter().unwrap();
        let little = admission.retry_after_s();
        permit.grow(10).unwrap();
        let much = admission.retry_after_s();
        assert!(little <= 6 && (40..=50).contains(&much), "{little} {much}");
    }

    #[test]
    fn who_would_wait_too_long_is_told_at_once() {
        let admission = Arc::new(Admission::new(100, 2, Some(Duration::from_secs(12))));
        (0..50).for_each(|_| admission.took(Duration::from_secs(10)));
        admission.took(Duration::ZERO);
        // Two are computed; one more begins after 5 s, another after 10 s, the next would after 15 s.
        let inside: Vec<Permit> = (0..4).map(|_| admission.enter().unwrap()).collect();
        let fault = admission.enter().err().unwrap();
        assert_eq!((fault.status, fault.code, fault.retry_after_s), (429, Some("wait_too_long"), Some(3)));
        assert!(fault.message.contains("15.0 s") && fault.message.contains("12 s"), "{fault}");
        drop(inside);
        // However slow answers are, a server that idles takes one.
        (0..50).for_each(|_| admission.took(Duration::from_secs(1000)));
        assert!(admission.enter().is_ok());
    }
}
