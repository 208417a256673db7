//! Places of a model: how many of its requests run at once, which of them wait, and who goes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use routing::Class;
use routing::admission::{Admission, AdmissionPolicy, Applicant, Bound, Offered, Ticket};
use tokio::sync::oneshot;
use wire::Fault;

use crate::config;

/// The places of a model.
pub(crate) struct Places {
    began: Instant,
    longest: Duration,
    inner: Mutex<Inner>,
}

struct Inner {
    admission: Admission,
    /// Those who wait, told when they may go.
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
}

/// A request's place; free when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    key: u64,
    since: Instant,
}

/// A request that waits. Dropped, it waits no more, and passes a place on that it was just given.
struct Waiter {
    places: Arc<Places>,
    ticket: Ticket,
    key: u64,
    is_done: bool,
}

impl Places {
    /// Places for `capacity` requests at once.
    pub(crate) fn new(table: &config::Admission, capacity: u32) -> Arc<Places> {
        let inner = Inner { admission: Admission::new(policy(table, capacity)), waiting: HashMap::new() };
        Arc::new(Places { began: Instant::now(), longest: table.wait.0, inner: Mutex::new(inner) })
    }

    /// Changes how many there are.
    pub(crate) fn resize(&self, table: &config::Admission, capacity: u32) {
        let mut inner = self.lock();
        inner.admission.set_policy(policy(table, capacity));
        self.wake(&mut inner);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().admission.waiting()
    }

    /// A place at once, or after a wait.
    ///
    /// # Errors
    /// 429 at once where too many wait, or after the longest wait.
    pub(crate) async fn enter(
        self: &Arc<Places>,
        class: Class,
        key: u64,
        bytes: u64,
    ) -> Result<Place, Fault> {
        let place = || Place { places: self.clone(), key, since: Instant::now() };
        let (ticket, told) = {
            let mut inner = self.lock();
            match inner.admission.offer(self.now(), &Applicant { class, key, bytes }) {
                Offered::Admitted => return Ok(place()),
                Offered::Refused { retry_after, bound } => return Err(refused(retry_after, bound)),
                Offered::Waits(ticket) => {
                    let (tell, told) = oneshot::channel();
                    inner.waiting.insert(ticket, tell);
                    (ticket, told)
                }
            }
        };
        let mut waiter = Waiter { places: self.clone(), ticket, key, is_done: false };
        match tokio::time::timeout(self.longest, told).await {
            Ok(Ok(())) => {
                waiter.is_done = true;
                Ok(place())
            }
            _ => Err(refused(Duration::from_secs(1), Bound::Wait)),
        }
    }

    fn release(&self, key: u64, seconds: f64) {
        let mut inner = self.lock();
        inner.admission.release(self.now(), key, seconds);
        self.wake(&mut inner);
    }

    /// Tells those who may go now.
    fn wake(&self, inner: &mut Inner) {
        while let Some(ticket) = inner.admission.next(self.now()) {
            if let Some(tell) = inner.waiting.remove(&ticket) {
                // Whoever has just left gives the place back by its guard.
                let _ = tell.send(());
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.release(self.key, self.since.elapsed().as_secs_f64());
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut inner = self.places.lock();
        inner.waiting.remove(&self.ticket);
        if !inner.admission.cancel(self.ticket) {
            inner.admission.release(self.places.now(), self.key, 0.0);
            self.places.wake(&mut inner);
        }
    }
}

fn policy(table: &config::Admission, capacity: u32) -> AdmissionPolicy {
    let kept = table.reserved.clamp(0.0, 1.0);
    AdmissionPolicy {
        capacity,
        max_waiting: table.waiting,
        max_wait: table.wait.0,
        // Of what is kept, urgent requests have all, premium ones half; batch fills what others leave.
        ceilings: [1.0, 1.0 - kept / 2.0, 1.0 - kept, (1.0 - 3.0 * kept).max(0.1)],
        ..AdmissionPolicy::for_capacity(capacity)
    }
}

fn refused(retry_after: Duration, bound: Bound) -> Fault {
    let seconds = u32::try_from(retry_after.as_secs_f64().ceil() as i64).unwrap_or(1).max(1);
    match bound {
        Bound::Requests => Fault::busy("as many requests of this model wait as may", seconds),
        Bound::Bytes => {
            Fault::busy("the requests of this model that wait hold as many bytes as they may", seconds)
        }
        Bound::Wait => Fault::overdue(
            "the wait for this model would be longer than the longest that is allowed",
            seconds,
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    fn places(capacity: u32) -> Arc<Places> {
        let table = config::Admission { reserved: 0.0, waiting: 2, ..config::Admission::default() };
        Places::new(&table, capacity)
    }

    #[tokio::test]
    async fn the_next_goes_when_one_has_left() {
        let places = places(1);
        let first = places.enter(Class::Standard, 1, 10).await.unwrap();
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.enter(Class::Standard, 2, 10).await.is_ok() }
        });
        while places.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn one_too_many_is_refused_at_once_and_who_leaves_frees_its_place() {
        let places = places(1);
        let first = places.enter(Class::Standard, 1, 10).await.unwrap();
        let tasks: Vec<_> = (0..2)
            .map(|key| {
                let places = places.clone();
                tokio::spawn(async move { places.enter(Class::Standard, key, 10).await.is_ok() })
            })
            .collect();
        while places.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        let fault = places.enter(Class::Standard, 9, 10).await.err().unwrap();
        assert_eq!((fault.status, fault.retry_after_s.is_some()), (429, true));
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        assert_eq!(places.waiting(), 0);
        drop(first);
        assert!(places.enter(Class::Standard, 9, 10).await.is_ok());
    }
}
