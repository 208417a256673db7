//! A store that fails, hangs, and comes back: leases are spent, then paid requests refused; nothing grows, nothing is lost.

use crate::common::{ANN, NOON, TestClock, bounds, cap, cost, soon};
use ledger::store::memory::MemoryStore;
use ledger::store::{Answer, Exchange, Granted, ReportQuery, Store, StoreError};
use ledger::{
    Amount, Bounds, BucketTotal, Cost, Ledger, MAX_QUEUED_RECEIPTS, Options, Receipt, Refused, ReportRow,
    Scope, Unit, Window,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::sleep;

const UP: u8 = 0;
/// Nothing is done, and an error answered.
const DOWN: u8 = 1;
/// Nothing is answered.
const HANGS: u8 = 2;
/// All is done, and an error answered.
const LOSES_ANSWERS: u8 = 3;

#[derive(Default)]
struct Flaky {
    store: MemoryStore,
    state: AtomicU8,
    calls: AtomicUsize,
}

impl Flaky {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }

    fn down<T: Send + 'static>() -> Answer<'static, T> {
        Box::pin(std::future::ready(Err(StoreError::Unavailable("connection refused".to_owned()))))
    }
}

impl Store for Flaky {
    fn open_session(&self, replica: &str, expires: i64) -> Answer<'_, i64> {
        match self.state.load(Ordering::SeqCst) {
            UP => self.store.open_session(replica, expires),
            _ => Flaky::down(),
        }
    }

    fn exchange(&self, exchange: Arc<Exchange>) -> Answer<'_, Vec<Granted>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.state.load(Ordering::SeqCst) {
            UP => self.store.exchange(exchange),
            DOWN => Flaky::down(),
            HANGS => Box::pin(std::future::pending()),
            _ => {
                drop(self.store.exchange(exchange));
                Flaky::down()
            }
        }
    }

    fn close_session(&self, session: i64) -> Answer<'_, ()> {
        self.store.close_session(session)
    }

    fn reclaim(&self, replica: &str, now: i64) -> Answer<'_, u64> {
        self.store.reclaim(replica, now)
    }

    fn totals(&self, now: i64) -> Answer<'_, Vec<BucketTotal>> {
        self.store.totals(now)
    }

    fn report(&self, query: ReportQuery) -> Answer<'_, Vec<ReportRow>> {
        self.store.report(query)
    }
}

fn start(options: Options) -> (Arc<Flaky>, Ledger) {
    let store = Arc::new(Flaky::default());
    let caps = [
        cap(Scope::Key, "ann", Window::Total, Unit::Money, 100_000),
        cap(Scope::Key, "ann", Window::Day, Unit::Requests, 100_000),
    ];
    let ledger = Ledger::start(options, store.clone(), &caps).unwrap();
    (store, ledger)
}

/// A request to a machine of our own.
const OWN: Bounds = Bounds { money: Some(Amount::ZERO), tokens: 0, requests: 1 };

async fn until(what: impl Fn() -> bool) {
    while !what() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn leases_are_spent_and_then_paid_requests_refused() {
    for state in [DOWN, HANGS, LOSES_ANSWERS] {
        let clock = TestClock::new(NOON);
        let options = Options { store_timeout: Duration::from_millis(50), ..clock.options("r") };
        let (store, ledger) = start(options);
        ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
        store.set(state);
        let mut spent = 1;
        let refused = loop {
            match ledger.reserve(clock.now(), ANN, bounds(1), soon()).await {
                Ok(reservation) => {
                    spent += 1;
                    reservation.settle(cost(1));
                }
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Refused::StoreDown { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("has not answered since 2026-11-29T12:00:00Z"), "{text}");
        // The first lease: 2 % of the cap.
        assert!((1_000..=2_000).contains(&spent), "{spent}");
        let accounts = ledger.stats().accounts;
        let calls = store.calls.load(Ordering::SeqCst);
        // Ten minutes of refused requests, of requests that cost nothing, and of receipts.
        for second in 0..600 {
            clock.set(NOON + second);
            for _ in 0..20 {
                assert!(ledger.reserve(clock.now(), ANN, bounds(1), soon()).await.is_err());
                let own = ledger.reserve(clock.now(), ANN, OWN, soon()).await.unwrap();
                own.settle(Cost { requests: 1, ..Cost::default() });
                ledger.add_receipt(Receipt { time: clock.now(), ..Receipt::default() });
            }
        }
        let stats = ledger.stats();
        assert_eq!((stats.accounts, stats.queued_receipts), (accounts, MAX_QUEUED_RECEIPTS));
        assert_eq!(stats.dropped_receipts, 12_000 - MAX_QUEUED_RECEIPTS as u64);
        // Requests that are refused do not call the store.
        assert!(store.calls.load(Ordering::SeqCst) - calls < 20);
        store.set(UP);
        until(|| ledger.stats().down_since.is_none()).await;
        ledger.reserve(clock.now(), ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
        ledger.close(soon()).await.unwrap();
        let totals = store.totals(NOON).await.unwrap();
        let of = |unit| totals.iter().find(|total| total.bucket.unit == unit).unwrap();
        assert_eq!((of(Unit::Money).spent, of(Unit::Money).leased), (spent + 1, 0));
        assert_eq!((of(Unit::Requests).spent, of(Unit::Requests).leased), (12_000, 0));
        let query = ReportQuery { from: 0, to: NOON + 600, group_by: Vec::new() };
        assert_eq!(store.report(query).await.unwrap()[0].requests, MAX_QUEUED_RECEIPTS as u64);
    }
}

#[tokio::test]
async fn leases_end_in_a_long_outage() {
    let clock = TestClock::new(NOON);
    let options = Options { lease_seconds: 60, ..clock.options("r") };
    let (store, ledger) = start(options);
    ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
    store.set(DOWN);
    ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
    until(|| ledger.stats().down_since.is_some()).await;
    clock.set(NOON + 59);
    ledger.reserve(clock.now(), ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
    clock.set(NOON + 60);
    // From now on, an operator may take the lease back.
    assert!(ledger.reserve(clock.now(), ANN, bounds(1), soon()).await.is_err());
    assert_eq!(store.reclaim("r", clock.now()).await, Ok(1));
    store.set(UP);
    until(|| ledger.stats().down_since.is_none()).await;
    ledger.reserve(clock.now(), ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
    ledger.close(soon()).await.unwrap();
    // What was spent of the lease is settled, though it was taken back meanwhile.
    let total = store.totals(clock.now()).await.unwrap().remove(0);
    assert_eq!((total.spent, total.leased), (4, 0));
}

#[tokio::test]
async fn a_store_that_is_down_from_the_start() {
    let clock = TestClock::new(NOON);
    let store = Arc::new(Flaky::default());
    store.set(DOWN);
    let caps = [cap(Scope::Key, "ann", Window::Total, Unit::Money, 100)];
    let ledger = Ledger::start(clock.options("r"), store.clone(), &caps).unwrap();
    let refused = ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap_err();
    assert!(matches!(refused, Refused::StoreDown { .. }), "{refused}");
    ledger.reserve(NOON, ANN, bounds(0), soon()).await.unwrap();
    store.set(UP);
    until(|| ledger.stats().down_since.is_none()).await;
    ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
}

#[tokio::test]
async fn a_store_that_hangs_keeps_no_request_beyond_its_deadline() {
    let clock = TestClock::new(NOON);
    let (store, ledger) = start(clock.options("r"));
    store.set(HANGS);
    ledger.set_caps(&[cap(Scope::Key, "ann", Window::Total, Unit::Money, 100)]).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(20);
    let refused = ledger.reserve(NOON, ANN, bounds(100), deadline).await.unwrap_err();
    assert!(matches!(refused, Refused::Deadline | Refused::StoreDown { .. }), "{refused}");
}
