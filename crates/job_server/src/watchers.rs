//! Requests that wait for a change of a job: woken by name, so that one job's end does not wake the others.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Who waits for what, bounded in number.
pub(crate) struct Watchers {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    waiting: usize,
    of: HashMap<String, (usize, Arc<Notify>)>,
}

impl Watchers {
    /// At most so many wait at once.
    pub(crate) fn new(most: usize) -> Watchers {
        Watchers { most, state: Arc::default() }
    }

    /// A place to wait for changes of a job or batch; none if all are taken.
    pub(crate) fn watch(&self, id: &str) -> Option<Watched> {
        let mut state = lock(&self.state);
        if state.waiting >= self.most {
            return None;
        }
        state.waiting += 1;
        let (count, notify) = state.of.entry(id.to_owned()).or_default();
        *count += 1;
        let notify = notify.clone();
        Some(Watched { id: id.to_owned(), notify, state: self.state.clone() })
    }

    /// Something was changed: whoever waits for it looks again.
    pub(crate) fn tell(&self, id: &str) {
        if let Some((_, notify)) = lock(&self.state).of.get(id) {
            notify.notify_waiters();
        }
    }
}

/// A place among those who wait.
pub(crate) struct Watched {
    id: String,
    notify: Arc<Notify>,
    state: Arc<Mutex<State>>,
}

impl Watched {
    /// Ready when something was told since this call, at the latest after `most`: another process tells nothing here. Made
    /// before the caller looks, it misses nothing.
    pub(crate) fn changed(&self, most: Duration) -> impl Future<Output = ()> + Send + '_ {
        let told = self.notify.notified();
        async move {
            // Whether it was told or the time is over, the caller looks again.
            let _ = tokio::time::timeout(most, told).await;
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.waiting -= 1;
        if let Some((count, _)) = state.of.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                state.of.remove(&self.id);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_are_bounded_and_given_back() {
        let watchers = Watchers::new(2);
        let first = watchers.watch("a").unwrap();
        let second = watchers.watch("a").unwrap();
        assert!(watchers.watch("b").is_none());
        drop(first);
        let third = watchers.watch("b").unwrap();
        drop((second, third));
        assert!(lock(&watchers.state).of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_those_who_wait_for_it_are_woken() {
        let watchers = Watchers::new(2);
        let (a, b) = (watchers.watch("a").unwrap(), watchers.watch("b").unwrap());
        let began = tokio::time::Instant::now();
        let long = Duration::from_secs(60);
        let wait = async {
            tokio::join!(a.changed(long), async {
                tokio::task::yield_now().await;
                watchers.tell("a");
            })
        };
        wait.await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        b.changed(long).await;
        assert_eq!(began.elapsed(), long);
    }
}
