//! `tokenize`: the tokenizer of an encoder reads texts, or pairs of texts.

use serde::Deserialize;
use toml::Table;

use super::table::{node, options, renamed, tensors};
use crate::definition::{Node, Work};
use crate::files::Files;

/// What a tokenizer makes.
const OUTPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Options {
    model: String,
    max_tokens: Option<usize>,
    #[serde(default)]
    truncate: bool,
}

pub(super) fn read(mut table: Table, _: &Files<'_>) -> Result<Node, String> {
    let inputs = tensors(&mut table, "input")?;
    let (outputs, made) = renamed(&mut table, "outputs")?;
    if !(1..=2).contains(&inputs.len()) {
        return Err("it has an input of texts, or two of pairs of texts".into());
    }
    if let Some(other) = outputs.iter().find(|name| !OUTPUTS.contains(&name.as_str())) {
        return Err(format!("outputs.{other} is none of {}", OUTPUTS.join(", ")));
    }
    let Options { model, max_tokens, truncate } = options(table)?;
    if max_tokens == Some(0) {
        return Err("max-tokens must be at least 1".into());
    }
    let name = format!("tokenize of {model}");
    Ok(node(&name, inputs, made, Work::Tokenize { model, max_tokens, truncate, outputs }))
}
