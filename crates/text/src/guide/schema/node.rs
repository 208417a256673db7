//! What values a schema allows, as a graph of nodes.

use std::collections::HashSet;

use super::term::Term;

/// What a value may be.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Not known yet.
    Pending,
    /// Nothing, for this reason.
    Never(String),
    /// Any JSON.
    Any,
    /// One of these texts: a string, a number, `true`, `false`, `null`.
    Scalar(Term),
    Either(Vec<usize>),
    Object(Object),
    Array(Array),
}

/// An object: named fields in this order, each at most once, then others.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    /// Keys (with their quotation marks) of other fields, and what these may be.
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

/// A list: these items, then any number of others.
#[derive(Debug, Clone)]
pub(super) struct Array {
    pub(super) first: Vec<usize>,
    pub(super) items: usize,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
    /// At least so many items that are like this.
    pub(super) contains: Option<(usize, u64)>,
    /// All items are different, and each is one of these texts.
    pub(super) distinct: Option<Vec<String>>,
}

/// A part of what holds together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A schema.
    All(usize),
    /// A schema's own assertions, without those that combine schemas.
    Own(usize),
    /// One of these schemas at least.
    Any(Vec<usize>),
    /// Exactly one of a schema's `oneOf`.
    One(usize),
}

/// What a node is in the end, whatever options of options are on the way: each once.
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
