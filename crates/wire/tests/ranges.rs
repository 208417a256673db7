//! Every range that docs/api-reference.md gives for a number is the real one: both ends are taken, what is beyond is not.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use serde_json::{Value, json};
use wire::{ChatRequest, CompletionRequest, Fault};

/// Names, and parts of a cell, which may be ranges.
type Row<'a> = (Vec<&'a str>, Vec<Option<(f64, f64)>>);

/// A row of the table of fields: the names, and the parts of its second cell that are ranges, in their order.
fn row(line: &str) -> Option<Row<'_>> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let names = cells.next()?.split('`').step_by(2).collect();
    let cell = cells.next()?.replace('\u{2212}', "-");
    // 86,400 is one number; 0, 1 are two.
    let thousands = |at: usize, c: char| {
        c == ','
            && cell[..at].ends_with(|c: char| c.is_ascii_digit())
            && cell[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    };
    let plain: String = cell.char_indices().filter(|&(at, c)| !thousands(at, c)).map(|(_, c)| c).collect();
    let number = |text: &str| text.trim_end_matches(['.', ':']).parse::<f64>().ok();
    let range = |part: &str| {
        let (low, rest) = part.trim().split_once(" to ")?;
        Some((number(low)?, number(rest.split(' ').next()?)?))
    };
    Some((names, plain.split([',', ';']).map(range).collect()))
}

fn refused(name: &str, value: &Value) -> bool {
    let read = |read: fn(&[u8]) -> Option<Fault>, mut body: Value| {
        body[name] = value.clone();
        read(body.to_string().as_bytes()).is_some_and(|fault| fault.param.as_deref() == Some(name))
    };
    let chat = json!({"messages": [{"role": "user", "content": "hi"}], "logprobs": true});
    read(|body| ChatRequest::parse(body).err(), chat)
        || read(|body| CompletionRequest::parse(body).err(), json!({"prompt": "hi"}))
}

#[test]
fn docs_every_documented_range_is_the_real_one() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api-reference.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut checked = Vec::new();
    // Not numbers, or bound to other fields.
    let others = ["messages", "min_tokens", "logprobs", "best_of", "n", "mirostat"];
    for (names, ranges) in page.lines().filter_map(row) {
        if others.contains(&names[0]) {
            continue;
        }
        // One range is that of all names; of several each name has its own.
        let one = ranges.iter().flatten().count() == 1;
        for (at, name) in names.iter().enumerate() {
            let at = if one { 0 } else { at };
            let Some(&Some((low, high))) = ranges.get(at) else { continue };
            for value in [low, high] {
                let whole = json!(value as i64);
                let value = if value.fract() == 0.0 { whole } else { json!(value) };
                assert!(!refused(name, &value), "{name}: {value} is in the documented range");
            }
            for value in [low - (low.abs() * 0.01).max(0.001), high + high.abs() * 0.01 + 0.001] {
                assert!(refused(name, &json!(value)), "{name}: {value} is beyond the documented range");
            }
            checked.push(*name);
        }
    }
    for name in
        ["temperature", "top_p", "min_p", "frequency_penalty", "repetition_penalty", "top_n_sigma", "timeout"]
    {
        assert!(checked.contains(&name), "{name} is not in {checked:?}");
    }
}

#[test]
fn docs_timeout_0_001_is_taken() {
    let body = br#"{"messages": [{"role": "user", "content": "hi"}], "timeout": 0.001}"#;
    assert_eq!(ChatRequest::parse(body).unwrap().handling.timeout_s, Some(0.001));
}
