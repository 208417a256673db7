//! Models with recurrent states: what is computed, and what snapshots spare.

use super::*;
use crate::inbox::Worker;
use crate::recurrent::SnapshotSpacing;
use crate::{Limits, Stats};

const LONG: usize = 4096;
const BLOCK: usize = 32;
const BLOCKS: usize = 4 * LONG / BLOCK;

/// An engine over a model with recurrent states, without an end of its time.
struct Hybrid {
    core: EngineCore<FakeModel>,
    counters: Arc<Counters>,
    vocabulary: Arc<dyn Vocabulary>,
    clock: Duration,
    states: usize,
    /// Nothing is asked for between two turns for as long as there is something to do all the same, of which so many
    /// steps are given up; none if the next turn follows at once.
    pauses: Option<usize>,
    /// Time of these pauses.
    paused: Duration,
}

impl Hybrid {
    fn new(states: usize, limits: &Limits, prefill_differs: bool) -> Hybrid {
        let mut model = FakeModel::new(VOCAB, LONG, BLOCKS, BLOCK).with_states(states);
        model.prefill_numerics_differ = prefill_differs;
        model.habit = 0.5;
        let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
        let counters = Arc::new(Counters::default());
        let core = EngineCore::new(
            model,
            vocabulary.clone(),
            limits.bounds(),
            Duration::MAX,
            counters.clone(),
            Box::new(Unwatched),
            None,
            limits.prefix_cache,
        );
        let (clock, paused) = (Duration::ZERO, Duration::ZERO);
        Hybrid { core, counters, vocabulary, clock, states, pauses: None, paused }
    }

    fn submit(&mut self, prompt: &[u32], answer: usize) -> Arc<Mutex<Seen>> {
        self.submit_for(Caller::default(), prompt, answer)
    }

    fn submit_for(&mut self, caller: Caller, prompt: &[u32], answer: usize) -> Arc<Mutex<Seen>> {
        let request = Request {
            caller,
            prompt: prompt.to_vec(),
            params: Params { temperature: 0.0, ..Params::default() },
            max_tokens: Some(answer),
            ignore_end: true,
            ..Request::default()
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        self.counters.enters_queue(prompt.len());
        let outbox = Box::new(Reader(seen.clone()));
        self.core.accept(Sequence::new(request, 1, LONG, &self.vocabulary, outbox, self.clock));
        seen
    }

    fn run(&mut self) -> Stats {
        while !self.core.is_idle() {
            self.step(false);
        }
        let stats = self.stats();
        assert!(stats.state_snapshots <= self.states);
        assert_eq!(self.core.states_used(), stats.state_snapshots, "a state is lost");
        stats
    }

    /// A step, which is given up if it may be and work is `wanted` that somebody waits for. Returns its rows.
    fn step(&mut self, wanted: bool) -> usize {
        self.clock += MILLISECOND;
        let now = self.clock;
        self.core.step(&|| now, &mut Undivided { wanted })
    }

    /// Does what there is to do while nobody asks for anything.
    fn pause(&mut self) {
        let Some(mut given_up) = self.pauses else { return };
        let began = self.clock;
        while self.core.begin_spare_work(self.clock) {
            while !self.core.is_idle() {
                self.step(given_up > 0);
                given_up = given_up.saturating_sub(1);
            }
        }
        self.paused += self.clock - began;
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot(BLOCKS, BLOCK, self.states, LONG, self.clock)
    }

    fn ask(&mut self, prompt: &[u32], answer: usize) -> Vec<u32> {
        let seen = self.submit(prompt, answer);
        self.run();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.end, Some(Ok(FinishReason::Length)));
        seen.tokens.clone()
    }
}

/// Tokens of a text, different for each `seed`.
fn text(seed: u64, len: usize) -> Vec<u32> {
    let mut random = Rng::new(seed);
    (0..len).map(|_| 1 + (random.next() % (VOCAB as u64 - 1)) as u32).collect()
}

fn limits(speculation: Speculation) -> Limits {
    Limits { max_running: 2, prefill_chunk: 64, speculation, ..Limits::default() }
}

/// Eight turns, each of which brings all before, the answer to it and 20 new tokens. Returns prompt tokens that arrived
/// and those that were computed, and all answers.
fn chat(engine: &mut Hybrid) -> (u64, u64, Vec<u32>) {
    let (mut history, mut answers) = (text(0, 300), Vec::new());
    for turn in 1..=8 {
        let answer = engine.ask(&history, 100);
        answers.extend(&answer);
        history.extend(answer);
        history.extend(text(turn, 20));
        engine.pause();
    }
    let stats = engine.stats();
    (stats.prompt_tokens, stats.prefill_rows, answers)
}

#[test]
fn fault_a_turn_of_a_chat_computes_its_new_tokens_only() {
    let always = Speculation { lookup: true, tokens: 4, always: true };
    let plain = chat(&mut Hybrid::new(4, &limits(Speculation::OFF), false));
    for (states, speculation) in [(2, Speculation::OFF), (4, Speculation::OFF), (4, always), (8, always)] {
        let mut engine = Hybrid::new(states, &limits(speculation), false);
        let (arrived, computed, answers) = chat(&mut engine);
        assert!(
            computed * 100 <= arrived * 12,
            "{computed} of {arrived} with {states} states, {speculation:?}"
        );
        assert_eq!(answers, plain.2);
        let stats = engine.stats();
        assert_eq!(stats.state_restores, 7, "one a turn but the first");
        assert!(speculation.tokens == 0 || stats.replayed_tokens > 0, "guesses were wrong now and then");
    }
    let uncached = Limits { prefix_cache: false, ..limits(always) };
    let (arrived, computed, answers) = chat(&mut Hybrid::new(4, &uncached, false));
    assert_eq!((computed, answers), (arrived, plain.2));
}

/// Where answers are computed otherwise than prompts, what comes back of them is computed once more, as in any model.
#[test]
fn a_chat_goes_on_from_its_prompts_where_answers_are_computed_otherwise() {
    let mut engine = Hybrid::new(4, &limits(Speculation::OFF), true);
    let (arrived, computed, _) = chat(&mut engine);
    let (answers, tails) = (7 * 100, 8 * BLOCK as u64);
    assert!(computed <= 300 + 7 * 20 + answers + tails, "{computed} of {arrived}");
}

/// Such an answer is computed again while nobody asks for anything, and is in no figure but one.
#[test]
fn answers_are_read_again_before_the_next_turn() {
    for (states, wanted) in [(0, 0), (4, 0), (4, 3), (0, 3)] {
        let mut engine = Hybrid::new(states, &limits(Speculation::OFF), true);
        let plain = chat(&mut Hybrid::new(states, &limits(Speculation::OFF), true));
        engine.pauses = Some(wanted);
        let (arrived, computed, answers) = chat(&mut engine);
        assert_eq!((arrived, &answers), (plain.0, &plain.2));
        assert!(computed * 100 <= arrived * 12, "{computed} of {arrived} with {states} states");
        let stats = engine.stats();
        assert_eq!(stats.stopped + stats.reached_length + stats.cancelled + stats.failed, 8);
        let least = plain.1 - computed;
        assert!(stats.warmed_tokens >= least, "{} of {least}", stats.warmed_tokens);
        assert!(stats.idle_time >= engine.paused && engine.paused > Duration::ZERO);
        assert_eq!(stats.prompt_time + stats.completion_time + stats.idle_time, engine.clock);
    }
}

/// A request that arrives ends it, and what was computed is in the cache; what has no next turn is not read again.
#[test]
fn spare_work_ends_when_a_request_arrives() {
    let mut engine = Hybrid::new(4, &limits(Speculation::OFF), true);
    let prompt = text(0, 300);
    let answer = engine.ask(&prompt, 1000);
    assert!(engine.core.begin_spare_work(engine.clock) && !engine.core.is_idle());
    (0..4).for_each(|_| assert!(engine.step(false) > 0));
    assert_eq!(engine.stats().running, 0, "nobody's request");
    let before = engine.stats().prefill_rows;
    engine.ask(&text(1, 50), 1);
    assert_eq!(engine.stats().prefill_rows - before, 50);
    // It is taken up where it was left, given up within a step for another, and done.
    assert!(engine.core.begin_spare_work(engine.clock));
    engine.step(true);
    assert!(engine.core.is_idle());
    engine.pauses = Some(0);
    engine.pause();
    let before = engine.stats().prefill_rows;
    engine.ask(&[prompt, answer, text(2, 20)].concat(), 1);
    assert!(engine.stats().prefill_rows - before <= 20 + BLOCK as u64);
    assert!(!engine.core.begin_spare_work(engine.clock), "one token is no answer to read again");
    let batch = Caller { priority: Priority::Batch, client: 0 };
    engine.submit_for(batch, &text(3, 50), 100);
    engine.run();
    assert!(!engine.core.begin_spare_work(engine.clock), "batch work has no next turn");
    let mut uncached = Hybrid::new(4, &Limits { prefix_cache: false, ..limits(Speculation::OFF) }, true);
    uncached.ask(&text(0, 300), 100);
    assert!(!uncached.core.begin_spare_work(uncached.clock), "no cache");
    let mut alike = Hybrid::new(4, &limits(Speculation::OFF), false);
    alike.ask(&text(0, 300), 100);
    assert!(!alike.core.begin_spare_work(alike.clock), "the answer is in the cache");
}

#[test]
fn two_prompts_at_once_compute_what_they_have_in_common_once() {
    let common = text(0, 500);
    let prompts = [1, 2].map(|seed| [common.clone(), text(seed, 40)].concat());
    let mut engine = Hybrid::new(6, &limits(Speculation::OFF), false);
    let seen = prompts.each_ref().map(|prompt| engine.submit(prompt, 5));
    let stats = engine.run();
    assert!(stats.prefill_rows <= 540 + 40 + BLOCK as u64, "{} rows", stats.prefill_rows);
    for (prompt, seen) in prompts.iter().zip(seen) {
        let alone = Hybrid::new(6, &limits(Speculation::OFF), false).ask(prompt, 5);
        assert_eq!(seen.lock().unwrap().tokens, alone);
    }
}

#[test]
fn a_long_text_that_parts_anywhere_is_computed_from_the_interval_before() {
    let mut engine = Hybrid::new(8, &limits(Speculation::OFF), false);
    let long = text(0, 2000);
    engine.ask(&long, 1);
    let before = engine.stats().prefill_rows;
    let parts = [long[..1100].to_vec(), text(1, 30)].concat();
    engine.ask(&parts, 1);
    assert_eq!(engine.stats().prefill_rows - before, 1130 - 1024, "from token 1024 on");
    let before = engine.stats().prefill_rows;
    engine.ask(&[long[..1100].to_vec(), text(2, 30)].concat(), 1);
    assert_eq!(engine.stats().prefill_rows - before, 1130 - 1088, "from where the two before parted");
}

#[test]
fn one_state_is_enough_to_serve_one_after_the_other() {
    let mut engine = Hybrid::new(1, &limits(Speculation { lookup: true, tokens: 4, always: true }), false);
    let prompts = [text(1, 100), text(2, 100), text(1, 100)];
    let seen = prompts.each_ref().map(|prompt| engine.submit(prompt, 60));
    let stats = engine.run();
    assert_eq!((stats.proposed_tokens, stats.preemptions), (0, 0), "no state to save in, no proposals");
    let tokens = seen.each_ref().map(|seen| seen.lock().unwrap().tokens.clone());
    assert!(tokens.iter().all(|tokens| tokens.len() == 60) && tokens[0] == tokens[2]);
}

/// One state, which is a snapshot now: the turn that goes on from it takes it over.
#[test]
fn the_only_state_goes_from_turn_to_turn() {
    let mut engine = Hybrid::new(1, &limits(Speculation::OFF), false);
    let prompt = text(1, 200);
    // It ends with the state after a whole number of blocks, which is left to the cache.
    let answer = engine.ask(&prompt, 4 * BLOCK - 200 % BLOCK + 1);
    let before = engine.stats().prefill_rows;
    let next = [prompt, answer, text(2, 20)].concat();
    engine.ask(&next, 4);
    assert!(engine.stats().prefill_rows - before <= 21 + BLOCK as u64);
}

/// Proposals cost a recurrent model more where they are wrong, which their estimate knows.
#[test]
fn wrong_guesses_are_not_made_again_and_again() {
    let spacing = SnapshotSpacing { every: 512, least: 64 };
    let bounds = limits(Speculation { lookup: true, tokens: 8, always: false }).bounds();
    assert_eq!(bounds.snapshots, spacing);
    let took = |states: usize, habit: f32, speculation: Speculation| {
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let mut model = FakeModel::new(VOCAB, LONG, BLOCKS, BLOCK).with_states(states);
        model.habit = habit;
        let bounds = limits(speculation).bounds();
        let row = MILLISECOND / 2;
        let forward = timed(model, bounds, (MILLISECOND * 10, row), clock.clone());
        let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
        let (counters, watch) = (Arc::new(Counters::default()), Box::new(Unwatched));
        let words = vocabulary.clone();
        let mut core = EngineCore::new(forward, words, bounds, Duration::MAX, counters, watch, None, true);
        let request = Request {
            prompt: text(3, 64),
            params: Params { temperature: 0.0, ..Params::default() },
            max_tokens: Some(1000),
            ignore_end: true,
            ..Request::default()
        };
        let outbox = Box::new(Reader(Arc::default()));
        core.accept(Sequence::new(request, 1, LONG, &vocabulary, outbox, Duration::ZERO));
        let now = || *clock.lock().unwrap();
        while !core.is_idle() {
            core.step(&now, &mut Undivided::default());
        }
        now()
    };
    let guesses = Speculation { lookup: true, tokens: 8, always: false };
    for habit in [0.0, 0.4, 0.6, 0.8] {
        let (plain, guessed) = (took(4, habit, Speculation::OFF), took(4, habit, guesses));
        assert!(guessed < plain * 106 / 100, "habit {habit}: {guessed:?} with guesses, {plain:?} without");
    }
    assert!(took(4, 1.0, guesses) < took(4, 1.0, Speculation::OFF) / 2, "right ones are");
}
