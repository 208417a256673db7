//! Chat templates. Input: the template, a zero byte, the text of the one message.
//!
//! Looks for: a panic, and a template that runs or writes without end (the run's time and memory limits).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (source, rest) = bytes.split_at(at);
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = text::ChatTemplate::compile(source) else { return };
    let content = String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
    let messages = [serde_json::json!({ "role": "user", "content": content })];
    let _ = template.render(&messages, None, true, &serde_json::Map::new());
});
