//! Three replicas against one cap, with everything that goes wrong: it is never exceeded, by more than nothing.

use crate::common::{ANN, NOON, TestClock, bounds, cap, cost, soon};
use crate::stores::{Place, memory, sqlite_files};
use ledger::store::Store;
use ledger::{BucketTotal, Ledger, Options, Refused, Scope, Unit, Window};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng as SmallRng;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::sleep;

const LIMIT: i64 = 4_000;

/// What is really spent and what runs, which nobody in the ledger knows.
#[derive(Default)]
struct Truth {
    level: AtomicI64,
    granted: AtomicUsize,
    refused: AtomicUsize,
}

impl Truth {
    fn grant(&self, bound: i64, limit: i64) {
        self.granted.fetch_add(1, Ordering::SeqCst);
        let level = self.level.fetch_add(bound, Ordering::SeqCst) + bound;
        assert!(level <= limit, "{level} of {limit} are spent or running");
    }

    /// Before the ledger hears of it: from then on, others may have it.
    fn free(&self, unspent: i64) {
        self.level.fetch_sub(unspent, Ordering::SeqCst);
    }
}

/// One request: reserves, runs for a while, and ends in one of the ways in which requests end.
async fn request(ledger: Arc<Ledger>, clock: TestClock, truth: Arc<Truth>, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    sleep(Duration::from_millis(random.random_range(0..200))).await;
    let bound = random.random_range(1..20);
    let Ok(reservation) = ledger.reserve(clock.now(), ANN, bounds(bound), soon()).await else {
        truth.refused.fetch_add(1, Ordering::SeqCst);
        return;
    };
    truth.grant(bound, LIMIT);
    sleep(Duration::from_millis(random.random_range(0..50))).await;
    match random.random_range(0..10) {
        // The client has left, or the handler panicked: nobody knows what it cost.
        0 => drop(reservation),
        1 => reservation.settle_unknown(),
        2 | 3 => {
            truth.free(bound);
            reservation.release();
        }
        _ => {
            let spent = random.random_range(0..=bound);
            truth.free(bound - spent);
            reservation.settle(cost(spent));
        }
    }
}

/// A thousand requests at three replicas; one of them dies in the middle.
async fn thousand(stores: Vec<Arc<dyn Store>>, seed: u64) {
    let clock = TestClock::new(NOON);
    let caps = [
        cap(Scope::Key, "ann", Window::Day, Unit::Money, LIMIT + 500),
        cap(Scope::Everything, "", Window::Total, Unit::Money, LIMIT),
    ];
    let start = |index: usize| {
        let options = clock.options(&format!("r{index}"));
        Arc::new(Ledger::start(options, stores[index].clone(), &caps).unwrap())
    };
    let mut ledgers: Vec<Arc<Ledger>> = (0..3).map(start).collect();
    let truth = Arc::new(Truth::default());
    let mut doomed = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..1_000_u64 {
        let index = (number % 3) as usize;
        let task = request(ledgers[index].clone(), clock.clone(), truth.clone(), seed + number);
        let task = tokio::spawn(task);
        if index == 1 { doomed.push(task) } else { tasks.push(task) }
    }
    sleep(Duration::from_millis(100)).await;
    // The process of the second ends: its requests too, wherever they are. What they had reserved is spent.
    doomed.iter().for_each(tokio::task::JoinHandle::abort);
    for task in doomed {
        assert!(!task.await.is_err_and(|error| error.is_panic()));
    }
    drop(ledgers.remove(1));
    for task in tasks {
        task.await.unwrap();
    }
    // What is left is for whoever asks now, but for what died with the second.
    clock.set(NOON + 30);
    let mut refusals = 0;
    for round in 0..20_000 {
        let ledger = &ledgers[round % 2];
        match ledger.reserve(clock.now(), ANN, bounds(1), soon()).await {
            Ok(reservation) => {
                truth.grant(1, LIMIT);
                reservation.settle(cost(1));
                refusals = 0;
            }
            Err(Refused::Full(_)) if refusals == 8 => break,
            // A refusal is believed for a second, and a lease returned after ten.
            Err(Refused::Full(_)) => {
                refusals += 1;
                clock.set(clock.now() + 11);
            }
            Err(other) => panic!("{other}"),
        }
    }
    for ledger in ledgers {
        ledger.close(soon()).await.unwrap();
    }
    check(&truth, stores[0].totals(clock.now()).await.unwrap().pop().unwrap());
}

/// Whether what the store says is what was granted, and no more than the cap.
fn check(truth: &Truth, total: BucketTotal) {
    let (granted, refused) = (truth.granted.load(Ordering::SeqCst), truth.refused.load(Ordering::SeqCst));
    assert!(granted > 300, "{granted} granted, {refused} refused");
    let level = truth.level.load(Ordering::SeqCst);
    assert!(total.spent + total.leased <= LIMIT, "{total:?}");
    assert!(total.spent <= level && level <= total.spent + total.leased, "{total:?}, really {level}");
    // The two that lived have returned everything, and spent the rest: what is leased died.
    assert!(total.spent + total.leased >= LIMIT - 1, "{total:?}");
}

/// Days end while requests run: each has its own cap.
async fn midnight(stores: Vec<Arc<dyn Store>>) {
    let clock = TestClock::new(NOON);
    let caps = [cap(Scope::Key, "ann", Window::Day, Unit::Money, 300)];
    let start =
        |store: &Arc<dyn Store>| Arc::new(Ledger::start(clock.options("r"), store.clone(), &caps).unwrap());
    let ledgers: Vec<Arc<Ledger>> = stores.iter().map(start).collect();
    let days: Arc<Vec<Truth>> = Arc::new((0..4).map(|_| Truth::default()).collect());
    let mut tasks = Vec::new();
    for number in 0..400_u64 {
        let (ledger, clock, days) = (ledgers[(number % 3) as usize].clone(), clock.clone(), days.clone());
        tasks.push(tokio::spawn(async move {
            let mut random = SmallRng::seed_from_u64(number);
            sleep(Duration::from_millis(number)).await;
            let now = clock.now();
            let Ok(reservation) = ledger.reserve(now, ANN, bounds(4), soon()).await else { return };
            // The day may have ended while it waited for a lease: it counts in one of both.
            let day = |now: i64| ((now - NOON) / 86_400) as usize;
            let truth = (day(now) == day(clock.now())).then(|| &days[day(now)]);
            if let Some(truth) = truth {
                truth.grant(4, 300);
            }
            sleep(Duration::from_millis(random.random_range(0..150))).await;
            let spent = random.random_range(0..=4);
            if let Some(truth) = truth {
                truth.free(4 - spent);
            }
            reservation.settle(cost(spent));
        }));
    }
    for day in 1..4 {
        // One that surely runs at midnight.
        let overnight = ledgers[0].reserve(clock.now(), ANN, bounds(1), soon()).await.ok();
        let truth = &days[day as usize - 1];
        if overnight.is_some() {
            truth.grant(1, 300);
        }
        sleep(Duration::from_millis(100)).await;
        clock.set(NOON + day * 86_400);
        if let Some(overnight) = overnight {
            overnight.settle(cost(1));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    for ledger in ledgers {
        ledger.close(soon()).await.unwrap();
    }
    let mut sum = 0;
    for day in 0..4 {
        let Some(total) = stores[0].totals(NOON + day * 86_400).await.unwrap().pop() else { continue };
        assert!(total.spent <= 300 && total.leased == 0, "{total:?}");
        sum += total.spent;
    }
    assert!(sum >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_with_a_store_in_memory() {
    for seed in 0..3 {
        let Place { store, .. } = memory();
        thousand(vec![store.clone(), store.clone(), store], seed * 1_000_000).await;
    }
    let Place { store, .. } = memory();
    midnight(vec![store.clone(), store.clone(), store]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_with_one_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    thousand(sqlite_files(&folder.path().join("thousand")), 1).await;
    midnight(sqlite_files(&folder.path().join("midnight"))).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_with_postgresql() {
    let Some(server) = crate::postgres::server().await else { return };
    let stores =
        async |name: &str| vec![server.store(name).await, server.store(name).await, server.store(name).await];
    thousand(stores("thousand").await, 1).await;
    midnight(stores("midnight").await).await;
}

/// The server crashes under load, and comes back.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_that_crashes_and_comes_back() {
    let Some(mut server) = crate::postgres::server().await else { return };
    let clock = TestClock::new(NOON);
    let caps = [cap(Scope::Key, "ann", Window::Day, Unit::Money, 1_000)];
    let store = server.store("crash").await;
    let ledger = Ledger::start(clock.options("r"), store.clone(), &caps).unwrap();
    let truth = Truth::default();
    for round in 0..3 {
        for _ in 0..100 {
            match ledger.reserve(clock.now(), ANN, bounds(2), soon()).await {
                Ok(reservation) => {
                    truth.grant(2, 1_000);
                    reservation.settle(cost(2));
                }
                Err(refused) => assert!(matches!(refused, Refused::StoreDown { .. }), "{refused}"),
            }
        }
        if round < 2 {
            server.stop();
            while ledger.stats().down_since.is_none() {
                sleep(Duration::from_millis(1)).await;
                // Something to settle, so that it is noticed.
                if let Ok(reservation) = ledger.reserve(clock.now(), ANN, bounds(2), soon()).await {
                    truth.grant(2, 1_000);
                    reservation.settle(cost(2));
                }
            }
            server.start().await;
            while ledger.stats().down_since.is_some() {
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    ledger.close(soon()).await.unwrap();
    let total = store.totals(NOON).await.unwrap().remove(0);
    assert_eq!((total.spent, total.leased), (truth.level.load(Ordering::SeqCst), 0));
}

#[tokio::test]
async fn a_lease_that_died_is_lost_until_it_is_taken_back() {
    let clock = TestClock::new(NOON);
    let caps = [cap(Scope::Key, "ann", Window::Total, Unit::Money, 100)];
    let Place { store, .. } = memory();
    let options = Options { lease_seconds: 60, ..clock.options("r") };
    let ledger = Ledger::start(options.clone(), store.clone(), &caps).unwrap();
    let reservation = ledger.reserve(NOON, ANN, bounds(40), soon()).await.unwrap();
    drop(ledger);
    // Too late: nobody hears of it.
    reservation.settle(cost(10));
    let ledger = Ledger::start(options, store.clone(), &caps).unwrap();
    let refused = ledger.reserve(NOON, ANN, bounds(70), soon()).await.unwrap_err();
    assert!(refused.to_string().contains("0.00 used and 0.00000004 reserved of 0.0000001"), "{refused}");
    clock.set(NOON + 61);
    let total = store.totals(clock.now()).await.unwrap().remove(0);
    assert_eq!((total.spent, total.leased, total.lost), (0, 40, 40));
    assert_eq!(store.reclaim("r", clock.now()).await, Ok(1));
    ledger.reserve(clock.now(), ANN, bounds(70), soon()).await.unwrap().settle(cost(70));
    ledger.close(soon()).await.unwrap();
}
