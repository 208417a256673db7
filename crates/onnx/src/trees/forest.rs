//! A tree ensemble as a model states it, checked: every tree is a tree, every reference is to a node that is there.

use std::collections::HashMap;

use super::real::Real;

/// The comparison of a split; the tree goes on at `yes` where it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
    /// Whether the feature is one of a set of values, by its index in [`Forest::sets`].
    Member(u32),
}

/// A split or leaf of a tree.
#[derive(Clone, Debug)]
pub(crate) enum Node<T> {
    Split {
        feature: u32,
        threshold: T,
        mode: Mode,
        /// Whether a missing value (NaN) takes the way of `yes`, whatever the comparison says.
        nan_yes: bool,
        /// Index in the tree of the node where the comparison holds.
        yes: u32,
        /// And of the one where it does not.
        no: u32,
    },
    /// The leaf's weights, by their range in [`Forest::weights`].
    Leaf { start: u32, end: u32 },
}

/// One tree; the first node is its root.
pub(crate) type Tree<T> = Vec<Node<T>>;

/// A tree ensemble.
pub(crate) struct Forest<T> {
    pub trees: Vec<Tree<T>>,
    /// The weights of leaves: a target and a value.
    pub weights: Vec<(u32, T)>,
    /// Values of the splits that test membership.
    pub sets: Vec<Vec<T>>,
    /// Number of targets or classes.
    pub targets: usize,
}

/// A node as the attributes of versions 1 and 3 list it.
pub(crate) struct Listed<T> {
    pub tree: i64,
    pub id: i64,
    pub feature: i64,
    pub threshold: T,
    /// None for a leaf.
    pub mode: Option<Mode>,
    pub nan_yes: bool,
    pub yes: i64,
    pub no: i64,
}

/// A weight of a leaf as the attributes list it.
pub(crate) struct ListedWeight<T> {
    pub tree: i64,
    pub node: i64,
    pub target: i64,
    pub value: T,
}

/// Places are counted in 32 bits.
fn place(n: usize) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| format!("{n} nodes or weights; the limit is {}", u32::MAX))
}

/// A feature's index, which must be a number of 24 bits: more columns than any table has.
fn feature_index(feature: i64, at: usize) -> Result<u32, String> {
    u32::try_from(feature)
        .ok()
        .filter(|&index| index < 1 << 24)
        .ok_or_else(|| format!("attribute nodes_featureids: {feature} at {at} is no feature"))
}

/// The trees of nodes listed by tree and id.
pub(crate) fn from_lists<T: Real>(
    nodes: &[Listed<T>],
    weights: &[ListedWeight<T>],
    targets: usize,
) -> Result<Forest<T>, String> {
    // Trees in order of their first node, which is the root; ids are unique in a tree.
    let mut index_of_tree: HashMap<i64, usize> = HashMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut place_of: HashMap<(i64, i64), u32> = HashMap::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let tree = *index_of_tree.entry(node.tree).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        if place_of.insert((node.tree, node.id), place(members[tree].len())?).is_some() {
            return Err(format!(
                "attribute nodes_nodeids: {} at {at} is a second node of that number in tree {}",
                node.id, node.tree
            ));
        }
        members[tree].push(at);
    }
    let (weights, leaves) = sort_weights(nodes, weights, targets, &place_of)?;
    let child = |name: &str, id: i64, at: usize| {
        let tree = nodes[at].tree;
        place_of.get(&(tree, id)).copied().ok_or_else(|| {
            let size = index_of_tree.get(&tree).map_or(0, |&tree| members[tree].len());
            format!("attribute {name}: {id} at {at} is not a node of tree {tree}, which has {size}")
        })
    };
    let mut trees = Vec::with_capacity(members.len());
    for listed in &members {
        let mut tree = Vec::with_capacity(listed.len());
        for &at in listed {
            let node = &nodes[at];
            tree.push(match node.mode {
                None => {
                    let (start, end) = leaves.get(&(node.tree, node.id)).copied().unwrap_or((0, 0));
                    Node::Leaf { start, end }
                }
                Some(mode) => Node::Split {
                    feature: feature_index(node.feature, at)?,
                    threshold: node.threshold,
                    mode,
                    nan_yes: node.nan_yes,
                    yes: child("nodes_truenodeids", node.yes, at)?,
                    no: child("nodes_falsenodeids", node.no, at)?,
                },
            });
        }
        trees.push(in_order(&tree).map_err(|problem| format!("tree {}: {problem}", nodes[listed[0]].tree))?);
    }
    Ok(Forest { trees, weights, sets: Vec::new(), targets })
}

/// Weights of one leaf next to each other, in the order of the list, and where each leaf's are.
#[allow(clippy::type_complexity, reason = "a list, and the places of its parts")]
fn sort_weights<T: Real>(
    nodes: &[Listed<T>],
    listed: &[ListedWeight<T>],
    targets: usize,
    place_of: &HashMap<(i64, i64), u32>,
) -> Result<(Vec<(u32, T)>, HashMap<(i64, i64), (u32, u32)>), String> {
    let mut of_leaf: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
    for (at, weight) in listed.iter().enumerate() {
        if !place_of.contains_key(&(weight.tree, weight.node)) {
            return Err(format!(
                "a weight of node {} of tree {}, which has no such node ({at} of the list)",
                weight.node, weight.tree
            ));
        }
        of_leaf.entry((weight.tree, weight.node)).or_default().push(at);
    }
    let mut weights = Vec::with_capacity(listed.len());
    let mut leaves = HashMap::with_capacity(of_leaf.len());
    for node in nodes.iter().filter(|node| node.mode.is_none()) {
        let start = place(weights.len())?;
        for &at in of_leaf.get(&(node.tree, node.id)).into_iter().flatten() {
            weights.push((target_index(listed[at].target, targets, at)?, listed[at].value));
        }
        leaves.insert((node.tree, node.id), (start, place(weights.len())?));
    }
    Ok((weights, leaves))
}

pub(crate) fn target_index(target: i64, targets: usize, at: usize) -> Result<u32, String> {
    u32::try_from(target)
        .ok()
        .filter(|&index| (index as usize) < targets)
        .ok_or_else(|| format!("a weight of target {target} ({at} of the list), and there are {targets}"))
}

/// The nodes that are reached from the first, breadth first: the two children of a split are neighbours, `yes` first.
///
/// # Errors
/// When a node is reached twice: what loops, or joins again, is no tree.
pub(crate) fn in_order<T: Copy>(tree: &[Node<T>]) -> Result<Tree<T>, String> {
    let mut seen = vec![false; tree.len()];
    let mut order: Vec<u32> = vec![0];
    let mut out: Vec<Node<T>> = Vec::with_capacity(tree.len());
    if tree.is_empty() {
        return Err("it has no node".to_owned());
    }
    seen[0] = true;
    let mut at = 0;
    while at < order.len() {
        let node = &tree[order[at] as usize];
        out.push(match *node {
            Node::Leaf { start, end } => Node::Leaf { start, end },
            Node::Split { feature, threshold, mode, nan_yes, yes, no } => {
                let first = place(order.len())?;
                for child in [yes, no] {
                    if std::mem::replace(&mut seen[child as usize], true) {
                        return Err(format!("its node {child} (counted from 0) is reached twice"));
                    }
                    order.push(child);
                }
                Node::Split { feature, threshold, mode, nan_yes, yes: first, no: first + 1 }
            }
        });
        at += 1;
    }
    Ok(out)
}

/// What `TreeEnsemble` (version 5) lists: splits and leaves apart, of all trees.
pub(crate) struct Lists<T> {
    pub roots: Vec<i64>,
    pub features: Vec<i64>,
    pub splits: Vec<T>,
    pub modes: Vec<Mode>,
    pub nan_yes: Vec<bool>,
    pub yes: Vec<i64>,
    pub no: Vec<i64>,
    pub yes_is_leaf: Vec<bool>,
    pub no_is_leaf: Vec<bool>,
    pub leaf_targets: Vec<i64>,
    pub leaf_weights: Vec<T>,
    pub sets: Vec<Vec<T>>,
    pub targets: usize,
}

/// The trees of version 5.
pub(crate) fn from_roots<T: Real>(lists: Lists<T>) -> Result<Forest<T>, String> {
    let mut weights = Vec::with_capacity(lists.leaf_weights.len());
    for (at, (&target, &value)) in lists.leaf_targets.iter().zip(&lists.leaf_weights).enumerate() {
        weights.push((target_index(target, lists.targets, at)?, value));
    }
    place(weights.len())?;
    let mut trees = Vec::new();
    let mut seen = vec![false; lists.features.len()];
    for &root in &lists.roots {
        trees.push(one_tree(&lists, root, &mut seen)?);
    }
    Ok(Forest { trees, weights, sets: lists.sets, targets: lists.targets })
}

/// The tree below a root. One whose branches are the same leaf is a leaf, as the standard writes trees of one node.
fn one_tree<T: Real>(lists: &Lists<T>, root: i64, seen: &mut [bool]) -> Result<Tree<T>, String> {
    let split = |id: i64, name: &str, at: usize| {
        usize::try_from(id).ok().filter(|&index| index < lists.features.len()).ok_or_else(|| {
            format!("attribute {name}: {id} at {at} is no node, of which there are {}", lists.features.len())
        })
    };
    let leaf = |id: i64, name: &str, at: usize| {
        usize::try_from(id).ok().filter(|&index| index < lists.leaf_weights.len()).ok_or_else(|| {
            format!(
                "attribute {name}: {id} at {at} is no leaf, of which there are {}",
                lists.leaf_weights.len()
            )
        })
    };
    let root = split(root, "tree_roots", 0)?;
    let single = lists.yes_is_leaf[root] && lists.no_is_leaf[root] && lists.yes[root] == lists.no[root];
    if single {
        let start = leaf(lists.yes[root], "nodes_truenodeids", root)? as u32;
        return Ok(vec![Node::Leaf { start, end: start + 1 }]);
    }
    let mut tree: Tree<T> = Vec::new();
    // Places of what is still to come, breadth first: whether it is a leaf, and its index.
    let mut order = vec![(false, root)];
    let mut at = 0;
    while at < order.len() {
        let (is_leaf, index) = order[at];
        at += 1;
        if is_leaf {
            tree.push(Node::Leaf { start: index as u32, end: index as u32 + 1 });
            continue;
        }
        if std::mem::replace(&mut seen[index], true) {
            return Err(format!("node {index} is reached twice"));
        }
        let first = place(order.len())?;
        let children = [
            ("nodes_truenodeids", lists.yes[index], lists.yes_is_leaf[index]),
            ("nodes_falsenodeids", lists.no[index], lists.no_is_leaf[index]),
        ];
        for (name, id, is_leaf) in children {
            let child = if is_leaf { leaf(id, name, index)? } else { split(id, name, index)? };
            order.push((is_leaf, child));
        }
        tree.push(Node::Split {
            feature: feature_index(lists.features[index], index)?,
            threshold: lists.splits[index],
            mode: lists.modes[index],
            nan_yes: lists.nan_yes[index],
            yes: first,
            no: first + 1,
        });
    }
    Ok(tree)
}
