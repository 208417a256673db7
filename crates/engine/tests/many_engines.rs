//! Several engines on one device, each on its thread, over the fake model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use cpu::{Pool, Tier};
use engine::fake::{Around, FakeModel, FakeVocabulary};
use engine::{
    Caller, Device, Engine, Event, FinishReason, Forward, Handle, Limits, MemoryBudget, MemoryKind, Params,
    Priority, Request, Rows, Setup, Ticket,
};
use kernels::Compute;

const VOCAB: usize = 40;

fn device() -> Device {
    let pool = Pool::new(2, None).expect("threads");
    Device::new(Compute::new(Tier::Scalar, pool), MemoryBudget::new(1 << 20))
}

fn start(device: &Device, name: &str, forward: impl Forward + 'static) -> Handle {
    let limits = Limits { prefill_chunk: 16, ..Limits::default() };
    let memory = device.memory().reserve(name, MemoryKind::Weights, 1000).expect("memory");
    let setup = Setup::new(Arc::new(FakeVocabulary), limits).named(name).holding(memory);
    Engine::start_forward_on(device, forward, None, setup).expect("an engine")
}

fn model() -> FakeModel {
    FakeModel::new(VOCAB, 64, 200, 4)
}

/// The fake model, with a job for the device's pool in each step.
fn working(device: &Device, inside: Arc<AtomicUsize>) -> impl Forward + use<> {
    let compute = device.compute().clone();
    Around::new(model(), move |model: &mut FakeModel, rows: &Rows<'_>| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two engines compute at once");
        let sum = AtomicUsize::new(0);
        for _ in 0..20 {
            compute.pool.run(8, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.into_inner(), 20 * 28);
        let logits = model.forward(rows).map(<[f32]>::to_vec);
        inside.fetch_sub(1, Ordering::SeqCst);
        logits
    })
}

/// The fake model, held at each step until let go; dropping the sender lets everything pass.
fn gated() -> (impl Forward, Sender<()>) {
    let (open, pass) = channel();
    let forward = Around::new(model(), move |model: &mut FakeModel, rows: &Rows<'_>| {
        let _ = pass.recv();
        model.forward(rows).map(<[f32]>::to_vec)
    });
    (forward, open)
}

fn request(first: u32, max_tokens: usize) -> Request {
    Request {
        prompt: (0..20).map(|i| 1 + (first + i * 7) % (VOCAB as u32 - 1)).collect(),
        max_tokens: Some(max_tokens),
        params: Params { temperature: 1.0, seed: Some(u64::from(first)), ..Params::default() },
        ignore_end: true,
        caller: Caller { priority: Priority::ALL[first as usize % 3], client: 0 },
        ..Request::default()
    }
}

fn submit(handle: &Handle, request: Request) -> (Ticket, Receiver<Event>) {
    let (to, from) = channel();
    (handle.submit(request, Box::new(to)).expect("a place"), from)
}

fn read(from: &Receiver<Event>) -> (Vec<u32>, FinishReason) {
    let mut tokens = Vec::new();
    loop {
        match from.recv_timeout(Duration::from_secs(20)).expect("an answer ends") {
            Event::Prompt { .. } | Event::Resumed { .. } => panic!("nobody asked for it"),
            Event::Token { id, .. } => tokens.push(id),
            Event::Done { reason, .. } => return (tokens, reason),
            Event::Failed { error, .. } => panic!("{error}"),
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn answers_are_those_of_one_engine_and_no_job_meets_a_busy_pool() {
    let device = device();
    let inside = Arc::new(AtomicUsize::new(0));
    let solo: Vec<_> = {
        let handle = start(&device, "solo", working(&device, inside.clone()));
        (0..12).map(|i| read(&submit(&handle, request(i, 30)).1)).collect()
    };
    let engines: Vec<Handle> =
        (0..3).map(|i| start(&device, &format!("model {i}"), working(&device, inside.clone()))).collect();
    let running: Vec<_> = (0..12).map(|i| submit(&engines[i as usize % 3], request(i, 30))).collect();
    for (alone, (_ticket, from)) in solo.iter().zip(&running) {
        assert_eq!(&read(from), alone);
    }
    until("the solo engine has left", || device.engines().len() == 3);
    for told in device.engines() {
        assert!(told.turns.turns > 0 && told.turns.computed > Duration::ZERO, "{told:?}");
        assert!(told.turns.longest_wait <= told.turns.waited, "{told:?}");
    }
    let waited: Duration = engines.iter().map(|engine| engine.stats().waiting_time).sum();
    assert!(waited > Duration::ZERO, "they did wait for each other");
    assert_eq!(device.compute().pool.collisions(), 0);
    assert_eq!(device.memory().reserved(), 3000);
    engines.iter().for_each(|engine| engine.drain(Duration::from_secs(20)));
    assert_eq!((device.engines().len(), device.memory().reserved()), (0, 0));
}

#[test]
fn an_engine_that_waits_for_its_turn_can_be_cancelled_and_drained() {
    let device = device();
    let (forward, open) = gated();
    let holder = start(&device, "holder", forward);
    let (_held, from_held) = submit(&holder, request(1, 3));
    until("it computes", || holder.stats().running == 1);
    let waiting = start(&device, "waiting", model());
    // A cancelled request ends without a turn.
    let (ticket, from) = submit(&waiting, request(2, 3));
    std::thread::sleep(Duration::from_millis(20));
    drop(ticket);
    assert_eq!(read(&from), (vec![], FinishReason::Cancelled));
    // A drain that has run out of time ends the wait.
    let (_ticket, from) = submit(&waiting, request(2, 3));
    waiting.drain(Duration::from_millis(20));
    assert_eq!(read(&from), (vec![], FinishReason::Cancelled));
    assert_eq!(device.engines().len(), 1);
    assert!(waiting.stats().waiting_time >= Duration::from_millis(20), "{:?}", waiting.stats());
    // What comes while another engine waits for its turn is served in its order.
    let late = start(&device, "late", model());
    let (_late, from_late) = submit(&late, request(3, 3));
    drop(open);
    assert_eq!(read(&from_held).0.len(), 3);
    assert_eq!(read(&from_late).0.len(), 3);
}

#[test]
fn an_engine_that_panics_leaves_the_device_to_the_others() {
    let device = device();
    let fails = Around::new(model(), |_: &mut FakeModel, _: &Rows<'_>| panic!("a kernel fell over"));
    let (dies, lives) = (start(&device, "dies", fails), start(&device, "lives", model()));
    let (_dead, from_dead) = submit(&dies, request(1, 3));
    let (_alive, from_alive) = submit(&lives, request(2, 3));
    assert_eq!(read(&from_alive).0.len(), 3);
    assert!(matches!(from_dead.recv_timeout(Duration::from_secs(20)), Ok(Event::Failed { .. })));
    dies.drain(Duration::ZERO);
    assert_eq!((device.engines().len(), device.memory().reserved()), (1, 1000));
}

/// Threads, and kibibytes of memory, of this process.
fn held() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
    };
    (number("Threads"), number("VmRSS"))
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_engines_come_and_go_and_leave_nothing() {
    let device = device();
    let stays = start(&device, "stays", model());
    let cycle = |i: u32| {
        let handle = start(&device, &format!("model {}", i % 7), model());
        let (_ticket, from) = submit(&handle, request(i, 2));
        let (_other, from_other) = submit(&stays, request(i, 1));
        assert_eq!((read(&from).0.len(), read(&from_other).0.len()), (2, 1));
        handle.drain(Duration::from_secs(20));
    };
    (0..200).for_each(cycle);
    until("threads have ended", || held().0 <= 6);
    let before = held();
    (200..1000).for_each(cycle);
    until("threads have ended", || held().0 <= before.0);
    let after = held();
    // An engine of this size holds some 100 KiB: a leak would be a hundred times this.
    assert!(after.1 < before.1 + 2048, "{before:?} {after:?}");
    assert_eq!((device.engines().len(), device.memory().reserved()), (1, 1000));
    assert_eq!(device.compute().pool.collisions(), 0);
}
