//! Ledgers with a store in memory: what the gateway sees.

use crate::common::{ANN, NOON, TestClock, bounds, cap, cost, soon};
use ledger::store::Store;
use ledger::store::memory::MemoryStore;
use ledger::{Amount, Bounds, Cost, Ledger, Refused, Scope, Subjects, Unit, Window};
use std::sync::Arc;

fn start(limit: i64) -> (TestClock, Arc<dyn Store>, Ledger) {
    let clock = TestClock::new(NOON);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let caps = [cap(Scope::Key, "ann", Window::Day, Unit::Money, limit)];
    let ledger = Ledger::start(clock.options("r1"), store.clone(), &caps).unwrap();
    (clock, store, ledger)
}

#[tokio::test]
async fn a_refusal_names_bucket_used_reserved_limit_and_reset() {
    let (clock, store, ledger) = start(1_000_000_000);
    let first = ledger.reserve(NOON, ANN, bounds(600_000_000), soon()).await.unwrap();
    first.settle(cost(500_000_000));
    let second = ledger.reserve(NOON, ANN, bounds(300_000_000), soon()).await.unwrap();
    let refused = ledger.reserve(NOON, ANN, bounds(300_000_000), soon()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "budget: money per day of key `ann`: 0.50 used and 0.30 reserved of 1.00; \
         this request may need 0.30; starts anew at 2026-11-30T00:00:00Z"
    );
    assert_eq!(refused.resets_at(), Some(NOON + 43_200));
    drop(second);
    clock.set(NOON + 2);
    let third = ledger.reserve(NOON + 2, ANN, bounds(200_000_000), soon()).await.unwrap();
    third.release();
    assert_eq!(ledger.stats().abandoned, 1);
    ledger.close(soon()).await.unwrap();
    assert_eq!(ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap_err(), Refused::Closed);
    let totals = store.totals(NOON).await.unwrap();
    assert_eq!((totals[0].spent, totals[0].uncertain, totals[0].leased), (800_000_000, 300_000_000, 0));
}

#[tokio::test]
async fn other_subjects_have_no_cap() {
    let (_, _, ledger) = start(0);
    let bob = Subjects { key: "bob", ..ANN };
    ledger.try_reserve(NOON, bob, bounds(i64::MAX)).unwrap();
    assert!(matches!(ledger.reserve(NOON, ANN, bounds(1), soon()).await, Err(Refused::Full(_))));
    // What costs nothing is not stopped by a cap on money.
    ledger.reserve(NOON, ANN, bounds(0), soon()).await.unwrap();
}

#[tokio::test]
async fn an_unknown_price_is_refused_under_a_cap_on_money() {
    let (_, _, ledger) = start(1_000);
    let unknown = Bounds { money: None, tokens: 1, requests: 1 };
    let refused = ledger.reserve(NOON, ANN, unknown, soon()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "budget: the price of this request is not known, and there is a cap on money per day of key `ann`"
    );
    ledger.try_reserve(NOON, Subjects { key: "bob", ..ANN }, unknown).unwrap();
}

#[tokio::test]
async fn a_cost_above_the_bound_is_recorded_and_closes_the_cap() {
    let (_, store, ledger) = start(1_000);
    ledger.reserve(NOON, ANN, bounds(10), soon()).await.unwrap().settle(cost(5_000));
    assert!(matches!(ledger.reserve(NOON, ANN, bounds(1), soon()).await, Err(Refused::Full(_))));
    ledger.close(soon()).await.unwrap();
    assert_eq!(store.totals(NOON).await.unwrap()[0].spent, 5_000);
}

#[tokio::test]
async fn a_window_that_ends_while_a_request_runs_counts_it_where_it_began() {
    let (clock, store, ledger) = start(1_000);
    let evening = NOON + 43_199;
    clock.set(evening);
    let late = ledger.reserve(evening, ANN, bounds(900), soon()).await.unwrap();
    assert!(ledger.reserve(evening, ANN, bounds(900), soon()).await.is_err());
    clock.set(evening + 1);
    let early = ledger.reserve(evening + 1, ANN, bounds(900), soon()).await.unwrap();
    late.settle(cost(700));
    early.settle(cost(800));
    ledger.close(soon()).await.unwrap();
    assert_eq!(store.totals(evening).await.unwrap()[0].spent, 700);
    assert_eq!(store.totals(evening + 1).await.unwrap()[0].spent, 800);
}

#[tokio::test]
async fn a_clock_that_is_set_back_opens_no_window_again() {
    let (clock, _, ledger) = start(1_000);
    let midnight = NOON + 43_200;
    clock.set(midnight);
    ledger.reserve(midnight, ANN, bounds(1_000), soon()).await.unwrap().settle(cost(1_000));
    clock.set(midnight - 2);
    let refused = ledger.reserve(midnight - 2, ANN, bounds(1), soon()).await.unwrap_err();
    assert_eq!(refused.resets_at(), Some(midnight + 86_400));
    // A clock that was wrong by a day is believed when it is right again; each day has its own budget.
    clock.set(NOON);
    ledger.reserve(NOON, ANN, bounds(1_000), soon()).await.unwrap().settle(cost(1_000));
    clock.set(midnight);
    assert!(ledger.reserve(midnight, ANN, bounds(1), soon()).await.is_err());
}

#[tokio::test]
async fn idle_leases_come_back_for_other_replicas() {
    let (clock, store, first) = start(100);
    let caps = [cap(Scope::Key, "ann", Window::Day, Unit::Money, 100)];
    let second = Ledger::start(clock.options("r2"), store.clone(), &caps).unwrap();
    // 60 are leased and released: the first replica keeps the lease for a while.
    first.reserve(NOON, ANN, bounds(60), soon()).await.unwrap().release();
    assert!(second.reserve(NOON, ANN, bounds(60), soon()).await.is_err());
    clock.set(NOON + 11);
    first.set_caps(&caps).unwrap();
    for _ in 0..1_000 {
        if store.totals(NOON).await.unwrap()[0].leased == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    second.reserve(NOON + 11, ANN, bounds(60), soon()).await.unwrap().settle(cost(60));
}

#[tokio::test]
async fn caps_change_while_requests_run() {
    let (_, store, ledger) = start(1_000);
    let running = ledger.reserve(NOON, ANN, bounds(400), soon()).await.unwrap();
    ledger.set_caps(&[]).unwrap();
    running.settle(cost(350));
    // The same cap again: what was spent in between counts.
    ledger.set_caps(&[cap(Scope::Key, "ann", Window::Day, Unit::Money, 500)]).unwrap();
    assert!(ledger.reserve(NOON, ANN, bounds(200), soon()).await.is_err());
    ledger.reserve(NOON, ANN, bounds(150), soon()).await.unwrap().settle(cost(150));
    ledger.close(soon()).await.unwrap();
    assert_eq!(store.totals(NOON).await.unwrap()[0].spent, 500);
}

#[tokio::test]
async fn what_is_leased_is_reserved_without_the_store_and_without_an_allocation() {
    let clock = TestClock::new(NOON);
    let caps = [
        cap(Scope::Key, "ann", Window::Day, Unit::Money, 1_000_000),
        cap(Scope::Team, "search", Window::Month, Unit::Money, 1_000_000),
        cap(Scope::Model, "small", Window::Day, Unit::Requests, 1_000_000),
        cap(Scope::Everything, "", Window::Total, Unit::Tokens, 1_000_000),
    ];
    let ledger = Ledger::start(clock.options("r"), Arc::new(MemoryStore::new()), &caps).unwrap();
    let bounds = Bounds { money: Some(Amount::from_nano(3)), tokens: 2, requests: 1 };
    let cost = Cost { money: Amount::from_nano(2), tokens: 1, requests: 1 };
    ledger.reserve(NOON, ANN, bounds, soon()).await.unwrap().settle(cost);
    // This thread does not run the ledger's task meanwhile.
    let measured = allocation_counter::measure(|| {
        for _ in 0..5_000 {
            ledger.try_reserve(NOON, ANN, bounds).unwrap().settle(cost);
        }
    });
    // The list of buckets with news grows once.
    assert!(measured.count_total <= 2, "{measured:?}");
}

/// What a reservation and its settlement take: `cargo test --release -p ledger --test ledger -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "prints a time"]
async fn time_of_a_reservation() {
    let (_, _, ledger) = start(i64::MAX);
    ledger.reserve(NOON, ANN, bounds(1), soon()).await.unwrap().settle(cost(1));
    let start = std::time::Instant::now();
    for _ in 0..1_000_000 {
        ledger.try_reserve(NOON, ANN, bounds(1)).unwrap().settle(cost(1));
    }
    println!("{} ns", start.elapsed().as_nanos() / 1_000_000);
}
