//! `gristmill bench serve` against a small server that answers when and how the test says.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use support::{failure, said, text};

/// Milliseconds to the first chunk, and between chunks.
const FIRST_MS: u64 = 80;
const GAP_MS: u64 = 20;

/// How the server behaves beside answering.
#[derive(Clone, Copy, Default)]
struct Manner {
    /// Every third completion is refused with 429.
    busy: bool,
    /// It counts tokens at /tokenize: one a word, two for words of more than seven letters.
    tokenizes: bool,
    /// It says how many tokens there were.
    counts: bool,
}

struct Fake {
    address: String,
    /// Path and body of each request.
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Fake {
    fn start(manner: Manner) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let log = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let log = log.clone();
                thread::spawn(move || while answer(stream.as_ref().unwrap(), manner, &log).is_some() {});
            }
        });
        Fake { address, asked }
    }

    fn bench(&self, args: &[&str]) -> Output {
        let home = tempfile::tempdir().unwrap();
        let mut command = support::gristmill(home.path());
        command.args(["bench", "serve", "--base-url", &self.address]).args(args).output().unwrap()
    }

    /// Bodies of requests for completions.
    fn completions(&self) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(path, _)| path.ends_with("/completions"))
            .map(|(_, body)| body.clone())
            .collect()
    }
}

/// Answers one request; none when the client has gone.
fn answer(mut stream: &TcpStream, manner: Manner, log: &Mutex<Vec<(String, Value)>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let number = {
        let mut log = log.lock().unwrap();
        log.push((path.clone(), body.clone()));
        log.iter().filter(|(path, _)| path.ends_with("/completions")).count()
    };
    match path.as_str() {
        "/v1/models" => plain(stream, "200 OK", &json!({ "data": [{ "id": "fake" }] })),
        "/tokenize" if manner.tokenizes => {
            let tokens: Vec<usize> = tokens(body["prompt"].as_str()?);
            plain(stream, "200 OK", &json!({ "tokens": tokens }))
        }
        path if path.ends_with("/completions") && manner.busy && number % 3 == 0 => {
            plain(stream, "429 Too Many Requests", &json!({ "error": { "message": "too many" } }))
        }
        path if path.ends_with("/completions") && body["stream"] == true => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
                .ok()?;
            completion(stream, &body, path.ends_with("/chat/completions"), manner)
        }
        path if path.ends_with("/completions") => {
            let prompt_tokens = 7 + tokens(body["messages"][0]["content"].as_str()?).len();
            plain(stream, "200 OK", &json!({ "usage": { "prompt_tokens": prompt_tokens } }))
        }
        _ => plain(stream, "404 Not Found", &json!({ "error": { "message": "no such path" } })),
    }
}

fn tokens(text: &str) -> Vec<usize> {
    text.split(' ').flat_map(|word| vec![1; 1 + usize::from(word.len() > 7)]).collect()
}

/// As many chunks as tokens were asked for, each a word, in time.
fn completion(mut stream: &TcpStream, body: &Value, chat: bool, manner: Manner) -> Option<()> {
    let wanted = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64()).unwrap();
    for token in 0..wanted {
        thread::sleep(Duration::from_millis(if token == 0 { FIRST_MS } else { GAP_MS }));
        let choice = if chat { json!({ "delta": { "content": "w " } }) } else { json!({ "text": "w " }) };
        write!(stream, ": ping\n\ndata: {}\n\n", json!({ "choices": [choice] })).ok()?;
    }
    if manner.counts {
        let prompt_tokens = body["prompt"].as_array().map_or(0, Vec::len);
        let usage = json!({
            "prompt_tokens": prompt_tokens, "completion_tokens": wanted,
            "prompt_tokens_details": { "cached_tokens": 2 },
        });
        // A trailing chunk that must not count into the latency.
        thread::sleep(Duration::from_millis(FIRST_MS));
        write!(stream, "data: {}\n\n", json!({ "choices": [], "usage": usage })).ok()?;
    }
    stream.write_all(b"data: [DONE]\n\n").ok()?;
    stream.shutdown(std::net::Shutdown::Both).ok()?;
    None
}

fn plain(mut stream: &TcpStream, status: &str, body: &Value) -> Option<()> {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).ok()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn within(value: &Value, low: f64, high: f64) {
    let value = value.as_f64().unwrap();
    assert!((low..high).contains(&value), "{value} is outside {low}..{high}");
}

#[test]
fn latencies_are_those_of_the_server() {
    let fake = Fake::start(Manner { counts: true, ..Manner::default() });
    let folder = tempfile::tempdir().unwrap();
    let (result, page) = (folder.path().join("new/result.json"), folder.path().join("page.html"));
    let args = [
        "--num-prompts",
        "6",
        "--max-concurrency",
        "2",
        "--input-len",
        "32",
        "--output-len",
        "5",
        "--num-warmups",
        "1",
        "--temperature",
        "0",
        "--goodput",
        "ttft:5000",
        "tpot:0.001",
        "--histogram",
        "--json",
    ];
    let files = [result.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let table = said(&fake.bench(&[&args[..], &files[..]].concat()));
    for line in [
        "Successful requests:                     6         ",
        "Maximum request concurrency:             2         ",
    ] {
        assert!(table.contains(line), "{table}");
    }
    assert!(
        table.contains("Request goodput (req/s):                 0.00")
            && table.contains("ITL (ms), 24 values")
    );
    let json = read(&result);
    assert_eq!((&json["completed"], &json["failed"]), (&6.into(), &0.into()));
    assert_eq!((&json["total_input_tokens"], &json["total_output_tokens"]), (&192.into(), &30.into()));
    assert_eq!((&json["total_cached_tokens"], &json["max_concurrent_requests"]), (&12.into(), &2.into()));
    // Lower bounds are the server's sleeps; upper ones leave room for a busy machine.
    within(&json["median_ttft_ms"], FIRST_MS as f64, FIRST_MS as f64 + 60.0);
    within(&json["median_itl_ms"], GAP_MS as f64 - 8.0, GAP_MS as f64 + 20.0);
    within(&json["median_tpot_ms"], GAP_MS as f64 - 8.0, GAP_MS as f64 + 20.0);
    // The chunk of usage, 80 ms later, is no token.
    within(&json["median_e2el_ms"], 160.0, 235.0);
    for (latencies, itls) in
        json["latencies"].as_array().unwrap().iter().zip(json["itls"].as_array().unwrap())
    {
        assert_eq!(itls.as_array().unwrap().len(), 4);
        assert!(latencies.as_f64().unwrap() > 0.15);
    }
    let bodies = fake.completions();
    assert_eq!(bodies.len(), 7);
    assert!(bodies.iter().all(|b| b["ignore_eos"] == true && b["temperature"] == 0 && b["model"] == "fake"));
    assert!(bodies.iter().all(|b| b["prompt"].as_array().unwrap().len() == 32 && b["max_tokens"] == 5));
    let warm = &bodies[0]["prompt"];
    assert!(bodies[1..].iter().all(|b| b["prompt"] != *warm), "a cache may know the prompt to warm up");
    assert!(std::fs::read_to_string(page).unwrap().contains("</svg>"));
}

#[test]
fn arrivals_keep_the_rate_and_failures_are_counted() {
    let fake = Fake::start(Manner { busy: true, counts: true, ..Manner::default() });
    let args =
        ["--num-prompts", "9", "--request-rate", "20", "--burstiness", "inf", "--output-len", "2", "--json"];
    let json: Value = serde_json::from_str(&said(&fake.bench(&args))).unwrap();
    assert_eq!((&json["completed"], &json["failed"]), (&6.into(), &3.into()));
    let starts: Vec<f64> =
        json["start_times"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
    assert!(starts.is_sorted() && starts[0] >= 0.05 && starts[8] >= 0.45, "{starts:?}");
    let errors: Vec<&str> = json["errors"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
    assert_eq!(errors.iter().filter(|e| **e == "429: too many").count(), 3);
    assert_eq!(json["total_output_tokens"], 12);
}

#[test]
fn several_models_share_the_requests() {
    let fake = Fake::start(Manner { counts: true, ..Manner::default() });
    let load =
        ["--num-prompts", "8", "--max-concurrency", "4", "--output-len", "2", "--num-warmups", "2", "--json"];
    let models = ["--model", "a=3,b"];
    let json: Value = serde_json::from_str(&said(&fake.bench(&[&load[..], &models].concat()))).unwrap();
    assert_eq!((&json["model_id"], &json["completed"]), (&"a,b".into(), &8.into()));
    let [a, b] = [&json["models"][0], &json["models"][1]];
    assert_eq!(
        (&a["model_id"], &a["completed"], &a["total_output_tokens"]),
        (&"a".into(), &6.into(), &12.into())
    );
    assert_eq!(
        (&b["model_id"], &b["completed"], &b["total_output_tokens"]),
        (&"b".into(), &2.into(), &4.into())
    );
    within(&b["median_ttft_ms"], FIRST_MS as f64, FIRST_MS as f64 + 60.0);
    let asked: Vec<Value> = fake.completions().iter().map(|body| body["model"].clone()).collect();
    assert_eq!(asked.iter().filter(|model| **model == "b").count(), 3, "2, and the second to warm up");
    let named: Vec<&Value> = json["model_ids"].as_array().unwrap().iter().collect();
    assert_eq!(named.iter().filter(|model| **model == "b").count(), 2);

    let again = ["--num-prompts", "2", "--output-len", "1", "--model", "a", "--model", "b"];
    let table = said(&fake.bench(&again));
    assert!(table.contains("Model:                                   all        a          b"), "{table}");
    assert!(table.contains("Successful requests:                     2          1          1"), "{table}");
    let twice = support::run(&["bench", "serve", "--model", "a,a=2"]);
    assert!(failure(&twice, 2).contains("--model a is there twice"));
}

#[test]
fn conversations_carry_their_answers() {
    let fake = Fake::start(Manner::default());
    let args = [
        "--endpoint",
        "chat",
        "--dataset-name",
        "multi-turn",
        "--num-prompts",
        "2",
        "--turns",
        "3",
        "--prefix-len",
        "40",
        "--input-len",
        "6",
        "--output-len",
        "2",
        "--json",
    ];
    let output = fake.bench(&args);
    let json: Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!((&json["completed"], &json["total_output_tokens"]), (&6.into(), &12.into()));
    // Words were checked by the server's usage, whose tokens for long words are two.
    assert!(text(&output.stderr).contains("words are"), "{}", text(&output.stderr));
    let bodies: Vec<Value> = fake.completions().into_iter().filter(|b| b["stream"] == true).collect();
    let roles = |body: &Value| -> Vec<String> {
        let said = body["messages"].as_array().unwrap();
        said.iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect()
    };
    let last = bodies.iter().find(|b| roles(b).len() == 6).unwrap();
    assert_eq!(roles(last), ["system", "user", "assistant", "user", "assistant", "user"]);
    assert_eq!(last["messages"][2]["content"], "w w ");
    let words = |m: &Value| m["content"].as_str().unwrap().split(' ').count();
    assert_eq!((words(&last["messages"][0]), words(&last["messages"][1])), (40, 6));
    let systems: Vec<&Value> = bodies.iter().map(|b| &b["messages"][0]["content"]).collect();
    assert!(systems.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn words_that_are_two_tokens_are_left_out() {
    let fake = Fake::start(Manner { tokenizes: true, counts: true, ..Manner::default() });
    let args = ["--prompt-as", "text", "--num-prompts", "3", "--input-len", "200", "--output-len", "1"];
    let output = fake.bench(&args);
    said(&output);
    assert!(text(&output.stderr).contains("the server's /tokenize"));
    for body in fake.completions() {
        let prompt = body["prompt"].as_str().unwrap();
        assert_eq!(tokens(prompt).len(), 200, "{prompt}");
    }
}

#[test]
fn questions_of_a_file() {
    let fake = Fake::start(Manner { tokenizes: true, ..Manner::default() });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chats.json");
    let say = |question: &str, answer: &str| json!({ "conversations": [{ "value": question }, { "value": answer }] });
    let chats = json!([say("one two three four", "a b c d e"), say("too short", "a b c d e f")]);
    std::fs::write(&file, chats.to_string()).unwrap();
    let args = ["--dataset-name", "sharegpt", "--num-prompts", "2", "--dataset-path", file.to_str().unwrap()];
    let output = fake.bench(&args);
    said(&output);
    assert!(text(&output.stderr).contains("asked again"), "{}", text(&output.stderr));
    let bodies = fake.completions();
    assert!(bodies.iter().all(|b| b["prompt"] == "one two three four" && b["max_tokens"] == 5));
    assert!(bodies.iter().all(|b| b.get("ignore_eos").is_none()));
}

#[test]
fn a_server_that_is_not_there_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let mut command = support::gristmill(home.path());
    let output = command.args(["bench", "serve", "--base-url", "http://127.0.0.1:1"]).output().unwrap();
    let line = failure(&output, 1);
    assert!(line.contains("http://127.0.0.1:1") && line.contains("refused"), "{line}");
}

#[test]
fn flags_that_make_no_sense() {
    for (args, word) in [
        (&["--request-rate", "0"][..], "--request-rate 0"),
        (&["--goodput", "itl:5"], "itl"),
        (&["--metric-percentiles", "101"], "101"),
        (&["--num-prompts", "0"], "--num-prompts 0"),
        (&["--range-ratio", "1"], "--range-ratio 1"),
        (&["--endpoint", "chat", "--prompt-as", "tokens"], "completions"),
        (&["--base-url", "localhost:8080"], "http://"),
        (&["--max-concurrency", "0"], "--max-concurrency 0"),
    ] {
        let output = support::run(&[&["bench", "serve"], args].concat());
        let line = failure(&output, 2);
        assert!(line.contains(word), "{line}");
    }
}
