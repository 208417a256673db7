//! Trees of any size, walked from the root by many rows side by side.

use super::forest::{Mode, Node, Tree};
use super::leq::{as_leq, column};
use super::real::Real;

/// The bit of [`Step::column`] that says that a missing value takes the second way.
const NAN_NO: u32 = 1 << 31;

/// A node of a walk. A leaf leads to itself, whatever the row.
#[derive(Clone, Copy)]
struct Step<T> {
    threshold: T,
    column: u32,
    /// The node where `feature <= threshold`; the other one follows it.
    next: u32,
}

/// A tree whose splits are all `<=`, breadth first.
pub(super) struct Walk<T> {
    steps: Vec<Step<T>>,
    /// The number of each leaf, by node.
    leaf: Vec<u32>,
}

/// Rows that walk together: enough that one's loads hide behind the others', few enough for the registers.
const SIDE_BY_SIDE: usize = 16;

impl<T: Real> Walk<T> {
    /// The walk of a tree; `order` gets its leaves, by node of `tree`, in the order of their numbers.
    pub(super) fn new(tree: &Tree<T>, columns: &[u32], order: &mut Vec<u32>) -> Walk<T> {
        let mut steps = Vec::with_capacity(tree.len());
        let mut leaf = vec![0; tree.len()];
        // Breadth first anew, since children may change places.
        let mut queue: Vec<u32> = vec![0];
        let mut at = 0;
        while at < queue.len() {
            let index = steps.len() as u32;
            match tree[queue[at] as usize] {
                Node::Split { feature, threshold, mode, nan_yes, yes, no } => {
                    let Some(split) = as_leq(column(columns, feature), threshold, mode, nan_yes) else {
                        break;
                    };
                    let flag = if split.nan_yes { 0 } else { NAN_NO };
                    let next = queue.len() as u32;
                    queue.extend(if split.swapped { [no, yes] } else { [yes, no] });
                    steps.push(Step { threshold: split.threshold, column: split.column | flag, next });
                }
                Node::Leaf { .. } => {
                    leaf[index as usize] = order.len() as u32;
                    order.push(queue[at]);
                    steps.push(Step { threshold: T::INFINITY, column: 0, next: index });
                }
            }
            at += 1;
        }
        Walk { steps, leaf }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.steps) + size_of_val(&*self.leaf)
    }

    /// The leaf of each of `N` rows, which begin at `row` of a block with `stride` rows in a column.
    #[inline(always)]
    pub(super) fn leaves<const N: usize>(&self, block: &[T], stride: usize, row: usize) -> [u32; N] {
        let mut out = [0; N];
        let together = N.min(SIDE_BY_SIDE);
        for start in (0..N).step_by(SIDE_BY_SIDE) {
            let mut at = [0u32; SIDE_BY_SIDE];
            loop {
                let mut moved = 0;
                for lane in 0..together {
                    let step = self.steps[at[lane] as usize];
                    let x = block[(step.column & !NAN_NO) as usize * stride + row + start + lane];
                    let missing = x.nan() & (step.column & NAN_NO != 0);
                    let next = step.next + u32::from((x > step.threshold) | missing);
                    moved |= next ^ at[lane];
                    at[lane] = next;
                }
                if moved == 0 {
                    break;
                }
            }
            for lane in 0..together {
                out[start + lane] = self.leaf[at[lane] as usize];
            }
        }
        out
    }
}

/// A tree with comparisons other than `<=`, walked row by row.
pub(super) struct Odd<T> {
    nodes: Vec<OddNode<T>>,
}

enum OddNode<T> {
    Split { column: u32, test: Test<T>, nan_yes: bool, yes: u32, no: u32 },
    Leaf(u32),
}

enum Test<T> {
    Compare(Mode, T),
    Member(Vec<T>),
}

impl<T: Real> Test<T> {
    fn holds(&self, x: T) -> bool {
        match self {
            Test::Compare(mode, threshold) => match mode {
                Mode::Leq => x <= *threshold,
                Mode::Lt => x < *threshold,
                Mode::Gte => x >= *threshold,
                Mode::Gt => x > *threshold,
                Mode::Eq => x == *threshold,
                Mode::Neq => x != *threshold,
                Mode::Member(_) => false,
            },
            Test::Member(values) => values.contains(&x),
        }
    }
}

impl<T: Real> Odd<T> {
    pub(super) fn new(tree: &Tree<T>, columns: &[u32], sets: &[Vec<T>], order: &mut Vec<u32>) -> Odd<T> {
        let mut nodes = Vec::with_capacity(tree.len());
        for (at, node) in tree.iter().enumerate() {
            nodes.push(match *node {
                Node::Split { feature, threshold, mode, nan_yes, yes, no } => {
                    let test = match mode {
                        Mode::Member(set) => Test::Member(sets[set as usize].clone()),
                        _ => Test::Compare(mode, threshold),
                    };
                    OddNode::Split { column: column(columns, feature), test, nan_yes, yes, no }
                }
                Node::Leaf { .. } => {
                    order.push(at as u32);
                    OddNode::Leaf(order.len() as u32 - 1)
                }
            });
        }
        Odd { nodes }
    }

    pub(super) fn bytes(&self) -> usize {
        let set = |node: &OddNode<T>| match node {
            OddNode::Split { test: Test::Member(values), .. } => size_of_val(&**values),
            OddNode::Split { .. } | OddNode::Leaf(_) => 0,
        };
        size_of_val(&*self.nodes) + self.nodes.iter().map(set).sum::<usize>()
    }

    pub(super) fn leaves<const N: usize>(&self, block: &[T], stride: usize, row: usize) -> [u32; N] {
        let mut out = [0; N];
        for (lane, out) in out.iter_mut().enumerate() {
            let mut at = 0;
            *out = loop {
                match &self.nodes[at] {
                    OddNode::Leaf(number) => break *number,
                    OddNode::Split { column, test, nan_yes, yes, no } => {
                        let x = block[*column as usize * stride + row + lane];
                        at = if test.holds(x) || (*nan_yes && x.nan()) { *yes } else { *no } as usize;
                    }
                }
            };
        }
        out
    }
}
