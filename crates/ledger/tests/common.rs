//! Caps, subjects and clocks of the tests.

use ledger::{Amount, Bounds, Bucket, Cap, Clock, Cost, Options, Scope, Subjects, Unit, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// 2026-11-29T12:00:00Z.
pub(crate) const NOON: i64 = 1_795_953_600;

pub(crate) fn cap(scope: Scope, name: &str, window: Window, unit: Unit, limit: i64) -> Cap {
    Cap { bucket: Bucket { scope, name: name.to_owned(), window, unit }, limit }
}

pub(crate) fn bounds(money: i64) -> Bounds {
    Bounds { money: Some(Amount::from_nano(money)), tokens: 0, requests: 0 }
}

pub(crate) fn cost(money: i64) -> Cost {
    Cost { money: Amount::from_nano(money), tokens: 0, requests: 0 }
}

pub(crate) const ANN: Subjects<'static> = Subjects { key: "ann", team: Some("search"), model: "small" };

/// A clock that is set by the test.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(crate) fn new(now: i64) -> TestClock {
        TestClock(Arc::new(AtomicI64::new(now)))
    }

    pub(crate) fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, now: i64) {
        self.0.store(now, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let time = self.0.clone();
        Arc::new(move || time.load(Ordering::SeqCst))
    }

    pub(crate) fn options(&self, replica: &str) -> Options {
        Options { group: Duration::from_millis(1), ..Options::new(replica, self.clock()) }
    }
}

/// A deadline that only a test that hangs reaches.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
