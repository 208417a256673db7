//! Every family's tiny model, from the fixtures of crate `model`: a request's tokens are the same alone, twice, in a
//! batch of eight that decodes and prefills at once, after it lost its KV blocks and was computed again, and with
//! guesses ahead.

use crate::common;

use std::time::Duration;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::{ask, request};
use cpu::{Pool, Tier};
use engine::fake::FakeVocabulary;
use engine::{
    Device, DraftModel, Engine, Handle, Limits, MemoryBudget, MemoryKind, Params, Request, Setup, Speculation,
};
use kernels::{Compute, KvDtype, Precision};
use model::Model;

/// Held by each test: engines that compute at the same time on the same CPUs wait for each other at every barrier of their
/// threads.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures");
    let mut found: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the fixtures")
        .map(|entry| entry.expect("a fixture").path())
        .filter(|path| path.join("config.json").exists())
        .collect();
    found.sort();
    assert!(found.len() >= 10, "fixtures of the families: {found:?}");
    found
}

pub(crate) fn requests(model: &Model) -> Vec<Request> {
    let vocab = model.spec.vocab as u32;
    let context = model.spec.context;
    (0..8u32)
        .map(|i| {
            let length = (3 + 9 * i as usize).min(context / 2);
            let prompt = (0..length as u32).map(|k| (1 + i * 37 + k * k * 11) % vocab).collect();
            let params = Params {
                temperature: [0.0, 1.0][i as usize % 2],
                seed: Some(u64::from(i)),
                ..Params::default()
            };
            let mut request = request(prompt, 64.min(context / 2), params);
            request.ignore_end = true;
            request.prompt_logprobs = (i % 3 == 0).then_some(2);
            request
        })
        .collect()
}

pub(crate) fn engine(
    path: &Path,
    tier: Tier,
    kv_contexts: usize,
    speculation: Speculation,
) -> (Arc<Model>, Handle) {
    engine_keeping(None, path, tier, kv_contexts, speculation)
}

fn engine_keeping(
    kv_dtype: Option<KvDtype>,
    path: &Path,
    tier: Tier,
    kv_contexts: usize,
    speculation: Speculation,
) -> (Arc<Model>, Handle) {
    let compute = Compute::new(tier, Pool::new(2, None).expect("threads"));
    let opened = weights::open(path).expect("a fixture");
    let model = Arc::new(Model::load(&opened, &compute, Precision::Fast, &mut |_| {}).expect("a fixture"));
    let context = model.spec.context.min(128);
    let kept = kv_dtype.unwrap_or(KvDtype::F16);
    let bytes = model.spec.kv_bytes_per_token(kept) as u64 * context.next_multiple_of(32) as u64;
    let limits = Limits {
        context,
        kv_bytes: bytes * kv_contexts as u64,
        kv_dtype,
        prefill_chunk: 16,
        max_stall: Duration::ZERO,
        speculation,
        ..Limits::default()
    };
    let vocabulary = Arc::new(FakeVocabulary);
    // The model goes ahead of itself: right when it is asked for the likeliest token, often wrong when not.
    let drafts = speculation != Speculation::OFF;
    let draft = drafts.then(|| DraftModel { model: model.clone(), vocabulary: vocabulary.clone() });
    let device = Device::of_one(compute);
    let handle = Engine::start_on(&device, model.clone(), draft, Setup::new(vocabulary, limits));
    (model, handle.expect("an engine"))
}

#[test]
fn every_family_says_the_same_alone_and_together() {
    let _running = one_at_a_time();
    for path in fixtures() {
        for tier in Tier::available() {
            let (model, handle) = engine(&path, tier, 8, Speculation::OFF);
            let asked = requests(&model);
            let alone: Vec<_> = asked.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
            let together = ask(&handle, asked.clone());
            assert_eq!(alone, together, "{} on {tier}", path.display());
            let again = ask(&handle, asked.clone());
            assert_eq!(again, together, "{} on {tier}, again", path.display());
            assert!(alone.iter().any(|answer| !answer.tokens.is_empty()));
            for (request, answer) in asked.iter().zip(&alone) {
                let scored = request.prompt_logprobs.map_or(0, |_| request.prompt.len() - 1);
                assert_eq!(answer.prompt.len(), scored, "{} on {tier}", path.display());
            }
        }
    }
}

#[test]
fn every_family_says_the_same_in_eight_bits_alone_and_together() {
    let _running = one_at_a_time();
    for path in fixtures() {
        let kept = Some(KvDtype::Q8_0);
        let (model, handle) = engine_keeping(kept, &path, Tier::best(), 8, Speculation::OFF);
        let requests = requests(&model);
        let alone: Vec<_> = requests.iter().map(|r| ask(&handle, vec![r.clone()]).remove(0)).collect();
        assert_eq!(alone, ask(&handle, requests), "{}", path.display());
        assert!(alone.iter().any(|answer| !answer.tokens.is_empty()));
    }
}

#[test]
fn every_family_survives_preemption() {
    let _running = one_at_a_time();
    for kv in [None, Some(KvDtype::Q8_0)] {
        let mut preemptions = 0;
        for path in fixtures() {
            let (model, ample) = engine_keeping(kv, &path, Tier::best(), 8, Speculation::OFF);
            let (_, tight) = engine_keeping(kv, &path, Tier::best(), 1, Speculation::OFF);
            let requests = requests(&model);
            assert_eq!(ask(&tight, requests.clone()), ask(&ample, requests), "{}", path.display());
            preemptions += tight.stats().preemptions;
        }
        assert!(preemptions > 0, "the pools were too large to test anything with {kv:?}");
    }
}

#[test]
fn every_family_says_the_same_with_guesses_ahead() {
    let _running = one_at_a_time();
    let mut wrong = 0;
    for path in fixtures() {
        let speculation = Speculation { lookup: true, tokens: 5, always: true };
        let (model, plain) = engine(&path, Tier::best(), 8, Speculation::OFF);
        let requests = requests(&model);
        let expected = ask(&plain, requests.clone());
        let (_, guessing) = engine(&path, Tier::best(), 2, speculation);
        assert_eq!(ask(&guessing, requests), expected, "{}", path.display());
        let stats = guessing.stats();
        assert!(stats.accepted_tokens > 0, "{}: {stats:?}", path.display());
        wrong += stats.proposed_tokens - stats.accepted_tokens;
    }
    assert!(wrong > 0, "wrong guesses are to be tested too");
}

#[test]
fn what_an_engine_holds_is_reserved_and_given_back() {
    let path = fixtures().remove(0);
    let compute = Compute::new(Tier::best(), Pool::new(2, None).expect("threads"));
    let opened = weights::open(&path).expect("a fixture");
    let model = Arc::new(Model::load(&opened, &compute, Precision::Fast, &mut |_| {}).expect("a fixture"));
    let device = Device::new(compute, MemoryBudget::new(64 << 20));
    let limits = Limits { context: 128, ..Limits::default() };
    let start = |name: &str| {
        let bytes = model.bytes() as u64;
        let weights = device.memory().reserve(name, MemoryKind::Weights, bytes).expect("memory");
        let setup = Setup::new(Arc::new(FakeVocabulary), limits.clone()).named(name).holding(weights);
        let draft = DraftModel { model: model.clone(), vocabulary: Arc::new(FakeVocabulary) };
        Engine::start_on(&device, model.clone(), Some(draft), setup)
    };
    let (first, second) = (start("first").expect("an engine"), start("second").expect("an engine"));
    let owners = device.memory().owners();
    assert_eq!(owners.len(), 2);
    assert!(owners.iter().all(|(_, used)| used.kv_cache > 0 && used.scratch > 0), "{owners:?}");
    let asked = requests(&model);
    assert_eq!(ask(&first, asked[..2].to_vec()), ask(&second, asked[..2].to_vec()));
    let (one, holders) = (device.memory().reserved() / 2, Arc::strong_count(&model));
    first.drain(Duration::from_secs(20));
    assert_eq!(device.memory().reserved(), one, "the first one's share is back");
    assert!(Arc::strong_count(&model) < holders, "and it holds its weights no more");
    let rest = device.memory().free();
    let _other = device.memory().reserve("other", MemoryKind::Cache, rest - model.bytes() as u64);
    let refused = start("third").err().expect("no memory").to_string();
    assert!(
        refused.contains("no memory for the KV cache of third") && refused.contains("are free"),
        "{refused}"
    );
    second.drain(Duration::from_secs(20));
    assert_eq!(device.compute().pool.collisions(), 0);
}
