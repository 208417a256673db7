//! Models with a block that predicts further tokens: the text stays, guesses come true, and cost decides.

use super::*;
use crate::Limits;
use crate::inbox::Worker;

const LONG: usize = 1024;
const BLOCK: usize = 8;
const BLOCKS: usize = 8 * LONG / BLOCK;
const STATES: usize = 16;

/// The fake model, whose steps and passes of the block take so long.
struct Timed {
    model: FakeModel,
    clock: Arc<Mutex<Duration>>,
    pass: Duration,
    /// Whether the block fails.
    broken: bool,
}

impl Timed {
    fn takes(&self, time: Duration) {
        *self.clock.lock().unwrap() += time;
    }
}

impl Forward for Timed {
    fn vocab(&self) -> usize {
        self.model.vocab
    }

    fn context(&self) -> usize {
        self.model.context
    }

    fn blocks(&self) -> usize {
        self.model.blocks
    }

    fn block_tokens(&self) -> usize {
        self.model.block_tokens
    }

    fn states(&self) -> usize {
        self.model.states()
    }

    fn clear_state(&mut self, state: u32) {
        self.model.clear_state(state);
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        self.model.copy_state(from, to);
    }

    fn predicts(&self) -> bool {
        self.model.predicts
    }

    fn predict(&mut self, rows: &Rows<'_>, from: &[usize]) -> Result<&[f32], String> {
        // A pass for keys and values alone is a small part of one with logits.
        self.takes(if rows.want.is_empty() { Duration::ZERO } else { self.pass });
        if self.broken { Err("the block fell over".into()) } else { self.model.predict(rows, from) }
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.takes(10 * MILLISECOND);
        self.model.forward(rows)
    }
}

struct Predicting {
    core: EngineCore<Timed>,
    counters: Arc<Counters>,
    vocabulary: Arc<dyn Vocabulary>,
    clock: Arc<Mutex<Duration>>,
}

/// What an engine is asked to be.
#[derive(Clone, Copy)]
struct Wish {
    speculation: Speculation,
    predicts: bool,
    prefix_cache: bool,
    states: usize,
    habit: f32,
    pass: Duration,
    broken: bool,
}

const WISH: Wish = Wish {
    speculation: Speculation { lookup: false, tokens: 4, always: true },
    predicts: true,
    prefix_cache: false,
    states: 0,
    habit: 0.8,
    pass: MILLISECOND,
    broken: false,
};

impl Predicting {
    fn new(wish: Wish) -> Predicting {
        let mut model = FakeModel::new(VOCAB, LONG, BLOCKS, BLOCK).with_states(wish.states);
        model.habit = wish.habit;
        model.predicts = wish.predicts;
        model.follows_all = !wish.prefix_cache;
        let (clock, counters) = (Arc::new(Mutex::new(Duration::ZERO)), Arc::new(Counters::default()));
        let forward = Timed { model, clock: clock.clone(), pass: wish.pass, broken: wish.broken };
        let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
        let Wish { speculation, prefix_cache, .. } = wish;
        let limits = Limits { max_running: 4, prefill_chunk: 12, speculation, ..Limits::default() };
        let (words, counts, watch) = (vocabulary.clone(), counters.clone(), Box::new(Unwatched));
        let bounds = limits.bounds();
        let core = EngineCore::new(forward, words, bounds, Duration::MAX, counts, watch, None, prefix_cache);
        Predicting { core, counters, vocabulary, clock }
    }

    fn now(&self) -> Duration {
        *self.clock.lock().unwrap()
    }

    /// Submits a prompt of a seed; half of the seeds' prompts begin with the same tokens.
    fn submit(&mut self, seed: u64, answer: usize) -> Arc<Mutex<Seen>> {
        let mut random = Rng::new(seed);
        let common = if seed.is_multiple_of(2) { 1..20 } else { 0..0 };
        let own = (0..9 + seed % 7).map(|_| 1 + (random.next() % (VOCAB as u64 - 1)) as u32);
        let request = Request {
            prompt: common.chain(own).collect(),
            params: Params {
                temperature: if seed.is_multiple_of(3) { 0.7 } else { 0.0 },
                ..Params::default()
            },
            max_tokens: Some(answer),
            ignore_end: true,
            ..Request::default()
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        self.counters.enters_queue(request.prompt.len());
        let outbox = Box::new(Reader(seen.clone()));
        let now = self.now();
        self.core.accept(Sequence::new(request, seed, LONG, &self.vocabulary, outbox, now));
        seen
    }

    fn run(&mut self) {
        let clock = self.clock.clone();
        while !self.core.is_idle() {
            self.core.step(&|| *clock.lock().unwrap(), &mut Undivided::default());
        }
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot(BLOCKS, BLOCK, STATES, LONG, self.now())
    }
}

/// The answers to eight prompts, all at once or one after the other.
fn answers(engine: &mut Predicting, together: bool) -> Vec<Vec<u32>> {
    let asked: Vec<_> = (0..8)
        .map(|seed| {
            let seen = engine.submit(seed, 60);
            if !together {
                engine.run();
            }
            seen
        })
        .collect();
    engine.run();
    asked
        .iter()
        .map(|seen| {
            let seen = seen.lock().unwrap();
            assert_eq!(seen.end, Some(Ok(FinishReason::Length)));
            seen.tokens.clone()
        })
        .collect()
}

#[test]
fn the_text_is_the_same_with_and_without_predictions() {
    let plain = answers(&mut Predicting::new(Wish { predicts: false, ..WISH }), false);
    for prefix_cache in [false, true] {
        for states in [0, STATES] {
            for speculation in
                [WISH.speculation, Speculation { lookup: true, always: false, ..WISH.speculation }]
            {
                for together in [false, true] {
                    let wish = Wish { prefix_cache, states, speculation, ..WISH };
                    let mut engine = Predicting::new(wish);
                    assert_eq!(answers(&mut engine, together), plain);
                    let stats = engine.stats();
                    let what = format!("{prefix_cache} {states} {speculation:?} {together}: {stats:?}");
                    assert!(stats.accepted_tokens > 20, "{what}");
                    assert!(stats.proposed_tokens > stats.accepted_tokens, "{what}");
                    assert_eq!(stats.kv_blocks_used, 0, "{what}");
                }
            }
        }
    }
}

#[test]
fn predictions_of_a_habit_come_true() {
    for states in [0, STATES] {
        let mut engine = Predicting::new(Wish { habit: 1.0, states, ..WISH });
        let seen = engine.submit(1, 101);
        engine.run();
        assert_eq!(seen.lock().unwrap().tokens.len(), 101);
        let stats = engine.stats();
        // The habit may say an end, which the request forbids.
        let (right, all) = (stats.accepted_tokens, stats.proposed_tokens);
        assert!(all > 40 && right * 5 >= all * 4, "{stats:?}");
        // Some four guesses a step; none past the end of a block where a state is saved.
        assert!(stats.steps < 45, "{stats:?}");
    }
}

/// Tokens proposed for an answer of 400 tokens, if a pass of the block takes so long beside a step of 10 ms.
fn proposed(pass: Duration, habit: f32) -> u64 {
    let speculation = Speculation { always: false, ..WISH.speculation };
    let mut engine = Predicting::new(Wish { speculation, habit, pass, ..WISH });
    engine.submit(1, 400);
    engine.run();
    engine.stats().proposed_tokens
}

#[test]
fn predictions_are_made_where_they_pay() {
    let (cheap, dear, wrong) =
        (proposed(MILLISECOND, 1.0), proposed(50 * MILLISECOND, 1.0), proposed(MILLISECOND, 0.0));
    assert!(cheap > 200, "a tenth of a step for a token that comes true: {cheap}");
    assert!(dear < 20, "five steps for a token: {dear}");
    assert!(wrong < 60, "a tenth of a step for a token that does not come true: {wrong}");
}

#[test]
fn a_block_that_fails_is_not_used_any_more() {
    let plain = answers(&mut Predicting::new(Wish { predicts: false, ..WISH }), true);
    let mut engine = Predicting::new(Wish { broken: true, ..WISH });
    assert_eq!(answers(&mut engine, true), plain);
    assert_eq!(engine.stats().proposed_tokens, 0);
}
