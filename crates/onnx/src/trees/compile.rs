//! Trees in the forms that they are evaluated in.

use cpu::Tier;

use super::forest::{Forest, Node, Tree};
use super::leq::as_leq;
use super::masks::Masks;
use super::real::Real;
use super::walk::{Odd, Walk};

/// How the weights of a target are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fold {
    Sum,
    Min,
    Max,
}

/// A tree's splits.
pub(super) enum Form<T> {
    /// A single leaf.
    Leaf,
    /// At most 32 leaves.
    Masks32(Masks<T, u32>),
    /// At most 64 leaves.
    Masks64(Masks<T, u64>),
    /// Any number of leaves.
    Walk(Walk<T>),
    /// Comparisons other than `<=`.
    Odd(Odd<T>),
}

/// What a tree's leaves hold.
pub(super) enum Leaves<T> {
    /// One weight each, all for the same target: the values by leaf.
    One { target: u32, values: Vec<T> },
    /// Any number of weights: their ranges in [`Ensemble::weights`] by leaf.
    Many(Vec<(u32, u32)>),
}

pub(super) struct Compiled<T> {
    pub form: Form<T>,
    pub leaves: Leaves<T>,
}

/// An ensemble, ready to be evaluated.
pub(crate) struct Ensemble<T> {
    pub(super) trees: Vec<Compiled<T>>,
    pub(super) weights: Vec<(u32, T)>,
    /// The features that splits look at, ascending: column `i` of a block is feature `columns[i]`.
    pub(super) columns: Vec<u32>,
    pub(super) targets: usize,
    /// Targets that every row has a weight for.
    pub(super) always: Vec<bool>,
    pub(super) fold: Fold,
    /// Asking for it takes microseconds on a virtual machine, which traps `cpuid`.
    pub(super) tier: Tier,
}

impl<T: Real> Ensemble<T> {
    pub(crate) fn new(forest: Forest<T>, fold: Fold) -> Ensemble<T> {
        let mut columns: Vec<u32> = Vec::new();
        for node in forest.trees.iter().flatten() {
            if let Node::Split { feature, .. } = node {
                columns.push(*feature);
            }
        }
        columns.sort_unstable();
        columns.dedup();
        let mut always = vec![false; forest.targets];
        let mut trees = Vec::with_capacity(forest.trees.len());
        for tree in &forest.trees {
            let mut order = Vec::new();
            let form = form(tree, &columns, &forest.sets, &mut order);
            let leaves = leaves(tree, &order, &forest.weights);
            if let Leaves::One { target, .. } = &leaves {
                always[*target as usize] = true;
            }
            trees.push(Compiled { form, leaves });
        }
        let Forest { weights, targets, .. } = forest;
        Ensemble { trees, weights, columns, targets, always, fold, tier: Tier::best() }
    }

    /// Number of features that a row must have.
    pub(crate) fn features(&self) -> usize {
        self.columns.last().map_or(0, |&last| last as usize + 1)
    }

    pub(crate) fn tree_count(&self) -> usize {
        self.trees.len()
    }

    pub(crate) fn targets(&self) -> usize {
        self.targets
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let tree = |tree: &Compiled<T>| {
            let form = match &tree.form {
                Form::Leaf => 0,
                Form::Masks32(masks) => masks.bytes(),
                Form::Masks64(masks) => masks.bytes(),
                Form::Walk(walk) => walk.bytes(),
                Form::Odd(odd) => odd.bytes(),
            };
            let leaves = match &tree.leaves {
                Leaves::One { values, .. } => size_of_val(&**values),
                Leaves::Many(ranges) => size_of_val(&**ranges),
            };
            size_of::<Compiled<T>>() + form + leaves
        };
        self.trees.iter().map(tree).sum::<usize>() + size_of_val(&*self.weights) + size_of_val(&*self.columns)
    }
}

/// The form of a tree; `order` gets its leaves, by node, in the order in which the form numbers them.
fn form<T: Real>(tree: &Tree<T>, columns: &[u32], sets: &[Vec<T>], order: &mut Vec<u32>) -> Form<T> {
    let plain = tree.iter().all(|node| match *node {
        Node::Split { threshold, mode, nan_yes, .. } => as_leq(0, threshold, mode, nan_yes).is_some(),
        Node::Leaf { .. } => true,
    });
    let leaves = tree.iter().filter(|node| matches!(node, Node::Leaf { .. })).count();
    match (plain, leaves) {
        (_, 1) => {
            order.push(0);
            Form::Leaf
        }
        (true, 2..=32) => Form::Masks32(Masks::new(tree, columns, order)),
        (true, 33..=64) => Form::Masks64(Masks::new(tree, columns, order)),
        (true, _) => Form::Walk(Walk::new(tree, columns, order)),
        (false, _) => Form::Odd(Odd::new(tree, columns, sets, order)),
    }
}

fn leaves<T: Real>(tree: &Tree<T>, order: &[u32], weights: &[(u32, T)]) -> Leaves<T> {
    let ranges: Vec<(u32, u32)> = order
        .iter()
        .map(|&node| match tree[node as usize] {
            Node::Leaf { start, end } => (start, end),
            Node::Split { .. } => (0, 0),
        })
        .collect();
    let first = weights.get(ranges[0].0 as usize).map(|weight| weight.0);
    let one = |&(start, end): &(u32, u32)| end == start + 1 && Some(weights[start as usize].0) == first;
    match first {
        Some(target) if ranges.iter().all(one) => {
            let values = ranges.iter().map(|range| weights[range.0 as usize].1).collect();
            Leaves::One { target, values }
        }
        _ => Leaves::Many(ranges),
    }
}
