//! The engine on its thread, over the fake model: the door, the ends, the accidents.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use engine::fake::{Around, FakeModel, FakeVocabulary};
use engine::{
    Engine, Error, Event, FinishReason, Forward, Handle, Limits, Params, Refused, Request, Rows, Ticket,
    Unwatched, Usage,
};

const VOCAB: usize = 40;

fn limits() -> Limits {
    Limits {
        max_running: 8,
        max_queued: 16,
        prefill_chunk: 16,
        max_stall: Duration::ZERO,
        ..Limits::default()
    }
}

fn model() -> FakeModel {
    FakeModel::new(VOCAB, 64, 200, 4)
}

fn start(forward: impl Forward + 'static, limits: Limits) -> Handle {
    Engine::start_with(forward, Arc::new(FakeVocabulary), limits, Box::new(Unwatched)).expect("an engine")
}

fn submit(handle: &Handle, request: Request) -> (Ticket, Receiver<Event>) {
    let (to, from) = channel();
    (handle.submit(request, Box::new(to)).expect("a place"), from)
}

/// Prompt, seeded sampling, and no end before `max_tokens`.
fn request(first: u32, max_tokens: usize) -> Request {
    Request {
        prompt: (0..10).map(|i| 1 + (first + i * 7) % (VOCAB as u32 - 1)).collect(),
        max_tokens: Some(max_tokens),
        params: Params { temperature: 1.0, seed: Some(u64::from(first)), ..Params::default() },
        ignore_end: true,
        ..Request::default()
    }
}

struct Answer {
    tokens: Vec<u32>,
    text: String,
    end: Result<(FinishReason, Usage), Error>,
}

fn read(from: &Receiver<Event>) -> Answer {
    let (mut tokens, mut all) = (Vec::new(), String::new());
    loop {
        match from.recv_timeout(Duration::from_secs(20)).expect("an answer ends") {
            Event::Prompt { .. } | Event::Resumed { .. } => panic!("nobody asked for it"),
            Event::Token { text, id, .. } => {
                tokens.push(id);
                all.push_str(&text);
            }
            Event::Done { text, reason, usage, .. } => {
                all.push_str(&text);
                return Answer { tokens, text: all, end: Ok((reason, usage)) };
            }
            Event::Failed { error, .. } => return Answer { tokens, text: all, end: Err(error) },
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Broken {
    No,
    Panics,
    Fails,
    /// The first row's logits are not numbers.
    NotANumber,
}

/// The fake model, held until let go at each step, or broken on purpose.
fn gate() -> (impl Forward, Sender<Broken>) {
    gate_of(model())
}

fn gate_of(model: FakeModel) -> (impl Forward, Sender<Broken>) {
    let (open, pass) = channel();
    let forward = Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        // A test that has dropped its end lets everything pass.
        let broken = pass.recv().unwrap_or(Broken::No);
        let mut logits = model.forward(rows)?.to_vec();
        match broken {
            Broken::No => {}
            Broken::Panics => panic!("a kernel fell over"),
            Broken::Fails => return Err("layer 3 is missing".into()),
            Broken::NotANumber => logits[5] = f32::NAN,
        }
        Ok(logits)
    });
    (forward, open)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_same_alone_in_a_batch_of_eight_and_twice() {
    let handle = start(model(), limits());
    let alone: Vec<Answer> = (0..8)
        .map(|i| {
            let (_ticket, from) = submit(&handle, request(i, 40));
            read(&from)
        })
        .collect();
    for _ in 0..2 {
        let together: Vec<_> = (0..8).map(|i| submit(&handle, request(i, 40))).collect();
        for (alone, (_ticket, from)) in alone.iter().zip(&together) {
            let answer = read(from);
            assert_eq!(answer.tokens, alone.tokens);
            assert_eq!(answer.text, alone.text);
            assert_eq!(answer.tokens.len(), 40);
        }
    }
    let stats = handle.stats();
    assert_eq!((stats.generated_tokens, stats.reached_length, stats.prompt_tokens), (960, 24, 240));
    until("blocks are free", || handle.stats().kv_blocks_used == 0);
}

#[test]
fn a_stop_string_ends_the_answer_before_itself() {
    let handle = start(model(), limits());
    let (_t, from) = submit(&handle, request(3, 40));
    let whole = read(&from).text;
    let stop = &whole[7..10];
    let first = whole.find(stop).unwrap();
    let (_t, from) = submit(&handle, Request { stop: vec!["Z".into(), stop.into()], ..request(3, 40) });
    let answer = read(&from);
    assert_eq!(answer.text, whole[..first]);
    assert_eq!(answer.end.unwrap().0, FinishReason::Stop);
    // What might have become a stop string comes at the end.
    let (_t, from) = submit(&handle, Request { stop: vec![format!("{}!", &whole[37..])], ..request(3, 40) });
    assert_eq!(read(&from).text, whole);
}

#[test]
fn end_tokens_and_stop_ids_end_and_are_counted() {
    let handle = start(model(), limits());
    // Token 0 is the vocabulary's end: make it certain.
    let params = Params { logit_bias: vec![(0, 100.0)], ..Params::greedy() };
    let (_t, from) = submit(&handle, Request { ignore_end: false, params: params.clone(), ..request(1, 9) });
    let answer = read(&from);
    assert_eq!((answer.tokens, answer.text.as_str()), (vec![0], ""));
    let (reason, usage) = answer.end.unwrap();
    assert_eq!((reason, usage.prompt_tokens, usage.completion_tokens), (FinishReason::Stop, 10, 1));
    assert_eq!(usage.cached_tokens, 0);
    let stats = handle.stats();
    assert_eq!((usage.prompt_time, usage.completion_time), (stats.prompt_time, stats.completion_time));
    // Ignored, it is never chosen, however likely.
    let (_t, from) = submit(&handle, Request { params, ..request(1, 9) });
    assert!(read(&from).tokens.iter().all(|id| *id != 0));
    let bias = Params { logit_bias: vec![(3, 100.0)], ..Params::greedy() };
    let (_t, from) = submit(&handle, Request { stop_ids: vec![3], params: bias, ..request(1, 9) });
    assert_eq!(read(&from).tokens, [3]);
}

#[test]
fn without_max_tokens_the_context_is_the_limit() {
    let handle = start(model(), Limits { context: 32, ..limits() });
    let (_t, from) = submit(&handle, Request { max_tokens: None, ..request(2, 1) });
    let answer = read(&from);
    assert_eq!((answer.tokens.len(), answer.end.unwrap().0), (22, FinishReason::Length));
}

#[test]
fn what_cannot_be_served_is_refused_with_its_numbers() {
    let handle = start(model(), Limits { context: 32, ..limits() });
    let refused = |request: Request| handle.submit(request, Box::new(channel().0)).map(|_| ()).unwrap_err();
    let long = Request { prompt: vec![1; 32], ..Request::default() };
    assert_eq!(refused(long), Refused::PromptTooLong { tokens: 32, context: 32 });
    let mut hot = request(1, 1);
    hot.params.temperature = f32::NAN;
    assert_eq!(refused(hot).to_string(), "temperature is NaN, expected a number from 0 to 100");
    assert!(matches!(refused(Request::default()), Refused::InvalidParam { name: "prompt", .. }));
    let many = Request { prompt_logprobs: Some(21), ..request(1, 1) };
    assert!(matches!(refused(many), Refused::InvalidParam { name: "prompt_logprobs", .. }));
    let unknown = Request { prompt: vec![VOCAB as u32], ..Request::default() };
    assert!(matches!(refused(unknown), Refused::InvalidParam { name: "prompt", .. }));
    let mut biased = request(1, 1);
    biased.params.logit_bias = vec![(VOCAB as u32, 1.0)];
    assert!(matches!(refused(biased), Refused::InvalidParam { name: "logit_bias", .. }));
}

#[test]
fn a_full_queue_says_busy_and_a_left_one_cancels() {
    let (gate, open) = gate();
    let handle = start(gate, Limits { max_running: 1, max_queued: 2, ..limits() });
    let (first, from_first) = submit(&handle, request(1, 40));
    until("the first runs", || handle.stats().running == 1);
    let waiting = [submit(&handle, request(2, 4)), submit(&handle, request(3, 4))];
    let refused = handle.submit(request(4, 4), Box::new(channel().0)).map(|_| ()).unwrap_err();
    assert_eq!(refused, Refused::Busy { waiting: 2, waiting_tokens: 20 });
    assert_eq!(handle.stats().refused_busy, 1);
    // Dropping the ticket ends the first within the step it is in; one more pass would be one too many.
    drop(first);
    open.send(Broken::No).unwrap();
    let answer = read(&from_first);
    assert_eq!(answer.end.unwrap().0, FinishReason::Cancelled);
    assert!(answer.tokens.len() <= 1);
    drop(open);
    for (_ticket, from) in &waiting {
        assert_eq!(read(from).tokens.len(), 4);
    }
}

#[test]
fn a_reader_that_left_is_cancelled() {
    let (gate, open) = gate();
    let handle = start(gate, limits());
    let (_ticket, from) = submit(&handle, request(1, 50));
    drop(from);
    open.send(Broken::No).unwrap();
    until("it is cancelled", || handle.stats().cancelled == 1);
    until("its blocks are free", || handle.stats().kv_blocks_used == 0);
}

#[test]
fn waiting_too_long_fails() {
    let (gate, open) = gate();
    let handle = start(gate, Limits { max_running: 1, ..limits() });
    let (_first, _from) = submit(&handle, request(1, 30));
    until("the first runs", || handle.stats().running == 1);
    let hasty = Request { max_wait: Some(Duration::from_millis(5)), ..request(2, 4) };
    let (_ticket, from) = submit(&handle, hasty);
    std::thread::sleep(Duration::from_millis(10));
    open.send(Broken::No).unwrap();
    open.send(Broken::No).unwrap();
    assert!(matches!(read(&from).end, Err(Error::Waited { .. })));
    drop(open);
}

#[test]
fn a_panic_reaches_everyone_and_closes_the_door() {
    let (gate, open) = gate();
    let handle = start(gate, Limits { max_running: 1, ..limits() });
    let all: Vec<_> = (0..3).map(|i| submit(&handle, request(i, 30))).collect();
    open.send(Broken::Panics).unwrap();
    for (_ticket, from) in &all {
        assert_eq!(read(from).end.unwrap_err(), Error::Died("a kernel fell over".into()));
    }
    until("closed", || !handle.is_open());
    let refused = handle.submit(request(4, 4), Box::new(channel().0)).map(|_| ()).unwrap_err();
    assert_eq!(refused, Refused::Closed);
    handle.drain(Duration::ZERO);
    let stats = handle.stats();
    assert_eq!((stats.running, stats.waiting, stats.waiting_tokens, stats.failed), (0, 0, 0, 3));
}

#[test]
fn a_failed_step_fails_its_requests_only() {
    let (gate, open) = gate();
    let handle = start(gate, limits());
    let (_t, from) = submit(&handle, request(1, 30));
    open.send(Broken::Fails).unwrap();
    assert_eq!(read(&from).end.unwrap_err(), Error::Model("layer 3 is missing".into()));
    drop(open);
    let (_t, from) = submit(&handle, request(1, 30));
    assert_eq!(read(&from).tokens.len(), 30);
}

#[test]
fn logits_that_are_no_numbers_fail_that_request_only() {
    let (gate, open) = gate();
    let handle = start(gate, limits());
    let (_a, from_a) = submit(&handle, request(1, 5));
    open.send(Broken::No).unwrap();
    until("the first decodes", || handle.stats().generated_tokens == 1);
    let (_b, from_b) = submit(&handle, request(2, 5));
    open.send(Broken::NotANumber).unwrap();
    let Err(Error::Logits { token, value, .. }) = read(&from_a).end else { panic!("not failed") };
    assert!(token == 5 && value.is_nan());
    drop(open);
    assert_eq!(read(&from_b).tokens.len(), 5);
}

#[test]
fn a_drain_lets_finish_what_can_and_cancels_the_rest() {
    let handle = start(model(), limits());
    let (_t, from) = submit(&handle, request(1, 30));
    handle.drain(Duration::from_secs(20));
    assert_eq!(read(&from).tokens.len(), 30);
    let refused = handle.submit(request(4, 4), Box::new(channel().0)).map(|_| ()).unwrap_err();
    assert_eq!(refused, Refused::Closed);

    let (gate, open) = gate();
    let handle = start(gate, limits());
    let (_t, from) = submit(&handle, request(1, 30));
    until("it runs", || handle.stats().running == 1);
    let draining = {
        let handle = handle.clone();
        std::thread::spawn(move || handle.drain(Duration::ZERO))
    };
    until("the door is closed", || !handle.is_open());
    open.send(Broken::No).unwrap();
    assert_eq!(read(&from).end.unwrap().0, FinishReason::Cancelled);
    draining.join().unwrap();
}

#[test]
fn an_idle_engine_reads_its_answers_again_and_ends_at_once_all_the_same() {
    let long = || {
        let mut model = FakeModel::new(VOCAB, 2000, 500, 16);
        model.prefill_numerics_differ = true;
        model
    };
    let handle = start(long(), Limits { context: 0, ..limits() });
    let (_t, from) = submit(&handle, request(1, 200));
    let answer = read(&from).tokens;
    until("it is read again", || handle.stats().warmed_tokens >= 200);
    assert_eq!((handle.stats().running, handle.stats().steps), (0, 200), "the request's own only");
    let mut next = request(1, 1);
    next.prompt.extend(answer);
    let (_t, from) = submit(&handle, next);
    read(&from);
    assert_eq!(handle.stats().cached_tokens, 208);

    // Each step of it waits at a gate, which nobody opens once the engine is to end.
    let (gate, open) = gate_of(long());
    let handle = start(gate, Limits { context: 0, prefill_chunk: 16, ..limits() });
    let (_t, from) = submit(&handle, request(1, 200));
    (0..200).for_each(|_| open.send(Broken::No).unwrap());
    assert_eq!(read(&from).tokens.len(), 200);
    let draining = {
        let handle = handle.clone();
        std::thread::spawn(move || handle.drain(Duration::from_secs(3600)))
    };
    until("the door is closed", || !handle.is_open());
    open.send(Broken::No).unwrap();
    draining.join().unwrap();
}

#[test]
fn the_last_handle_lets_the_engine_finish_and_end() {
    let handle = start(model(), limits());
    let (_ticket, from) = submit(&handle, request(1, 30));
    drop(handle);
    assert_eq!(read(&from).tokens.len(), 30);
}

#[test]
fn log_probabilities_are_of_the_raw_logits() {
    let handle = start(model(), limits());
    let mut asked = request(1, 6);
    asked.params = Params { logprobs: Some(3), logit_bias: vec![(9, 100.0)], ..Params::greedy() };
    let (_t, from) = submit(&handle, asked.clone());
    let Event::Token { id, logprobs: Some(logprobs), .. } = from.recv().unwrap() else { panic!("no token") };
    let mut logits = Vec::new();
    FakeModel::logits_after(asked.prompt, VOCAB, &mut logits);
    let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
    let of = |id: u32| (f64::from(logits[id as usize]) - total.ln()) as f32;
    assert_eq!(id, 9, "the bias decides");
    assert!((logprobs.logprob - of(9)).abs() < 1e-5);
    let mut order: Vec<u32> = (0..VOCAB as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    assert_eq!(logprobs.top.iter().map(|t| t.0).collect::<Vec<_>>(), order[..3]);
    assert!(logprobs.top.iter().all(|(id, l)| (l - of(*id)).abs() < 1e-5));
}

#[test]
fn a_random_seed_is_reported_and_repeats() {
    let handle = start(model(), limits());
    let mut unseeded = request(1, 20);
    unseeded.params.seed = None;
    let (ticket, from) = submit(&handle, unseeded.clone());
    let first = read(&from).tokens;
    let (other, from) = submit(&handle, unseeded.clone());
    assert_ne!(ticket.seed(), other.seed());
    read(&from);
    unseeded.params.seed = Some(ticket.seed());
    let (_t, from) = submit(&handle, unseeded);
    assert_eq!(read(&from).tokens, first);
}
