//! `gristmill bench serve` against `gristmill serve` with a real model: what one counts, the other counts.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

struct Server {
    child: Child,
    _said: BufReader<ChildStderr>,
    address: String,
}

impl Server {
    fn start() -> Server {
        let mut command = support::installed();
        command.args(["serve", "smollm2-135m-instruct", "--port", "0", "--context", "1024"]);
        command.env_remove("GRISTMILL_API_KEY").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned();
        Server { child, _said: said, address }
    }

    fn bench(&self, args: &[&str]) -> Value {
        let url = format!("http://{}", self.address);
        let mut command = support::installed();
        let output =
            command.args(["bench", "serve", "--base-url", &url, "--json"]).args(args).output().unwrap();
        support::json(&output)
    }

    /// A counter of `/metrics`, summed over its labels.
    fn counter(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn both_sides_count_the_same() {
    let server = Server::start();
    // Waits until the model is loaded, by a request that only the server counts.
    server.bench(&["--ready-timeout", "120", "--num-prompts", "1", "--output-len", "1"]);
    let (prompts, answers) = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total");
    let before = (server.counter(prompts), server.counter(answers));
    let ids = ["--num-prompts", "6", "--max-concurrency", "2", "--input-len", "48", "--output-len", "16"];
    let json = server.bench(&ids);
    assert_eq!((&json["completed"], &json["failed"]), (&6.into(), &0.into()), "{}", json["errors"]);
    assert_eq!((&json["total_input_tokens"], &json["total_output_tokens"]), (&288.into(), &96.into()));
    let after = (server.counter(prompts), server.counter(answers));
    assert_eq!((after.0 - before.0, after.1 - before.1), (288.0, 96.0));
    let (ttft, e2el) = (json["mean_ttft_ms"].as_f64().unwrap(), json["mean_e2el_ms"].as_f64().unwrap());
    assert!(ttft > 0.0 && e2el > ttft, "{ttft} {e2el}");

    // Text whose length another tokenizer made exact: the server finds the same, and a fixed template around it.
    let chat = ["--endpoint", "chat", "--tokenizer", "smollm2-135m-instruct", "--num-prompts", "3"];
    let json = server.bench(&[&chat[..], &["--input-len", "64", "--output-len", "4"]].concat());
    let lengths: Vec<u64> =
        json["input_lens"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]) && lengths[0] >= 64, "{lengths:?}");

    let turns = ["--endpoint", "chat", "--dataset-name", "multi-turn", "--num-prompts", "2", "--turns", "3"];
    let json = server
        .bench(&[&turns[..], &["--prefix-len", "100", "--input-len", "16", "--output-len", "8"]].concat());
    assert_eq!(
        (&json["completed"], &json["total_output_tokens"]),
        (&6.into(), &48.into()),
        "{}",
        json["errors"]
    );
}
