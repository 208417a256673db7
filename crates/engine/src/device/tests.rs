use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cpu::{Pool, Tier};

use super::*;

fn device(threads: usize) -> Device {
    let pool = Pool::new(threads, None).unwrap();
    Device::new(Compute::new(Tier::Scalar, pool), MemoryBudget::new(1 << 20))
}

const STALL: Duration = Duration::from_millis(100);

/// Fails a test that waits for good.
fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

#[test]
fn one_at_a_time_has_the_pool_and_all_have_it() {
    let device = device(2);
    let inside = AtomicBool::new(false);
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, inside, sum) = (&device, &inside, &sum);
            scope.spawn(move || {
                let mut member = device.join(&format!("engine {thread}"), STALL);
                for round in 0..200 {
                    let urgency = Urgency::ALL[(thread + round) % 3];
                    assert!(member.begin(urgency, soon()));
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    device.compute().pool.run(8, &|i| {
                        sum.fetch_add(i, Ordering::Relaxed);
                    });
                    inside.store(false, Ordering::SeqCst);
                    if round % 3 == 0 {
                        member.yield_turn();
                    }
                    if round % 50 == 49 {
                        member.rest();
                    }
                }
                assert_eq!(member.totals().turns, 200);
            });
        }
    });
    assert_eq!((sum.into_inner(), device.compute().pool.collisions()), (4 * 200 * 28, 0));
    assert!(device.engines().is_empty(), "all have left");
}

#[test]
fn a_wait_ends_by_an_interrupt_and_by_its_deadline_and_keeps_its_place() {
    let device = device(1);
    let (mut first, mut second) = (device.join("first", STALL), device.join("second", STALL));
    assert!(first.begin(Urgency::Decode, None));
    let waiter = second.waiter().clone();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.begin(Urgency::Prompt, soon()));
        std::thread::sleep(Duration::from_millis(20));
        waiter.interrupt();
        assert!(!waits.join().unwrap());
    });
    let soon_over = Instant::now() + Duration::from_millis(5);
    assert!(!second.begin(Urgency::Prompt, Some(soon_over)));
    assert!(Instant::now() >= soon_over);
    // It waits still, whatever its thread does: the turn is there when it comes back.
    first.rest();
    assert!(device.lock().turns.holds(second.id));
    assert!(!first.begin(Urgency::Decode, Some(Instant::now())));
    assert!(second.begin(Urgency::Decode, None));
    assert_eq!(second.totals().turns, 1);
    second.rest();
    assert!(first.begin(Urgency::Decode, soon()));
}

#[test]
fn a_holder_that_panics_gives_its_turn_back() {
    let device = device(1);
    let mut next = device.join("next", STALL);
    std::thread::scope(|scope| {
        let mut falls = device.join("falls", STALL);
        assert!(falls.begin(Urgency::Decode, None));
        let waits = scope.spawn(|| next.begin(Urgency::Decode, soon()));
        let panicked = scope.spawn(move || {
            let _member = falls;
            std::thread::sleep(Duration::from_millis(10));
            panic!("a kernel fell over");
        });
        assert!(panicked.join().is_err());
        assert!(waits.join().unwrap());
    });
    assert_eq!(device.engines().len(), 1);
}

#[test]
fn work_beside_the_engines_has_a_turn_of_its_own() {
    let device = device(2);
    let mut engine = device.join("engine", STALL);
    assert!(engine.begin(Urgency::Decode, None));
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| device.exclusive("measure", |compute| compute.pool.threads()));
        while device.engines().len() < 2 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5));
        engine.rest();
        assert_eq!(measured.join().unwrap(), 2);
    });
    assert_eq!(device.engines().len(), 1);
    assert_eq!(device.single_threaded().unwrap().pool.threads(), 1);
}

/// Prints what a turn costs an engine that has the device for itself: `cargo nextest run --release ... --run-ignored
/// all`.
#[test]
fn a_turn_of_one_engine_costs_next_to_nothing() {
    let device = device(1);
    let mut engine = device.join("engine", STALL);
    let rounds = 20_000;
    let began = Instant::now();
    for _ in 0..rounds {
        assert!(engine.begin(Urgency::Decode, None));
        engine.yield_turn();
    }
    let each = began.elapsed() / rounds;
    // In a build without optimization and on a machine that does other things.
    assert!(each < Duration::from_micros(50), "{each:?} a turn");
    println!("{each:?} a turn");
}

#[test]
fn each_turn_is_told_with_its_wait() {
    let device = device(1);
    let (mut first, mut second) = (device.join("first", STALL), device.join("second", STALL));
    assert!(first.begin(Urgency::Decode, None));
    assert_eq!(first.take_ended(), None, "its first turn goes on");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            // An interrupt does not begin the wait anew.
            while !second.begin(Urgency::Decode, soon()) {}
            second.rest();
            second.take_ended().unwrap()
        });
        std::thread::sleep(Duration::from_millis(30));
        device.lock().waiters[1].1.interrupt();
        std::thread::sleep(Duration::from_millis(30));
        first.rest();
        let turn = waits.join().unwrap();
        assert!(turn.waited >= Duration::from_millis(35) && turn.held < turn.waited, "{turn:?}");
    });
    let turn = first.take_ended().unwrap();
    assert!(turn.waited < turn.held && turn.held >= Duration::from_millis(60), "{turn:?}");
    assert_eq!(first.take_ended(), None, "once");
    assert!(first.begin(Urgency::Decode, None) && first.begin(Urgency::Decode, None));
    assert!(first.take_ended().is_some(), "the first of both");
}
