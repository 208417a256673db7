//! One engine that has its device for itself.

use super::*;
use crate::inbox::Worker;

fn simulate(seed: u64) -> Outcomes {
    let mut chance = Chance(Rng::new(seed));
    let mut engine = SimulatedEngine::new(&mut chance);
    let mut cancel_at: Vec<Option<usize>> = Vec::new();
    let mut steps = 0;
    let mut idle_time = Duration::ZERO;
    // Nothing arrives until all is done.
    let mut quiet = false;
    while engine.requests.len() < 40 || !engine.core.is_idle() {
        if engine.core.is_idle() {
            let pause = Duration::from_micros(chance.below(900) as u64);
            engine.set_clock(engine.now() + pause);
            idle_time += pause;
            let now = engine.now();
            engine.core.begin_spare_work(now);
            quiet = false;
        }
        if chance.below(50) == 0 {
            engine.core.end_spare_work();
            quiet = true;
        }
        let arrivals = if engine.requests.len() < 40 && !quiet && chance.below(3) == 0 {
            1 + chance.below(5)
        } else {
            0
        };
        for _ in 0..arrivals {
            let now = engine.now();
            let sequence = engine.submit(&mut chance, now);
            cancel_at.push((chance.below(8) == 0).then(|| steps + chance.below(30)));
            engine.core.accept(sequence);
        }
        for (asked, at) in engine.requests.iter_mut().zip(&cancel_at) {
            if *at == Some(steps) {
                asked.cancelled = true;
                asked.cancel.store(true, Ordering::Release);
            }
            // A cancelled request is over after the step that follows.
            let late = at.is_some_and(|at| steps > at);
            assert!(!late || asked.seen.lock().unwrap().end.is_some(), "seed {seed}: cancelled one lives on");
        }
        let idle = engine.core.is_idle();
        let (began, only_warms) = (engine.now(), engine.core.only_warms());
        let rows = engine.step(&mut Undivided { wanted: chance.below(8) == 0 });
        assert!(
            rows > 0 || idle || engine.core.is_idle(),
            "seed {seed}: a step without rows and without an end"
        );
        if only_warms {
            idle_time += engine.now() - began;
        }
        steps += 1;
        assert!(steps < 100_000, "seed {seed}: no end");
        let stats = engine.stats();
        assert!(stats.running <= engine.bounds.max_sequences() && stats.kv_blocks_used <= engine.blocks);
    }
    assert_eq!(engine.stats().idle_time, idle_time, "seed {seed}");
    assert_eq!(engine.stats().waiting_time, Duration::ZERO, "seed {seed}");
    engine.check(seed)
}

#[test]
fn a_hundred_thousand_requests() {
    let mut total = Outcomes::new();
    for seed in 0..2600 {
        add(&mut total, simulate(seed));
    }
    // The simulator would be worth little if it met only the easy cases.
    for name in [
        "stop",
        "length",
        "cancelled",
        "waited",
        "expired",
        "preempted",
        "cached",
        "warmed",
        "accepted",
        "wrong",
        "scored",
        "resumed",
        "restored",
        "replayed",
    ] {
        assert!(total.get(name).is_some_and(|n| *n >= 200), "too few of {name}: {total:?}");
    }
}

/// An engine of a small model, whose steps take a millisecond, and one more a row.
struct Lone {
    core: EngineCore<Box<dyn Forward>>,
    clock: Arc<Mutex<Duration>>,
    counters: Arc<Counters>,
    vocabulary: Arc<dyn Vocabulary>,
    blocks: usize,
}

impl Lone {
    fn new(max_running: usize, max_stall: Duration, blocks: usize) -> Lone {
        let (clock, counters) = (Arc::new(Mutex::new(Duration::ZERO)), Arc::new(Counters::default()));
        let bounds = StepBounds {
            max_running,
            prefill_chunk: 16,
            max_stall,
            speculation: Speculation::OFF,
            prompt_logits: 1,
            snapshots: SnapshotSpacing { every: 512, least: 64 },
        };
        let model = FakeModel::new(VOCAB, CONTEXT, blocks, 4);
        let forward: Box<dyn Forward> =
            Box::new(timed(model, bounds, (MILLISECOND, MILLISECOND), clock.clone()));
        let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
        let (wait, watch) = (Duration::from_secs(3600), Box::new(Unwatched));
        let core =
            EngineCore::new(forward, vocabulary.clone(), bounds, wait, counters.clone(), watch, None, true);
        Lone { core, clock, counters, vocabulary, blocks }
    }

    fn now(&self) -> Duration {
        *self.clock.lock().unwrap()
    }

    /// Submits a prompt of eight tokens, for so many more.
    fn submit(&mut self, priority: Priority, seed: u64, tokens: usize) -> Arc<Mutex<Seen>> {
        let request = Request {
            prompt: (0..8).map(|i| 1 + ((seed + i) % 30) as u32).collect(),
            max_tokens: Some(tokens),
            ignore_end: true,
            caller: Caller { priority, client: 0 },
            ..Request::default()
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        self.counters.enters_queue(request.prompt.len());
        let (outbox, now) = (Box::new(Reader(seen.clone())), self.now());
        self.core.accept(Sequence::new(request, seed, CONTEXT, &self.vocabulary, outbox, now));
        seen
    }

    fn step(&mut self, turn: &mut Undivided) {
        let clock = self.clock.clone();
        self.core.step(&|| *clock.lock().unwrap(), turn);
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot(self.blocks, 4, 0, CONTEXT, self.now())
    }
}

/// Memory for one at a time, and requests that come without end.
#[test]
fn batch_work_ends_beside_a_flood_and_is_preempted_once() {
    let mut engine = Lone::new(1, Duration::from_millis(10), 5);
    let batch = engine.submit(Priority::Batch, 0, 8);
    engine.step(&mut Undivided::default());
    let mut flood = Vec::new();
    while batch.lock().unwrap().end.is_none() {
        while flood.iter().filter(|s: &&Arc<Mutex<Seen>>| s.lock().unwrap().end.is_none()).count() < 3 {
            flood.push(engine.submit(Priority::Interactive, flood.len() as u64, 8));
        }
        engine.step(&mut Undivided::default());
        assert!(flood.len() < 100, "batch work starves");
    }
    assert_eq!(engine.stats().preemptions, 1);
    assert!(flood.len() > 3, "what is urgent came first: {}", flood.len());
}

/// Every slot has batch work, some of which was preempted before: a request that somebody waits for starts in the next
/// step, and so do as many as there are slots.
#[test]
fn batch_work_that_rests_holds_no_slot() {
    let mut engine = Lone::new(4, Duration::from_millis(100), 96);
    let batch: Vec<_> = (0..6).map(|seed| engine.submit(Priority::Batch, seed, 40)).collect();
    for round in 0..3 {
        for _ in 0..4 {
            engine.step(&mut Undivided::default());
        }
        assert_eq!(engine.stats().running, 4);
        let chats: Vec<_> =
            (0..4).map(|seed| engine.submit(Priority::Interactive, 10 * round + seed, 12)).collect();
        let began = engine.now();
        while chats.iter().any(|seen| seen.lock().unwrap().tokens.is_empty()) {
            engine.step(&mut Undivided::default());
        }
        // Four prompts of eight rows, and the first rows of answers beside them.
        assert!(engine.now() - began < 60 * MILLISECOND, "round {round}: {:?}", engine.now() - began);
        assert_eq!(engine.stats().running, 8);
        while chats.iter().any(|seen| seen.lock().unwrap().end.is_none()) {
            engine.step(&mut Undivided::default());
        }
    }
    while !engine.core.is_idle() {
        engine.step(&mut Undivided::default());
    }
    assert!(batch.iter().all(|seen| seen.lock().unwrap().tokens.len() == 40));
    assert_eq!(engine.stats().preemptions, 0, "there was memory for all");
}

/// Batch work beside an answer that somebody waits for: it rests, but for a step now and then, and ends at last.
#[test]
fn batch_work_rests_beside_an_answer() {
    let mut engine = Lone::new(4, Duration::from_millis(100), 96);
    let written = |seen: &Arc<Mutex<Seen>>| seen.lock().unwrap().tokens.len();
    let batch: Vec<_> = (0..3).map(|seed| engine.submit(Priority::Batch, seed, 40)).collect();
    let all_written = || batch.iter().map(written).sum::<usize>();
    for _ in 0..4 {
        engine.step(&mut Undivided::default());
    }
    let before = all_written();
    // A step of batch work is given up for it, and the next one is all its own.
    engine.step(&mut Undivided { wanted: true });
    assert_eq!(all_written(), before);
    let chat = engine.submit(Priority::Interactive, 7, 70);
    let (mut alone, mut shared) = (0, 0);
    while chat.lock().unwrap().end.is_none() {
        let (began, had) = (engine.now(), all_written());
        engine.step(&mut Undivided::default());
        let took_part = all_written() > had;
        let first = written(&chat) <= 1;
        assert!(took_part || first || engine.now() - began == 2 * MILLISECOND, "a row beside the chat's");
        (alone, shared) = (alone + usize::from(!took_part), shared + usize::from(took_part));
    }
    assert!(shared > 0 && alone >= 32 * shared, "{alone} steps alone, {shared} shared");
    while !engine.core.is_idle() {
        engine.step(&mut Undivided::default());
    }
    assert!(batch.iter().all(|seen| written(seen) == 40));
}

/// What an answer took.
struct Guessed {
    steps: usize,
    tokens: usize,
    proposed: u64,
    accepted: u64,
    took: Duration,
}

/// One answer by itself, greedily, of a model with so much habit, where a row takes `row` and a step `step` beside its
/// rows.
fn guessed(habit: f32, step: Duration, row: Duration, tokens: usize) -> Guessed {
    const LONG: usize = 2048;
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let bounds = StepBounds {
        max_running: 1,
        prefill_chunk: 16,
        max_stall: Duration::from_millis(10),
        speculation: Speculation { lookup: true, tokens: 8, always: false },
        prompt_logits: 1,
        snapshots: SnapshotSpacing { every: 512, least: 64 },
    };
    let mut model = FakeModel::new(VOCAB, LONG, LONG / 4, 4);
    model.habit = habit;
    let forward = timed(model, bounds, (step, row), clock.clone());
    let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
    let counters = Arc::new(Counters::default());
    let (wait, watch) = (Duration::from_secs(3600), Box::new(Unwatched));
    let mut core =
        EngineCore::new(forward, vocabulary.clone(), bounds, wait, counters.clone(), watch, None, true);
    let now = || *clock.lock().unwrap();
    let params = Params { temperature: 0.0, ..Params::default() };
    let request = Request {
        prompt: (1..9).collect(),
        params,
        max_tokens: Some(tokens),
        ignore_end: true,
        ..Request::default()
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    counters.enters_queue(request.prompt.len());
    core.accept(Sequence::new(request, 1, LONG, &vocabulary, Box::new(Reader(seen.clone())), now()));
    let mut steps = 0;
    while !core.is_idle() {
        core.step(&now, &mut Undivided::default());
        steps += 1;
    }
    let stats = counters.snapshot(LONG / 4, 4, 0, LONG, now());
    let tokens = seen.lock().unwrap().tokens.len();
    Guessed { steps, tokens, proposed: stats.proposed_tokens, accepted: stats.accepted_tokens, took: now() }
}

/// Proposals are made as long as a token is had sooner with them than without, by what steps were seen to
/// take.
#[test]
fn guesses_are_made_where_they_pay_and_only_tried_where_they_do_not() {
    let (step, tokens) = (Duration::from_millis(10), 1500);
    let plain = |step: Duration, row: Duration| (step + row) * 1500;

    // Rows next to nothing, and text that comes again and again: most tokens come from guesses.
    let row = Duration::from_micros(100);
    let pays = guessed(1.0, step, row, tokens);
    assert_eq!(pays.tokens, tokens);
    assert!(
        pays.took < plain(step, row) / 3,
        "{:?} of {:?}, {} steps",
        pays.took,
        plain(step, row),
        pays.steps
    );
    assert!(pays.accepted * 10 > pays.proposed * 9, "{} of {}", pays.accepted, pays.proposed);

    // As true, but a step takes what its rows take and hardly more: some are tried, as what they take has to be known.
    let (little, row) = (step / 50, step);
    let dear = guessed(1.0, little, row, tokens);
    assert!(dear.proposed > 0 && dear.proposed < 200, "{} proposed", dear.proposed);
    assert!(dear.took < plain(little, row) * 105 / 100, "{:?} of {:?}", dear.took, plain(little, row));

    // Rows that take a tenth, and text in which hardly a speculation comes true.
    let row = step / 10;
    let wrong = guessed(0.0, step, row, tokens);
    assert!(wrong.proposed > 0, "it is tried");
    assert!(wrong.took < plain(step, row) * 105 / 100, "{:?} of {:?}", wrong.took, plain(step, row));
}
