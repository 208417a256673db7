//! What the comparisons with other tokenizers share.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod guided;

use std::path::{Path, PathBuf};

use text::{Special, Tokenizer};

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The folder that tools/fixtures/fetch_vocabularies.py fills.
pub fn vocabularies() -> PathBuf {
    let set = std::env::var_os("GRISTMILL_VOCABULARIES").map(PathBuf::from);
    let home = || {
        PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/gristmill-vocabularies")
    };
    let folder = set.unwrap_or_else(home);
    assert!(folder.is_dir(), "{} is missing: run tools/fixtures/fetch_vocabularies.py", folder.display());
    folder
}

pub fn strings() -> Vec<String> {
    let path = fixtures().join("strings.jsonl");
    let text = std::fs::read_to_string(&path).expect("strings.jsonl is committed");
    let strings: Vec<String> =
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON string")).collect();
    assert!(strings.len() >= 2000);
    strings
}

pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        state = (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    ((state >> 32) ^ (state & 0xffff_ffff)) as u32
}

pub fn ids_hash(ids: &[u32]) -> u32 {
    fnv(ids.iter().flat_map(|id| id.to_le_bytes()))
}

/// The tokenizer from the tables that it is packed into.
pub fn packed(tokenizer: &Tokenizer) -> Tokenizer {
    let packed = tokenizer.to_packed("key").expect("a kind that is packed");
    assert!(Tokenizer::from_packed(packed.clone(), "other key").is_err());
    Tokenizer::from_packed(packed, "key").expect("opens")
}

/// Compares a tokenizer, and the same packed, with `expected/NAME.txt` on all strings: ids with control tokens, ids without, decoded text,
/// what stands around a text, and that the stream and `decode` agree.
pub fn compare(name: &str, tokenizer: &Tokenizer) {
    compare_but(name, tokenizer, |_| false);
}

/// The same; where `stricter` says so of a text, ours may differ in the tokens of plain text.
pub fn compare_but(name: &str, tokenizer: &Tokenizer, stricter: impl Fn(&str) -> bool) {
    compare_one(name, tokenizer, &stricter);
    compare_one(&format!("{name}, packed"), &packed(tokenizer), &stricter);
}

fn compare_one(name: &str, tokenizer: &Tokenizer, stricter: &dyn Fn(&str) -> bool) {
    let file = name.trim_end_matches(", packed");
    let path = fixtures().join("expected").join(format!("{file}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = expected.lines();
    let head: serde_json::Value = serde_json::from_str(lines.next().expect("a head")).expect("a JSON head");
    let ids = |key: &str| -> Vec<u32> { serde_json::from_value(head[key].clone()).expect("ids") };
    let bare = tokenizer.encode("a", Special::Parse, false).expect("encodes");
    let whole = tokenizer.encode("a", Special::Parse, true).expect("encodes");
    assert_eq!(whole, [ids("before"), bare, ids("after")].concat(), "{name}: around a text");
    let strings = strings();
    assert_eq!(strings.len(), lines.clone().count(), "{name}: one line a string");
    let mut wrong = Vec::new();
    for (text, line) in strings.iter().zip(lines) {
        let parsed = tokenizer.encode(text, Special::Parse, false).expect("encodes");
        let plain = tokenizer.encode(text, Special::Plain, false).expect("encodes");
        let decoded = tokenizer.decode(&parsed, false);
        let ours = format!("{:08x} {:08x} {:08x}", ids_hash(&parsed), ids_hash(&plain), fnv(decoded.bytes()));
        let same = |at: &[usize]| at.iter().all(|at| ours.split(' ').nth(*at) == line.split(' ').nth(*at));
        if !same(if stricter(text) { &[0, 2] } else { &[0, 1, 2] }) {
            wrong.push(format!("{text:?}\n  ours {ours} {parsed:?} {plain:?} {decoded:?}\n  want {line}"));
        }
    }
    let shown: Vec<String> = wrong.iter().take(12).cloned().collect();
    assert!(wrong.is_empty(), "{name}: {} of {} differ:\n{}", wrong.len(), strings.len(), shown.join("\n"));
}

/// A conversation of `chats.json`.
#[derive(serde::Deserialize)]
pub struct Chat {
    pub name: String,
    pub messages: Vec<serde_json::Value>,
    pub tools: Option<Vec<serde_json::Value>>,
    pub prompt: bool,
    pub extra: serde_json::Map<String, serde_json::Value>,
}

pub fn chats() -> Vec<Chat> {
    let text = std::fs::read_to_string(fixtures().join("chats.json")).expect("chats.json is committed");
    serde_json::from_str(&text).expect("a list of chats")
}

/// 2026-11-21 07:08:09 UTC, the moment of the fixtures.
pub const NOW: i64 = 1_795_244_889;

pub fn render(template: &text::ChatTemplate, chat: &Chat) -> Result<String, text::TemplateError> {
    template.render(&chat.messages, chat.tools.as_deref(), chat.prompt, &chat.extra)
}

/// The control tokens that the fixtures give to templates without a model.
pub fn tokens() -> serde_json::Map<String, serde_json::Value> {
    let names = [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
    names.into_iter().map(|(name, token)| (name.to_owned(), token.into())).collect()
}

/// The stream, token by token, says what `decode` says.
pub fn compare_stream(tokenizer: std::sync::Arc<Tokenizer>, strings: &[String]) {
    for text in strings {
        let ids = tokenizer.encode(text, Special::Parse, false).expect("encodes");
        let mut stream = text::DecodeStream::from_start(tokenizer.clone()).show_special(true);
        let mut streamed: String = ids.iter().map(|id| stream.push(*id).to_owned()).collect();
        streamed.push_str(&stream.finish());
        assert_eq!(streamed, tokenizer.decode(&ids, false), "{text:?}");
    }
}
