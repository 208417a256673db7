//! What the tables of steps have in common: their options, and the names of their tensors.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::definition::{Node, Work};
use crate::operation::Operation;

/// The options of a step: what is left of its table.
pub(super) fn options<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}

/// The names of tensors under `input` or `inputs`, or `output` or `outputs`.
pub(super) fn tensors(table: &mut Table, what: &str) -> Result<Vec<String>, String> {
    let (one, many) = (table.remove(what), table.remove(&format!("{what}s")));
    let names = match (one, many) {
        (Some(Value::String(name)), None) => Some(vec![name]),
        (None, Some(Value::Array(names))) => {
            names.into_iter().map(|name| name.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    };
    names.ok_or_else(|| format!("{what} = \"name\" or {what}s = [\"name\", …] must be there"))
}

/// The names of tensors by the names of a model under `inputs` or `outputs`: the model's, and the pipeline's.
pub(super) fn renamed(table: &mut Table, what: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let Some(Value::Table(names)) = table.remove(what) else {
        return Err(format!(
            "{what} = {{ \"name of the model\" = \"name of the pipeline\", … }} must be there"
        ));
    };
    let one = |(theirs, ours): (String, Value)| match ours {
        Value::String(ours) => Ok((theirs, ours)),
        other => Err(format!("{what}.{theirs} is {other}; it must be the name of a tensor")),
    };
    Ok(names.into_iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

/// A step of one input and one output that is computed here.
pub(super) fn one_to_one(
    mut table: Table,
    kind: &str,
    make: impl FnOnce(Table) -> Result<Arc<dyn Operation>, String>,
) -> Result<Node, String> {
    let (inputs, outputs) = (tensors(&mut table, "input")?, tensors(&mut table, "output")?);
    if (inputs.len(), outputs.len()) != (1, 1) {
        return Err("it has one input and one output".into());
    }
    let operation = make(table)?;
    Ok(node(kind, inputs, outputs, Work::Own(operation)))
}

pub(super) fn node(kind: &str, inputs: Vec<String>, outputs: Vec<String>, work: Work) -> Node {
    Node { name: kind.to_owned(), inputs, outputs, work }
}
