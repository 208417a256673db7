//! Measurements of Gristmill alone on the 4B shape, and its start-up time compared with llama-server.

use super::llama::SERVER;
use super::start::{CONTEXT, Starts, serve};
use super::{Paths, bench, median, number, parse};
use crate::client::Server;
use crate::http::ask;
use crate::shell::output;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MODEL: &str = "qwen3-4b:q4_k_m";

/// Context length of the decode test at depth, in tokens, which is compared with no context.
const DEPTH: &str = "8192";

/// Letters of the prompt of the memory test; with a vocabulary of bytes each is a token.
const LETTERS: usize = 1900;
/// Tokens of the answer in the memory test.
const ANSWER: usize = 64;

/// A line of the table.
struct Row {
    what: String,
    rounds: Vec<f64>,
    decimals: usize,
}

impl Row {
    fn of(what: &str, rounds: impl IntoIterator<Item = f64>, decimals: usize) -> Row {
        Row { what: what.to_owned(), rounds: rounds.into_iter().collect(), decimals }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |number: &f64| format!("{number:.*}", self.decimals);
        let rounds: Vec<String> = self.rounds.iter().map(text).collect();
        let middle = text(&median(&mut self.rounds.clone()));
        write!(f, "| {} | **{middle}** | {} |", self.what, rounds.join(", "))
    }
}

/// Measures the table, round by round.
pub fn table(paths: &Paths, llama: &Path, rounds: usize, threads: &str) -> Result<String, String> {
    let file = paths.file(MODEL)?;
    let ours = &paths.ours;
    let mut rows = published(ours, &file, rounds, threads)?;
    for kept in ["bf16", "q8_0"] {
        rows.extend(depth(ours, &file, rounds, threads, kept)?);
    }
    if llama.join(SERVER).exists() {
        let starts = Starts { file: &file, ours, llama, threads, pause: Duration::ZERO };
        rows.extend(start(&starts.measure(rounds)?));
    } else {
        eprintln!("start: left out, as {} has no {SERVER}", llama.display());
    }
    rows.push(memory(ours, &file, rounds)?);
    let mut table = String::from("| Qwen3 4B in Q4_K_M, by itself | median | each round |\n|---|---|---|");
    rows.iter().for_each(|row| table.push_str(&format!("\n{row}")));
    Ok(table)
}

/// Four concurrent requests, and their decode steps without prompts.
fn published(ours: &Path, file: &Path, rounds: usize, threads: &str) -> Result<Vec<Row>, String> {
    let (mut out, mut first, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("the published workload: round {round} of {rounds}");
        let tests = bench(ours, file, threads, &["-p", "128", "-n", "128", "-b", "4", "-r", "1"])?;
        let mixed = test(&tests, |test| test["n_prompt"] == 128)?;
        out.push(number(mixed, "output_ts")?);
        first.push(number(mixed, "ttft_ms")? / 1e3);
        steps.push(number(test(&tests, |test| test["n_prompt"] == 0)?, "avg_ts")?);
    }
    Ok(vec![
        Row::of("four requests at once, 128 tokens in and 128 out: tokens out a second", out, 1),
        Row::of("… seconds to the first token", first, 2),
        Row::of("… 128 steps of four streams without their prompts, tokens a second", steps, 1),
    ])
}

/// Decode at a long context compared with none, with the KV cache in the format `kept`.
fn depth(ours: &Path, file: &Path, rounds: usize, threads: &str, kept: &str) -> Result<Vec<Row>, String> {
    let (mut shallow, mut deep) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("depth {DEPTH} in {kept}: round {round} of {rounds}");
        let depths = format!("0,{DEPTH}");
        let flags = ["-p", "0", "-n", "8", "-b", "1", "-r", "2", "-d", &depths, "--kv-dtype", kept];
        let tests = bench(ours, file, threads, &flags)?;
        shallow.push(number(test(&tests, |test| test["n_depth"] == 0)?, "avg_ts")?);
        deep.push(number(test(&tests, |test| test["n_depth"] != 0)?, "avg_ts")?);
    }
    let times: Vec<f64> = shallow.iter().zip(&deep).map(|(shallow, deep)| shallow / deep).collect();
    Ok(vec![
        Row::of(&format!("one stream, KV cache in {kept}: tokens a second at depth 0"), shallow, 1),
        Row::of(&format!("… at depth {DEPTH}"), deep, 1),
        Row::of("… time of a token there, by that at depth 0", times, 2),
    ])
}

fn start(times: &[[f64; 3]]) -> Vec<Row> {
    let seconds = |at: usize| times.iter().map(move |times| times[at]);
    let share = |at: usize| times.iter().map(move |times| times[at] / times[1]);
    vec![
        Row::of("ready to serve, seconds", seconds(0), 2),
        Row::of("… llama-server", seconds(1), 2),
        Row::of("… with `--packed-cache map`", seconds(2), 2),
        Row::of("… Gristmill by llama-server's time", share(0), 2),
        Row::of("… with `--packed-cache map`, by llama-server's time", share(2), 2),
    ]
}

/// Peak memory of a server after an answer.
fn memory(ours: &Path, file: &Path, rounds: usize) -> Result<Row, String> {
    let inspect =
        parse(&output(Command::new(ours).arg("inspect").arg(file).args(["--json", "--context", CONTEXT]))?)?;
    let held = number(&inspect, "file_bytes")? + number(&inspect["memory"], "kv_bytes")?;
    let letters = "a".repeat(LETTERS);
    let body = json!({
        "prompt": letters,
        "max_tokens": ANSWER,
        "ignore_eos": true,
        "temperature": 0,
    });
    let mut peaks = Vec::new();
    for round in 1..=rounds {
        eprintln!("memory: round {round} of {rounds}");
        let (server, _) = Server::with(&|port| serve(ours, file, port))?;
        let (status, answer) = ask(server.port, "/v1/completions", &body)?;
        let tokens = &parse(&answer)?["usage"];
        if status != 200
            || tokens["prompt_tokens"].as_u64() < Some(LETTERS as u64)
            || tokens["completion_tokens"] != ANSWER
        {
            return Err(format!("a prompt of {LETTERS} letters was answered with {status}: {answer:.200}"));
        }
        peaks.push(server.memory("VmHWM").ok_or("the server's memory cannot be read")? / 1e9);
    }
    let limit = (1.1 * held + 1e8) / 1e9;
    let what = format!(
        "peak resident memory, GB, after a prompt of {LETTERS} tokens and {ANSWER} of answer; 1.1 times file and KV cache, \
         and 0.1, is {limit:.2}"
    );
    Ok(Row::of(&what, peaks, 2))
}

fn test(tests: &[Value], is: impl Fn(&Value) -> bool) -> Result<&Value, String> {
    tests.iter().find(|test| is(test)).ok_or_else(|| "gristmill bench left a test out".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_rounds_in_their_order() {
        let row = Row::of("seconds", [2.0, 1.25, 3.5], 1);
        assert_eq!(row.to_string(), "| seconds | **2.0** | 2.0, 1.2, 3.5 |");
    }

    #[test]
    fn starts_are_compared_within_a_round() {
        let rows = start(&[[1.0, 2.0, 0.5], [3.0, 3.0, 1.5]]);
        assert_eq!(rows[3].rounds, [0.5, 1.0]);
        assert_eq!(rows[4].rounds, [0.25, 0.5]);
    }
}
