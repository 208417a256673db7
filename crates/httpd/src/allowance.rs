//! What one key may take: requests a minute, tokens a minute, answers at once.
//!
//! The two rates are token buckets that hold one minute's worth and fill evenly. How many tokens a request takes is
//! known when it ends: it may begin while its key's bucket is not empty, and what it took beyond that is a debt that
//! the next requests wait for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use inference::Client;

/// Limits of a key; none is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Requests that begin in a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens in a minute, of prompts and answers together.
    pub tokens_per_minute: Option<u32>,
    /// Requests under way at once.
    pub concurrent: Option<u32>,
}

/// A key's name, limits, and what it has used of them.
#[derive(Debug)]
pub(crate) struct Allowance {
    name: String,
    client: Client,
    limits: KeyLimits,
    used: Arc<Used>,
}

/// What a key has used; outlives a new reading of its limits.
#[derive(Debug, Default)]
pub(crate) struct Used {
    requests: Bucket,
    tokens: Bucket,
    running: AtomicU32,
}

/// Why a key must wait: what is used up, and the seconds until there is more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) what: String,
    pub(crate) retry_after_s: u32,
}

/// A request under way on a key; dropped, its place is free.
#[derive(Debug)]
pub(crate) struct Place(Arc<Allowance>);

impl Allowance {
    pub(crate) fn new(name: String, client: Client, limits: KeyLimits, used: Arc<Used>) -> Allowance {
        Allowance { name, client, limits, used }
    }

    /// The same name and limits with another count.
    pub(crate) fn with(&self, used: Arc<Used>) -> Allowance {
        Allowance::new(self.name.clone(), self.client, self.limits, used)
    }

    pub(crate) fn used(&self) -> Arc<Used> {
        self.used.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whom the engine is fair to.
    pub(crate) fn client(&self) -> Client {
        self.client
    }

    #[cfg(test)]
    pub(crate) fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Begins a request, or says what is used up.
    pub(crate) fn enter(self: &Arc<Self>, now: Instant) -> Result<Place, Spent> {
        let running = self.used.running.fetch_add(1, Ordering::AcqRel);
        let place = Place(self.clone());
        if let Some(most) = self.limits.concurrent.filter(|most| running >= *most) {
            let what = format!("{most} requests of this key are under way, its limit");
            return Err(Spent { what, retry_after_s: 1 });
        }
        if let Some(most) = self.limits.tokens_per_minute {
            self.used.tokens.wait(most, 0.0, now).map_err(|retry_after_s| Spent {
                what: format!("this key has used its {most} tokens a minute"),
                retry_after_s,
            })?;
        }
        if let Some(most) = self.limits.requests_per_minute {
            self.used.requests.wait(most, 1.0, now).map_err(|retry_after_s| Spent {
                what: format!("this key has used its {most} requests a minute"),
                retry_after_s,
            })?;
        }
        Ok(place)
    }
}

impl inference::Place for Place {
    fn spend(&self, tokens: usize, now: Instant) {
        if let Some(most) = self.0.limits.tokens_per_minute {
            self.0.used.tokens.spend(most, tokens as f64, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.used.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A token bucket. None: full.
#[derive(Debug, Default)]
struct Bucket(Mutex<Option<Level>>);

#[derive(Debug, Clone, Copy)]
struct Level {
    /// Below zero: a debt.
    left: f64,
    at: Instant,
}

/// Longest `Retry-After`, seconds.
const LONGEST_S: f64 = 3600.0;

impl Bucket {
    /// Takes `amount` if there is as much and the bucket is not empty, else the seconds until there is.
    fn wait(&self, per_minute: u32, amount: f64, now: Instant) -> Result<(), u32> {
        self.change(per_minute, now, |left| {
            // An amount of nothing needs something to be left.
            let needed = if amount > 0.0 { amount } else { f64::MIN_POSITIVE };
            if *left >= needed {
                *left -= amount;
                return Ok(());
            }
            let seconds = (needed.max(1.0) - *left) * 60.0 / f64::from(per_minute.max(1));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 3600")]
            Err(seconds.ceil().clamp(1.0, LONGEST_S) as u32)
        })
    }

    fn spend(&self, per_minute: u32, amount: f64, now: Instant) {
        self.change(per_minute, now, |left| *left -= amount);
    }

    fn change<T>(&self, per_minute: u32, now: Instant, change: impl FnOnce(&mut f64) -> T) -> T {
        let full = f64::from(per_minute);
        let mut level = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = level.unwrap_or(Level { left: full, at: now });
        let seconds = now.saturating_duration_since(before.at).as_secs_f64();
        let mut left = (before.left + seconds * full / 60.0).min(full);
        let result = change(&mut left);
        *level = Some(Level { left, at: now.max(before.at) });
        result
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use inference::Place as _;

    use super::*;

    fn allowance(limits: KeyLimits) -> Arc<Allowance> {
        Arc::new(Allowance::new("a".to_owned(), Client::default(), limits, Arc::default()))
    }

    fn after(seconds: f64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn requests_come_back_evenly() {
        let key = allowance(KeyLimits { requests_per_minute: Some(6), ..KeyLimits::default() });
        for _ in 0..6 {
            key.enter(after(0.0)).unwrap();
        }
        let spent = key.enter(after(0.0)).unwrap_err();
        assert_eq!(spent.retry_after_s, 10);
        assert!(spent.what.contains("6 requests a minute"), "{}", spent.what);
        assert_eq!(key.enter(after(9.0)).unwrap_err().retry_after_s, 1);
        key.enter(after(10.1)).unwrap();
        // However long nobody asks, one minute's worth is the most.
        for _ in 0..6 {
            key.enter(after(10_000.0)).unwrap();
        }
        key.enter(after(10_000.0)).unwrap_err();
    }

    #[test]
    fn tokens_are_a_debt() {
        let key = allowance(KeyLimits { tokens_per_minute: Some(600), ..KeyLimits::default() });
        let place = key.enter(after(0.0)).unwrap();
        place.spend(900, after(0.0));
        // 300 too many at 10 a second, and one more token.
        assert_eq!(key.enter(after(0.0)).unwrap_err().retry_after_s, 31);
        key.enter(after(29.9)).unwrap_err();
        key.enter(after(30.2)).unwrap();
    }

    #[test]
    fn places_come_back() {
        let key = allowance(KeyLimits { concurrent: Some(2), ..KeyLimits::default() });
        let (first, _second) = (key.enter(after(0.0)).unwrap(), key.enter(after(0.0)).unwrap());
        for _ in 0..3 {
            // A refusal leaves nothing behind.
            assert!(key.enter(after(0.0)).unwrap_err().what.contains("2 requests"));
        }
        drop(first);
        key.enter(after(0.0)).unwrap();
    }

    #[test]
    fn time_that_runs_backwards_gives_nothing() {
        let key = allowance(KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() });
        key.enter(after(60.0)).unwrap();
        key.enter(after(0.0)).unwrap_err();
        key.enter(after(119.0)).unwrap_err();
        key.enter(after(120.1)).unwrap();
    }
}
