//! The table of formats in `docs/files.md` is what the code says.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use tensor::{Dtype, block_shape};

fn row(dtype: Dtype) -> String {
    let (weights, bytes) = (dtype.block_weights(), dtype.block_bytes());
    let (group, min) = match block_shape(dtype) {
        None => ("–".to_owned(), "–"),
        Some(shape) => (format!("{} weights", shape.group), if shape.has_min { "yes" } else { "no" }),
    };
    let bits = bytes as f64 * 8.0 / weights as f64;
    format!("| {dtype} | {} | {weights} | {bytes} | {bits:.4} | {group} | {min} |", dtype.ggml_id())
}

#[test]
fn the_table_of_formats_is_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = page.split("a scale for | minimum |\n").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = Dtype::ALL.into_iter().map(row).collect();
    assert_eq!(rows, expected, "docs/files.md should have:\n{}", expected.join("\n"));
}
