//! Several models behind one server: loaded when they are asked for, unloaded for each other, never while in use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use engine::fake::{FakeModel, FakeVocabulary};
use engine::{Engine, Limits};
use serde_json::{Value, json};
use server::{LoadedModel, Options, Server};
use service::{Loader, Registration};

use crate::frame::{CONTEXT, Letters, Running, VOCAB, options, paced, unready};

/// Bytes of every model, of a budget of [`ROOM`].
const BYTES: u64 = 40;
const ROOM: u64 = 100;

/// Loads a fake model whose answers depend on its name.
pub(crate) struct Fake {
    name: &'static str,
    pace: Duration,
    loads: AtomicUsize,
    pub(crate) fails: AtomicBool,
    /// Whether loads do not end.
    hangs: AtomicBool,
    /// Whose metrics its engines count in.
    server: OnceLock<Server>,
}

impl Fake {
    pub(crate) fn new(name: &'static str) -> Arc<Fake> {
        Fake::paced(name, Duration::from_micros(200))
    }

    fn paced(name: &'static str, pace: Duration) -> Arc<Fake> {
        let (loads, fails, hangs) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Fake { name, pace, loads, fails, hangs, server: OnceLock::new() })
    }
}

impl Loader for Fake {
    fn need_bytes(&self) -> Result<u64, String> {
        Ok(BYTES)
    }

    fn load(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        progress("half of the weights are read".into());
        std::thread::sleep(Duration::from_millis(3));
        while self.hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.fails.load(Ordering::Relaxed) {
            return Err("the file is damaged".into());
        }
        self.loads.fetch_add(1, Ordering::Relaxed);
        let mut model = FakeModel::new(VOCAB, CONTEXT, 64, 32);
        model.habit = f32::from(self.name.as_bytes()[0] - b'a') / 4.0;
        let forward = paced(model, self.pace);
        let watch = self.server.get().unwrap().watch(self.name);
        let engine = Engine::start_with(forward, Arc::new(FakeVocabulary), Limits::default(), watch);
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(LoadedModel::new(vec![self.name.to_owned()], engine, Arc::new(Letters)))
    }
}

/// A server of these models, which share [`ROOM`].
fn server_of(models: &[Arc<Fake>], pinned: &[&str], keep_alive: Option<Duration>) -> Running {
    server_with(service::Options::default(), models, pinned, keep_alive)
}

/// As [`server_of`], with bounds and a price.
pub(crate) fn server_with(
    service: service::Options,
    models: &[Arc<Fake>],
    pinned: &[&str],
    keep_alive: Option<Duration>,
) -> Running {
    let service = service::Options { model_bytes: ROOM, ..service };
    let running = unready(Options { service, ..options() }, Duration::from_secs(5));
    for model in models {
        assert!(model.server.set(running.server.clone()).is_ok());
        let registration = Registration {
            names: vec![model.name.to_owned()],
            pinned: pinned.contains(&model.name),
            keep_alive,
            loader: model.clone(),
        };
        running.server.registry().add(registration).unwrap();
    }
    running.server.open(Instant::now());
    running
}

pub(crate) fn ask(server: &Running, model: &str, prompt: &str) -> Value {
    let body =
        json!({"model": model, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true});
    let answer = server.post("/v1/completions", &body);
    assert_eq!(answer.status, 200, "{model}: {}", answer.body);
    let answer = answer.json();
    assert_eq!(answer["model"], model);
    answer["choices"][0]["text"].clone()
}

fn states(server: &Running) -> HashMap<String, String> {
    let list = server.get("/v1/models").json();
    let cards = list["data"].as_array().unwrap().iter();
    cards
        .map(|card| (card["id"].as_str().unwrap().to_owned(), card["state"].as_str().unwrap().to_owned()))
        .collect()
}

pub(crate) fn until(what: &str, mut wanted: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !wanted() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn three_models_with_room_for_two_answer_everything_as_alone() {
    let models = ["a", "b", "c"].map(Fake::new);
    let prompts = ["hello", "world", "some words", "x"];
    // Alone: one server a model.
    let mut alone = HashMap::new();
    for model in &models {
        let server = server_of(&[Fake::new(model.name)], &[], None);
        for prompt in prompts {
            alone.insert((model.name, prompt), ask(&server, model.name, prompt));
        }
    }
    assert_ne!(alone[&("a", "hello")], alone[&("c", "hello")], "the models answer differently");
    let server = server_of(&models, &[], None);
    let most = Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_usize {
            let (server, alone, models, most) = (&server, &alone, &models, &most);
            scope.spawn(move || {
                for round in 0..40_usize {
                    let (model, prompt) =
                        (models[(round * 7 + thread) % 3].name, prompts[(round + thread) % 4]);
                    assert_eq!(ask(server, model, prompt), alone[&(model, prompt)], "{model}: {prompt}");
                    let (reserved, limit) = server.server.registry().memory();
                    assert!(reserved <= limit, "{reserved} of {limit}");
                    let mut most = most.lock().unwrap();
                    *most = reserved.max(*most);
                }
            });
        }
    });
    assert_eq!(*most.lock().unwrap(), 2 * BYTES);
    let loads: usize = models.iter().map(|model| model.loads.load(Ordering::Relaxed)).sum();
    assert!(loads > 3, "{loads} loads");
}

#[test]
fn a_load_happens_once_and_blocks_nobody() {
    let slow = Fake::paced("b", Duration::ZERO);
    let server = server_of(&[Fake::new("a"), slow.clone()], &["a"], None);
    ask(&server, "a", "hello");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ask(&server, "b", "hello"));
        }
        ask(&server, "a", "world");
    });
    assert_eq!(slow.loads.load(Ordering::Relaxed), 1);
}

/// Issue 49: requests that wait for a load held the places in which requests are read, so that models that were loaded
/// already answered nobody until it had ended.
#[test]
fn those_that_wait_for_a_load_keep_nobody_from_models_that_are_there() {
    let models = ["a", "b"].map(Fake::new);
    let server = server_of(&models, &[], None);
    ask(&server, "a", "hello");
    models[1].hangs.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..service::PREPARATIONS + 4).map(|_| scope.spawn(|| ask(&server, "b", "hello"))).collect();
        until("b to load", || states(&server)["b"] == "loading");
        for _ in 0..20 {
            ask(&server, "a", "hello");
        }
        models[1].hangs.store(false, Ordering::Relaxed);
        for answer in waiting {
            answer.join().unwrap();
        }
    });
    assert_eq!(models[1].loads.load(Ordering::Relaxed), 1);
}

#[test]
fn models_are_loaded_and_unloaded_by_request() {
    let server = server_of(&["a", "b", "c"].map(Fake::new), &["a"], None);
    let state = |model: &str| states(&server)[model].clone();
    assert_eq!((state("a"), state("b")), ("registered".into(), "registered".into()));
    let loaded = server.post("/v1/models/b/load", &json!({}));
    assert_eq!((loaded.status, loaded.json()["state"].clone()), (200, json!("ready")), "{}", loaded.body);
    assert_eq!(server.get("/v1/models/b").json()["max_model_len"], CONTEXT);
    assert_eq!(server.post("/v1/models/b/unload", &json!({})).status, 200);
    until("the unload", || state("b") == "registered");
    assert_eq!(server.server.registry().memory().0, 0);
    for (path, status) in
        [("/v1/models/nobody/load", 404), ("/v1/models/nobody/unload", 404), ("/v1/models/b/reload", 404)]
    {
        assert_eq!(server.post(path, &json!({})).status, status, "{path}");
    }
    // While it answers it stays.
    let stream = server.open(
        "/v1/completions",
        &json!({"model": "b", "prompt": "hello", "max_tokens": 80, "ignore_eos": true, "stream": true}),
    );
    until("the answer", || server.server.registry().facts()[1].uses > 0 && state("b") == "ready");
    assert_eq!(server.post("/v1/models/b/unload", &json!({})).status, 429);
    drop(stream);
    until("its end", || server.post("/v1/models/b/unload", &json!({})).status == 200);
}

#[test]
fn the_only_model_of_a_server_stays() {
    let server = crate::frame::ready(options(), Duration::ZERO);
    let answer = server.post("/v1/models/tiny/unload", &json!({}));
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert_eq!(server.post("/v1/models/tiny/load", &json!({})).status, 200);
    assert_eq!(server.completion(json!({})).status, 200);
}

#[test]
fn a_model_that_is_not_asked_for_goes_after_its_time() {
    let server = server_of(&["a", "b"].map(Fake::new), &["a"], Some(Duration::from_millis(1_500)));
    ask(&server, "a", "hello");
    ask(&server, "b", "hello");
    assert_eq!(states(&server)["b"], "ready");
    until("the unload", || states(&server)["b"] == "registered");
    assert_eq!(states(&server)["a"], "ready", "it is pinned");
}

#[test]
fn ollamas_keep_alive_is_the_models_time_and_its_load_is_told() {
    let server = server_of(&["a", "b"].map(Fake::new), &["a"], None);
    let asked = |model: &str, keep_alive: Value| {
        let body = json!({"model": model, "prompt": "hello", "stream": false, "keep_alive": keep_alive,
            "options": {"num_predict": 4, "temperature": 0}});
        let answer = server.post("/api/generate", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer
    };
    let time = |said: &Value, name: &str| said[name].as_u64().unwrap();
    let expires = || {
        let running = server.get("/api/ps").json();
        let of_b = running["models"].as_array().unwrap().iter().find(|model| model["name"] == "b:latest");
        of_b.map(|model| model["expires_at"].as_str().unwrap().to_owned()).unwrap()
    };
    // The fake loads for 3 ms.
    let first = asked("b", json!("1h")).json();
    let load = time(&first, "load_duration");
    assert!(load >= 3_000_000, "{first}");
    let parts = load + time(&first, "prompt_eval_duration") + time(&first, "eval_duration");
    assert!(parts <= time(&first, "total_duration"), "{first}");
    assert!(expires().as_str() < "2300", "{}", expires());
    let second = asked("b", json!(-1));
    assert_eq!(time(&second.json(), "load_duration"), 0);
    assert!(second.header("x-gristmill-warning").is_none() && expires().as_str() > "2300");
    // A request that does not say leaves it as it is.
    asked("b", json!(null));
    assert!(expires().as_str() > "2300");
    assert!(!asked("b", json!(0)).json()["response"].as_str().unwrap().is_empty());
    until("the unload", || states(&server)["b"] == "registered");
    // The operator's pin wins.
    let pinned = asked("a", json!(0));
    assert!(pinned.header("x-gristmill-warning").unwrap().contains("stays loaded"), "{pinned:?}");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(states(&server)["a"], "ready");
}

#[test]
fn what_cannot_be_loaded_is_said_and_others_go_on() {
    let broken = Fake::new("b");
    broken.fails.store(true, Ordering::Relaxed);
    let server = server_of(&[Fake::new("a"), broken], &[], None);
    for _ in 0..2 {
        let answer = server.post("/v1/completions", &json!({"model": "b", "prompt": "x"}));
        assert_eq!(answer.status, 503, "{}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "model_load_failed");
        assert!(error["message"].as_str().unwrap().contains("the file is damaged"), "{error}");
    }
    ask(&server, "a", "hello");
    assert_eq!(server.post("/v1/completions", &json!({"model": "c", "prompt": "x"})).status, 404);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_thousand_loads_and_unloads_leave_nothing_behind() {
    let model = Fake::new("a");
    let server = server_of(std::slice::from_ref(&model), &[], None);
    let threads = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("Threads:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let mut before = 0;
    for round in 0..1_000 {
        assert_eq!(server.post("/v1/models/a/load", &json!({})).status, 200);
        until("no use", || server.post("/v1/models/a/unload", &json!({})).status == 200);
        until("the unload", || server.server.registry().memory().0 == 0);
        if round == 20 {
            before = threads();
        }
    }
    assert_eq!(model.loads.load(Ordering::Relaxed), 1_000);
    let after = threads();
    assert!(after <= before + 8, "{before} threads became {after}");
}
