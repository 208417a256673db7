//! The bounds in `docs/api-reference.md` and `docs/limits.md` are those of the code.

use wire::{ChatRequest, limits};

const MANUAL: &str =
    concat!(include_str!("../../../docs/api-reference.md"), include_str!("../../../docs/limits.md"));

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    match digits.len() {
        4..=6 => format!("{},{}", &digits[..digits.len() - 3], &digits[digits.len() - 3..]),
        _ => digits,
    }
}

#[test]
fn every_bound_is_in_the_manual() {
    for (what, words) in [
        ("MESSAGES", format!("1 to {}; roles", thousands(limits::MESSAGES))),
        ("PARTS", format!("up to {} text parts", thousands(limits::PARTS))),
        ("PROMPTS", format!("or up to {} of either", limits::PROMPTS)),
        ("N, CHOICES", format!("1 to {}; prompts × n at most {}", limits::N, limits::CHOICES)),
        ("STOPS", format!("up to {}, of 1 to {} bytes each", limits::STOPS, thousands(limits::STOP_BYTES))),
        ("STOP_IDS", format!("up to {} token ids", limits::STOP_IDS)),
        ("ALLOWED_IDS", format!("up to {} of them", thousands(limits::ALLOWED_IDS))),
        ("BAD_WORDS", format!("up to {} words of 1 to {} bytes", limits::BAD_WORDS, limits::BAD_WORD_BYTES)),
        ("SAMPLERS", format!("up to {} names", limits::SAMPLERS)),
        ("LOGPROBS", format!("0 to {} alternatives", limits::LOGPROBS)),
        (
            "PROMPT_LOGPROBS",
            format!("| {}: prompt tokens × (1 + alternatives)", thousands(limits::PROMPT_LOGPROBS)),
        ),
        ("LOGIT_BIAS", format!("up to {} entries", thousands(limits::LOGIT_BIAS))),
        (
            "DRY_BREAKERS",
            format!("up to {} strings of 1 to {} bytes", limits::DRY_BREAKERS, limits::DRY_BREAKER_BYTES),
        ),
        ("TOOLS", format!("up to {} functions", limits::TOOLS)),
        ("TEMPLATE_ARGUMENTS", format!("up to {} variables", limits::TEMPLATE_ARGUMENTS)),
        ("NAME_BYTES", format!("{} bytes", limits::NAME_BYTES)),
        ("TOOL_CALLS", format!("| {} | 400 |", limits::TOOL_CALLS)),
        ("SCHEMA_BYTES", format!("| {} KiB as JSON | 400 |", limits::SCHEMA_BYTES >> 10)),
        (
            "GRAMMAR_BYTES, REGEX_BYTES",
            format!("| {} KiB; {} KiB | 400 |", limits::GRAMMAR_BYTES >> 10, limits::REGEX_BYTES >> 10),
        ),
        (
            "GUIDED_CHOICES, GUIDED_CHOICE_BYTES",
            format!(
                "| {}, of 1 to {} bytes | 400 |",
                thousands(limits::GUIDED_CHOICES),
                thousands(limits::GUIDED_CHOICE_BYTES)
            ),
        ),
        (
            "INPUTS, INPUT_TOKENS",
            format!(
                "| {}; {} token ids in one | 400 |",
                thousands(limits::INPUTS),
                thousands(limits::INPUT_TOKENS)
            ),
        ),
        (
            "DOCUMENTS",
            format!(
                "| {}, and {} MiB of text that is repeated for others | 400 |",
                thousands(limits::DOCUMENTS),
                limits::PAIR_BYTES >> 20
            ),
        ),
        ("VECTOR_NUMBERS", format!("| {} | 400 |", "4,194,304")),
        ("BODY_BYTES", format!("{} MiB", limits::BODY_BYTES >> 20)),
    ] {
        assert!(MANUAL.contains(&words), "docs/api-reference.md and docs/limits.md lack {words:?} ({what})");
    }
}

/// The ends of a range such as `-1 to 100`; none for what is no range of numbers.
fn range(cell: &str) -> Option<(f64, f64)> {
    let (from, to) = cell.trim().split_once(" to ")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn accepts(field: &str, value: f64) -> bool {
    let body = serde_json::json!({"messages": [{"role": "user", "content": "x"}]});
    let mut body = body.as_object().expect("an object").clone();
    #[allow(clippy::cast_possible_truncation, reason = "whole numbers of the table are below 2^24 + 2")]
    let number =
        if value.fract() == 0.0 { serde_json::json!(value as i64) } else { serde_json::json!(value) };
    body.insert(field.to_owned(), number);
    ChatRequest::parse(serde_json::Value::from(body).to_string().as_bytes()).is_ok()
}

#[test]
fn fault_docs_ranges_of_sampling_are_those_of_the_api() {
    let page = include_str!("../../../docs/sampling.md");
    let mut checked = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, field, _, api, ..] = cells.as_slice() else { continue };
        let Some((from, to)) = range(api) else { continue };
        for (value, good) in [(from, true), (to, true), (from - 0.5, false), (to + 1.0, false)] {
            let value = if good || from.fract() != 0.0 { value } else { value.floor() };
            assert_eq!(accepts(field, value), good, "docs/sampling.md says {api} for {field}; {value}");
        }
        checked += 1;
    }
    assert!(checked >= 18, "only {checked} ranges were found in docs/sampling.md");
}
