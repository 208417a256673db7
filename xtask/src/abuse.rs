//! Abusive clients, which disconnect, read slowly and send huge bodies, against a real server (`cargo xtask soak
//! --abuse`).
//!
//! Requirements: a request of one token is answered within a second, memory beyond the model's stays within a limit,
//! every refusal is counted, and SIGTERM ends the server within its drain time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Server;
use crate::http::{CHAT, ask, connect, get, head};
use crate::program::Program;
use crate::shell::TaskResult;

/// Upper bound of the latency of a request of one token under load, in milliseconds, on two otherwise idle cores.
const MAX_MS: f64 = 1_000.0;
/// Upper bound of the growth of memory after the first answers, in bytes.
const MAX_MEMORY: f64 = 500e6;
const DRAIN_S: u64 = 5;
/// A body that is just under the default limit of 4 MiB.
const DIGITS: usize = 4_000_000;
const ABANDONED: usize = 300;
const ABANDONED_WITHIN: Duration = Duration::from_secs(14);
/// Number of slow bodies: fits into the usual limit of file descriptors.
const SLOW_BODIES: usize = 60;
const SLOW_READERS: usize = 24;

struct Run {
    server: Server,
    wrong: Vec<String>,
    before: f64,
}

/// Runs all phases, which takes about a minute.
pub fn run(program: &Program) -> TaskResult {
    let drain = DRAIN_S.to_string();
    let server = Server::start(program, &["--drain-timeout", &drain])?;
    (0..3).try_for_each(|_| one_token(server.port).map(drop))?;
    let before = server.memory("VmHWM").ok_or("no memory figures")?;
    let mut run = Run { server, wrong: Vec::new(), before };
    run.phase("alone", |_, _| ());
    run.phase("beside six bodies of 4 MB", |port, until| {
        std::thread::scope(|scope| {
            for (path, body) in huge() {
                scope.spawn(move || {
                    while Instant::now() < until {
                        // The request may be refused in any way; only its effect on others is checked.
                        let _ = ask(port, path, &body);
                    }
                });
            }
        });
    });
    run.phase("beside 300 abandoned bodies of 4 MiB", |port, until| {
        let bodies = huge().map(|(path, body)| (path, body.to_string()));
        let pause = ABANDONED_WITHIN / ABANDONED as u32;
        for (path, body) in bodies.iter().cycle().take(ABANDONED) {
            let began = Instant::now();
            if let Ok(mut stream) = connect(port) {
                let _ = stream.write_all(head(path, body.len()).as_bytes());
                let _ = stream.write_all(body.as_bytes());
            }
            if began > until {
                return;
            }
            std::thread::sleep(pause.saturating_sub(began.elapsed()));
        }
    });
    run.phase("beside slow bodies", |port, until| {
        let mut open: Vec<TcpStream> = (0..SLOW_BODIES).filter_map(|_| connect(port).ok()).collect();
        for stream in &mut open {
            let _ = stream.write_all(head("/v1/completions", DIGITS).as_bytes());
        }
        while Instant::now() < until {
            open.iter_mut().for_each(|stream| _ = stream.write_all(b" "));
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    run.phase("beside slow readers", |port, until| {
        let body = json!({"prompt": "7".repeat(250_000), "return_token_strs": true}).to_string();
        let mut open: Vec<TcpStream> = (0..SLOW_READERS).filter_map(|_| connect(port).ok()).collect();
        for stream in &mut open {
            let _ = stream.write_all(head("/tokenize", body.len()).as_bytes());
            let _ = stream.write_all(body.as_bytes());
        }
        while Instant::now() < until {
            open.iter_mut().for_each(|stream| _ = stream.read(&mut [0; 16]));
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    run.refusals()?;
    run.end()
}

/// A body of 4 MB of digits for each endpoint that tokenizes.
fn huge() -> [(&'static str, Value); 6] {
    let digits = "1234567890".repeat(DIGITS / 10);
    let messages = json!([{"role": "user", "content": digits}]);
    [
        ("/tokenize", json!({"prompt": digits})),
        ("/v1/completions", json!({"prompt": digits, "max_tokens": 1})),
        (CHAT, json!({"messages": messages, "max_tokens": 1})),
        ("/v1/messages/count_tokens", json!({"model": "smollm2-135m-instruct", "messages": messages})),
        ("/tokenize", json!({"messages": messages})),
        ("/v1/completions", json!({"prompt": digits, "max_tokens": 1, "truncate_prompt_tokens": 8})),
    ]
}

/// Latency of a request of one token, in milliseconds.
fn one_token(port: u16) -> Result<f64, String> {
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1});
    let began = Instant::now();
    let (status, answer) = ask(port, CHAT, &body)?;
    match status {
        200 => Ok(began.elapsed().as_secs_f64() * 1e3),
        _ => Err(format!("a request of one token was answered with {status}: {answer}")),
    }
}

impl Run {
    /// Sends requests of one token, one after the other, while `others` runs until the end of the phase.
    fn phase(&mut self, name: &str, others: impl FnOnce(u16, Instant) + Send) {
        let port = self.server.port;
        let until = Instant::now() + ABANDONED_WITHIN;
        let mut times = Vec::new();
        std::thread::scope(|scope| {
            let others = scope.spawn(|| others(port, until));
            loop {
                match one_token(port) {
                    Ok(took) => times.push(took),
                    Err(what) => self.wrong.push(format!("{name}: {what}")),
                }
                if others.is_finished() && times.len() + self.wrong.len() > 20 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        times.sort_by(f64::total_cmp);
        let (middle, worst) = (times.get(times.len() / 2), times.last());
        let (middle, worst) = (middle.copied().unwrap_or(f64::NAN), worst.copied().unwrap_or(f64::NAN));
        let memory = self.server.memory("VmHWM").unwrap_or(f64::NAN) - self.before;
        eprintln!(
            "{name}: {} answers of one token, {middle:.0} ms (median), {worst:.0} ms (longest); \
             memory so far {:+.0} MB",
            times.len(),
            memory / 1e6
        );
        if worst > MAX_MS {
            self.wrong.push(format!("{name}: a request of one token took {worst:.0} ms of {MAX_MS:.0}"));
        }
        if memory > MAX_MEMORY {
            self.wrong.push(format!("{name}: memory grew by {:.0} MB", memory / 1e6));
        }
    }

    /// Checks that the metrics counted each kind of refusal.
    fn refusals(&mut self) -> TaskResult {
        let (_, metrics) = get(self.server.port, "/metrics")?;
        for line in metrics.lines().filter_map(|l| l.strip_prefix("gristmill_requests_rejected_total")) {
            if !line.ends_with(" 0") {
                eprintln!("refused: {line}");
            }
        }
        if metrics.contains("gristmill_requests_rejected_total{reason=\"context\"} 0") {
            self.wrong.push("no refusal for a prompt beyond the context was counted".into());
        }
        Ok(())
    }

    /// Sends SIGTERM while large bodies are processed, and checks that the server ends in time.
    fn end(mut self) -> TaskResult {
        let port = self.server.port;
        for (path, body) in huge() {
            std::thread::spawn(move || ask(port, path, &body));
        }
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let kill = Command::new("kill").args(["-TERM", &self.server.id().to_string()]).status();
        kill.map_err(|error| format!("cannot send SIGTERM: {error}"))?;
        while !self.server.has_ended() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = began.elapsed().as_secs_f64();
        eprintln!("ended {took:.1} s after SIGTERM; it may take {DRAIN_S} s, and 3 for the last bytes");
        if took > DRAIN_S as f64 + 3.0 {
            self.wrong.push(format!("the server took {took:.1} s to end"));
        }
        match self.wrong.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} things went wrong, the first: {first}", self.wrong.len())),
        }
    }
}
