//! `model`: another model of the server computes.

use serde::Deserialize;
use toml::Table;

use super::table::{node, options, renamed};
use crate::definition::{Node, Work};
use crate::files::Files;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    model: String,
    version: Option<u64>,
}

pub(super) fn read(mut table: Table, _: &Files<'_>) -> Result<Node, String> {
    let (inputs, taken) = renamed(&mut table, "inputs")?;
    let (outputs, made) = renamed(&mut table, "outputs")?;
    let Options { model, version } = options(table)?;
    let name = format!("model {model}");
    Ok(node(&name, taken, made, Work::Model { model, version, inputs, outputs }))
}
