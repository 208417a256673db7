//! `gristmill embed`, `rerank`, `classify`, and `serve` with encoders, as processes, on the tiny encoders whose vectors
//! transformers computed.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::served::{Server, read};
use support::{Tiny, characters, encoder, failure, gristmill, keys, misuse, said, text};

/// A case with the texts that the command takes as they are, by their index in the case: of no token types, and no longer
/// than the 128 tokens that the case's `sentence_bert_config.json` allows.
struct Case {
    tiny: Tiny,
    texts: Vec<(usize, String)>,
    name: &'static str,
}

impl Case {
    fn new(name: &'static str) -> Case {
        let texts: Vec<Value> =
            serde_json::from_slice(&std::fs::read(encoder(name).join("texts.json")).unwrap()).unwrap();
        let plain = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| text["types"].is_null() && text["tokens"].as_array().unwrap().len() <= 128);
        let texts = plain.map(|(at, text)| {
            let tokens: Vec<u32> = serde_json::from_value(text["tokens"].clone()).unwrap();
            (at, characters(&tokens))
        });
        Case { tiny: Tiny::encoder(name), texts: texts.collect(), name }
    }

    fn lines(&self) -> String {
        self.texts.iter().map(|(_, text)| format!("{text}\n")).collect()
    }

    /// The numbers of a text in an output of the case.
    fn truth(&self, output: &str, width: usize, text: usize) -> Vec<f32> {
        let bytes = std::fs::read(encoder(self.name).join(format!("{output}.f32"))).unwrap();
        let (values, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        let all: Vec<f32> = values.iter().map(|four| f32::from_le_bytes(*four)).collect();
        all[text * width..(text + 1) * width].to_vec()
    }

    fn run(&self, command: &str, args: &[&str], input: &str) -> Output {
        support::piped(&[&[command, self.tiny.path()], args].concat(), input.as_bytes())
    }

    fn embed(&self, args: &[&str], input: &str) -> Output {
        self.run("embed", args, input)
    }
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn vector(object: &Value) -> Vec<f32> {
    serde_json::from_value(object["embedding"].clone()).unwrap()
}

fn assert_near(found: &[f32], truth: &[f32], within: f32) {
    assert_eq!(found.len(), truth.len());
    let far = found.iter().zip(truth).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far <= within, "off by {far}");
}

/// `count` texts of the tiny vocabulary, all different.
fn many(count: usize) -> Vec<String> {
    let text = |at: usize| {
        let tokens: Vec<u32> = (0..1 + at % 23).map(|i| ((at * 31 + i * 17) % 128) as u32).collect();
        characters(&tokens)
    };
    (0..count).map(text).collect()
}

fn in_folder(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    let case = Case::new("bert");
    let objects = objects(&said(&case.embed(&["--encoder-format", "f32"], &case.lines())));
    assert_eq!(objects.len(), case.texts.len());
    for ((at, text), object) in case.texts.iter().zip(&objects) {
        assert_eq!(keys(object), ["embedding", "id", "tokens"]);
        assert_eq!(object["tokens"], text.chars().count());
        assert_near(&vector(object), &case.truth("embedding", 32, *at), 2e-5);
    }
    let raw = said(&case.embed(&["--encoder-format", "f32", "--normalize=false"], &case.lines()));
    for ((at, _), object) in case.texts.iter().zip(self::objects(&raw)) {
        assert_near(&vector(&object), &case.truth("dense", 32, *at), 1e-4);
    }
    let short = said(&case.embed(&["--encoder-format", "f32", "--dimensions", "8"], &case.lines()));
    for ((at, _), object) in case.texts.iter().zip(self::objects(&short)) {
        let mut truth = case.truth("embedding", 32, *at)[..8].to_vec();
        let length = truth.iter().map(|value| value * value).sum::<f32>().sqrt();
        truth.iter_mut().for_each(|value| *value /= length);
        assert_near(&vector(&object), &truth, 5e-5);
    }
}

#[test]
fn a_text_has_one_vector_in_any_batch_form_and_place() {
    let case = Case::new("bert");
    let texts = many(700);
    let all = said(&case.embed(&[], &texts.join("\n")));
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 700);
    for at in [0, 3, 255, 256, 699] {
        let alone = said(&case.embed(&[], &texts[at]));
        assert_eq!(vector(&objects(&alone)[0]), vector(&objects(lines[at])[0]), "text {at}");
    }
    // A file is what standard output has; one in NumPy's form has the same numbers.
    let (folder, input) = in_folder("in.txt");
    std::fs::write(&input, texts.join("\n")).unwrap();
    let output = folder.path().join("out.jsonl");
    let report = case.embed(&[input.to_str().unwrap(), "--output", output.to_str().unwrap(), "--json"], "");
    let report: Value = serde_json::from_str(&said(&report)).unwrap();
    assert_eq!((&report["texts"], &report["dimensions"]), (&json!(700), &json!(32)));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), all);
    let numpy = folder.path().join("out.npy");
    said(&case.embed(&["-", "--format", "npy", "--output", numpy.to_str().unwrap()], &texts.join("\n")));
    let numpy = std::fs::read(numpy).unwrap();
    assert_eq!(numpy.len(), 128 + 700 * 32 * 4);
    let values: Vec<f32> =
        numpy[128..].as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let expected: Vec<f32> = lines.iter().flat_map(|line| vector(&objects(line)[0])).collect();
    assert_eq!(values, expected);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn objects_keep_their_ids() {
    let case = Case::new("bert");
    let (_, text) = &case.texts[0];
    let input =
        format!("{}\n{}\n", json!({"id": "a\u{1b}b", "text": text, "more": [1]}), json!({"text": text}));
    let all = objects(&said(&case.embed(&["--input", "jsonl"], &input)));
    assert_eq!((&all[0]["id"], &all[1]["id"]), (&json!("a\u{1b}b"), &json!(1)));
    assert_eq!(all[0]["embedding"], all[1]["embedding"]);
}

/// A run that writes to `output` and is given its texts bit by bit.
fn begin(case: &Case, home: &Path, output: &Path) -> Child {
    let mut command: Command = gristmill(home);
    command.args(["embed", case.tiny.path(), "--output", output.to_str().unwrap()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn a_run_that_was_killed_goes_on_after_the_last_whole_line() {
    let case = Case::new("bert");
    let texts = many(1_500);
    let whole = said(&case.embed(&[], &texts.join("\n")));
    let (folder, output) = in_folder("out.jsonl");
    let home = tempfile::tempdir().unwrap();
    let mut child = begin(&case, home.path(), &output);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", texts[..600].join("\n")).unwrap();
    input.flush().unwrap();
    let part = folder.path().join("out.jsonl.part");
    let lines = || std::fs::read_to_string(&part).map_or(0, |text| text.lines().count());
    let began = std::time::Instant::now();
    while lines() < 600 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} lines", lines());
        std::thread::sleep(Duration::from_millis(20));
    }
    // SIGKILL: nothing can be tidied up.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!output.exists());
    // As if the last line had been cut.
    let mut file = std::fs::OpenOptions::new().append(true).open(&part).unwrap();
    file.write_all(b"{\"id\":600,\"tok").unwrap();
    let path = output.to_str().unwrap();
    let resume = |input: &str, more: &[&str]| {
        case.embed(&[&["--output", path, "--resume", "--json"], more].concat(), input)
    };
    let mut other = texts.clone();
    other[10] = characters(&[1, 2, 3]);
    for (input, more, word) in [
        (texts.join("\n"), &["--normalize=false"][..], "other flags"),
        (texts[..500].join("\n"), &[], "it was of other texts"),
    ] {
        let line = failure(&resume(&input, more), 1);
        assert!(line.contains(word), "{line}");
    }
    let report: Value = serde_json::from_str(&said(&resume(&texts.join("\n"), &[]))).unwrap();
    assert_eq!((&report["texts"], &report["resumed_texts"]), (&json!(1_500), &json!(600)));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), whole);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // There is nothing to go on with any more: it begins anew.
    let report: Value = serde_json::from_str(&said(&resume(&other.join("\n"), &[]))).unwrap();
    assert_eq!(report["resumed_texts"], 0);
}

#[test]
fn what_is_wrong_is_one_line_that_names_the_text() {
    let case = Case::new("bert");
    let long = characters(&[5; 129]);
    let line = failure(&case.embed(&[], &format!("{}\n{long}\n", case.texts[0].1)), 1);
    assert!(line.contains("standard input, line 2 has 129 tokens; this model's limit is 128"), "{line}");
    let cut = objects(&said(&case.embed(&["--truncate", "end"], &long)));
    assert_eq!((&cut[0]["tokens"], &cut[0]["truncated"]), (&json!(128), &json!(1)));
    let parts = objects(&said(&case.embed(&["--truncate", "chunk"], &long)));
    assert!(parts[0].get("truncated").is_none() && parts[0]["embedding"] != cut[0]["embedding"]);
    let line = failure(&case.embed(&[], "a\n\nb"), 1);
    assert!(line.contains("standard input, line 2 is empty"), "{line}");
    let line = failure(&case.embed(&["--prompt", "query"], "a"), 1);
    assert!(line.contains("query") && line.contains("are: none"), "{line}");
    let line = failure(&case.embed(&["--context", "161"], "a"), 2);
    assert!(line.contains("--context 161 is outside 2..=160"), "{line}");
    let line = failure(&case.embed(&["--json"], "a"), 2);
    assert!(line.contains("--json needs --output FILE"), "{line}");
    let line = failure(&case.run("classify", &[], "a"), 1);
    assert!(line.contains("does not classify or classify_tokens; what it can do: embed, rerank"), "{line}");
    let line = failure(&case.run("run", &["hello"], ""), 1);
    assert!(line.contains("is an encoder (bert)"), "{line}");
    let line = failure(&support::piped(&["embed", Tiny::new().path()], b"a"), 1);
    assert!(line.contains("generates text (llama)"), "{line}");
    misuse(&case.embed(&["--kind", "colour"], "a"));
}

#[test]
fn documents_are_ranked_by_their_cosines() {
    let case = Case::new("bert");
    let vectors: Vec<Vec<f32>> = case.texts.iter().map(|(at, _)| case.truth("embedding", 32, *at)).collect();
    let cosine = |other: &[f32]| -> f32 { vectors[0].iter().zip(other).map(|(a, b)| a * b).sum() };
    let query = &case.texts[0].1;
    let args = ["--query", query, "--encoder-format", "f32"];
    let report = case.run("rerank", &[&args[..], &["--json"]].concat(), &case.lines());
    let report: Value = serde_json::from_str(&said(&report)).unwrap();
    assert_eq!(report["documents"], case.texts.len());
    let mut expected: Vec<(usize, f32)> = vectors.iter().map(|v| cosine(v)).enumerate().collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    for ((at, score), result) in expected.iter().zip(report["results"].as_array().unwrap()) {
        assert_eq!((&result["line"], &result["id"]), (&json!(at + 1), &json!(at)));
        assert!((result["score"].as_f64().unwrap() as f32 - score).abs() < 2e-5, "{result}");
        assert_eq!(result["text"], case.texts[*at].1);
    }
    let best = said(&case.run("rerank", &[&args[..], &["--top", "1"]].concat(), &case.lines()));
    assert_eq!(best.lines().count(), 1);
    assert!(
        best.trim_start().starts_with("1    1.00000  ") && best.ends_with(&format!("{query}\n")),
        "{best}"
    );
    let long = characters(&[5; 129]);
    let report = case.run("rerank", &["--query", "a", "--json"], &long);
    let report: Value = serde_json::from_str(&said(&report)).unwrap();
    let cut = report["truncated_tokens"].as_u64().unwrap();
    assert!(cut > 0);
    let told = case.run("rerank", &["--query", "a"], &long);
    let line = String::from_utf8_lossy(&told.stderr);
    assert!(
        line.contains("of documents that are too long were cut") && line.contains(&cut.to_string()),
        "{line}"
    );
    let line = failure(&case.run("rerank", &["--query", "a", "--truncate", "refuse"], &long), 1);
    assert!(line.contains("standard input, line 1 has"), "{line}");
}

#[test]
fn labels_have_the_probabilities_of_transformers() {
    let case = Case::new("bert-classifier");
    let lines = objects(&said(&case.run("classify", &["--json", "--encoder-format", "f32"], &case.lines())));
    assert_eq!(lines.len(), case.texts.len());
    for ((at, _), line) in case.texts.iter().zip(&lines) {
        let logits = case.truth("logits", 3, *at);
        let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let scores: Vec<f32> =
            line["scores"].as_object().unwrap().values().map(|v| v.as_f64().unwrap() as f32).collect();
        let truth: Vec<f32> = logits.iter().map(|logit| logit.exp() / sum).collect();
        assert_near(&scores, &truth, 1e-5);
        let best = truth.iter().copied().fold(0.0, f32::max);
        assert!((line["score"].as_f64().unwrap() as f32 - best).abs() < 1e-5);
        assert_eq!(line["scores"][line["label"].as_str().unwrap()], line["score"]);
    }
    let shown = said(&case.run("classify", &[], &case.lines()));
    assert!(shown.lines().all(|line| line.split('\t').count() == 2), "{shown}");
}

#[test]
fn entities_are_parts_of_their_text() {
    let case = Case::new("bert-tokens");
    let (_, text) = case.texts.last().unwrap();
    let line = &objects(&said(&case.run("classify", &["--json", "--aggregation", "none"], text)))[0];
    let entities = line["entities"].as_array().unwrap();
    assert!(!entities.is_empty());
    for entity in entities {
        let (start, end) =
            (entity["start"].as_u64().unwrap() as usize, entity["end"].as_u64().unwrap() as usize);
        let part: String = text.chars().skip(start).take(end - start).collect();
        assert_eq!((entity["text"].as_str().unwrap(), end - start), (part.as_str(), 1));
        assert!(["B-PER", "I-PER", "B-LOC", "I-LOC"].contains(&entity["label"].as_str().unwrap()));
    }
}

#[test]
fn sparse_vectors_and_vectors_of_tokens_have_their_forms() {
    let case = Case::new("bert-splade");
    let lines = objects(&said(&case.embed(&["--kind", "sparse", "--encoder-format", "f32"], &case.lines())));
    for ((at, _), line) in case.texts.iter().zip(&lines) {
        let truth = case.truth("sparse", 128, *at);
        let mut found = vec![0.0; 128];
        let indices: Vec<usize> = serde_json::from_value(line["indices"].clone()).unwrap();
        let values: Vec<f32> = serde_json::from_value(line["values"].clone()).unwrap();
        assert!(indices.is_sorted() && indices.len() == values.len());
        indices.iter().zip(values).for_each(|(at, value)| found[*at] = value);
        assert_near(&found, &truth, 1e-4);
    }
    let case = Case::new("bert-colbert");
    let lines = objects(&said(&case.embed(&["--kind", "tokens"], &case.lines())));
    for ((_, text), line) in case.texts.iter().zip(&lines) {
        let vectors: Vec<Vec<f32>> = serde_json::from_value(line["embeddings"].clone()).unwrap();
        assert_eq!(vectors.len(), text.chars().count());
        assert!(vectors.iter().all(|v| (v.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5));
    }
}

#[test]
fn a_set_of_pairs_is_measured() {
    let case = Case::new("bert");
    let (_folder, set) = in_folder("pairs.tsv");
    let (a, b) = (&case.texts[0].1, &case.texts[1].1);
    std::fs::write(&set, format!("5\t{a}\t{a}\n1\t{a}\t{b}\n")).unwrap();
    let report = case.embed(&["--check", set.to_str().unwrap(), "--json"], "");
    let report: Value = serde_json::from_str(&said(&report)).unwrap();
    assert_eq!((&report["spearman"], &report["pairs"]), (&json!(100.0), &json!(2)));
    std::fs::write(&set, "5\tone\n").unwrap();
    let line = failure(&case.embed(&["--check", set.to_str().unwrap()], ""), 1);
    assert!(line.contains("pairs.tsv, line 1: 2 columns between tabs"), "{line}");
}

#[test]
fn a_server_gives_the_vectors_of_the_command() {
    let case = Case::new("bert");
    let lines = objects(&said(&case.embed(&[], &case.lines())));
    let mut server = Server::start(&case.tiny, &[]);
    let texts: Vec<&String> = case.texts.iter().map(|(_, text)| text).collect();
    let (status, body) =
        read(server.request("POST", "/v1/embeddings", "", &json!({ "input": texts }).to_string()));
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    for (line, item) in lines.iter().zip(answer["data"].as_array().unwrap()) {
        assert_eq!(line["embedding"], item["embedding"]);
    }
    let chat = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let (status, body) = read(server.request("POST", "/v1/chat/completions", "", &chat.to_string()));
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("does not generate text"), "{body}");
    assert!(server.stop().success());
}

#[test]
fn encoders_and_a_generating_model_are_served_together() {
    let (encoder, llama) = (Case::new("bert"), Tiny::new());
    let (folder, file) = in_folder("serve.toml");
    let table =
        |path: &str, name: &str| format!("[[model]]\nmodel = {path:?}\nnames = [{name:?}]\npreload = true\n");
    std::fs::write(&file, table(llama.path(), "talks") + &table(encoder.tiny.path(), "embeds")).unwrap();
    let mut server = Server::listen(&["--config", file.to_str().unwrap()], &[]);
    server.until("2 loaded (talks, embeds)");
    let ask = |path: &str, body: Value| read(server.request("POST", path, "", &body.to_string()));
    let text = &encoder.texts[0].1;
    let (status, body) = ask("/v1/embeddings", json!({ "model": "embeds", "input": text }));
    assert_eq!(status, 200, "{body}");
    let (status, body) = ask("/v1/completions", json!({ "model": "talks", "prompt": text, "max_tokens": 3 }));
    assert_eq!(status, 200, "{body}");
    let (status, body) = ask("/v1/embeddings", json!({ "model": "talks", "input": text }));
    assert_eq!(status, 400, "{body}");
    assert!(server.stop().success());
    drop(folder);
}

#[test]
fn an_encoder_is_benched_by_cases() {
    let case = Case::new("bert");
    let args =
        ["bench", case.tiny.path(), "-r", "1", "-o", "json", "--case", "uniform-64", "--case", "query-16"];
    let rows: Value = serde_json::from_str(&said(&support::run(&args))).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["case"], &rows[0]["texts"], &rows[0]["tokens"]),
        (&json!("uniform-64"), &json!(256), &json!(16_384))
    );
    assert!(rows[0]["texts_per_s"].as_f64().unwrap() > 0.0 && rows[0]["p50_ms"].is_null());
    assert!(rows[1]["p50_ms"].as_f64().unwrap() > 0.0);
    let output = support::run(&["bench", case.tiny.path(), "--case", "uniform-512"]);
    assert!(text(&output.stderr).contains("a text of 512 tokens"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
}
