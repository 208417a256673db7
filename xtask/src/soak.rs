//! Soak test: a server at twice its capacity, with clients that disconnect, read slowly and send invalid requests.
//!
//! Requirements: no 5xx, each whole answer equals the one of the same request alone, and anonymous memory does not
//! grow.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Server;
use crate::http::{CHAT, ask, connect, head, parse, send};
use crate::program::Program;
use crate::shell::TaskResult;

/// Help text of `cargo xtask soak`.
pub const HELP: &str = "\
usage: cargo xtask soak [--minutes N | --abuse | --models] [--binary PATH] [--seed N]

Serves the default model with places for 12 requests and sends it the traffic of 24 clients for N minutes (default 30):
whole and streamed answers, clients that leave, that read slowly, that send half a body or nonsense. Fails on any 5xx, on any
answer that differs from the one its request got alone, and if anonymous memory grows by more than 2 %.

--abuse: bodies of 4 MB, abandoned, slow and mixed, and slow readers, for a minute and a half. Fails if a request of one token beside
them takes more than a second, if memory grows by more than 500 MB, or if SIGTERM does not end the server in its drain time.

--models: three models where there is room for two, 2,000 mixed requests (--requests N), 1,000 loads and unloads (--cycles N), and one
model's tokens while another one reads 4,096 tokens. Fails on an answer that differs from the one its request got alone, if models
hold more than their budget, if memory grows by more than 2 %, or if a gap is longer than twice --max-stall-ms.
";

const PARALLEL: usize = 4;
const QUEUED: usize = 8;
/// Twice the server's capacity.
const CLIENTS: usize = 2 * (PARALLEL + QUEUED);
const REFERENCES: usize = 48;
const BODY_LIMIT: usize = 64 << 10;
/// Share of the run during which memory may still grow into what was reserved.
const WARM_UP: f64 = 0.25;
const MAX_GROWTH: f64 = 0.02;

struct Options {
    minutes: f64,
    abuse: bool,
    models: bool,
    requests: usize,
    cycles: usize,
    binary: Option<String>,
    seed: u64,
}

/// A request, with its answer on an idle server.
struct Reference {
    body: Value,
    text: String,
}

/// Counts of outcomes, by kind.
#[derive(Default)]
struct Tally {
    whole: AtomicU64,
    streamed: AtomicU64,
    refused: AtomicU64,
    left: AtomicU64,
    slow: AtomicU64,
    nonsense: AtomicU64,
    wrong: Mutex<Vec<String>>,
    /// Latencies of refusals (429), in milliseconds.
    refusals_ms: Mutex<Vec<f64>>,
}

/// Runs the soak test, or one of its variants.
pub fn run(args: &[&str]) -> TaskResult {
    let options = options(args)?;
    let program = options.binary.as_deref().map_or_else(Program::alone, |binary| Ok(Program::at(binary)))?;
    if options.abuse {
        return crate::abuse::run(&program);
    }
    if options.models {
        return crate::soak_models::run(&program, options.requests, options.cycles, options.seed);
    }
    let parallel = PARALLEL.to_string();
    let queued = QUEUED.to_string();
    let body = BODY_LIMIT.to_string();
    let flags = ["--parallel", &parallel, "--max-queued", &queued, "--max-body", &body, "--context", "1024"];
    let server = Server::start(&program, &flags)?;
    let references = (0..REFERENCES).map(|i| reference(server.port, i)).collect::<Result<Vec<_>, _>>()?;
    eprintln!("{REFERENCES} requests answered alone; {CLIENTS} clients for {} minutes", options.minutes);
    let tally = Tally::default();
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(options.minutes * 60.0);
    let mut memory: Vec<(f64, f64)> = Vec::new();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS as u64 {
            let (references, tally, port) = (&references, &tally, server.port);
            let seed = options.seed + client;
            scope.spawn(move || drive(port, references, tally, end, seed));
        }
        while Instant::now() < end {
            std::thread::sleep(Duration::from_secs(5).min(end - Instant::now().min(end)));
            if let Some(bytes) = server.memory("RssAnon") {
                memory.push((began.elapsed().as_secs_f64(), bytes / f64::from(1 << 20)));
            }
        }
    });
    report(&tally, &memory, began.elapsed().as_secs_f64())
}

fn options(args: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        minutes: 30.0,
        abuse: false,
        models: false,
        requests: 2_000,
        cycles: 1_000,
        binary: None,
        seed: 1,
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let switch = match *word {
            "--abuse" => Some(&mut options.abuse),
            "--models" => Some(&mut options.models),
            _ => None,
        };
        if let Some(switch) = switch {
            *switch = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("`{word}` needs a value\n{HELP}"))?;
        let number = || value.parse::<f64>().map_err(|_| format!("`{word}` is `{value}`, expected a number"));
        match *word {
            "--minutes" => options.minutes = number()?,
            "--seed" => options.seed = number()? as u64,
            "--requests" => options.requests = number()? as usize,
            // A tenth of them is compared with another tenth.
            "--cycles" => options.cycles = number()?.max(10.0) as usize,
            "--binary" => options.binary = Some((*value).to_owned()),
            _ => return Err(format!("`{word}` is no flag of `cargo xtask soak`\n{HELP}")),
        }
    }
    Ok(options)
}

fn reference(port: u16, i: usize) -> Result<Reference, String> {
    let topics =
        ["a mill", "the sea", "bread", "a river in spring", "wheels", "winter", "an old map", "rain"];
    let system = "You are a miller who answers briefly and always speaks of the mill by the river where flour is ground.";
    let mut messages = vec![json!({"role": "user", "content": format!("Tell me about {}.", topics[i % 8])})];
    if !i.is_multiple_of(3) {
        messages.insert(0, json!({"role": "system", "content": system}));
    }
    let temperature = [0.0, 0.7, 1.2][i % 3];
    let body = json!({
        "messages": messages,
        "max_tokens": 4 + i % 40,
        "seed": i,
        "temperature": temperature,
        "ignore_eos": i.is_multiple_of(5),
    });
    let (status, answer) = ask(port, CHAT, &body)?;
    let text = said(&answer).ok_or_else(|| format!("request {i} alone: {status} {answer}"))?;
    Ok(Reference { body, text })
}

fn said(answer: &str) -> Option<String> {
    let json: Value = serde_json::from_str(answer).ok()?;
    json["choices"][0]["message"]["content"].as_str().map(str::to_owned)
}

/// xorshift64*: the same seed repeats a run, except for timing.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// Sends the requests of one client until `end`.
fn drive(port: u16, references: &[Reference], tally: &Tally, end: Instant, seed: u64) {
    let mut rng = Rng::new(seed);
    while Instant::now() < end {
        let reference = &references[rng.below(references.len() as u64) as usize];
        let outcome = match rng.below(100) {
            0..45 => whole(port, reference, tally),
            45..65 => streamed(port, reference, tally, None),
            65..75 => streamed(port, reference, tally, Some(&mut rng)),
            75..83 => leave(port, reference, tally, &mut rng),
            83..88 => half_a_body(port, reference, tally),
            _ => nonsense(port, tally, &mut rng),
        };
        if let Err(what) = outcome {
            let mut wrong = tally.wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // The first errors are enough.
            if wrong.len() < 20 {
                wrong.push(what);
            }
        }
        std::thread::sleep(Duration::from_millis(rng.below(30)));
    }
}

fn whole(port: u16, reference: &Reference, tally: &Tally) -> TaskResult {
    let began = Instant::now();
    let (status, answer) = ask(port, CHAT, &reference.body)?;
    match status {
        200 if said(&answer).as_deref() == Some(&reference.text) => _ = tally.whole.fetch_add(1, Relaxed),
        200 => return Err(format!("{} was answered {answer}, alone {:?}", reference.body, reference.text)),
        429 => refused(tally, began),
        _ => return Err(format!("{} was answered with {status}: {answer}", reference.body)),
    }
    Ok(())
}

fn refused(tally: &Tally, began: Instant) {
    tally.refused.fetch_add(1, Relaxed);
    let took = began.elapsed().as_secs_f64() * 1e3;
    tally.refusals_ms.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(took);
    std::thread::sleep(Duration::from_millis(100));
}

/// Streams an answer; with `dawdle`, slowly and perhaps not to the end.
fn streamed(port: u16, reference: &Reference, tally: &Tally, dawdle: Option<&mut Rng>) -> TaskResult {
    let mut body = reference.body.clone();
    body["stream"] = true.into();
    let mut stream = send(port, CHAT, &body)?;
    let mut bytes = Vec::new();
    if let Some(rng) = dawdle {
        tally.slow.fetch_add(1, Relaxed);
        let some = rng.below(2_000) as usize;
        let mut one = [0; 16];
        while bytes.len() < some {
            match stream.read(&mut one) {
                Ok(0) | Err(_) => break,
                Ok(n) => bytes.extend_from_slice(&one[..n]),
            }
            std::thread::sleep(Duration::from_millis(rng.below(20)));
        }
        if rng.below(2) == 0 {
            return Ok(());
        }
    }
    stream.read_to_end(&mut bytes).map_err(|e| format!("a stream broke: {e}"))?;
    let (status, text) = parse(&bytes)?;
    match status {
        429 => {
            tally.refused.fetch_add(1, Relaxed);
            return Ok(());
        }
        200 => {}
        _ => return Err(format!("a stream was answered with {status}: {text}")),
    }
    let mut all = String::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        if event.get("error").is_some() {
            return Err(format!("an error in a stream: {event}"));
        }
        all.push_str(event["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    if !text.contains("data: [DONE]") || all != reference.text {
        return Err(format!("{body} was streamed {all:?}, alone {:?}", reference.text));
    }
    tally.streamed.fetch_add(1, Relaxed);
    Ok(())
}

/// Sends a request and disconnects.
fn leave(port: u16, reference: &Reference, tally: &Tally, rng: &mut Rng) -> TaskResult {
    let stream = send(port, CHAT, &reference.body)?;
    std::thread::sleep(Duration::from_millis(rng.below(300)));
    drop(stream);
    tally.left.fetch_add(1, Relaxed);
    Ok(())
}

fn half_a_body(port: u16, reference: &Reference, tally: &Tally) -> TaskResult {
    let body = reference.body.to_string();
    let mut stream = connect(port)?;
    let _ = stream.write_all(head(CHAT, body.len()).as_bytes());
    let _ = stream.write_all(&body.as_bytes()[..body.len() / 2]);
    tally.left.fetch_add(1, Relaxed);
    Ok(())
}

/// Sends an invalid request.
fn nonsense(port: u16, tally: &Tally, rng: &mut Rng) -> TaskResult {
    let body = match rng.below(6) {
        0 => "{".repeat(1 + rng.below(5_000) as usize),
        1 => "x".repeat(BODY_LIMIT + 1 + rng.below(10_000) as usize),
        2 => r#"{"messages": [{"role": "user", "content": "a"}], "temperature": 9}"#.to_owned(),
        3 => json!({"messages": [{"role": "user", "content": "word ".repeat(5_000)}]}).to_string(),
        4 => r#"{"messages": []}"#.to_owned(),
        _ => (0..rng.below(200)).map(|_| char::from(32 + rng.below(95) as u8)).collect(),
    };
    let mut stream = connect(port)?;
    // The server may answer and close before it has read the whole body.
    let _ = stream.write_all(head(CHAT, body.len()).as_bytes());
    let _ = stream.write_all(body.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let (status, text) = parse(&bytes)?;
    tally.nonsense.fetch_add(1, Relaxed);
    if matches!(status, 400 | 413 | 429) { Ok(()) } else { Err(format!("nonsense got {status}: {text}")) }
}

fn report(tally: &Tally, memory: &[(f64, f64)], seconds: f64) -> TaskResult {
    let count = |n: &AtomicU64| n.load(Relaxed);
    eprintln!(
        "{} whole and {} streamed answers as alone, {} refused for now, {} clients left, {} dawdled, {} sent nonsense",
        count(&tally.whole),
        count(&tally.streamed),
        count(&tally.refused),
        count(&tally.left),
        count(&tally.slow),
        count(&tally.nonsense)
    );
    let mut refusals = tally.refusals_ms.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    refusals.sort_by(f64::total_cmp);
    if let Some(last) = refusals.len().checked_sub(1) {
        eprintln!(
            "429 after {:.1} ms (median), {:.1} ms (99 %)",
            refusals[last / 2],
            refusals[last * 99 / 100]
        );
    }
    let mean = |from: f64, to: f64| {
        let part: Vec<f64> =
            memory.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, mib)| *mib).collect();
        part.iter().sum::<f64>() / part.len().max(1) as f64
    };
    let (early, late) = (mean(WARM_UP * seconds, (WARM_UP + 0.15) * seconds), mean(0.85 * seconds, seconds));
    let growth = late / early - 1.0;
    eprintln!("anonymous memory {early:.1} MiB early, {late:.1} MiB late: {:+.2} %", growth * 100.0);
    let wrong = tally.wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !wrong.is_empty() {
        return Err(format!("{} things went wrong, the first: {}", wrong.len(), wrong.join("\n")));
    }
    if count(&tally.whole) + count(&tally.streamed) == 0 || memory.len() < 4 {
        return Err("the run was too short to tell anything".into());
    }
    if growth > MAX_GROWTH {
        return Err(format!(
            "memory grew by {:.1} %, the limit is {:.0} %",
            growth * 100.0,
            MAX_GROWTH * 100.0
        ));
    }
    Ok(())
}
