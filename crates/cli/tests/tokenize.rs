//! `gristmill tokenize` as a process, on the small vocabularies of room `text`. What tokens a text has is tested there,
//! against the libraries that made the vocabularies; here, that the command says them.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use std::path::PathBuf;

use serde_json::{Value, json};
use support::{failure, fixture, keys, misuse, piped, run, said, text};

fn vocabulary(name: &str) -> String {
    fixture("text", "tiny").join(name).to_str().unwrap().to_owned()
}

fn byte_level() -> String {
    vocabulary("byte-level.json")
}

/// A JSON value a line.
fn objects(output: &std::process::Output) -> Vec<Value> {
    said(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tokens(output: &std::process::Output) -> Value {
    let mut all = objects(output);
    assert_eq!(all.len(), 1);
    all.remove(0)["tokens"].take()
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("lines.txt");
    std::fs::write(&path, bytes).unwrap();
    let name = path.to_str().unwrap().to_owned();
    (folder, name)
}

#[test]
fn a_text_as_an_argument_or_piped_in_is_the_same() {
    let model = byte_level();
    let sentence = "The mill grinds,\nand grinds. é🙂";
    let given = run(&["tokenize", &model, sentence, "--json"]);
    let report = &objects(&given)[0];
    assert_eq!(keys(report), ["pieces", "tokens"]);
    // The pieces, some of them only bytes of a character, are the text.
    let bytes: Vec<u8> = report["pieces"].as_array().unwrap().iter().flat_map(bytes_of).collect();
    assert_eq!(text(&bytes), sentence);
    for args in [&["tokenize", &model, "-", "--json"][..], &["tokenize", &model, "--json"]] {
        assert_eq!(text(&piped(args, sentence.as_bytes()).stdout), text(&given.stdout));
    }
    let ids: Vec<String> = report["tokens"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let decoded = run(&["tokenize", &model, "--decode", &ids.join(","), "--json"]);
    assert_eq!(objects(&decoded), [json!({ "text": sentence })]);
}

fn bytes_of(piece: &Value) -> Vec<u8> {
    match piece {
        Value::String(text) => text.clone().into_bytes(),
        bytes => serde_json::from_value(bytes.clone()).unwrap(),
    }
}

#[test]
fn without_json_a_token_is_a_line() {
    let shown = said(&run(&["tokenize", &byte_level(), "a\tb"]));
    assert_eq!(shown, "    67 -> 'a'\n   200 -> '\\t'\n    68 -> 'b'\n");
}

#[test]
fn each_line_of_a_file_is_a_text() {
    let model = byte_level();
    let (_folder, path) = file(b"ab\n\ncd\r\nlast");
    let from_file = run(&["tokenize", &model, "--file", &path, "--json"]);
    let lines = objects(&from_file);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], json!({ "tokens": [], "pieces": [] }));
    for (line, alone) in [(0, "ab"), (2, "cd\r"), (3, "last")] {
        assert_eq!(lines[line], objects(&run(&["tokenize", &model, alone, "--json"]))[0]);
    }
    let from_pipe = piped(&["tokenize", &model, "--file", "-", "--json"], b"ab\n\ncd\r\nlast");
    assert_eq!(from_pipe.stdout, from_file.stdout);
    // For the eye, an empty line between the texts.
    let shown = said(&run(&["tokenize", &vocabulary("word-piece.json"), "--file", &path]));
    assert_eq!(shown.split("\n\n").count(), 3, "{shown}");
}

#[test]
fn nothing_has_no_tokens() {
    let model = byte_level();
    assert_eq!(tokens(&piped(&["tokenize", &model, "-", "--json"], b"")), json!([]));
    assert_eq!(tokens(&run(&["tokenize", &model, "", "--json"])), json!([]));
    let (_folder, path) = file(b"");
    assert_eq!(said(&run(&["tokenize", &model, "--file", &path, "--json"])), "");
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_that_is_said() {
    let model = byte_level();
    let output = piped(&["tokenize", &model, "--json"], b"a\xff\xfeb");
    assert_eq!(tokens(&output), tokens(&run(&["tokenize", &model, "a\u{fffd}\u{fffd}b", "--json"])));
    let warning = text(&output.stderr);
    assert!(warning.starts_with("warning: standard input: ") && warning.lines().count() == 1, "{warning}");
    let (_folder, path) = file(b"good\nb\xffd\n");
    let output = run(&["tokenize", &model, "--file", &path, "--json"]);
    assert_eq!(objects(&output).len(), 2);
    assert!(text(&output.stderr).contains("lines.txt, line 2: "), "{}", text(&output.stderr));
}

#[test]
fn control_tokens_are_taken_as_asked() {
    let model = byte_level();
    let chat = "<|im_start|>a<|im_end|>";
    assert_eq!(tokens(&run(&["tokenize", &model, chat, "--json"])), json!([1, 67, 2]));
    let plain = run(&["tokenize", &model, chat, "--json", "--no-special"]);
    let ids = tokens(&plain);
    assert!(ids.as_array().unwrap().iter().all(|id| id.as_u64().unwrap() > 2), "{ids}");
    let joined: String =
        objects(&plain)[0]["pieces"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    assert_eq!(joined, chat);
    let decoded = |flags: &[&str]| said(&run(&[&["tokenize", &model, "--decode", "1 67 2"], flags].concat()));
    assert_eq!((decoded(&[]), decoded(&["--no-special"])), (format!("{chat}\n"), "a\n".into()));
}

#[test]
fn what_the_model_expects_around_a_text_is_added_when_asked() {
    let model = vocabulary("word-piece.json");
    let bare = tokens(&run(&["tokenize", &model, "grain", "--json"]));
    let whole = tokens(&run(&["tokenize", &model, "grain", "--json", "--add-special"]));
    let (bare, whole) = (bare.as_array().unwrap(), whole.as_array().unwrap());
    assert_eq!(whole[1..whole.len() - 1], bare[..]);
    let tiny = support::Tiny::new().with_bos(1);
    let args = ["tokenize", tiny.path(), &support::characters(&[5, 6]), "--json"];
    assert_eq!(tokens(&run(&args)), json!([5, 6]));
    assert_eq!(tokens(&run(&[&args[..], &["--add-special"]].concat())), json!([1, 5, 6]));
}

#[test]
fn a_vocabulary_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(byte_level(), folder.path().join("tokenizer.json")).unwrap();
    let folder = folder.path().to_str().unwrap().to_owned();
    let expected = tokens(&run(&["tokenize", &byte_level(), "The mill", "--json"]));
    let in_folder = format!("{folder}/tokenizer.json");
    let gguf = vocabulary("byte-level.gguf");
    for model in [folder, in_folder, gguf] {
        assert_eq!(tokens(&run(&["tokenize", &model, "The mill", "--json"])), expected, "{model}");
    }
    for name in ["sentencepiece-bpe.gguf", "sentencepiece-unigram.gguf"] {
        assert!(
            !tokens(&run(&["tokenize", &vocabulary(name), "The mill", "--json"]))
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let model = byte_level();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let (_kept, no_gguf) = file(b"no model");
    for (args, name) in [
        ([&format!("{folder}/none.gguf"), "x"], "none.gguf"),
        ([folder, "x"], folder),
        ([&no_gguf, "x"], "lines.txt"),
        (["no-such-name", "x"], "no-such-name"),
        ([&model, "--file=/nonexistent/lines"], "/nonexistent/lines"),
        ([&model, &format!("--file={folder}")], folder),
        ([&model, "--decode=9999999"], "9999999"),
    ] {
        let line = failure(&run(&[&["tokenize"], &args[..]].concat()), 1);
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn a_mistyped_flag_is_not_a_text() {
    let model = byte_level();
    for args in [
        &["--jsno"][..],
        &["a", "b"],
        &["a", "--file", "f"],
        &["--decode", "1", "--file", "f"],
        &["a", "--decode", "1"],
    ] {
        misuse(&run(&[&["tokenize", &model], args].concat()));
    }
    misuse(&run(&["tokenize"]));
    assert!(failure(&run(&["tokenize", &model, "--decode", "1,x"]), 2).contains("\"x\""));
    assert_eq!(said(&run(&["tokenize", &model, "--", "-x"])), "    15 -> '-'\n    90 -> 'x'\n");
}
