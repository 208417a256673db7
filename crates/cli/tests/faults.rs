//! Models that cannot be run, files that are none, and names that lie, in every command that opens a model.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::{Tiny, failure, fixture, gristmill, json, run, said, text};

/// Every command that opens a model to compute, or to plan it, with what it needs besides.
fn commands(model: &str) -> Vec<Vec<String>> {
    let prose = fixture("cli", "prose.txt");
    let prose = prose.to_str().unwrap();
    let all: [&[&str]; 8] = [
        &["run", model, "hello"],
        &["serve", model, "--port", "0"],
        &["serve", model, "--check"],
        &["bench", model, "-p", "8", "-n", "0", "-r", "1"],
        &["bench", "--shape", "tiny", model, "-p", "8", "-n", "0", "-r", "1"],
        &["perplexity", model, "--file", prose, "--context", "32"],
        &["tune", model, "--dry-run"],
        &["plan", "fit", model],
    ];
    all.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()
}

/// The line of a command that failed with code 1; others may stand before it.
fn refused(output: &Output, what: &str) -> String {
    let lines = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}: {lines}");
    assert!(!lines.contains("panicked"), "{what}: {lines}");
    lines
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap_or_else(|| panic!("{what}: {lines}"))
        .to_owned()
}

/// The tiny model of room `model` in either form, the type of one tensor changed where it stands.
struct Mistyped {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Mistyped {
    fn safetensors(tensor: &str, to: &str) -> Mistyped {
        let folder = tempfile::tempdir().unwrap();
        let from = fixture("model", "llama-3");
        fs::copy(from.join("config.json"), folder.path().join("config.json")).unwrap();
        let mut bytes = fs::read(from.join("model.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
        let name = header.find(&format!("\"{tensor}\"")).unwrap();
        let dtype = name + header[name..].find("\"BF16\"").unwrap();
        // A shorter name is filled up with space, which JSON lets stand.
        let quoted = format!("{:6}", format!("\"{to}\""));
        bytes[8 + dtype..8 + dtype + 6].copy_from_slice(quoted.as_bytes());
        fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        Mistyped { path: folder.path().to_owned(), _folder: folder }
    }

    fn gguf(case: &str, tensor: &str) -> (Mistyped, &'static str) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = fs::read(fixture("model", case).join("model.gguf")).unwrap();
        let name = [&(tensor.len() as u64).to_le_bytes()[..], tensor.as_bytes()].concat();
        let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len();
        let dimensions = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let at = at + 4 + 8 * dimensions;
        // A type of integers with as many bytes, so that nothing else in the file is wrong.
        let (id, to) = match bytes[at] {
            0 => (26_u32, "I32"),
            1 | 30 => (25, "I16"),
            other => panic!("{tensor} is of ggml type {other}"),
        };
        bytes[at..at + 4].copy_from_slice(&id.to_le_bytes());
        let path = folder.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        (Mistyped { _folder: folder, path }, to)
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

fn named_everywhere(model: &Mistyped, tensor: &str, to: &str) {
    for words in commands(model.path()) {
        let line = refused(&run(&words.iter().map(String::as_str).collect::<Vec<_>>()), &words.join(" "));
        for word in [tensor, to, "supported"] {
            assert!(line.contains(word), "{}: {line}", words.join(" "));
        }
    }
    let report = json(&run(&["inspect", model.path(), "--json"]));
    let why = report["cannot_run"].as_str().unwrap();
    assert!(report["runs"] == false && why.contains(tensor) && why.contains(to), "{why}");
    let table = said(&run(&["inspect", model.path()]));
    assert!(table.contains("runs  no: ") && table.contains(tensor), "{table}");
}

#[test]
fn fault_03_a_norm_of_i32_is_a_load_error() {
    let (model, to) = Mistyped::gguf("llama-3", "blk.0.attn_norm.weight");
    named_everywhere(&model, "blk.0.attn_norm.weight", to);
}

#[test]
fn fault_03_an_up_projection_of_i16_is_a_load_error() {
    let model = Mistyped::safetensors("model.layers.1.mlp.up_proj.weight", "I16");
    named_everywhere(&model, "model.layers.1.mlp.up_proj.weight", "I16");
}

#[test]
fn fault_03_a_head_of_integers_is_a_load_error() {
    let (model, to) = Mistyped::gguf("phi2", "output.weight");
    named_everywhere(&model, "output.weight", to);
}

#[test]
fn fault_03_every_tensor_of_a_wrong_type_is_told_by_inspect_and_check() {
    let header = |name: &str| -> Vec<String> {
        let bytes = fs::read(fixture("model", name).join("model.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let map: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        map.into_iter()
            .map(|(name, _)| name)
            .filter(|name| !name.contains(".1.") && name != "__metadata__")
            .collect()
    };
    for tensor in header("llama-3") {
        let model = Mistyped::safetensors(&tensor, "U16");
        let line = refused(&run(&["serve", model.path(), "--check"]), &tensor);
        assert!(line.contains(&tensor) && line.contains("U16"), "{line}");
        let report = json(&run(&["inspect", model.path(), "--json"]));
        assert!(report["cannot_run"].as_str().unwrap().contains(&tensor), "{tensor}");
    }
}

#[test]
fn what_inspect_calls_good_runs() {
    let tiny = Tiny::new();
    assert_eq!(json(&run(&["inspect", tiny.path(), "--json"]))["runs"], true);
    assert!(said(&run(&["inspect", tiny.path()])).contains("runs  yes"));
    said(&run(&["serve", tiny.path(), "--check"]));
    said(&run(&["run", tiny.path(), "--raw", "-n", "2", &support::characters(&Tiny::prompt()[..4])]));
    // Without a vocabulary it does not, and both say so.
    fs::remove_file(Path::new(tiny.path()).join("tokenizer.json")).unwrap();
    let report = json(&run(&["inspect", tiny.path(), "--json"]));
    assert!(report["cannot_run"].as_str().unwrap().contains("tokenizer"), "{report}");
    assert!(refused(&run(&["serve", tiny.path(), "--check"]), "check").contains("tokenizer"));
}

#[test]
fn said_badly_files_that_are_no_model_end_every_command_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("lfs.gguf"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\n").unwrap();
    fs::write(at("page.gguf"), "<!DOCTYPE html>\n<html>").unwrap();
    fs::create_dir(at("adapter")).unwrap();
    fs::write(at("adapter/adapter_config.json"), r#"{"base_model_name_or_path": "o/base"}"#).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("pipe.gguf")).status().unwrap().success());
    let weights = fixture("model", "llama-3/model.safetensors");
    let quantized = Tiny::new();
    let config = Path::new(quantized.path()).join("config.json");
    let mut keys: serde_json::Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    keys["quantization_config"] = serde_json::json!({"quant_method": "gptq", "bits": 4});
    fs::write(&config, keys.to_string()).unwrap();
    for (model, words) in [
        (at("lfs.gguf"), "Git LFS pointer"),
        (at("page.gguf"), "web page"),
        (at("adapter"), "LoRA adapter for o/base"),
        (at("pipe.gguf"), "a pipe or a device"),
        ("/dev/zero".to_owned(), "a pipe or a device"),
        (weights.to_str().unwrap().to_owned(), "give its folder: "),
        (quantized.path().to_owned(), "quantized by gptq"),
    ] {
        for command in commands(&model) {
            let line =
                refused(&run(&command.iter().map(String::as_str).collect::<Vec<_>>()), &command.join(" "));
            assert!(line.contains(words), "{}: {line}", command.join(" "));
        }
    }
}

#[test]
fn fault_07_a_shape_is_named_where_a_model_is() {
    let fit = said(&run(&["plan", "fit", "qwen3-4b:q4_k_m", "--machine", "aws-c7i.4xlarge"]));
    assert!(fit.contains("qwen3-4b:q4_k_m"), "{fit}");
    let bench = said(&run(&["bench", "tiny:q8_0", "-p", "8", "-n", "2", "-r", "1", "-o", "csv"]));
    assert!(bench.contains("tiny:q8_0"), "{bench}");
    let tune = said(&run(&["tune", "tiny:q8_0", "--force"]));
    assert!(tune.contains("tiny:q8_0: "), "{tune}");
    assert!(failure(&run(&["bench", "tiny:q9"]), 2).contains("q9"));
    let prose = fixture("cli", "prose.txt");
    for command in [
        vec!["run", "qwen3-4b:q4_k_m", "hello"],
        vec!["serve", "qwen3-4b:q4_k_m", "--port", "0"],
        vec!["serve", "qwen3-4b:q4_k_m", "--check"],
        vec!["inspect", "qwen3-4b:q4_k_m"],
        vec!["pull", "qwen3-4b:q4_k_m"],
        vec!["perplexity", "qwen3-4b:q4_k_m", "--file", prose.to_str().unwrap()],
    ] {
        let line = refused(&run(&command), &command.join(" "));
        assert!(line.contains("is a published shape") && line.contains("plan fit, bench and tune"), "{line}");
    }
    let help = said(&run(&["plan", "fit", "--help"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("measures without its weights"), "{help}");
}

#[test]
fn a_check_of_a_name_that_nobody_knows_fails() {
    assert!(refused(&run(&["serve", "no-such-model", "--check"]), "check").contains("no-such-model"));
    assert!(said(&run(&["serve", "smollm2-135m-instruct", "--check"])).contains("serve would pull it"));
}

#[test]
fn docs_list_says_what_cannot_run_here() {
    let rows = json(&run(&["list", "--all", "--json"]));
    let rows = rows.as_array().unwrap();
    for row in rows {
        let reason = row["cannot_run"].as_str();
        assert!(row["runs"] == reason.is_none() && reason.is_none_or(|reason| !reason.is_empty()), "{row}");
    }
    for kind in ["chat", "embed"] {
        assert!(rows.iter().any(|row| row["kind"] == kind && row["runs"] == true), "{kind}");
    }
    let table = said(&run(&["list", "--all"]));
    let idle = rows.iter().filter(|row| row["runs"] == false).count();
    assert_eq!(table.lines().filter(|line| line.contains("CANNOT RUN HERE: ")).count(), idle);
}

/// Names with what a terminal acts on, from a file, from the store and from the command line.
#[test]
fn abuse_a9_names_do_not_reach_the_terminal_as_they_are() {
    let clean = |output: &Output, what: &str| {
        for stream in [&output.stdout, &output.stderr] {
            let odd = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text(stream).contains(odd), "{what}: {:?}", text(stream));
        }
    };
    let home = tempfile::tempdir().unwrap();
    let evil = "a\u{1b}[2J\u{9b}31m\u{202e}b\r";
    let folder = home.path().join("models/evil");
    fs::create_dir_all(&folder).unwrap();
    let record = serde_json::json!({
        "model": evil, "origin": format!("py:{evil}"), "file": "x.gguf", "pulled_s": 1,
        "files": [{"name": "x.gguf", "size_bytes": 1, "sha256": "0", "checked": "recorded", "modified_ns": 1}],
    });
    fs::write(folder.join("record.json"), record.to_string()).unwrap();
    let in_home = |args: &[&str]| gristmill(home.path()).args(args).output().unwrap();
    let listed = in_home(&["list"]);
    assert!(said(&listed).contains("\\u{1b}[2J"), "{}", said(&listed));
    for args in
        [vec!["list"], vec!["list", "--json"], vec!["list", "--all"], vec!["rm", evil], vec!["pull", evil]]
    {
        clean(&in_home(&args), &args.join(" "));
    }
    // Metadata and tensor names of a file.
    let file = home.path().join(format!("{evil}.gguf"));
    let mut bytes = fs::read(fixture("model", "llama-2/model.gguf")).unwrap();
    let name = b"blk.0.attn_norm.weight";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    bytes[at..at + 4].copy_from_slice(b"\x1b[2J");
    fs::write(&file, bytes).unwrap();
    for command in ["inspect", "run", "serve", "bench", "tune"] {
        clean(&in_home(&[command, file.to_str().unwrap()]), command);
    }
    clean(&in_home(&["inspect", "--json", file.to_str().unwrap()]), "inspect --json");
    clean(&in_home(&["run", "--no-such\u{1b}[2J"]), "a flag");
    clean(&in_home(&["plan", "fit", evil]), "plan fit");
    clean(&in_home(&["serve", "--config", evil]), "--config");
}

#[test]
fn abuse_a9_a_device_is_no_small_file() {
    let tiny = Tiny::new();
    let path = "/dev/zero";
    for args in [
        vec!["serve", tiny.path(), "--port", "0", "--api-key-file", path],
        vec!["serve", tiny.path(), "--port", "0", "--config", path],
        vec!["serve", tiny.path(), "--port", "0", "--tls-cert", path, "--tls-key", path],
        vec!["run", tiny.path(), "hello", "--template", path],
    ] {
        let line = failure(&run(&args), 1);
        assert!(line.contains("a device or socket") && line.contains(path), "{line}");
    }
}

#[test]
fn docs_the_log_in_a_file_has_no_colours() {
    let tiny = Tiny::new();
    let mut server = support::served::Server::start_among(&tiny, &[], &[("GRISTMILL_LOG", "trace")]);
    assert_eq!(server.complete("x").0, 200);
    server.stop();
    let said = server.rest();
    assert!(said.contains("INFO") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn docs_the_example_of_plan_tco_runs() {
    let help = said(&run(&["plan", "tco", "--help"]));
    let help = help.replace("\\\n", "");
    let line = help.lines().find_map(|line| line.trim().strip_prefix("gristmill ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(said(&run(&words)).contains("Buying has cost no more after"), "{line}");
    assert!(failure(&run(&["plan", "tco"]), 1).contains(&words.join(" ")));
}
