//! The encoder on its thread, over the fake encoder: batches, ends, accidents, and a generating engine beside it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use cpu::{Pool, Tier};
use engine::encoder::fake::{AroundUnits, FakeEncoder, Tell, Told};
use engine::encoder::{
    Encode, EncodeCosts, EncodeError, EncodeRefused, EncodeTicket, Encoder, EncoderHandle, EncoderLimits,
    EncoderSetup, Job, Reply, Text, Want,
};
use engine::fake::{Around, FakeModel, FakeVocabulary};
use engine::{Device, Engine, Event, Forward, Limits, MemoryBudget, MemoryKind, Request, Rows, Setup};
use kernels::Compute;

const VOCAB: usize = 1000;

fn fake() -> FakeEncoder {
    FakeEncoder::new(VOCAB, 128, 64, 6)
}

fn start(encode: impl Encode + 'static) -> EncoderHandle {
    Encoder::start_alone(encode, EncoderLimits::default()).expect("an encoder")
}

/// The fake encoder, held at each unit until let go; dropping the sender lets everything pass.
fn gated() -> (impl Encode, Sender<()>) {
    let (open, pass) = channel();
    let encode = AroundUnits::new(fake(), move |_: &FakeEncoder| {
        let _ = pass.recv();
        Ok(())
    });
    (encode, open)
}

fn text(seed: u32, tokens: usize) -> Text {
    let tokens = (0..tokens as u32).map(|i| (seed * 31 + i * 7) % VOCAB as u32).collect();
    Text { tokens, types: Vec::new(), skip: 0 }
}

fn texts(count: u32) -> Vec<Text> {
    (0..count).map(|seed| text(seed, 1 + (seed as usize * 13) % 100)).collect()
}

fn job(client: u64, texts: Vec<Text>, want: Want) -> (Job, Receiver<Told>) {
    let (to, from) = channel();
    (Job { client, want, texts, deadline: None, reply: Box::new(Tell(to)) }, from)
}

fn submit(handle: &EncoderHandle, texts: Vec<Text>, want: Want) -> (EncodeTicket, Receiver<Told>) {
    let (job, from) = job(1, texts, want);
    (handle.submit(job).expect("a place"), from)
}

/// The numbers of a job's texts and how it ended.
fn read(
    from: &Receiver<Told>,
    texts: usize,
) -> (Vec<Option<Vec<f32>>>, Result<(), EncodeError>, EncodeCosts) {
    let mut all = vec![None; texts];
    loop {
        match from.recv_timeout(Duration::from_secs(20)).expect("a job ends") {
            Told::Text(index, values) => assert_eq!(all[index].replace(values), None, "each text once"),
            Told::Done(outcome, costs) => {
                assert!(from.recv_timeout(Duration::from_millis(1)).is_err(), "nothing follows the end");
                return (all, outcome, costs);
            }
        }
    }
}

#[test]
fn every_text_gets_its_own_numbers_in_any_batch() {
    let handle = start(fake());
    let all = texts(200);
    let wants = [Want::Dense, Want::Tokens, Want::Sparse, Want::Logits, Want::TokenLogits];
    let jobs: Vec<_> = (0..10)
        .map(|i| {
            let some: Vec<Text> = all[i * 20..][..1 + i * 2].to_vec();
            let want = wants[i % wants.len()];
            (some.clone(), want, submit(&handle, some, want))
        })
        .collect();
    for (texts, want, (_ticket, from)) in jobs {
        let (values, outcome, costs) = read(&from, texts.len());
        assert_eq!(outcome, Ok(()));
        let expected = texts.iter().map(|text| Some(fake().values(text, want)));
        assert!(values.into_iter().eq(expected), "{want:?}");
        let tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
        assert_eq!((costs.texts, costs.tokens), (texts.len(), tokens));
    }
    handle.drain(Duration::ZERO);
    let stats = handle.stats();
    assert_eq!((stats.waiting, stats.waiting_tokens, stats.running), (0, 0, 0));
    assert_eq!((stats.texts, stats.finished), (100, 10));
}

#[test]
fn equal_texts_are_computed_once_for_one_client() {
    let (encode, open) = gated();
    let handle = start(encode);
    // Held in the first step: the others gather.
    let first = submit(&handle, vec![text(0, 60)], Want::Dense);
    let same = submit(&handle, vec![text(1, 20), text(2, 20), text(1, 20), text(1, 20)], Want::Dense);
    let again = submit(&handle, vec![text(1, 20)], Want::Logits);
    let (other, other_from) = job(2, vec![text(1, 20)], Want::Dense);
    let other = handle.submit(other).unwrap();
    drop(open);
    for ((_ticket, from), count) in [(&first, 1), (&same, 4), (&again, 1)] {
        assert_eq!(read(from, count).1, Ok(()));
    }
    let (values, ..) = read(&other_from, 1);
    assert_eq!(values, [Some(fake().values(&text(1, 20), Want::Dense))]);
    let stats = handle.stats();
    // Another client's equal text is computed for itself.
    assert_eq!((stats.tokens, stats.texts, stats.shared_texts), (120, 7, 3));
    drop(other);
}

#[test]
fn texts_come_before_the_job_is_done_and_a_cancelled_job_costs_a_unit() {
    let (encode, open) = gated();
    let handle = start(encode);
    // Two steps of two texts.
    let (ticket, from) = submit(&handle, (0..4).map(|seed| text(seed, 30)).collect(), Want::Dense);
    let mut units = 0;
    let first = loop {
        open.send(()).unwrap();
        units += 1;
        if let Ok(told) = from.recv_timeout(Duration::from_millis(20)) {
            break told;
        }
        assert!(units < 100);
    };
    assert!(matches!(first, Told::Text(..)), "{first:?}");
    ticket.cancel();
    drop(open);
    let (values, outcome, costs) = read(&from, 4);
    assert_eq!(outcome, Err(EncodeError::Cancelled));
    let told = values.iter().filter(|values| values.is_some()).count();
    assert!(told <= 1 && costs.texts == told + 1, "{told} after the first, {costs:?}");
    // The encoder goes on.
    assert_eq!(read(&submit(&handle, texts(3), Want::Dense).1, 3).1, Ok(()));
    assert_eq!(handle.stats().cancelled, 1);
}

/// A reply that nobody reads.
struct Gone(Sender<Result<(), EncodeError>>);

impl Reply for Gone {
    fn text(&mut self, _index: usize, _values: &[f32]) {}

    fn is_gone(&self) -> bool {
        true
    }

    fn done(&mut self, outcome: Result<(), EncodeError>, _costs: EncodeCosts) {
        let _ = self.0.send(outcome);
    }
}

#[test]
fn deadlines_and_readers_that_leave_end_jobs() {
    let (encode, open) = gated();
    let handle = start(encode);
    let held = submit(&handle, vec![text(0, 60)], Want::Dense);
    let (mut overdue, from) = job(1, texts(3), Want::Dense);
    overdue.deadline = Some(Instant::now() + Duration::from_millis(5));
    let _overdue = handle.submit(overdue).unwrap();
    let (to, gone) = channel();
    let reply = Box::new(Gone(to));
    let _gone =
        handle.submit(Job { client: 1, want: Want::Dense, texts: texts(2), deadline: None, reply }).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    drop(open);
    assert_eq!(read(&from, 3).1, Err(EncodeError::Expired { done: 0, texts: 3 }));
    assert_eq!(gone.recv_timeout(Duration::from_secs(20)), Ok(Err(EncodeError::Cancelled)));
    assert_eq!(read(&held.1, 1).1, Ok(()));
    assert_eq!((handle.stats().expired, handle.stats().waiting), (1, 0));
}

#[test]
fn what_the_model_does_not_take_is_refused_with_its_numbers() {
    let handle = start(fake());
    let refused = |texts: Vec<Text>| handle.submit(job(1, texts, Want::Dense).0).err();
    assert_eq!(refused(Vec::new()), Some(EncodeRefused::NoTexts));
    assert_eq!(refused(vec![text(1, 3), text(1, 0)]), Some(EncodeRefused::EmptyText { text: 1 }));
    let long = EncodeRefused::TextTooLong { text: 0, tokens: 129, context: 128 };
    assert_eq!(long.to_string(), "text 0 has 129 tokens, the limit is 128");
    assert_eq!(refused(vec![text(1, 129)]), Some(long));
    let unknown = Text { tokens: vec![5, 1000], ..Text::default() };
    assert_eq!(
        refused(vec![unknown]),
        Some(EncodeRefused::UnknownToken { text: 0, token: 1000, vocab: VOCAB })
    );
    let shape = EncodeRefused::Shape { text: 0, tokens: 3, types: 0, skip: 3 };
    assert_eq!(refused(vec![Text { skip: 3, ..text(1, 3) }]), Some(shape));
    // A text as long as the context is longer than a step, and is computed all the same.
    assert_eq!(read(&submit(&handle, vec![text(1, 128)], Want::Dense).1, 1).1, Ok(()));
}

#[test]
fn the_queue_is_bounded_and_keeps_room_for_few_texts() {
    let (encode, open) = gated();
    let limits = EncoderLimits { max_queued_texts: 40, max_queued_tokens: 500, ..EncoderLimits::default() };
    let handle = Encoder::start_alone(encode, limits).expect("an encoder");
    let held = submit(&handle, vec![text(0, 60)], Want::Dense);
    while handle.stats().running == 0 {
        std::thread::yield_now();
    }
    let many = |seed: u32, count: u32, tokens| (seed..seed + count).map(|seed| text(seed, tokens)).collect();
    let bulk = submit(&handle, many(1, 25, 5), Want::Dense);
    let refused = |texts: Vec<Text>| handle.submit(job(1, texts, Want::Dense).0).err();
    assert_eq!(
        refused(many(50, 9, 5)),
        Some(EncodeRefused::TooManyTexts { waiting: 25, texts: 9, limit: 30 })
    );
    let few = submit(&handle, many(50, 8, 5), Want::Dense);
    assert_eq!(
        refused(many(60, 8, 5)),
        Some(EncodeRefused::TooManyTexts { waiting: 33, texts: 8, limit: 40 })
    );
    let tokens = EncodeRefused::TooManyTokens { waiting: 165, tokens: 360, limit: 500 };
    assert_eq!(refused(many(60, 3, 120)), Some(tokens));
    assert_eq!((handle.stats().refused_busy, handle.stats().waiting), (3, 33));
    drop(open);
    for ((_ticket, from), count) in [(&held, 1), (&bulk, 25), (&few, 8)] {
        assert_eq!(read(from, count).1, Ok(()));
    }
}

#[test]
fn a_model_that_fails_fails_its_step_and_one_that_panics_is_answered_for() {
    let mut left = 3;
    let failing = AroundUnits::new(fake(), move |_: &FakeEncoder| {
        left -= 1;
        if left == 0 { Err("a unit went wrong".to_owned()) } else { Ok(()) }
    });
    let handle = start(failing);
    let failed = submit(&handle, vec![text(1, 60)], Want::Dense);
    assert_eq!(read(&failed.1, 1).1, Err(EncodeError::Model("a unit went wrong".into())));
    assert_eq!(read(&submit(&handle, texts(20), Want::Dense).1, 20).1, Ok(()));
    assert_eq!((handle.stats().failed, handle.stats().finished), (1, 1));

    let (open, pass) = channel::<()>();
    let panics = AroundUnits::new(fake(), move |_: &FakeEncoder| {
        let _ = pass.recv();
        panic!("a kernel fell over")
    });
    let pool = Pool::new(1, None).unwrap();
    let device = Device::new(Compute::new(Tier::Scalar, pool), MemoryBudget::new(1 << 20));
    let memory = device.memory().reserve("enc", MemoryKind::Weights, 1000).unwrap();
    let setup = EncoderSetup::new("enc", EncoderLimits::default()).holding(memory);
    let handle = Encoder::start(&device, panics, setup).unwrap();
    assert_eq!(handle.memory().weights, 1000);
    let jobs = [submit(&handle, texts(2), Want::Dense), submit(&handle, texts(30), Want::Dense)];
    drop(open);
    for ((_ticket, from), count) in jobs.iter().zip([2, 30]) {
        assert_eq!(read(from, count).1, Err(EncodeError::Died("a kernel fell over".into())));
    }
    handle.drain(Duration::ZERO);
    assert!(!handle.is_open() && device.engines().is_empty() && device.memory().reserved() == 0);
    assert_eq!(handle.submit(job(1, texts(1), Want::Dense).0).err(), Some(EncodeRefused::Closed));
}

#[test]
fn numbers_that_are_none_fail_their_job_alone() {
    struct Broken(FakeEncoder);
    impl Encode for Broken {
        fn context(&self) -> usize {
            self.0.context
        }
        fn vocab(&self) -> usize {
            self.0.vocab
        }
        fn step_tokens(&self) -> usize {
            self.0.step_tokens
        }
        fn begin(&mut self, texts: &[&Text]) -> Result<(), String> {
            self.0.begin(texts)
        }
        fn advance(&mut self) -> Result<bool, String> {
            self.0.advance()
        }
        fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String> {
            self.0.output(text, want, out)?;
            if want == Want::Logits {
                out[1] = f32::NAN;
            }
            Ok(())
        }
    }
    let handle = start(Broken(fake()));
    let bad = submit(&handle, texts(2), Want::Logits);
    let good = submit(&handle, texts(2), Want::Dense);
    let (_, outcome, _) = read(&bad.1, 2);
    assert!(matches!(outcome, Err(EncodeError::NotFinite { at: 1, .. })), "{outcome:?}");
    assert_eq!(read(&good.1, 2).1, Ok(()));
}

#[test]
fn a_drain_finishes_what_is_there_or_cancels_it() {
    let handle = start(fake());
    let all = submit(&handle, texts(100), Want::Dense);
    handle.drain(Duration::from_secs(20));
    assert_eq!(read(&all.1, 100).1, Ok(()));
    assert!(!handle.is_open());

    let (encode, open) = gated();
    let handle = start(encode);
    let all = submit(&handle, texts(100), Want::Dense);
    let drained = std::thread::spawn({
        let handle = handle.clone();
        move || handle.drain(Duration::from_millis(1))
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(open);
    drained.join().unwrap();
    assert_eq!(read(&all.1, 100).1, Err(EncodeError::Cancelled));
}

/// A stream beside a bulk job: all is answered, and the encoder gives the device back between units.
#[test]
fn a_stream_goes_on_beside_a_bulk_job() {
    let pool = Pool::new(2, None).expect("threads");
    let device = Device::new(Compute::new(Tier::Scalar, pool), MemoryBudget::new(1 << 20));
    let encode = AroundUnits::new(fake(), |_: &FakeEncoder| {
        std::thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let handle =
        Encoder::start(&device, encode, EncoderSetup::new("bulk", EncoderLimits::default())).unwrap();
    let model = Around::new(FakeModel::new(40, 256, 80, 4), |model: &mut FakeModel, rows: &Rows<'_>| {
        std::thread::sleep(Duration::from_millis(2));
        model.forward(rows).map(<[f32]>::to_vec)
    });
    let setup = Setup::new(Arc::new(FakeVocabulary), Limits::default()).named("chat");
    let chat = Engine::start_forward_on(&device, model, None, setup).unwrap();
    let all = submit(&handle, texts(400), Want::Dense);
    let (to, from) = channel();
    let request =
        Request { prompt: vec![1, 2, 3], max_tokens: Some(60), ignore_end: true, ..Request::default() };
    let _ticket = chat.submit(request, Box::new(to)).unwrap();
    let mut tokens = 0;
    while let Ok(event) = from.recv_timeout(Duration::from_secs(20)) {
        match event {
            Event::Token { .. } => tokens += 1,
            Event::Done { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(tokens, 60);
    assert_eq!(read(&all.1, 400).1, Ok(()));
    let turns = device.engines();
    let of = |name: &str| turns.iter().find(|of| &*of.engine == name).unwrap().turns.turns;
    assert!(of("bulk") > 20, "steps are given up between units: {turns:?}");
    assert_eq!(device.compute().pool.collisions(), 0);
}
