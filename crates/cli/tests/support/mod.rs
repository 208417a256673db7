//! What the tests of the binary share: starting it, reading what it said, and a model small enough to be committed.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod served;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary with nothing of the caller's environment, its store in `home`, and no source that answers.
pub fn gristmill(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gristmill"));
    command
        .env_clear()
        .env("GRISTMILL_HOME", home)
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env("GRISTMILL_PYTHON", "/nonexistent/python")
        .stdin(Stdio::null());
    command
}

/// The binary with the caller's store, for tests on real models.
pub fn installed() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gristmill"));
    command.env_remove("GRISTMILL_ISA").env_remove("GRISTMILL_THREADS").stdin(Stdio::null());
    command
}

/// Runs it to its end with an empty store.
pub fn run(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    gristmill(home.path()).args(args).output().unwrap()
}

/// Runs it to its end with `input` piped in.
pub fn piped(args: &[&str], input: &[u8]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = gristmill(home.path());
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early leaves the pipe unread.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a command that succeeded.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The one JSON value on the standard output of a command that succeeded.
pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&said(output)).unwrap()
}

/// The one line on standard error of a command that failed with `code` and printed nothing else.
pub fn failure(output: &Output, code: i32) -> String {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(line.starts_with("error: ") && line.lines().count() == 1, "{line}");
    line
}

/// What the flag parser says of a command line that makes no sense: exit code 2, an error, how it is used.
pub fn misuse(output: &Output) -> String {
    let lines = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{lines}");
    assert!(output.stdout.is_empty() && lines.starts_with("error: "), "{lines}");
    lines
}

/// The keys of an object, sorted.
pub fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// A fixture of another room.
pub fn fixture(room: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(room).join("tests/fixtures").join(name)
}

/// The tiny random llama of room `model`, whose logits transformers computed, with a vocabulary that makes a text of
/// any token ids: token `i` is the character `U+4E00 + i`.
pub struct Tiny {
    folder: tempfile::TempDir,
}

/// Tokens of the tiny model.
pub const VOCAB: u32 = 128;
/// Tokens its context holds.
pub const CONTEXT: usize = 256;

impl Tiny {
    pub fn new() -> Tiny {
        let folder = tempfile::tempdir().unwrap();
        for name in ["config.json", "model.safetensors"] {
            std::fs::copy(fixture("model", "llama-3").join(name), folder.path().join(name)).unwrap();
        }
        let tiny = Tiny { folder };
        tiny.write("tokenizer.json", &tokenizer(None));
        tiny
    }

    /// The tiny random encoder of a case of room `model`, whose vectors transformers computed, with the same vocabulary.
    pub fn encoder(case: &str) -> Tiny {
        let folder = tempfile::tempdir().unwrap();
        copy(&encoder(case), folder.path());
        let tiny = Tiny { folder };
        tiny.write("tokenizer.json", &tokenizer(None));
        tiny
    }

    /// A text begins with token `bos`, as the model wants it.
    pub fn with_bos(self, bos: u32) -> Tiny {
        self.write("tokenizer.json", &tokenizer(Some(bos)));
        self.write("tokenizer_config.json", &serde_json::json!({ "bos_token": characters(&[bos]) }));
        self
    }

    /// A chat template, Jinja.
    pub fn with_template(self, template: &str) -> Tiny {
        self.write("tokenizer_config.json", &serde_json::json!({ "chat_template": template }));
        self
    }

    /// Another value in the model's configuration.
    pub fn with(self, key: &str, value: u64) -> Tiny {
        let config = std::fs::read(self.folder.path().join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        config[key] = value.into();
        self.write("config.json", &config);
        self
    }

    pub fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// The prompt that transformers was asked with.
    pub fn prompt() -> Vec<u32> {
        let tokens = std::fs::read(fixture("model", "llama-3/tokens.json")).unwrap();
        let prompts: Vec<Vec<u32>> = serde_json::from_slice(&tokens).unwrap();
        prompts[0].clone()
    }

    /// What it answered: logits `[positions of the prompt][VOCAB]`.
    pub fn logits() -> Vec<Vec<f64>> {
        let bytes = std::fs::read(fixture("model", "llama-3/logits.0.f32")).unwrap();
        let (values, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        let values: Vec<f64> = values.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect();
        values.chunks_exact(VOCAB as usize).map(<[f64]>::to_vec).collect()
    }

    fn write(&self, name: &str, value: &serde_json::Value) {
        std::fs::write(self.folder.path().join(name), value.to_string()).unwrap();
    }
}

/// The folder of a case of encoders.
pub fn encoder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/encoders").join(case)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The text that the tiny model sees as `tokens`.
pub fn characters(tokens: &[u32]) -> String {
    tokens.iter().map(|token| char::from_u32(0x4e00 + token).unwrap()).collect()
}

fn tokenizer(bos: Option<u32>) -> serde_json::Value {
    let vocab: serde_json::Map<_, _> = (0..VOCAB).map(|i| (characters(&[i]), i.into())).collect();
    let first = bos.map(|bos| {
        let token = characters(&[bos]);
        serde_json::json!({
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": token, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { &token: { "id": token, "ids": [bos], "tokens": [token] } },
        })
    });
    serde_json::json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": { "type": "Split", "pattern": { "Regex": "." }, "behavior": "Isolated", "invert": false },
        "post_processor": first,
        "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": characters(&[0]) },
    })
}
