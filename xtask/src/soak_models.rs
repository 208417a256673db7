//! Soak test of three models with memory for two (`cargo xtask soak --models`).
//!
//! Requirements: each answer equals the one of the same request alone with all models loaded, the models' memory stays
//! within its budget, loading and unloading a model a thousand times leaks no memory, and one model keeps generating
//! while another one prefills a long prompt.

use std::io::{BufRead, BufReader};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Server;
use crate::http::{CHAT, ask, get, send};
use crate::program::Program;
use crate::shell::TaskResult;
use crate::soak::Rng;

const MODELS: [&str; 3] = ["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "gemma3-270m"];
/// The model that is loaded and unloaded, and that prefills the long prompt.
const SMALLEST: &str = MODELS[0];
/// The model that generates during the long prefill.
const STREAMING_MODEL: &str = MODELS[1];
const CLIENTS: usize = 12;
/// Number of different requests to each model.
const REFERENCES: usize = 12;
const PROMPT_TOKENS: usize = 4_096;
/// Tokens before the long prompt is sent.
const FIRST_BESIDE: usize = 40;
const GAP_ROUNDS: usize = 5;
const MAX_STALL_MS: u64 = 100;
const CONTEXT: &str = "4608";
/// Given, so that a model takes the same whatever is left for it.
const KV_MEMORY: &str = "256M";
/// Upper bound of the growth of anonymous memory from the first to the last tenth of the loads, above allocator noise.
const MAX_GROWTH: f64 = 0.02;
const MEGABYTE: f64 = 1e6;

struct Reference {
    body: Value,
    text: String,
}

/// Runs all phases.
pub fn run(program: &Program, requests: usize, cycles: usize, seed: u64) -> TaskResult {
    let parallel = CLIENTS.to_string();
    let stall = MAX_STALL_MS.to_string();
    let mut flags = MODELS.to_vec();
    flags.extend([
        "--context",
        CONTEXT,
        "--kv-memory",
        KV_MEMORY,
        "--parallel",
        &parallel,
        "--max-stall-ms",
        &stall,
    ]);
    let (references, budget) = {
        let server = Server::start(program, &flags)?;
        let references =
            MODELS.iter().map(|model| references(server.port, model)).collect::<Result<Vec<_>, _>>()?;
        let mut bytes = memory_of_models(server.port)?;
        bytes.sort_unstable();
        gaps(&server)?;
        (references, bytes[1] + bytes[2])
    };
    eprintln!(
        "{} requests answered alone; {} MB for three models",
        MODELS.len() * REFERENCES,
        budget / 1_000_000
    );
    let memory = budget.to_string();
    flags.extend(["--model-memory", &memory]);
    let server = Server::start(program, &flags)?;
    mixed(&server, &references, requests, budget, seed)?;
    loads(&server, cycles)
}

fn references(port: u16, model: &str) -> Result<Vec<Reference>, String> {
    let topics =
        ["a mill", "the sea", "bread", "a river in spring", "wheels", "winter", "an old map", "rain"];
    let reference = |i: usize| {
        let text = format!("Tell me about {} in {} words.", topics[i % topics.len()], 10 + i);
        let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.8 };
        let body = json!({"model": model, "prompt": text, "max_tokens": 4 + 2 * i, "seed": i, "temperature": temperature});
        let (status, answer) = ask(port, "/v1/completions", &body)?;
        let text =
            completed(&answer).ok_or_else(|| format!("request {i} to {model} alone: {status} {answer}"))?;
        Ok(Reference { body, text })
    };
    (0..REFERENCES).map(reference).collect()
}

fn completed(answer: &str) -> Option<String> {
    let json: Value = serde_json::from_str(answer).ok()?;
    json["choices"][0]["text"].as_str().map(str::to_owned)
}

/// What `/v1/models` says of each model.
fn models(port: u16) -> Result<Vec<Value>, String> {
    let (_, answer) = get(port, "/v1/models")?;
    let mut list: Value = serde_json::from_str(&answer).map_err(|error| format!("/v1/models: {error}"))?;
    match list["data"].take() {
        Value::Array(models) => Ok(models),
        _ => Err("/v1/models has no list".into()),
    }
}

/// Memory of each loaded model, in bytes.
fn memory_of_models(port: u16) -> Result<Vec<u64>, String> {
    let models = models(port)?;
    let held = models.iter().filter(|model| model["state"] != "registered");
    Ok(held.filter_map(|model| model["memory_bytes"].as_u64()).collect())
}

/// Checks the longest time between two tokens of one model while another one prefills a long prompt: the median of some rounds, as
/// a shared machine takes a CPU away for that long now and then.
fn gaps(server: &Server) -> TaskResult {
    let mut longest = (0..GAP_ROUNDS).map(|round| gap(server.port, round)).collect::<Result<Vec<_>, _>>()?;
    longest.sort_unstable();
    let (median, most) = (longest[longest.len() / 2], Duration::from_millis(2 * MAX_STALL_MS));
    if median > most {
        return Err(format!(
            "{} ms between two tokens, the limit is {} ms",
            median.as_millis(),
            most.as_millis()
        ));
    }
    Ok(())
}

/// One round: the longest gap, told with where it was.
fn gap(port: u16, round: usize) -> Result<Duration, String> {
    let (started, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut alone, mut beside, mut at) = (Duration::ZERO, Duration::ZERO, 0);
    std::thread::scope(|scope| -> TaskResult {
        let reader = scope.spawn(|| -> Result<Duration, String> {
            while !started.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let prompt: Vec<u32> =
                (0..PROMPT_TOKENS as u32).map(|i| 1_000 + (i * 7 + round as u32 * 1_013) % 20_000).collect();
            let began = Instant::now();
            let (status, answer) =
                ask(port, "/v1/completions", &json!({"model": SMALLEST, "prompt": prompt, "max_tokens": 1}))?;
            over.store(true, Relaxed);
            if status == 200 {
                Ok(began.elapsed())
            } else {
                Err(format!("the long prompt: {status} {answer}"))
            }
        });
        let streamed = stream(port, |now, last, tokens| {
            if let Some(last) = last {
                let longest = if started.load(Relaxed) { &mut beside } else { &mut alone };
                if now.duration_since(last) > *longest {
                    (*longest, at) = (now.duration_since(last), tokens);
                }
            }
            if tokens == FIRST_BESIDE {
                started.store(true, Relaxed);
            }
            !over.load(Relaxed)
        });
        // The reader goes on in any case, and ends.
        started.store(true, Relaxed);
        let took = reader.join().map_err(|_| "the reader panicked")??;
        streamed?;
        eprintln!(
            "a prompt of {PROMPT_TOKENS} tokens took {:.1} s; between tokens of another model at most {} ms beside it, \
             (before token {} of it), {} ms alone",
            took.as_secs_f64(),
            beside.as_millis(),
            at.saturating_sub(FIRST_BESIDE),
            alone.as_millis()
        );
        Ok(())
    })?;
    Ok(beside)
}

/// Streams an answer and calls `each` with the time of each token, that of the one before and the number of tokens so far, until it
/// says to stop or the answer ends.
fn stream(port: u16, mut each: impl FnMut(Instant, Option<Instant>, usize) -> bool) -> TaskResult {
    let body = json!({"model": STREAMING_MODEL, "stream": true, "max_tokens": 400, "ignore_eos": true,
        "messages": [{"role": "user", "content": "Count from one to a thousand, in words."}]});
    let mut last = None;
    let events = BufReader::new(send(port, CHAT, &body)?).lines();
    for (tokens, line) in
        events.filter(|line| !line.as_ref().is_ok_and(|line| !line.starts_with("data: {"))).enumerate()
    {
        line.map_err(|error| format!("a stream broke: {error}"))?;
        let now = Instant::now();
        if !each(now, last, tokens + 1) {
            return Ok(());
        }
        last = Some(now);
    }
    Ok(())
}

/// What goes wrong with a request; none if its answer is the one it had alone.
fn fault(port: u16, reference: &Reference) -> Option<String> {
    match ask(port, "/v1/completions", &reference.body) {
        Ok((200, answer)) if completed(&answer).as_deref() == Some(&reference.text) => None,
        Ok((status, answer)) => {
            Some(format!("{}: {status} {answer}, alone {:?}", reference.body, reference.text))
        }
        Err(error) => Some(error),
    }
}

/// Requests to all models at random, by clients each of which sends one after the other.
fn mixed(
    server: &Server,
    references: &[Vec<Reference>],
    requests: usize,
    budget: u64,
    seed: u64,
) -> TaskResult {
    let next = AtomicUsize::new(0);
    let times = Mutex::new(Vec::with_capacity(requests));
    let wrong = Mutex::new(Vec::new());
    let most_memory = AtomicUsize::new(0);
    let began = Instant::now();
    let client = |at: u64| {
        let mut rng = Rng::new(seed + at);
        while next.fetch_add(1, Relaxed) < requests {
            let model = &references[rng.below(MODELS.len() as u64) as usize];
            let reference = &model[rng.below(REFERENCES as u64) as usize];
            let began = Instant::now();
            let fault = fault(server.port, reference);
            let took = began.elapsed().as_secs_f64();
            times.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(took);
            wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(fault);
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS as u64).map(|at| scope.spawn(move || client(at))).collect();
        while !clients.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let held = memory_of_models(server.port).unwrap_or_default().iter().sum::<u64>();
            most_memory.fetch_max(held as usize, Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut times = times.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    let most_memory = most_memory.into_inner() as f64;
    eprintln!(
        "{requests} requests to three models with room for two, {CLIENTS} at a time, in {:.0} s: {:.2} s (median), {:.2} s \
         (95 %), {:.2} s (longest); models held at most {:.0} MB of {:.0} MB, the process {:.0} MB at most",
        began.elapsed().as_secs_f64(),
        at(0.5),
        at(0.95),
        times.last().copied().unwrap_or(f64::NAN),
        most_memory / MEGABYTE,
        budget as f64 / MEGABYTE,
        server.memory("VmHWM").unwrap_or(f64::NAN) / MEGABYTE,
    );
    tell_waits(server.port)?;
    let wrong = wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(first) = wrong.first() {
        return Err(format!("{} of {requests} requests went wrong, the first: {first}", wrong.len()));
    }
    if most_memory > budget as f64 {
        return Err(format!("the models held {most_memory} bytes, the budget is {budget}"));
    }
    Ok(())
}

/// Prints what the server counted: loads, and how long requests waited for them.
fn tell_waits(port: u16) -> TaskResult {
    let (_, metrics) = get(port, "/metrics")?;
    let total = |name: &str| -> f64 {
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        metrics.lines().filter(of_name).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let (loads, seconds) = (
        total("gristmill_model_load_duration_seconds_count"),
        total("gristmill_model_load_duration_seconds_sum"),
    );
    let (waits, waited) =
        (total("gristmill_model_load_wait_seconds_count"), total("gristmill_model_load_wait_seconds_sum"));
    let bound = wait_bound(&metrics, 0.95 * waits);
    eprintln!(
        "{loads:.0} loads in {seconds:.0} s; {waits:.0} requests waited for one, {:.2} s on average, 95 % of them at most {bound} s",
        waited / waits
    );
    Ok(())
}

/// The bound of the first bucket that holds so many waits, all models together.
fn wait_bound(metrics: &str, count: f64) -> String {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for line in metrics.lines().filter(|line| line.starts_with("gristmill_model_load_wait_seconds_bucket")) {
        let bound = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
        let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
        let (Some(bound), Some(value)) = (bound, value) else { continue };
        match buckets.iter_mut().find(|bucket| bucket.0 == bound) {
            Some(bucket) => bucket.1 += value,
            None => buckets.push((bound, value)),
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets.iter().find(|bucket| bucket.1 >= count).map_or("more".to_owned(), |bucket| bucket.0.to_string())
}

/// Loads and unloads a model so often, and sees that it takes no memory.
fn loads(server: &Server, cycles: usize) -> TaskResult {
    let act = |what: &str| {
        let (status, answer) = ask(server.port, &format!("/v1/models/{SMALLEST}/{what}"), &json!({}))?;
        if status == 200 { Ok(()) } else { Err(format!("{what}: {status} {answer}")) }
    };
    let mut memory = Vec::with_capacity(cycles);
    let began = Instant::now();
    for _ in 0..cycles {
        act("load")?;
        act("unload")?;
        wait_until_unloaded(server.port)?;
        memory.push(server.memory("RssAnon").ok_or("no memory figures")?);
        if memory.len().is_multiple_of(cycles.div_ceil(10)) {
            eprintln!("{} loads: {:.1} MB anonymous", memory.len(), memory[memory.len() - 1] / MEGABYTE);
        }
    }
    let tenth = (cycles / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (early, late) = (mean(&memory[tenth..2 * tenth]), mean(&memory[cycles - tenth..]));
    eprintln!(
        "{cycles} loads and unloads of {SMALLEST} in {:.0} s; anonymous memory {:.1} MB early, {:.1} MB late ({:+.2} %)",
        began.elapsed().as_secs_f64(),
        early / MEGABYTE,
        late / MEGABYTE,
        (late / early - 1.0) * 100.0
    );
    if late > early * (1.0 + MAX_GROWTH) {
        return Err(format!("memory grew by {:.1} MB", (late - early) / MEGABYTE));
    }
    Ok(())
}

/// An unload is answered when it has begun.
fn wait_until_unloaded(port: u16) -> TaskResult {
    for _ in 0..2_000 {
        let unloaded = |model: &Value| model["id"] == SMALLEST && model["state"] == "registered";
        if models(port)?.iter().any(unloaded) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("{SMALLEST} was not unloaded within ten seconds"))
}
