//! What the leaves hold, added up row by row.

use cpu::simd::{Job, Simd, dispatch};

use super::compile::{Ensemble, Fold, Form, Leaves};
use super::masks::LANES;
use super::real::Real;
use crate::error::Problem;
use crate::options::{Rows, RunOptions};

/// Most rows of a block.
const BLOCK: usize = 64;

/// About how long a row takes for a tree (31 leaves on AVX2, measured).
const TREE_NS: usize = 4;

/// Up to as many rows go through the trees at once where there are no more.
const FEW: usize = 8;

/// Scores of all rows.
pub(crate) struct Scores<T> {
    values: Vec<T>,
    targets: usize,
}

impl<T: Real> Scores<T> {
    /// The scores of a row, `[targets]`, and for each whether a leaf gave it one (not 0).
    pub(crate) fn row(&self, row: usize) -> (&[T], &[T]) {
        self.values[row * 2 * self.targets..][..2 * self.targets].split_at(self.targets)
    }
}

/// The rows of a block, and where their scores go.
struct Block<'a, T> {
    ensemble: &'a Ensemble<T>,
    x: &'a [T],
    features: usize,
    rows: usize,
    out: &'a mut [T],
}

impl<T: Real> Ensemble<T> {
    /// The scores of each row of `x`, `[rows, features]`. A row's do not depend on the others, or on the threads.
    pub(crate) fn scores(&self, x: &[T], features: usize, run: &RunOptions) -> Result<Scores<T>, Problem> {
        if features < self.features() {
            return Err(Problem::Said(format!(
                "rows have {features} features, and a tree looks at feature {}",
                self.features() - 1
            )));
        }
        let rows = x.len().checked_div(features).unwrap_or(0);
        let mut values = vec![T::ZERO; rows * 2 * self.targets];
        let each = rows.div_ceil(run.threads()).next_multiple_of(LANES);
        let blocks = Rows { block: each.clamp(LANES, BLOCK), row_ns: self.trees.len() * TREE_NS };
        run.row_blocks(&mut values, 2 * self.targets, blocks, &|first, out| {
            let rows = out.len() / (2 * self.targets);
            let x = &x[first * features..][..rows * features];
            dispatch(self.tier, Block { ensemble: self, x, features, rows, out });
        })?;
        Ok(Scores { values, targets: self.targets })
    }
}

impl<T: Real> Job for Block<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        if self.rows <= FEW { self.lanes::<FEW>() } else { self.lanes::<LANES>() }
    }
}

impl<T: Real> Block<'_, T> {
    /// Scores the rows, `N` at a time.
    #[inline(always)]
    fn lanes<const N: usize>(self) {
        let Block { ensemble, x, features, rows, out } = self;
        // Columns of the features that are looked at; rows that are not there are 0.
        let stride = rows.next_multiple_of(N);
        let mut columns = vec![T::ZERO; ensemble.columns.len() * stride];
        for (column, &feature) in columns.chunks_mut(stride.max(1)).zip(&ensemble.columns) {
            for row in 0..rows {
                column[row] = x[row * features + feature as usize];
            }
        }
        let start = match ensemble.fold {
            Fold::Sum => T::ZERO,
            Fold::Min => T::INFINITY,
            Fold::Max => T::NEG_INFINITY,
        };
        let targets = ensemble.targets;
        let mut sums = vec![start; targets * stride];
        let mut has = vec![T::ZERO; targets * stride];
        for (has, always) in has.chunks_mut(stride.max(1)).zip(&ensemble.always) {
            if *always {
                has.fill(T::ONE);
            }
        }
        for tree in &ensemble.trees {
            for row in (0..stride).step_by(N) {
                let leaves = match &tree.form {
                    Form::Leaf => [0; N],
                    Form::Masks32(masks) => masks.leaves::<N>(&columns, stride, row),
                    Form::Masks64(masks) => masks.leaves::<N>(&columns, stride, row),
                    Form::Walk(walk) => walk.leaves::<N>(&columns, stride, row),
                    Form::Odd(odd) => odd.leaves::<N>(&columns, stride, row),
                };
                match &tree.leaves {
                    Leaves::One { target, values } => {
                        let sums = &mut sums[*target as usize * stride + row..][..N];
                        fold_one(sums, values, &leaves, ensemble.fold);
                    }
                    Leaves::Many(ranges) => {
                        for lane in 0..N {
                            let (first, end) = ranges[leaves[lane] as usize];
                            for &(target, value) in &ensemble.weights[first as usize..end as usize] {
                                let at = target as usize * stride + row + lane;
                                sums[at] = fold(sums[at], value, ensemble.fold);
                                has[at] = T::ONE;
                            }
                        }
                    }
                }
            }
        }
        for (row, out) in out.chunks_mut(2 * targets).enumerate() {
            for target in 0..targets {
                out[target] = sums[target * stride + row];
                out[targets + target] = has[target * stride + row];
            }
        }
    }
}

#[inline(always)]
fn fold_one<T: Real, const N: usize>(sums: &mut [T], values: &[T], leaves: &[u32; N], by: Fold) {
    match by {
        Fold::Sum => {
            for lane in 0..N {
                sums[lane] = sums[lane].plus(values[leaves[lane] as usize]);
            }
        }
        Fold::Min | Fold::Max => {
            for lane in 0..N {
                sums[lane] = fold(sums[lane], values[leaves[lane] as usize], by);
            }
        }
    }
}

#[inline(always)]
fn fold<T: Real>(sum: T, value: T, by: Fold) -> T {
    match by {
        Fold::Sum => sum.plus(value),
        Fold::Min if value < sum => value,
        Fold::Max if value > sum => value,
        Fold::Min | Fold::Max => sum,
    }
}
