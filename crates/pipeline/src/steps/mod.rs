//! The kinds of steps: a file each, and a row in [`KINDS`].

mod image;
mod labels;
mod model;
mod pool;
mod resize;
mod scores;
mod shape;
mod table;
mod tokenize;

use toml::Table;

use crate::definition::Node;
use crate::files::Files;

/// The rest of a step's table, behind its kind: its options and tensors.
type Read = fn(Table, &Files<'_>) -> Result<Node, String>;

/// The kinds of steps with what reads their tables.
const KINDS: [(&str, Read); 11] = [
    ("cast", shape::cast),
    ("concat", shape::concat),
    ("image", image::read),
    ("labels", labels::read),
    ("model", model::read),
    ("normalize", pool::normalize),
    ("pool", pool::read),
    ("reshape", shape::reshape),
    ("sigmoid", scores::sigmoid),
    ("softmax", scores::softmax),
    ("tokenize", tokenize::read),
];

/// Reads the table of a step.
pub(crate) fn read(mut table: Table, files: &Files<'_>) -> Result<Node, String> {
    let names = || KINDS.map(|(name, _)| name).join(", ");
    let Some(kind) = table.remove("kind") else {
        return Err(format!("it has no kind; kinds are: {}", names()));
    };
    let found = KINDS.iter().find(|(name, _)| kind.as_str() == Some(name));
    let Some((name, read)) = found else { return Err(format!("the kind {kind} is none of {}", names())) };
    read(table, files).map_err(|why| format!("{name}: {}", why.trim_end()))
}
