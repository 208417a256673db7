//! What can be wrong with a model, or with what is asked of it.

use std::fmt;
use std::path::PathBuf;

/// Why a model cannot be loaded, or a run not be finished.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("the file is not an ONNX model: {0}")]
    Format(String),
    #[error("{what}: {value}; the limit is {limit}")]
    Limit { what: &'static str, value: u64, limit: u64 },
    #[error("tensor '{name}': {problem}")]
    Tensor { name: String, problem: String },
    #[error("the graph: {0}")]
    Graph(String),
    #[error("{node}: {problem}")]
    Node { node: NodeLabel, problem: String },
    #[error("{}", missing(.0))]
    Unsupported(Vec<NodeLabel>),
    #[error("input '{name}': {problem}")]
    Input { name: String, problem: String },
    #[error("the model has no output '{name}'; its outputs are {}", .known.join(", "))]
    Output { name: String, known: Vec<String> },
    #[error("the run was stopped")]
    Stopped,
}

/// A node, as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabel {
    /// The node's name, or that of its first output.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// The operator's domain; `ai.onnx` for the default one.
    pub domain: String,
    /// The version of the domain that the model imports.
    pub version: i64,
}

impl fmt::Display for NodeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeLabel { name, operator, domain, version } = self;
        write!(f, "node {name} ({operator}, {domain} {version})")
    }
}

/// The most nodes that a message lists.
const LISTED: usize = 8;

fn missing(nodes: &[NodeLabel]) -> String {
    let mut kinds: Vec<&NodeLabel> = Vec::new();
    for node in nodes {
        if !kinds.iter().any(|kind| kind.operator == node.operator && kind.domain == node.domain) {
            kinds.push(node);
        }
    }
    let list: Vec<String> = kinds.iter().take(LISTED).map(ToString::to_string).collect();
    let more =
        if kinds.len() > LISTED { format!(" and {} more", kinds.len() - LISTED) } else { String::new() };
    format!(
        "operators that are not supported: {}{more}. Convert the model again with another opset or without these \
         operators, run this model with ONNX Runtime, or report the operator",
        list.join(", ")
    )
}

/// Why an operator cannot be made or computed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// In words, without the node.
    Said(String),
    /// The caller's flag was raised.
    Stopped,
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Said(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Problem {
        Problem::Said(text.to_owned())
    }
}

impl Problem {
    /// The error of this problem at `node`.
    pub(crate) fn at(self, node: &NodeLabel) -> Error {
        match self {
            Problem::Said(problem) => Error::Node { node: node.clone(), problem },
            Problem::Stopped => Error::Stopped,
        }
    }
}
