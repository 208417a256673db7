//! Vectors as JSON, a line each.

use inference::{Embedding, InputLength};
use serde::Serialize;
use serde_json::Value;

use crate::Failure;
use crate::lines::Line;

#[derive(Serialize)]
struct Dense<'a> {
    id: &'a Value,
    tokens: usize,
    #[serde(skip_serializing_if = "is_zero")]
    truncated: usize,
    embedding: &'a [f32],
}

#[derive(Serialize)]
struct Tokens<'a> {
    id: &'a Value,
    tokens: usize,
    #[serde(skip_serializing_if = "is_zero")]
    truncated: usize,
    embeddings: Vec<&'a [f32]>,
}

#[derive(Serialize)]
struct Sparse<'a> {
    id: &'a Value,
    tokens: usize,
    #[serde(skip_serializing_if = "is_zero")]
    truncated: usize,
    indices: Vec<u32>,
    values: Vec<f32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Appends a line for a text's vectors.
///
/// # Errors
/// A number that has no JSON form.
pub(super) fn append(
    to: &mut String,
    line: &Line,
    length: InputLength,
    embedding: &Embedding,
) -> Result<(), Failure> {
    let (id, InputLength { tokens, truncated }) = (&line.id, length);
    let json = match embedding {
        Embedding::Dense(embedding) => serde_json::to_string(&Dense { id, tokens, truncated, embedding }),
        Embedding::Tokens { width, values } => {
            let embeddings = values.chunks_exact((*width).max(1)).collect();
            serde_json::to_string(&Tokens { id, tokens, truncated, embeddings })
        }
        Embedding::Sparse(entries) => {
            let (indices, values) = entries.iter().copied().unzip();
            serde_json::to_string(&Sparse { id, tokens, truncated, indices, values })
        }
    };
    to.push_str(&json?);
    to.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_a_line() {
        let line = Line { number: 1, id: "x".into(), text: String::new() };
        let length = InputLength { tokens: 2, truncated: 0 };
        let cut = InputLength { tokens: 2, truncated: 3 };
        let mut all = String::new();
        append(&mut all, &line, length, &Embedding::Dense(vec![0.5, -0.1])).unwrap();
        append(&mut all, &line, cut, &Embedding::Tokens { width: 2, values: vec![1.0, 2.0, 3.0, 4.0] })
            .unwrap();
        append(&mut all, &line, length, &Embedding::Sparse(vec![(7, 0.25)])).unwrap();
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"id":"x","tokens":2,"embedding":[0.5,-0.1]}"#,
                r#"{"id":"x","tokens":2,"truncated":3,"embeddings":[[1.0,2.0],[3.0,4.0]]}"#,
                r#"{"id":"x","tokens":2,"indices":[7],"values":[0.25]}"#,
            ]
        );
    }
}
