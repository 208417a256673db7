//! Chat templates. Input: the template, a zero byte, the text of the one message.
//!
//! Looks for: a panic, a template that runs or writes without end (the run's time and memory limits), and a prompt that
//! does not say what the user says.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// Any will do: the template alone is under test.
static TOKENIZER: LazyLock<text::Tokenizer> = LazyLock::new(|| {
    let file = br#"{"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#;
    text::Tokenizer::from_json(file).expect("a tokenizer")
});

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (source, rest) = bytes.split_at(at);
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = text::ChatTemplate::compile(source) else { return };
    let content = String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).into_owned();
    let nothing = serde_json::Map::new();
    let messages = |content: &str| [serde_json::json!({ "role": "user", "content": content })];
    let _ = template.render(&messages(&content), None, true, &nothing);
    let _ = template.remarks();
    let word: String = content.chars().filter(char::is_ascii_alphanumeric).collect();
    if let Ok(prompt) = template.prompt(&TOKENIZER, &messages(&word), None, true, &nothing) {
        assert!(
            prompt.text.to_lowercase().contains(&word.to_lowercase()),
            "{word:?} is not in {:?}",
            prompt.text
        );
    }
});
