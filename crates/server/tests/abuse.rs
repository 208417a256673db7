//! What clients do that leave, dawdle or send far too much: they have what is theirs, and others do not notice.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use frame::{Answer, Letters, Running, chat_body, head, options, ready_speaking};
use serde_json::{Map, Value, json};
use server::{Keys, Options, TextPipeline};
use text::{EncodeError, Prompt, TokenLimit};

/// Letters as tokens; a text that begins with `z` takes its time: a millisecond for each `z`, and stops when it is told to, if
/// the next letter is no `y`.
#[derive(Default)]
struct Slow {
    begun: AtomicUsize,
    ended: AtomicUsize,
    stopped: AtomicUsize,
}

impl Slow {
    fn running(&self) -> usize {
        self.begun.load(SeqCst) - self.ended.load(SeqCst)
    }

    fn until(&self, what: &str, wanted: impl Fn(&Slow) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !wanted(self) {
            assert!(Instant::now() < end, "waited in vain for {what}: {} run", self.running());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl TextPipeline for Slow {
    fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        generate: bool,
        arguments: &Map<String, Value>,
    ) -> Result<Prompt, String> {
        Letters.render(messages, tools, generate, arguments)
    }

    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        Letters.encode_prompt(prompt)
    }

    fn encode(&self, text: &str, wrapped: bool) -> Result<Vec<u32>, String> {
        Letters.encode(text, wrapped)
    }

    fn encode_within(
        &self,
        text: &str,
        wrapped: bool,
        limit: &TokenLimit<'_>,
    ) -> Result<Vec<u32>, EncodeError> {
        let slow = text.bytes().take_while(|byte| *byte == b'z').count();
        let deaf = text.as_bytes().get(slow) == Some(&b'y');
        if slow > 0 {
            self.begun.fetch_add(1, SeqCst);
        }
        let mut stopped = false;
        for _ in 0..slow {
            std::thread::sleep(Duration::from_millis(1));
            stopped = !deaf && (limit.should_stop)();
            if stopped {
                break;
            }
        }
        if slow > 0 {
            self.stopped.fetch_add(usize::from(stopped), SeqCst);
            self.ended.fetch_add(1, SeqCst);
        }
        if stopped {
            return Err(EncodeError::Stopped { worked: 0 });
        }
        limit.check(Letters.encode(text, wrapped).map_err(EncodeError::Failed)?)
    }

    fn encode_prompt_within(&self, prompt: &Prompt, limit: &TokenLimit<'_>) -> Result<Vec<u32>, EncodeError> {
        self.encode_within(&prompt.text, false, limit)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        Letters.decode(tokens)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        Letters.bytes(token)
    }

    fn is_end(&self, token: u32) -> bool {
        Letters.is_end(token)
    }
}

fn slow(options: Options) -> (Running, Arc<Slow>) {
    let language = Arc::new(Slow::default());
    (ready_speaking(options, Duration::ZERO, language.clone()), language)
}

/// A text that takes so many milliseconds, in a body that is a large one.
fn large(milliseconds: usize) -> Value {
    json!({"model": "tiny", "prompt": format!("{} {}", "z".repeat(milliseconds), "-".repeat(70_000))})
}

fn rejected(server: &Running, reason: &str) -> u64 {
    let metrics = server.get("/metrics").body;
    let name = format!("gristmill_requests_rejected_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}in {metrics}")).parse().unwrap()
}

fn keys(text: &str) -> Options {
    let mut keys = Keys::default();
    keys.add_lines(text).unwrap();
    Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() }
}

fn post_as(server: &Running, key: &str, path: &str, body: &Value) -> Answer {
    let key = format!("Bearer {key}");
    let headers = [("content-type", "application/json"), ("authorization", key.as_str())];
    server.send("POST", path, &headers, body.to_string().as_bytes())
}

fn open_as(server: &Running, key: &str, path: &str, body: &Value) -> TcpStream {
    let key = format!("Bearer {key}");
    let headers = [("content-type", "application/json"), ("authorization", key.as_str())];
    let body = body.to_string();
    let mut stream = server.connect();
    stream.write_all(&head("POST", path, &headers, body.len())).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream
}

#[test]
fn abuse_a1_what_abandoned_requests_asked_for_is_not_done() {
    let (server, language) = slow(options());
    let paths = ["/tokenize", "/v1/completions", "/tokenize"];
    let open: Vec<TcpStream> = (0..40).map(|i| server.open(paths[i % 3], &large(3_000))).collect();
    language.until("the first to begin", |language| language.running() > 0);
    drop(open);
    language.until("all to stop", |language| language.running() == 0);
    // What waited for a slot was never begun.
    assert!(language.begun.load(SeqCst) < 10, "{} of 40 were begun", language.begun.load(SeqCst));
    assert!(language.stopped.load(SeqCst) > 0);
    let answer = server.post("/tokenize", &large(1));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(server.completion(json!({})).status, 200);
}

#[test]
fn abuse_a1_a_key_has_its_one_place_until_the_work_has_stopped() {
    let (server, language) = slow(keys("alpha concurrent=1\nbeta"));
    let deaf = json!({"model": "tiny", "prompt": format!("{}y", "z".repeat(700))});
    for path in ["/tokenize", "/v1/completions"] {
        let begun = language.begun.load(SeqCst);
        let open = open_as(&server, "alpha", path, &deaf);
        language.until("the work to begin", |language| language.begun.load(SeqCst) > begun);
        drop(open);
        let answer = post_as(&server, "alpha", "/tokenize", &json!({"prompt": "a"}));
        assert_eq!((answer.status, language.running()), (429, 1), "{path}: {answer:?}");
        assert_eq!(post_as(&server, "beta", "/tokenize", &json!({"prompt": "a"})).status, 200);
        language.until("the work to end", |language| language.running() == 0);
        let end = Instant::now() + Duration::from_secs(5);
        while post_as(&server, "alpha", "/tokenize", &json!({"prompt": "a"})).status != 200 {
            assert!(Instant::now() < end, "{path}: the place does not come back");
        }
    }
    assert!(rejected_as(&server, "key_limit") >= 2);
}

fn rejected_as(server: &Running, reason: &str) -> u64 {
    let answer = server.send("GET", "/metrics", &[("authorization", "Bearer beta")], b"");
    let name = format!("gristmill_requests_rejected_total{{reason=\"{reason}\"}} ");
    answer.body.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn abuse_a2_every_route_that_tokenizes_is_charged() {
    let message = json!([{"role": "user", "content": "hello".repeat(200)}]);
    let routes = [
        ("/tokenize", json!({"prompt": "a".repeat(900)})),
        ("/tokenize", json!({"messages": message})),
        ("/detokenize", json!({"tokens": vec![1; 900]})),
        ("/apply-template", json!({"messages": [{"role": "user", "content": "hello".repeat(800)}]})),
        ("/v1/messages/count_tokens", json!({"model": "tiny", "messages": message})),
        ("/v1/completions", json!({"model": "tiny", "prompt": "a".repeat(900)})),
    ];
    for (path, body) in routes {
        let server = ready_speaking(keys("alpha tokens=96"), Duration::ZERO, Arc::new(Letters));
        let first = post_as(&server, "alpha", path, &body);
        let wanted = if path == "/v1/completions" { 400 } else { 200 };
        assert_eq!(first.status, wanted, "{path}: {first:?}");
        // The record, and with it the charge, comes when the last holder has let go.
        let end = Instant::now() + Duration::from_secs(5);
        while post_as(&server, "alpha", "/tokenize", &json!({"prompt": ""})).status != 429 {
            assert!(Instant::now() < end, "{path} is not charged");
        }
    }
}

#[test]
fn abuse_a2_a_prompt_that_cannot_fit_is_refused_with_a_count() {
    let (server, _) = slow(options());
    let answer = server.completion(json!({"prompt": "a".repeat(500)}));
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (400, &json!("context_length_exceeded")), "{answer:?}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("at least 501 tokens") && message.contains("96"), "{message}");
    // Counting goes on past the context, up to a limit of its own.
    let counted = server.post("/tokenize", &json!({"prompt": "a".repeat(500)}));
    assert_eq!(counted.json()["count"], 501, "{counted:?}");
    let far = server.post("/tokenize", &json!({"prompt": "a".repeat(300_000)}));
    assert!(far.status == 400 && far.body.contains("262144"), "{}", &far.body[..far.body.len().min(300)]);
    assert_eq!(rejected(&server, "context"), 2);
    let zeros = format!("{{\"tokens\": [{}0]}}", "0,".repeat(500_000));
    let answer =
        server.send("POST", "/detokenize", &[("content-type", "application/json")], zeros.as_bytes());
    assert_eq!((answer.status, rejected(&server, "body_values")), (413, 1), "{answer:?}");
}

#[test]
fn abuse_a8_slow_bodies_do_not_shut_others_out() {
    let (server, _) = slow(options());
    let announced = 4 << 20;
    let mut slow: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    for stream in &mut slow {
        let json = [("content-type", "application/json")];
        stream.write_all(&head("POST", "/v1/completions", &json, announced)).unwrap();
        stream.write_all(b"{\"prompt\": \"").unwrap();
    }
    // Those that send most of what they announce hold nearly all of a client's memory for large bodies.
    let mut heavy: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
    for stream in &mut heavy {
        let json = [("content-type", "application/json")];
        stream.write_all(&head("POST", "/v1/completions", &json, announced)).unwrap();
        stream.write_all(&vec![b' '; 4_000_000]).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(server.chat(json!({})).status, 200);
        assert_eq!(server.completion(json!({})).status, 200);
    }
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = server.post("/tokenize", &json!({"prompt": "-".repeat(4_000_000)}));
        if answer.status == 429 {
            assert!(
                answer.header("retry-after").is_some() && answer.body.contains("this client"),
                "{answer:?}"
            );
            break;
        }
        assert!(Instant::now() < end, "one client holds more than its part: {answer:?}");
    }
    assert!(rejected(&server, "body_memory") >= 1);
    drop((slow, heavy));
}

#[test]
fn fault_02_a_short_request_does_not_wait_for_long_ones() {
    let (server, language) = slow(options());
    let long: Vec<TcpStream> = (0..6).map(|_| server.open("/tokenize", &large(5_000))).collect();
    language.until("one to begin", |language| language.running() > 0);
    for _ in 0..5 {
        let answer = server.chat(json!({"max_tokens": 1}));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!((language.running(), language.ended.load(SeqCst)), (1, 0), "one large body at a time");
    drop(long);
    language.until("it to stop", |language| language.running() == 0);
}

#[test]
fn abuse_a1_a_drain_does_not_wait_for_work_that_goes_on() {
    let (mut server, language) = slow(options());
    let body = chat_body(json!({"messages": [{"role": "user", "content": "hello"}]}));
    assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
    let _open = server.open("/tokenize", &large(60_000));
    language.until("it to begin", |language| language.running() > 0);
    let began = Instant::now();
    server.stop();
    // The frame's drain takes 5 s, and 2 more for the last bytes.
    assert_eq!(server.join(), 1, "the connection is cut");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((language.running(), language.stopped.load(SeqCst)), (0, 1));
}
