//! The node graph of a schema: the values that it allows.

use std::collections::HashSet;

use super::term::Term;

/// A set of JSON values.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Not computed yet.
    Pending,
    /// No value, with the reason.
    Never(String),
    /// Any JSON value.
    Any,
    /// A scalar (string, number, `true`, `false`, `null`) whose text is in this set.
    Scalar(Term),
    Either(Vec<usize>),
    Object(Object),
    Array(Array),
}

/// An object: named fields in this order, each at most once, then others.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    /// Sets of further keys (with quotation marks), and the nodes of their values.
    pub(super) others: Vec<(Term, usize)>,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: usize,
    pub(super) required: bool,
}

/// An array: the first items, then any number of others.
#[derive(Debug, Clone)]
pub(super) struct Array {
    pub(super) first: Vec<usize>,
    pub(super) items: usize,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
    /// `contains`: a node, and the least number of items that satisfy it.
    pub(super) contains: Option<(usize, u64)>,
    /// `uniqueItems`: all items are distinct, and each is one of these texts.
    pub(super) distinct: Option<Vec<String>>,
}

/// A part of a conjunction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A whole schema, by id.
    All(usize),
    /// A schema's own assertions, without combinators.
    Own(usize),
    /// At least one of these schemas.
    Any(Vec<usize>),
    /// Exactly one of a schema's `oneOf`.
    One(usize),
}

/// The nodes that a node resolves to when nested alternatives are flattened, each once.
pub(super) fn leaves(nodes: &[Node], node: usize) -> Vec<usize> {
    let (mut found, mut seen, mut todo) = (Vec::new(), HashSet::new(), vec![node]);
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &nodes[id] {
            Node::Either(options) => todo.extend(options.iter().rev()),
            _ => found.push(id),
        }
    }
    found
}
