//! Trees of at most 64 leaves: the leaves that a row can still reach are the bits of a word.
//!
//! Leaves are numbered from the way of `yes` to that of `no`. A split whose comparison fails takes away the leaves below
//! its `yes`; once all splits have been seen, the lowest bit that is left is the row's leaf. The order of the splits does
//! not matter, so none waits for another, and many rows go through each at once (QuickScorer, Lucchese et al. 2015, with
//! rows in vector lanes as in V-QuickScorer).

use std::ops::BitAnd;

use super::forest::{Node, Tree};
use super::leq::{as_leq, column};
use super::real::Real;

/// Rows that go through the splits together, where there are as many.
pub(super) const LANES: usize = 32;

/// A word with a bit for each leaf.
pub(super) trait Word: Copy + BitAnd<Output = Self> + Send + Sync + 'static {
    const ALL: Self;
    /// All bits but `start..end`.
    fn without(start: u32, end: u32) -> Self;
    fn lowest(self) -> u32;
    /// This word if `fails`, else all bits: without a branch, so that it becomes vector code.
    fn where_fails(self, fails: bool) -> Self;
}

macro_rules! word {
    ($t:ident) => {
        impl Word for $t {
            const ALL: $t = $t::MAX;

            fn without(start: u32, end: u32) -> $t {
                let below = |n: u32| if n == $t::BITS { $t::MAX } else { (1 << n) - 1 };
                !(below(end) & !below(start))
            }

            #[inline(always)]
            fn lowest(self) -> u32 {
                self.trailing_zeros()
            }

            #[inline(always)]
            fn where_fails(self, fails: bool) -> $t {
                self | $t::from(fails).wrapping_sub(1)
            }
        }
    };
}

word!(u32);
word!(u64);

#[derive(Clone, Copy)]
struct Split<T, W> {
    column: u32,
    threshold: T,
    /// The leaves that stay where the comparison fails.
    keep: W,
}

/// A tree's splits.
pub(super) struct Masks<T, W> {
    /// First those at which a missing value fails, then those at which it holds.
    splits: Vec<Split<T, W>>,
    nan_no: usize,
}

impl<T: Real, W: Word> Masks<T, W> {
    /// The splits of a tree; `order` gets its leaves, by node, in the order of their bits.
    pub(super) fn new(tree: &Tree<T>, columns: &[u32], order: &mut Vec<u32>) -> Masks<T, W> {
        let (mut nan_no, mut nan_yes) = (Vec::new(), Vec::new());
        // A split is met twice: on the way down, and when all leaves below its `yes` have their bits.
        let mut todo: Vec<(u32, Option<u32>)> = vec![(0, None)];
        while let Some((at, start)) = todo.pop() {
            let Node::Split { feature, threshold, mode, nan_yes: missing, yes, no } = tree[at as usize]
            else {
                order.push(at);
                continue;
            };
            let Some(split) = as_leq(column(columns, feature), threshold, mode, missing) else { continue };
            let (left, right) = if split.swapped { (no, yes) } else { (yes, no) };
            let here = order.len() as u32;
            match start {
                None => todo.extend([(right, None), (at, Some(here)), (left, None)]),
                Some(start) => {
                    let keep = W::without(start, here);
                    let list = if split.nan_yes { &mut nan_yes } else { &mut nan_no };
                    list.push(Split { column: split.column, threshold: split.threshold, keep });
                }
            }
        }
        let first = nan_no.len();
        nan_no.append(&mut nan_yes);
        nan_no.shrink_to_fit();
        Masks { splits: nan_no, nan_no: first }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.splits)
    }

    /// The leaf of each of `N` rows, which begin at `row` of a block with `stride` rows in a column.
    #[inline(always)]
    pub(super) fn leaves<const N: usize>(&self, block: &[T], stride: usize, row: usize) -> [u32; N] {
        let mut words = [W::ALL; N];
        for split in &self.splits[..self.nan_no] {
            let Split { column, threshold, keep } = *split;
            let x = &block[column as usize * stride + row..][..N];
            for lane in 0..N {
                // `!(x <= t)` is not `x > t`: a missing value fails here.
                let holds = x[lane] <= threshold;
                words[lane] = words[lane] & keep.where_fails(!holds);
            }
        }
        for split in &self.splits[self.nan_no..] {
            let Split { column, threshold, keep } = *split;
            let x = &block[column as usize * stride + row..][..N];
            for lane in 0..N {
                words[lane] = words[lane] & keep.where_fails(x[lane] > threshold);
            }
        }
        let mut out = [0; N];
        for lane in 0..N {
            out[lane] = words[lane].lowest();
        }
        out
    }
}
