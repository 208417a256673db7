//! The engine under seeded chance: arrivals, cancellations, readers that leave, a queue that overflows its time, a pool
//! of blocks so small that sequences are preempted. A failure names its seed, and the seed replays it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Around, FakeModel, FakeVocabulary};
use crate::sample::Rng;
use crate::scheduler::Bounds;
use crate::sequence::Sequence;
use crate::stats::{Counters, Unwatched, Watch};
use crate::step::Core;
use crate::{
    Caller, Error, Event, FinishReason, Forward, Gone, Outbox, Params, Priority, Request, Rows, Speculation,
    Timings, TokenLogprobs, Usage, Vocabulary,
};

const VOCAB: usize = 40;
const CONTEXT: usize = 48;
const MILLISECOND: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(400);

#[derive(Debug, Default, Clone)]
struct Seen {
    prompt: Option<Vec<TokenLogprobs>>,
    tokens: Vec<u32>,
    text: String,
    end: Option<Result<FinishReason, Error>>,
    /// The reader leaves after so many tokens.
    leaves_after: Option<usize>,
}

struct Reader(Arc<Mutex<Seen>>);

impl Outbox for Reader {
    fn put(&mut self, event: Event) -> Result<(), Gone> {
        let mut seen = self.0.lock().unwrap();
        assert!(seen.end.is_none(), "nothing follows the end");
        match event {
            Event::Prompt { logprobs } => {
                assert!(seen.tokens.is_empty() && seen.prompt.is_none(), "told once, before the answer");
                seen.prompt = Some(logprobs);
            }
            Event::Token { text, id, .. } => {
                seen.tokens.push(id);
                seen.text.push_str(&text);
                if seen.leaves_after.is_some_and(|n| seen.tokens.len() >= n) {
                    return Err(Gone);
                }
            }
            Event::Done { text, reason, usage, .. } => {
                assert_eq!(usage.completion_tokens, seen.tokens.len());
                seen.text.push_str(&text);
                seen.end = Some(Ok(reason));
            }
            Event::Failed { error, .. } => seen.end = Some(Err(error)),
        }
        Ok(())
    }
}

/// Sums the time that requests were charged for, however they ended.
struct Bill(Arc<Mutex<[Duration; 2]>>);

impl Watch for Bill {
    fn finished(&mut self, _reason: Option<FinishReason>, usage: &Usage, _timings: &Timings) {
        let mut sums = self.0.lock().unwrap();
        sums[0] += usage.prompt_time;
        sums[1] += usage.completion_time;
    }
}

/// The fake model, checking the step's bounds, with a clock that its steps drive: `step`, and `row` for each of its rows.
fn timed(
    model: FakeModel,
    bounds: Bounds,
    (step, row): (Duration, Duration),
    clock: Arc<Mutex<Duration>>,
) -> impl Forward {
    Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        assert!(
            rows.tokens.len() <= bounds.max_rows(),
            "{} rows of {}",
            rows.tokens.len(),
            bounds.max_rows()
        );
        assert!(rows.want.len() <= bounds.max_logit_rows(), "{} rows of logits", rows.want.len());
        *clock.lock().unwrap() += step + row * rows.tokens.len() as u32;
        model.forward(rows).map(<[f32]>::to_vec)
    })
}

/// A smaller model that has the habit alone, with blocks for less than the large one may need, and sometimes an
/// accident.
fn draft(chance: &mut Chance, block_tokens: usize, clock: Arc<Mutex<Duration>>) -> Box<dyn Forward> {
    let blocks = CONTEXT.div_ceil(block_tokens) * (1 + chance.below(3));
    let mut model = FakeModel::new(VOCAB, CONTEXT - chance.below(3), blocks, block_tokens);
    model.habit = 1.0;
    let mut left = if chance.below(6) == 0 { chance.below(100) } else { usize::MAX };
    Box::new(Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        left = left.checked_sub(1).ok_or("the draft fell over")?;
        *clock.lock().unwrap() += Duration::from_micros(100);
        model.forward(rows).map(<[f32]>::to_vec)
    }))
}

/// What the model counts `tokens` as, of which so many are the prompt.
fn read(tokens: &[u32], prompt_len: usize, tells_prompts: bool) -> Vec<u32> {
    let mut read = tokens.to_vec();
    if tells_prompts {
        read[..prompt_len].iter_mut().for_each(|token| *token = FakeModel::in_prompt(*token));
    }
    read
}

/// What one request does by itself, worked out without an engine.
fn alone(request: &Request, seed: u64, habit: f32, tells_prompts: bool) -> (Vec<u32>, FinishReason) {
    let vocabulary = FakeVocabulary;
    let mut bench = crate::sample::Bench::new(VOCAB, CONTEXT);
    let mut sampler = crate::sample::Sampler::new(
        request.params.clone(),
        seed,
        crate::sample::Ends::default(),
        &vocabulary,
        &request.prompt,
    );
    let mut tokens = request.prompt.clone();
    let end = CONTEXT.min(tokens.len() + request.max_tokens.unwrap_or(CONTEXT));
    if tokens.len() == end {
        return (Vec::new(), FinishReason::Length);
    }
    loop {
        let mut logits = Vec::new();
        let read = read(&tokens, request.prompt.len(), tells_prompts);
        FakeModel::logits_by_habit(&read, VOCAB, habit, &mut logits);
        let id = sampler.pick(&logits, &tokens, None, &vocabulary, &mut bench).unwrap();
        tokens.push(id);
        let reason = if id == 0 || request.stop_ids.contains(&id) {
            FinishReason::Stop
        } else if tokens.len() == end {
            FinishReason::Length
        } else {
            continue;
        };
        return (tokens.split_off(request.prompt.len()), reason);
    }
}

/// The log-probabilities of its prompt, worked out likewise.
fn scored_alone(request: &Request, habit: f32, tells_prompts: bool) -> Option<Vec<TokenLogprobs>> {
    let (count, prompt) = (request.prompt_logprobs?, &request.prompt);
    let read = read(prompt, prompt.len(), tells_prompts);
    let score = |at: usize| {
        let mut logits = Vec::new();
        FakeModel::logits_by_habit(&read[..at], VOCAB, habit, &mut logits);
        crate::sample::score(&logits, at - 1, prompt[at], count).unwrap()
    };
    Some((1..prompt.len()).map(score).collect())
}

struct Chance(Rng);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next() % n as u64) as usize
    }

    fn speculation(&mut self) -> Speculation {
        let tokens = [0, 1, 3, Speculation::MAX_TOKENS][self.below(4)];
        Speculation { lookup: self.below(3) > 0, tokens, always: self.below(2) == 0 }
    }

    fn request(&mut self) -> Request {
        // Half of them begin like others: with some of a text that all know, so that blocks are shared.
        let known = if self.below(2) == 0 { self.below(30) } else { 0 };
        let mut prompt: Vec<u32> = (0..known).map(|at| 1 + (at * at % (VOCAB - 1)) as u32).collect();
        prompt.extend((0..1 + self.below(30 - known)).map(|_| 1 + self.below(VOCAB - 1) as u32));
        let mut params = Params { temperature: [0.0, 0.7, 1.5][self.below(3)], ..Params::default() };
        params.top_k = [0, 5, 40][self.below(3)];
        params.repeat_penalty = [1.0, 1.2][self.below(2)];
        params.dry.multiplier = [0.0, 0.8][self.below(2)];
        params.xtc.probability = [0.0, 0.5][self.below(2)];
        let max_tokens = (self.below(4) > 0).then(|| self.below(31));
        let prompt_logprobs = (self.below(5) == 0).then(|| self.below(4));
        let stop_ids = if self.below(3) == 0 { vec![7, 8] } else { Vec::new() };
        let caller = Caller { priority: Priority::ALL[self.below(3)], client: self.below(3) as u64 };
        let cache_salt = [0, 0, 0, 7][self.below(4)];
        let time_limit = (self.below(10) == 0).then(|| Duration::from_millis(10 + self.below(200) as u64));
        let asked = Request { prompt, params, max_tokens, stop_ids, ..Request::default() };
        Request { caller, cache_salt, time_limit, prompt_logprobs, ..asked }
    }
}

fn simulate(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut chance = Chance(Rng::new(seed));
    let block_tokens = 1 + chance.below(5);
    // From barely one sequence's blocks, where preemption is the rule, to plenty.
    let blocks = CONTEXT.div_ceil(block_tokens) * (1 + chance.below(6));
    let bounds = Bounds {
        max_running: 1 + chance.below(8),
        prefill_chunk: 1 + chance.below(20),
        max_stall: Duration::from_millis([0, 3, 8][chance.below(3)]),
        speculation: chance.speculation(),
        prompt_logits: 1 + chance.below(20),
    };
    let habit = [0.0, 0.6, 0.8][chance.below(3)];
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let mut model = FakeModel::new(VOCAB, CONTEXT, blocks, block_tokens);
    model.habit = habit;
    let tells_prompts = chance.below(2) == 0;
    model.tells_prompts = tells_prompts;
    let took = (MILLISECOND, MILLISECOND / 4 * chance.below(2) as u32);
    let forward = timed(model, bounds, took, clock.clone());
    let drafts = (chance.below(2) == 0).then(|| draft(&mut chance, block_tokens, clock.clone()));
    let remembers = chance.below(4) > 0;
    let counters = Arc::new(Counters::default());
    let bill = Arc::new(Mutex::new([Duration::ZERO; 2]));
    let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
    let mut core = Core::new(
        forward,
        vocabulary.clone(),
        bounds,
        MAX_WAIT,
        counters.clone(),
        Box::new(Bill(bill.clone())),
        drafts,
        remembers,
    );
    let now = || *clock.lock().unwrap();
    let mut requests = Vec::new();
    let outcomes = Rc::new(RefCell::new(BTreeMap::new()));
    let steps = Cell::new(0);
    let mut idle_time = Duration::ZERO;
    while requests.len() < 40 || !core.is_idle() {
        if core.is_idle() {
            let pause = Duration::from_micros(chance.below(900) as u64);
            *clock.lock().unwrap() += pause;
            idle_time += pause;
        }
        let arrivals = if requests.len() < 40 && chance.below(3) == 0 { 1 + chance.below(5) } else { 0 };
        for _ in 0..arrivals {
            let request = chance.request();
            let seen = Arc::new(Mutex::new(Seen::default()));
            if chance.below(8) == 0 {
                seen.lock().unwrap().leaves_after = Some(1 + chance.below(6));
            }
            let seed = chance.0.next();
            let outbox = Box::new(Reader(seen.clone()));
            let sequence = Sequence::new(request.clone(), seed, CONTEXT, &vocabulary, outbox, now());
            counters.enters_queue(request.prompt.len());
            let cancel_at = (chance.below(8) == 0).then(|| steps.get() + chance.below(30));
            requests.push((request, seed, seen, sequence.cancel_flag(), cancel_at));
            core.accept(sequence);
        }
        for (_, _, seen, flag, at) in &requests {
            if *at == Some(steps.get()) {
                flag.store(true, Ordering::Release);
            }
            // A cancelled request is over after the step that follows.
            let late = at.is_some_and(|at| steps.get() > at);
            assert!(!late || seen.lock().unwrap().end.is_some(), "seed {seed}: cancelled one lives on");
        }
        let idle = core.is_idle();
        let rows = core.step(&now);
        assert!(rows > 0 || idle || core.is_idle(), "seed {seed}: a step without rows and without an end");
        steps.set(steps.get() + 1);
        assert!(steps.get() < 100_000, "seed {seed}: no end");
        let stats = counters.snapshot(blocks, block_tokens, CONTEXT, now());
        assert!(stats.running <= bounds.max_running && stats.kv_blocks_used <= blocks);
    }
    let mut scored = 0;
    for (i, (request, rng_seed, seen, _, cancel_at)) in requests.iter().enumerate() {
        let seen = seen.lock().unwrap();
        let (tokens, reason) = alone(request, *rng_seed, habit, tells_prompts);
        let what = format!("seed {seed}, request {i}: {request:?}");
        let end = seen.end.clone().expect("every request ends");
        assert!(tokens.starts_with(&seen.tokens), "{what}: {:?} is not how {tokens:?} begins", seen.tokens);
        let answered = !seen.tokens.is_empty() || matches!(end, Ok(FinishReason::Length));
        if answered || seen.prompt.is_some() {
            assert_eq!(seen.prompt, scored_alone(request, habit, tells_prompts), "{what}");
        }
        scored += usize::from(seen.prompt.is_some());
        let name = match end {
            Ok(FinishReason::Cancelled) => {
                assert!(cancel_at.is_some() || seen.leaves_after.is_some(), "{what}");
                "cancelled"
            }
            Ok(end) => {
                assert_eq!((seen.tokens.len(), end), (tokens.len(), reason), "{what}");
                end.name()
            }
            Err(Error::Expired { limit, tokens }) => {
                assert_eq!((Some(limit), tokens), (request.time_limit, seen.tokens.len()), "{what}");
                "expired"
            }
            Err(Error::Waited { waited, limit }) => {
                assert!(waited > limit && seen.tokens.is_empty(), "{what}");
                "waited"
            }
            Err(error) => panic!("{what}: {error}"),
        };
        *outcomes.borrow_mut().entry(name).or_insert(0) += 1;
    }
    let stats = counters.snapshot(blocks, block_tokens, CONTEXT, now());
    let zero = (stats.running, stats.waiting, stats.waiting_tokens, stats.kv_blocks_used);
    assert_eq!(zero, (0, 0, 0, 0), "seed {seed}: something is left");
    assert_eq!(core.draft_blocks_used(), 0, "seed {seed}: blocks of the draft model are left");
    assert!(remembers || (stats.cached_tokens, stats.kv_blocks_remembered) == (0, 0), "seed {seed}");
    let charged = [stats.prompt_time, stats.completion_time];
    assert_eq!(*bill.lock().unwrap(), charged, "seed {seed}: what requests used is what is told of all");
    assert_eq!(stats.idle_time, idle_time, "seed {seed}");
    let all = charged[0] + charged[1] + stats.idle_time;
    assert_eq!(all, now(), "seed {seed}: every moment is somebody's or idle");
    let ends = stats.stopped + stats.reached_length + stats.cancelled + stats.failed;
    assert_eq!(ends, requests.len() as u64, "seed {seed}: each request is counted once");
    let mut outcomes = outcomes.take();
    outcomes.insert("scored", scored);
    outcomes.insert("preempted", stats.preemptions as usize);
    outcomes.insert("cached", stats.cached_tokens as usize);
    outcomes.insert("accepted", stats.accepted_tokens as usize);
    outcomes.insert("wrong", (stats.proposed_tokens - stats.accepted_tokens) as usize);
    outcomes
}

#[test]
fn a_hundred_thousand_requests() {
    let mut total = BTreeMap::new();
    for seed in 0..2600 {
        for (name, count) in simulate(seed) {
            *total.entry(name).or_insert(0) += count;
        }
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
        "accepted",
        "wrong",
        "scored",
    ] {
        assert!(total.get(name).is_some_and(|n| *n >= 200), "too few of {name}: {total:?}");
    }
}

/// An engine whose steps take a millisecond a row, one place, and requests that come without end.
#[test]
fn batch_work_ends_beside_a_flood_and_yields_its_place_once() {
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let bounds = Bounds {
        max_running: 1,
        prefill_chunk: 16,
        max_stall: Duration::from_millis(10),
        speculation: Speculation::OFF,
        prompt_logits: 1,
    };
    let forward =
        timed(FakeModel::new(VOCAB, CONTEXT, 48, 4), bounds, (MILLISECOND, MILLISECOND), clock.clone());
    let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
    let counters = Arc::new(Counters::default());
    let (wait, watch) = (Duration::from_secs(3600), Box::new(Unwatched));
    let mut core = Core::new(forward, vocabulary.clone(), bounds, wait, counters.clone(), watch, None, true);
    let now = || *clock.lock().unwrap();
    let submit = |core: &mut Core<_>, priority, seed| {
        let request = Request {
            prompt: (0..8).map(|i| 1 + ((seed + i) % 30) as u32).collect(),
            max_tokens: Some(8),
            ignore_end: true,
            caller: Caller { priority, client: 0 },
            ..Request::default()
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        counters.enters_queue(request.prompt.len());
        let outbox = Box::new(Reader(seen.clone()));
        core.accept(Sequence::new(request, seed, CONTEXT, &vocabulary, outbox, now()));
        seen
    };
    let batch = submit(&mut core, Priority::Batch, 0);
    core.step(&now);
    let mut flood = Vec::new();
    while batch.lock().unwrap().end.is_none() {
        while flood.iter().filter(|s: &&Arc<Mutex<Seen>>| s.lock().unwrap().end.is_none()).count() < 3 {
            flood.push(submit(&mut core, Priority::Interactive, flood.len() as u64));
        }
        core.step(&now);
        assert!(flood.len() < 100, "batch work starves");
    }
    assert_eq!(counters.snapshot(48, 4, CONTEXT, now()).preemptions, 1);
    assert!(flood.len() > 3, "what is urgent came first: {}", flood.len());
}

/// What an answer took.
struct Guessed {
    steps: usize,
    tokens: usize,
    proposed: u64,
    accepted: u64,
    took: Duration,
}

/// One answer by itself, greedily, of a model with so much habit, where a row takes `row` and a step `step` beside its rows.
fn guessed(habit: f32, step: Duration, row: Duration, tokens: usize) -> Guessed {
    const LONG: usize = 2048;
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let bounds = Bounds {
        max_running: 1,
        prefill_chunk: 16,
        max_stall: Duration::from_millis(10),
        speculation: Speculation { lookup: true, tokens: 8, always: false },
        prompt_logits: 1,
    };
    let mut model = FakeModel::new(VOCAB, LONG, LONG / 4, 4);
    model.habit = habit;
    let forward = timed(model, bounds, (step, row), clock.clone());
    let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
    let counters = Arc::new(Counters::default());
    let (wait, watch) = (Duration::from_secs(3600), Box::new(Unwatched));
    let mut core = Core::new(forward, vocabulary.clone(), bounds, wait, counters.clone(), watch, None, true);
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
        core.step(&now);
        steps += 1;
    }
    let stats = counters.snapshot(LONG / 4, 4, LONG, now());
    let tokens = seen.lock().unwrap().tokens.len();
    Guessed { steps, tokens, proposed: stats.proposed_tokens, accepted: stats.accepted_tokens, took: now() }
}

/// Guesses are made as long as a token is had sooner with them than without, by what steps were seen to take.
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

    // Rows that take a tenth, and text in which hardly a guess comes true.
    let row = step / 10;
    let wrong = guessed(0.0, step, row, tokens);
    assert!(wrong.proposed > 0, "it is tried");
    assert!(wrong.took < plain(step, row) * 105 / 100, "{:?} of {:?}", wrong.took, plain(step, row));
}
