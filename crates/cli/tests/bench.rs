//! `gristmill bench` as a process, on a shape of a few megabytes.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gristmill"));
    command.env_clear().env("GRISTMILL_HOME", home.path()).arg("bench").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The rows of a run that must succeed.
fn rows(args: &[&str]) -> Vec<Value> {
    let output = bench(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_the_columns_of_llama_bench_and_the_distance_from_the_limits() {
    let rows = rows(&["--shape", "tiny:q8_0", "-p", "40", "-n", "4", "-r", "2", "-t", "1", "-o", "json"]);
    let names: Vec<&str> = rows.iter().map(|row| row["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["pp40", "tg4"]);
    for row in &rows {
        assert_eq!((&row["model"], &row["model_type"]), (&"tiny:q8_0".into(), &"qwen3 Q8_0".into()));
        assert_eq!((&row["model_n_params"], &row["n_threads"]), (&1_705_472.into(), &1.into()));
        assert_eq!(
            (&row["backends"], &row["n_depth"], &row["n_streams"]),
            (&"CPU".into(), &0.into(), &1.into())
        );
        assert_eq!(row["samples_ts"].as_array().unwrap().len(), 2);
        for positive in
            ["avg_ns", "avg_ts", "bytes_per_token", "ceiling_gb_per_s", "peak_g_multiply_adds_per_s"]
        {
            assert!(row[positive].as_f64().is_some_and(|value| value > 0.0), "{positive}: {row}");
        }
        for share in ["read_share", "peak_share"] {
            assert!(row[share].as_f64().is_some_and(|share| share > 0.0), "{share}: {row}");
        }
        let tokens = row["n_prompt"].as_f64().unwrap() + row["n_gen"].as_f64().unwrap();
        let mean = |name: &str| row[name][0].as_f64().unwrap() / 2.0 + row[name][1].as_f64().unwrap() / 2.0;
        assert!(
            (row["samples_ts"][0].as_f64().unwrap() * row["samples_ns"][0].as_f64().unwrap() / 1e9 / tokens
                - 1.0)
                .abs()
                < 1e-6
        );
        assert!((row["avg_ts"].as_f64().unwrap() / mean("samples_ts") - 1.0).abs() < 1e-6);
    }
    assert!(rows[0]["ttft_ms"].as_f64().is_some_and(|ms| ms > 0.0) && rows[1]["ttft_ms"].is_null());
    assert!(rows[0]["output_ts"].is_null() && rows[1]["output_ts"] == rows[1]["avg_ts"]);
    // A prompt of 40 reads the weights once for all of its tokens.
    let bytes = |row: usize| rows[row]["bytes_per_token"].as_f64().unwrap();
    assert!(bytes(1) / bytes(0) > 20.0, "{} {}", bytes(1), bytes(0));
}

#[test]
fn streams_decode_together_and_mix_prompts_with_generation() {
    let args = ["--shape", "tiny", "-p", "70", "-n", "3", "-b", "1,3", "-d", "33", "-r", "1", "--json"];
    let rows = rows(&args);
    let names: Vec<&str> = rows.iter().map(|row| row["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["pp70 @ d33", "tg3 @ d33", "tg3 x3 @ d33", "pp70+tg3 x3 @ d33"]);
    let bytes = |row: usize| rows[row]["bytes_per_token"].as_f64().unwrap();
    assert!(bytes(1) / bytes(2) > 2.0, "three streams read the weights together");
    let mixed = &rows[3];
    let share = mixed["output_ts"].as_f64().unwrap() / mixed["avg_ts"].as_f64().unwrap();
    assert!((share - 3.0 / 73.0).abs() < 1e-9 && mixed["ttft_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_file_of_the_shape_measures_as_the_shape_and_tables_are_printed_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let path = path.to_str().unwrap();
    let written = bench(&["--shape", "tiny:q4_0", "--write", path]);
    assert!(written.status.success() && written.stdout.is_empty(), "{}", text(&written.stderr));
    assert!(text(&written.stderr).contains("tiny:q4_0"));
    let args = |output| [path, "--shape", "tiny:q4_0", "-p", "0", "-n", "2", "-r", "1", "-o", output];
    let table = text(&bench(&args("md")).stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("| model ") && lines[1].starts_with("| ---"), "{table}");
    assert!(lines[2].contains(path) && lines[3].contains("tiny:q4_0 "), "{table}");
    let csv = text(&bench(&args("csv")).stdout);
    let cells: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(cells.len() == 3 && cells.iter().all(|&count| count == cells[0]), "{csv}");
    assert!(csv.starts_with("build_commit,cpu_info,backends,model_filename,model_type,model_size,"), "{csv}");
    let size = |line: usize| csv.lines().nth(line).unwrap().split(',').nth(5).unwrap().to_owned();
    assert_eq!(size(1), size(2));
}

#[test]
fn kernels_are_measured_alone() {
    let rows = rows(&["kernels", "--formats", "q4_k,bf16", "--isa", "scalar", "--json"]);
    assert_eq!(rows.len(), 14);
    assert_eq!((&rows[0]["format"], &rows[0]["rows"]), (&"Q4_K".into(), &1.into()));
    assert!(rows.iter().all(|row| row["g_multiply_adds_per_s"].as_f64().unwrap() > 0.0));
}

#[test]
fn what_cannot_be_measured_is_one_line_and_an_exit_code() {
    for (args, code, words) in [
        (&["--shape", "qwen9"][..], 2, &["qwen9", "llama3.2-1b", "phi-4-mini"][..]),
        (&["--shape", "tiny:q9"], 2, &["q9", "q4_k_m", "bf16"]),
        (&[], 2, &["MODEL", "--shape"]),
        (&["--shape", "tiny", "-p", "0", "-n", "0"], 2, &["nothing to measure"]),
        (&["--shape", "tiny", "-b", "0"], 2, &["--streams 0"]),
        (&["--shape", "tiny", "-d", "4000"], 2, &["4512", "4096"]),
        (&["/nonexistent/model.gguf"], 1, &["/nonexistent/model.gguf"]),
        (&["--shape", "tiny", "--write", "/nonexistent/dir/x.gguf"], 1, &["/nonexistent/dir/x.gguf"]),
        (&["--shape", "tiny", "--shape", "tiny:q8_0", "--write", "x.gguf"], 2, &["one --shape"]),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let told = text(&output.stderr);
        let error = told.lines().last().unwrap();
        assert!(error.starts_with("error: "), "{told}");
        assert!(words.iter().all(|word| error.contains(word)), "{told}");
    }
}
