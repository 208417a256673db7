//! A graph, checked: names are unique, every input is defined, nothing waits for itself.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use crate::error::{Error, NodeLabel};
use crate::file::Beside;
use crate::info::ValueInfo;
use crate::options::Options;
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::stored;

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Inner graphs inside inner graphs.
const MAX_INNER: usize = 12;
/// The most nodes that an error names.
const LISTED: usize = 8;

/// A checked graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    /// The nodes in an order in which each comes after what it needs.
    pub order: Vec<usize>,
    /// How errors name each node.
    pub labels: Vec<NodeLabel>,
    /// Bytes of the values of all stored tensors.
    pub tensor_bytes: u64,
}

/// The default domain's name.
pub(crate) const CORE: &str = "ai.onnx";
/// The domain of trees, scalers and encoders.
pub(crate) const ML: &str = "ai.onnx.ml";

/// The name of a domain: the default one has two spellings.
pub(crate) fn domain(name: &str) -> &str {
    if name.is_empty() { CORE } else { name }
}

impl Graph {
    pub(crate) fn check(model: &ModelProto, beside: &Beside, options: &Options) -> Result<Graph, Error> {
        let graph = model.graph.as_ref().ok_or_else(|| Error::Graph("the file holds none".to_owned()))?;
        let labels = labels(model, graph)?;
        let tensor_bytes = tensors(graph, beside, options, 0)?;
        let stored: HashSet<&str> = stored_names(graph);
        let mut names: HashSet<&str> = HashSet::new();
        for name in graph.initializer.iter().map(|tensor| &*tensor.name) {
            define(&mut names, name, "initializer")?;
        }
        // Before version 4 of the format, initializers are listed as inputs too.
        let given: Vec<_> = graph.input.iter().filter(|info| !stored.contains(&*info.name)).collect();
        for info in &given {
            define(&mut names, &info.name, "input")?;
        }
        let mut made_by: HashMap<&str, usize> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                define(&mut names, name, "output of a node")?;
                made_by.insert(name, index);
            }
        }
        let order = order(graph, &names, &made_by, &labels)?;
        let inputs = given.into_iter().map(ValueInfo::read).collect::<Result<Vec<_>, _>>()?;
        let outputs = graph.output.iter().map(ValueInfo::read).collect::<Result<Vec<_>, _>>()?;
        let mut seen = HashSet::new();
        for output in &outputs {
            if !names.contains(&*output.name) {
                return Err(Error::Graph(format!("output '{}' is made by no node", output.name)));
            }
            if !seen.insert(&*output.name) {
                return Err(Error::Graph(format!("output '{}' is there twice", output.name)));
            }
        }
        Ok(Graph { inputs, outputs, order, labels, tensor_bytes })
    }
}

fn stored_names(graph: &GraphProto) -> HashSet<&str> {
    graph.initializer.iter().map(|tensor| &*tensor.name).collect()
}

fn define<'a>(names: &mut HashSet<&'a str>, name: &'a str, what: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Graph(format!("an {what} has no name")));
    }
    if name.len() > MAX_NAME_BYTES {
        let (value, limit) = (name.len() as u64, MAX_NAME_BYTES as u64);
        return Err(Error::Limit { what: "bytes of a name", value, limit });
    }
    if !names.insert(name) {
        return Err(Error::Graph(format!("'{name}' is defined twice, the second time as {what}")));
    }
    Ok(())
}

/// How errors name each node, with the version of its domain.
fn labels(model: &ModelProto, graph: &GraphProto) -> Result<Vec<NodeLabel>, Error> {
    let mut versions: HashMap<&str, i64> = HashMap::new();
    for import in &model.opset_import {
        let name = domain(&import.domain);
        if versions.insert(name, import.version).is_some_and(|other| other != import.version) {
            return Err(Error::Graph(format!("domain {name} is imported in two versions")));
        }
    }
    let label = |node: &NodeProto| {
        let first = node.output.iter().find(|name| !name.is_empty());
        let name = if node.name.is_empty() { first.cloned().unwrap_or_default() } else { node.name.clone() };
        let domain = domain(&node.domain).to_owned();
        match versions.get(&*domain) {
            Some(&version) => Ok(NodeLabel { name, operator: node.op_type.clone(), domain, version }),
            None => Err(Error::Graph(format!(
                "node {name} ({}) is of domain {domain}, of which the model imports no version",
                node.op_type
            ))),
        }
    };
    graph.node.iter().map(label).collect()
}

/// Checks the stored tensors of a graph and its inner ones; returns the bytes of their values.
fn tensors(graph: &GraphProto, beside: &Beside, options: &Options, depth: usize) -> Result<u64, Error> {
    if depth > MAX_INNER {
        let (value, limit) = (depth as u64, MAX_INNER as u64);
        return Err(Error::Limit { what: "graphs inside graphs", value, limit });
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(Error::Graph("sparse tensors are not supported".to_owned()));
    }
    let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
    let inside = attributes().flat_map(|one| one.t.iter().chain(&one.tensors));
    let mut bytes = 0u64;
    for tensor in graph.initializer.iter().chain(inside) {
        let named = |problem| Error::Tensor { name: tensor.name.clone(), problem };
        bytes = bytes.saturating_add(stored::check(tensor, beside).map_err(named)?);
        if bytes > options.max_bytes {
            let limit = options.max_bytes;
            return Err(Error::Limit { what: "bytes of the stored tensors", value: bytes, limit });
        }
    }
    for inner in attributes().flat_map(|one| one.g.iter().chain(&one.graphs)) {
        bytes = bytes.saturating_add(tensors(inner, beside, options, depth + 1)?);
    }
    Ok(bytes)
}

/// The names that an inner graph takes from outside.
fn free_names<'a>(graph: &'a GraphProto, free: &mut BTreeSet<&'a str>) {
    let mut own: HashSet<&str> = stored_names(graph);
    own.extend(graph.input.iter().map(|info| &*info.name));
    own.extend(graph.node.iter().flat_map(|node| &node.output).map(|name| &**name));
    let mut used = BTreeSet::new();
    for node in &graph.node {
        used.extend(needs(node));
    }
    used.extend(graph.output.iter().map(|info| &*info.name));
    free.extend(used.into_iter().filter(|name| !own.contains(name)));
}

/// The names that a node needs, for itself and its inner graphs.
fn needs(node: &NodeProto) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> =
        node.input.iter().map(|name| &**name).filter(|name| !name.is_empty()).collect();
    for inner in node.attribute.iter().flat_map(|one| one.g.iter().chain(&one.graphs)) {
        free_names(inner, &mut names);
    }
    names
}

/// The nodes in an order in which each comes after what it needs; where there is a choice, in that of the file.
fn order(
    graph: &GraphProto,
    names: &HashSet<&str>,
    made_by: &HashMap<&str, usize>,
    labels: &[NodeLabel],
) -> Result<Vec<usize>, Error> {
    let mut waiting = vec![0usize; graph.node.len()];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        for name in needs(node) {
            if !names.contains(name) {
                let problem = format!("its input '{name}' is no input, no initializer and made by no node");
                return Err(Error::Node { node: labels[index].clone(), problem });
            }
            if let Some(&maker) = made_by.get(name) {
                followers[maker].push(index);
                waiting[index] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..graph.node.len()).filter(|&index| waiting[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(graph.node.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &follower in &followers[index] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.push(Reverse(follower));
            }
        }
    }
    if order.len() == graph.node.len() {
        return Ok(order);
    }
    let cycle: Vec<String> =
        cycle(graph, made_by, &waiting).iter().map(|&index| labels[index].name.clone()).collect();
    let more = if cycle.len() > LISTED { format!(" … ({} nodes)", cycle.len()) } else { String::new() };
    let list = cycle.iter().take(LISTED).cloned().collect::<Vec<_>>().join(" → ");
    Err(Error::Graph(format!("nodes wait for each other in a cycle: {list}{more}")))
}

/// A cycle among the nodes that still wait.
fn cycle(graph: &GraphProto, made_by: &HashMap<&str, usize>, waiting: &[usize]) -> Vec<usize> {
    let Some(mut at) = waiting.iter().position(|&left| left > 0) else { return Vec::new() };
    // Whoever waits has a maker that waits: following makers, some node comes again.
    let mut path: Vec<usize> = Vec::new();
    let mut place: HashMap<usize, usize> = HashMap::new();
    loop {
        if let Some(&start) = place.get(&at) {
            let mut found = path.split_off(start);
            found.reverse();
            return found;
        }
        place.insert(at, path.len());
        path.push(at);
        let makers = needs(&graph.node[at]);
        let next = makers.iter().filter_map(|name| made_by.get(name)).find(|&&maker| waiting[maker] > 0);
        let Some(&next) = next else { return path };
        at = next;
    }
}
