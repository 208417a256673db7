//! `pipeline.toml`: inputs, outputs, and a table for each step.

use serde::Deserialize;
use toml::Table;
use wire::oip::Datatype;

use crate::definition::{Definition, Node, Port};
use crate::files::Files;
use crate::spec::Spec;
use crate::steps;

/// Most bytes of a `pipeline.toml`.
pub const MAX_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    max_batch_size: usize,
    input: Vec<WrittenPort>,
    output: Vec<WrittenPort>,
    step: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPort {
    name: String,
    datatype: Option<String>,
    shape: Option<Vec<i64>>,
}

impl WrittenPort {
    fn read(self) -> Result<Port, String> {
        let name = wire::error::quote(&self.name);
        let datatype = match self.datatype.as_deref() {
            None => None,
            Some(word) => match Datatype::parse(word) {
                Some(datatype) => Some(datatype),
                None => {
                    return Err(format!("the datatype of {name} is {word:?}; it must be one such as FP32"));
                }
            },
        };
        let rank = self.shape.as_ref().map_or(0, Vec::len);
        let is_wrong = |dim: &&i64| **dim < -1 || **dim == 0;
        if let Some(dim) = self.shape.iter().flatten().find(is_wrong) {
            return Err(format!("a dimension of {name} is {dim}; it must be at least 1, or -1 for any"));
        }
        if rank > wire::limits::TENSOR_RANK {
            return Err(format!(
                "{name} has {rank} dimensions; at most {} are allowed",
                wire::limits::TENSOR_RANK
            ));
        }
        Ok(Port { name: self.name, spec: Spec { datatype, shape: self.shape } })
    }
}

impl Definition {
    /// Reads a `pipeline.toml`; `files` reads the files that it names.
    ///
    /// # Errors
    /// In words: a text that is not in the format, a step that is not known, tensors that do not make a graph.
    pub fn parse(text: &str, files: &Files<'_>) -> Result<Definition, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("it has {} bytes; the limit is {MAX_BYTES}", text.len()));
        }
        let Written { max_batch_size, input, output, step } =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let read = |(at, table): (usize, Table)| {
            steps::read(table, files).map_err(|why| format!("step {}: {why}", at + 1))
        };
        let named = |(at, node): (usize, Node)| {
            let name = format!("{} ({})", at + 1, node.name);
            Node { name, ..node }
        };
        let steps = step.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let definition = Definition {
            inputs: input.into_iter().map(WrittenPort::read).collect::<Result<_, _>>()?,
            outputs: output.into_iter().map(WrittenPort::read).collect::<Result<_, _>>()?,
            steps: steps.into_iter().enumerate().map(named).collect(),
            max_batch_size,
        };
        definition.ordered()
    }
}
