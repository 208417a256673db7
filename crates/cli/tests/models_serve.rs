//! `gristmill serve` with the default model, from the start of the process to its end.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

struct Server {
    child: Child,
    said: BufReader<ChildStderr>,
    address: String,
}

impl Server {
    /// Of the default model.
    fn start() -> Server {
        Server::of(&["--drain-timeout", "300"])
    }

    fn of(args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gristmill"));
        command
            .args(["serve", "--port", "0", "--context", "1024"])
            .args(args)
            .env_remove("GRISTMILL_API_KEY");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned();
        Server { child, said, address }
    }

    /// Lines up to and with the one that has `word`.
    fn until(&mut self, word: &str) -> String {
        let mut all = String::new();
        while !all.contains(word) {
            let before = all.len();
            self.said.read_line(&mut all).unwrap();
            assert!(all.len() > before, "{word:?} was not said, only: {all}");
        }
        all
    }

    fn ask(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    /// The most bytes that were ever resident: what proc(5) calls `VmHWM`.
    #[cfg(target_os = "linux")]
    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn loads_answers_drains() {
    let mut server = Server::start();
    // Bound before it is ready; which of the two this meets depends on the machine.
    let early = all(server.ask("GET /health", ""));
    assert!(
        early.starts_with("HTTP/1.1 503") && early.contains("model_loading") || early.contains("200 OK"),
        "{early}"
    );
    let said = server.until("curl http://");
    assert!(said.contains("is ready after") && said.contains("/v1/chat/completions"), "{said}");
    assert!(all(server.ask("GET /health", "")).starts_with("HTTP/1.1 200"));
    let question = r#"{"messages":[{"role":"user","content":"What is the capital of France? Answer in one sentence."}],"temperature":0,"max_tokens":24"#;
    let answer = all(server.ask("POST /v1/chat/completions", &format!("{question}}}")));
    assert!(answer.contains("Paris"), "{answer}");

    // A stream that runs when the signal comes is told to its end.
    let long = r#"{"prompt":"One, two,","temperature":0,"max_tokens":200,"ignore_eos":true,"stream":true}"#;
    let mut stream = server.ask("POST /v1/completions", long);
    let mut first = [0; 512];
    let read = stream.read(&mut first).unwrap();
    assert!(read > 0);
    server.signal("-TERM");
    let rest = all(stream);
    assert!(rest.contains("\"finish_reason\":\"length\"") && rest.trim_end().ends_with('0'), "{rest}");
    assert!(rest.contains("data: [DONE]"));
    server.until("stopped");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start();
    server.until("curl http://");
    let endless = r#"{"prompt":"One, two,","max_tokens":1000,"ignore_eos":true,"stream":true}"#;
    let mut stream = server.ask("POST /v1/completions", endless);
    assert!(stream.read(&mut [0; 512]).unwrap() > 0);
    server.signal("-INT");
    server.until("again to end at once");
    server.signal("-INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

/// The file's pages are given back while its weights are packed, so that they are never there twice.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn weights_are_in_memory_once() {
    let model = "qwen2.5-coder-0.5b-instruct";
    let inspect =
        Command::new(env!("CARGO_BIN_EXE_gristmill")).args(["inspect", model, "--json"]).output().unwrap();
    let file =
        serde_json::from_slice::<serde_json::Value>(&inspect.stdout).unwrap()["file_bytes"].as_u64().unwrap();
    let mut server = Server::of(&[model, "--parallel", "1"]);
    server.until("curl http://");
    let peak = server.peak_memory();
    assert!(peak > file / 2 && peak < file * 3 / 2, "{peak} bytes of memory for a file of {file}");
}
