//! The engine under seeded chance: arrivals, cancellations, readers that leave, a queue that overflows its time, a pool
//! of blocks so small that sequences are preempted; one engine by itself, and several on one device that come and go. A
//! failure names its seed, and the seed replays it.

mod alone;
mod encoders;
mod predicting;
mod recurrent;
mod shared_device;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Around, FakeModel, FakeVocabulary};
use crate::limits::StepBounds;
use crate::recurrent::SnapshotSpacing;
use crate::sample::Rng;
use crate::sequence::Sequence;
use crate::stats::{Counters, Unwatched};
use crate::step::{EngineCore, Turn};
use crate::{
    Caller, Error, Event, FinishReason, Forward, Outbox, Params, Priority, ReceiverGone, Request, Rows,
    Speculation, Stats, TokenLogprobs, Usage, Vocabulary,
};

const VOCAB: usize = 40;
const CONTEXT: usize = 48;
const MILLISECOND: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(400);

/// How often each outcome occurred.
type Outcomes = BTreeMap<&'static str, usize>;

#[derive(Debug, Default, Clone)]
struct Seen {
    prompt: Option<Vec<TokenLogprobs>>,
    tokens: Vec<u32>,
    text: String,
    end: Option<Result<FinishReason, Error>>,
    usage: Usage,
    /// The reader leaves after so many tokens.
    leaves_after: Option<usize>,
}

struct Reader(Arc<Mutex<Seen>>);

impl Outbox for Reader {
    fn put(&mut self, event: Event) -> Result<(), ReceiverGone> {
        let mut seen = self.0.lock().unwrap();
        assert!(seen.end.is_none(), "nothing follows the end");
        match event {
            Event::Prompt { logprobs } => {
                assert!(seen.tokens.is_empty() && seen.prompt.is_none(), "told once, before the answer");
                seen.prompt = Some(logprobs);
            }
            Event::Resumed { tokens } => {
                assert!(seen.tokens.is_empty() && seen.prompt.is_none(), "told once, before the answer");
                seen.text.extend(tokens.iter().map(|(_, text)| text.as_str()));
                seen.tokens.extend(tokens.iter().map(|(id, _)| *id));
            }
            Event::Token { text, id, .. } => {
                seen.tokens.push(id);
                seen.text.push_str(&text);
                if seen.leaves_after.is_some_and(|n| seen.tokens.len() >= n) {
                    return Err(ReceiverGone);
                }
            }
            Event::Done { text, reason, usage, .. } => {
                assert_eq!(usage.completion_tokens, seen.tokens.len());
                seen.text.push_str(&text);
                (seen.end, seen.usage) = (Some(Ok(reason)), usage);
            }
            Event::Failed { error, usage, .. } => (seen.end, seen.usage) = (Some(Err(error)), usage),
        }
        Ok(())
    }
}

impl Forward for Box<dyn Forward> {
    fn vocab(&self) -> usize {
        (**self).vocab()
    }

    fn context(&self) -> usize {
        (**self).context()
    }

    fn blocks(&self) -> usize {
        (**self).blocks()
    }

    fn block_tokens(&self) -> usize {
        (**self).block_tokens()
    }

    fn prefill_numerics_differ(&self) -> bool {
        (**self).prefill_numerics_differ()
    }

    fn states(&self) -> usize {
        (**self).states()
    }

    fn clear_state(&mut self, state: u32) {
        (**self).clear_state(state);
    }

    fn copy_state(&mut self, from: u32, to: u32) {
        (**self).copy_state(from, to);
    }

    fn predicts(&self) -> bool {
        (**self).predicts()
    }

    fn predict(&mut self, rows: &Rows<'_>, from: &[usize]) -> Result<&[f32], String> {
        (**self).predict(rows, from)
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        (**self).forward(rows)
    }

    fn forward_unless(&mut self, rows: &Rows<'_>, stop: &dyn Fn() -> bool) -> Result<Option<&[f32]>, String> {
        (**self).forward_unless(rows, stop)
    }
}

/// The turn of an engine that shares its device with nobody.
#[derive(Default)]
struct Undivided {
    /// Whether work that somebody waits for comes meanwhile.
    wanted: bool,
}

impl Turn for Undivided {
    fn foreign_stall(&self) -> Option<Duration> {
        None
    }

    fn is_wanted(&self) -> bool {
        self.wanted
    }

    fn computed(&mut self) {}
}

/// The fake model, checking the step's bounds, with a clock that its steps drive: `step`, and `row` for each of its
/// rows.
fn timed(
    model: FakeModel,
    bounds: StepBounds,
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
    if chance.below(2) == 0 {
        model = model.with_states(1 + chance.below(16));
    }
    let mut left = if chance.below(6) == 0 { chance.below(100) } else { usize::MAX };
    Box::new(Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        left = left.checked_sub(1).ok_or("the draft fell over")?;
        *clock.lock().unwrap() += Duration::from_micros(100);
        model.forward(rows).map(<[f32]>::to_vec)
    }))
}

/// What the model counts `tokens` as, of which so many are the prompt.
fn read(tokens: &[u32], prompt_len: usize, prefill_differs: bool) -> Vec<u32> {
    let mut read = tokens.to_vec();
    if prefill_differs {
        read[..prompt_len].iter_mut().for_each(|token| *token = FakeModel::in_prompt(*token));
    }
    read
}

/// What one request does by itself, worked out without an engine.
fn oracle(request: &Request, seed: u64, habit: f32, prefill_differs: bool) -> (Vec<u32>, FinishReason) {
    let vocabulary = FakeVocabulary;
    let mut scratch = crate::sample::SamplerScratch::new(VOCAB, CONTEXT);
    let mut sampler = crate::sample::Sampler::new(
        request.params.clone(),
        seed,
        crate::sample::EndTokens::default(),
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
        let read = read(&tokens, request.prompt.len(), prefill_differs);
        FakeModel::logits_by_habit(&read, VOCAB, habit, &mut logits);
        let id = sampler.pick(&logits, &tokens, None, &vocabulary, &mut scratch).unwrap();
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
fn scored_alone(request: &Request, habit: f32, prefill_differs: bool) -> Option<Vec<TokenLogprobs>> {
    let (count, prompt) = (request.prompt_logprobs?, &request.prompt);
    let read = read(prompt, prompt.len(), prefill_differs);
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

/// A request as it was submitted, and what its reader saw.
struct Asked {
    request: Request,
    seed: u64,
    seen: Arc<Mutex<Seen>>,
    cancel: Arc<AtomicBool>,
    /// Somebody may cancel it: its client, or whoever drains the engine.
    cancelled: bool,
}

/// An engine over the fake model, with a clock that its steps drive.
struct SimulatedEngine {
    core: EngineCore<Box<dyn Forward>>,
    clock: Arc<Mutex<Duration>>,
    counters: Arc<Counters>,
    vocabulary: Arc<dyn Vocabulary>,
    bounds: StepBounds,
    context: usize,
    blocks: usize,
    block_tokens: usize,
    habit: f32,
    prefill_differs: bool,
    states: usize,
    remembers: bool,
    requests: Vec<Asked>,
}

impl SimulatedEngine {
    fn new(chance: &mut Chance) -> SimulatedEngine {
        let block_tokens = 1 + chance.below(5);
        // From barely one sequence's blocks, where preemption is the rule, to plenty.
        let blocks = CONTEXT.div_ceil(block_tokens) * (1 + chance.below(6));
        let bounds = StepBounds {
            max_running: 1 + chance.below(8),
            prefill_chunk: 1 + chance.below(20),
            max_stall: Duration::from_millis([0, 3, 8][chance.below(3)]),
            speculation: chance.speculation(),
            prompt_logits: 1 + chance.below(20),
            snapshots: SnapshotSpacing { every: 1 + chance.below(20), least: chance.below(6) },
        };
        let mut model = FakeModel::new(VOCAB, CONTEXT, blocks, block_tokens);
        model.habit = [0.0, 0.6, 0.8][chance.below(3)];
        model.prefill_numerics_differ = chance.below(2) == 0;
        if chance.below(2) == 0 {
            model = model.with_states(1 + chance.below(20));
        }
        model.predicts = chance.below(3) == 0;
        let took = (MILLISECOND, MILLISECOND / 4 * chance.below(2) as u32);
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let drafts = (chance.below(2) == 0).then(|| draft(chance, block_tokens, clock.clone()));
        SimulatedEngine::with(model, bounds, took, clock, drafts, chance.below(4) > 0)
    }

    fn with(
        model: FakeModel,
        bounds: StepBounds,
        took: (Duration, Duration),
        clock: Arc<Mutex<Duration>>,
        drafts: Option<Box<dyn Forward>>,
        remembers: bool,
    ) -> SimulatedEngine {
        let FakeModel { context, blocks, block_tokens, habit, prefill_numerics_differ, .. } = model;
        let states = model.states();
        let forward: Box<dyn Forward> = Box::new(timed(model, bounds, took, clock.clone()));
        let counters = Arc::new(Counters::default());
        let vocabulary: Arc<dyn Vocabulary> = Arc::new(FakeVocabulary);
        let (words, counts) = (vocabulary.clone(), counters.clone());
        let watch = Box::new(Unwatched);
        let core = EngineCore::new(forward, words, bounds, MAX_WAIT, counts, watch, drafts, remembers);
        SimulatedEngine {
            core,
            clock,
            counters,
            vocabulary,
            bounds,
            context,
            blocks,
            block_tokens,
            habit,
            prefill_differs: prefill_numerics_differ,
            states,
            remembers,
            requests: Vec::new(),
        }
    }

    fn now(&self) -> Duration {
        *self.clock.lock().unwrap()
    }

    fn set_clock(&self, now: Duration) {
        *self.clock.lock().unwrap() = now;
    }

    /// A request of chance's, submitted at `now`, which the core has not got yet.
    fn submit(&mut self, chance: &mut Chance, now: Duration) -> Sequence {
        let mut request = chance.request();
        let leaves_after = (chance.below(8) == 0).then(|| 1 + chance.below(6));
        let seed = chance.0.next();
        if request.prompt_logprobs.is_none() && chance.below(4) == 0 {
            // Another engine has generated a part of the answer, or all of it.
            let (answer, _) = oracle(&request, seed, self.habit, self.prefill_differs);
            request.resume = answer[..chance.below(answer.len() + 1)].to_vec();
        }
        self.submit_request(request, seed, leaves_after, now)
    }

    fn submit_request(
        &mut self,
        request: Request,
        seed: u64,
        leaves_after: Option<usize>,
        now: Duration,
    ) -> Sequence {
        let seen = Arc::new(Mutex::new(Seen { leaves_after, ..Seen::default() }));
        let outbox = Box::new(Reader(seen.clone()));
        let mut sequence = Sequence::new(request.clone(), seed, self.context, &self.vocabulary, outbox, now);
        sequence.replay(&request.resume, self.vocabulary.as_ref()).expect("tokens of the oracle");
        sequence.tell_resumed();
        self.counters.enters_queue(sequence.queued_tokens());
        let cancel = sequence.cancel_flag();
        self.requests.push(Asked { request, seed, seen, cancel, cancelled: false });
        sequence
    }

    fn step(&mut self, turn: &mut dyn Turn) -> usize {
        let clock = self.clock.clone();
        self.core.step(&|| *clock.lock().unwrap(), turn)
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot(self.blocks, self.block_tokens, self.states, CONTEXT, self.now())
    }

    /// Checks each request against the oracle and the sums against each other, when all have ended.
    fn check(&self, seed: u64) -> Outcomes {
        let mut outcomes = Outcomes::new();
        let mut charged = [Duration::ZERO; 2];
        for (i, asked) in self.requests.iter().enumerate() {
            let what = format!("seed {seed}, request {i}: {:?}", asked.request);
            *outcomes.entry(self.check_request(asked, &what)).or_insert(0) += 1;
            let seen = asked.seen.lock().unwrap();
            *outcomes.entry("scored").or_insert(0) += usize::from(seen.prompt.is_some());
            let resumed = asked.request.resume.len();
            *outcomes.entry("resumed").or_insert(0) += usize::from(resumed > 0);
            assert_eq!(seen.usage.resumed_tokens, resumed, "{what}");
            charged[0] += seen.usage.prompt_time;
            charged[1] += seen.usage.completion_time;
        }
        let stats = self.stats();
        let zero = (stats.running, stats.waiting, stats.waiting_tokens, stats.kv_blocks_used);
        assert_eq!(zero, (0, 0, 0, 0), "seed {seed}: something is left");
        let draft = self.core.draft_blocks_and_states_used();
        assert_eq!(draft, (0, 0), "seed {seed}: blocks or states of the draft model are left");
        assert_eq!(self.core.states_used(), stats.state_snapshots, "seed {seed}: a state is lost");
        assert!(self.remembers || stats.state_snapshots == 0, "seed {seed}");
        assert!(self.remembers || (stats.cached_tokens, stats.kv_blocks_cached) == (0, 0), "seed {seed}");
        let told = [stats.prompt_time, stats.completion_time];
        assert_eq!(charged, told, "seed {seed}: what requests used is what is told of all");
        let all = told[0] + told[1] + stats.waiting_time + stats.idle_time;
        assert_eq!(all, self.now(), "seed {seed}: every moment is somebody's, waiting or idle");
        let ends = stats.stopped + stats.reached_length + stats.cancelled + stats.failed;
        assert_eq!(ends, self.requests.len() as u64, "seed {seed}: each request is counted once");
        outcomes.insert("preempted", stats.preemptions as usize);
        outcomes.insert("cached", stats.cached_tokens as usize);
        outcomes.insert("warmed", stats.warmed_tokens as usize);
        outcomes.insert("restored", stats.state_restores as usize);
        outcomes.insert("replayed", stats.replayed_tokens as usize);
        outcomes.insert("accepted", stats.accepted_tokens as usize);
        outcomes.insert("wrong", (stats.proposed_tokens - stats.accepted_tokens) as usize);
        outcomes
    }

    /// Checks one request against the oracle; returns how it ended.
    fn check_request(&self, asked: &Asked, what: &str) -> &'static str {
        let Asked { request, seed, .. } = asked;
        let seen = asked.seen.lock().unwrap();
        let (tokens, reason) = oracle(request, *seed, self.habit, self.prefill_differs);
        let end = seen.end.clone().unwrap_or_else(|| panic!("{what} has not ended"));
        assert!(tokens.starts_with(&seen.tokens), "{what}: {:?} is not how {tokens:?} begins", seen.tokens);
        let answered = !seen.tokens.is_empty() || matches!(end, Ok(FinishReason::Length));
        if answered || seen.prompt.is_some() {
            assert_eq!(seen.prompt, scored_alone(request, self.habit, self.prefill_differs), "{what}");
        }
        match end {
            Ok(FinishReason::Cancelled) => {
                assert!(asked.cancelled || seen.leaves_after.is_some(), "{what}");
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
                assert!(waited > limit && seen.tokens == request.resume, "{what}");
                "waited"
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

fn add(total: &mut Outcomes, outcomes: Outcomes) {
    for (name, count) in outcomes {
        *total.entry(name).or_insert(0) += count;
    }
}
