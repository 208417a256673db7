//! The report for the eye.
//!
//! Names and texts come from the file, so they are shown escaped: a file cannot move the terminal's cursor.

use serde_json::Value;

use super::report::{Memory, Report};
use crate::store::size;
use crate::term::{Colour, clean, out, paint};

/// Widest metadata value, in characters.
const VALUE_WIDTH: usize = 72;
/// Widest name column, in characters.
const NAME_WIDTH: usize = 56;

pub(super) fn print(report: &Report) {
    summary(report);
    heading("metadata");
    let mut lines = Vec::new();
    for (key, value) in &report.metadata {
        flatten(key, value, &mut lines);
    }
    let width = lines.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0).min(NAME_WIDTH);
    for (key, value) in &lines {
        out!("  {key:width$}  {value}");
    }
    if !report.tensors.is_empty() {
        tensors(report);
        formats(report);
    }
    memory(report.memory.as_ref(), report.memory_unknown.as_deref());
}

fn heading(text: &str) {
    out!("");
    out!("{}", paint(Colour::Bold, text));
}

fn summary(report: &Report) {
    let line = |label: &str, value: &str| out!("{}  {value}", paint(Colour::Bold, &format!("{label:>10}")));
    line("model", &clean(&report.path));
    line("kind", &report.kind);
    line("family", report.family.unwrap_or("unknown"));
    let runs = match &report.cannot_run {
        None => "yes".to_owned(),
        Some(why) => paint(Colour::Red, &format!("no: {}", clean(why))),
    };
    line("runs", &runs);
    let files = match report.files.len() {
        1 => size(report.file_bytes),
        n => format!("{} in {n} files", size(report.file_bytes)),
    };
    line("size", &files);
    line("parameters", &format!("{} ({})", count(report.parameters), grouped(report.parameters)));
    if report.parameters > 0 {
        let bytes: u64 = report.tensors.iter().map(|t| t.bytes).sum();
        line("bits", &format!("{:.2} a parameter", bytes as f64 * 8.0 / report.parameters as f64));
    }
}

/// One line for each scalar, objects opened up by dots.
fn flatten(key: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    if let Value::Object(map) = value {
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| map.get(name).and_then(Value::as_u64).unwrap_or_default();
        if let (Some(of), Some(Value::Array(first))) = (map.get("array_of"), map.get("first")) {
            let shown: Vec<String> = first.iter().map(plain).collect();
            let of = of.as_str().unwrap_or_default();
            let tail = format!(" …] {} × {of}", grouped(number("length")));
            let head = format!("[{},", shown.join(", "));
            let head = clip_to(&head, VALUE_WIDTH.saturating_sub(tail.chars().count()));
            lines.push((clean(key), format!("{head}{tail}")));
        } else if map.contains_key("text_of_chars") {
            let chars = format!(" ({} characters)", grouped(number("text_of_chars")));
            let first = clip_to(&clean(text("first")), VALUE_WIDTH - chars.len());
            lines.push((clean(key), format!("{first}{chars}")));
        } else {
            for (name, value) in map {
                flatten(&format!("{key}.{name}"), value, lines);
            }
        }
        return;
    }
    lines.push((clean(key), clip(&plain(value))));
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        other => clean(&other.to_string()),
    }
}

fn tensors(report: &Report) {
    heading(&format!("tensors ({})", report.tensors.len()));
    let names: Vec<String> = report.tensors.iter().map(|t| clip_to(&clean(&t.name), NAME_WIDTH)).collect();
    let shapes: Vec<String> = report.tensors.iter().map(|t| shape(&t.shape)).collect();
    let widest = |list: &[String]| list.iter().map(|s| s.chars().count()).max().unwrap_or(0);
    let (name_width, shape_width) = (widest(&names), widest(&shapes));
    for ((t, name), shape) in report.tensors.iter().zip(&names).zip(&shapes) {
        out!("  {name:name_width$}  {:6}  {shape:>shape_width$}  {:>9}", t.format, size(t.bytes));
    }
}

fn formats(report: &Report) {
    heading("by format");
    let total: u64 = report.formats.iter().map(|f| f.bytes).sum();
    for f in &report.formats {
        let share = f.bytes as f64 * 100.0 / total.max(1) as f64;
        let (parameters, bytes) = (count(f.parameters), size(f.bytes));
        out!(
            "  {:6}  {:>5} {}  {parameters:>8}  {bytes:>9}  {share:5.1} %",
            f.format,
            f.tensors,
            if f.tensors == 1 { "tensor " } else { "tensors" }
        );
    }
}

fn memory(memory: Option<&Memory>, unknown: Option<&str>) {
    let Some(m) = memory else {
        heading("memory");
        out!("  not known: {}", clean(unknown.unwrap_or_default()));
        return;
    };
    heading(&format!(
        "memory at a context of {} of {} tokens",
        grouped(m.context as u64),
        grouped(m.context_of_model as u64)
    ));
    out!("  {:17}  {:>9}", "weights, packed", size(m.weights_bytes));
    let each = size(m.kv_bytes_per_token);
    out!("  {:17}  {:>9}  {each} a token, f16", "keys and values", size(m.kv_bytes));
    out!("  {:17}  {:>9}", "scratch", size(m.scratch_bytes));
    out!("  {:17}  {:>9}", "total", size(m.total_bytes));
}

fn shape(dimensions: &[usize]) -> String {
    if dimensions.is_empty() {
        return "scalar".to_owned();
    }
    dimensions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ")
}

fn clip(text: &str) -> String {
    clip_to(text, VALUE_WIDTH)
}

fn clip_to(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(width.saturating_sub(1)).collect::<String>())
}

/// 134515008 as "134.5 M".
fn count(n: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "B"), (1_000_000, "M"), (1_000, "K")];
    match UNITS.iter().find(|(unit, _)| n >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", n as f64 / *unit as f64),
        None => n.to_string(),
    }
}

/// Digits in groups of three.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            (grouped(0), grouped(999), grouped(134_515_008)),
            ("0".into(), "999".into(), "134,515,008".into())
        );
        assert_eq!((count(999), count(134_515_008)), ("999".into(), "134.5 M".into()));
        assert_eq!((shape(&[]), shape(&[49152, 576])), ("scalar".into(), "49152 × 576".into()));
    }

    #[test]
    fn a_file_cannot_write_to_the_terminal_what_it_likes() {
        let mut lines = Vec::new();
        flatten("k\u{1b}[2J", &json!("a\u{1b}]0;x\u{7}\nb\u{202e}"), &mut lines);
        assert_eq!(lines, [("k\\u{1b}[2J".to_owned(), "a\\u{1b}]0;x\\u{7}\\nb\\u{202e}".to_owned())]);
    }

    #[test]
    fn cut_values_say_what_was_cut() {
        let mut lines = Vec::new();
        flatten("tokens", &json!({"array_of": "string", "length": 49152, "first": ["a", "b"]}), &mut lines);
        flatten("c", &json!({"rope": {"type": "yarn"}, "n": 3}), &mut lines);
        flatten("t", &json!({"text_of_chars": 4000, "first": "x".repeat(100)}), &mut lines);
        assert_eq!(lines[0].1, "[a, b, …] 49,152 × string");
        assert_eq!(lines[1..3], [("c.rope.type".into(), "yarn".into()), ("c.n".into(), "3".into())]);
        assert!(lines[3].1.ends_with("… (4,000 characters)") && lines[3].1.chars().count() == VALUE_WIDTH);
    }
}
