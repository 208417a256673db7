//! Where a weight is in a file: a tensor, and the part of it.

/// A tensor that may hold a weight, and the part of the tensor that is the weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorLocation {
    /// The tensor's name.
    pub(crate) name: String,
    /// The part of the tensor that is this weight.
    pub(crate) slice: Slice,
}

/// The part of a tensor that is one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// The whole tensor.
    Whole,
    /// Rows from `first` on, of a fused tensor of `of` rows.
    Rows { first: usize, of: usize },
    /// Rows from `first` on, of expert `index` in a stack of `count` experts of `of` rows each.
    Expert { index: usize, count: usize, first: usize, of: usize },
    /// Rows from `first` on, of a tensor of `of` rows, as columns.
    Transposed { first: usize, of: usize },
    /// Rows of each group of a tensor whose rows are in groups.
    Groups(RowGroups),
    /// Value `first` and every `step`th after it, of rows of `step` times as many.
    Every { first: usize, step: usize },
    /// Column `first` and every `step`th after it, as rows, of expert `index` in a stack of `count` transposed ones.
    ExpertColumns { index: usize, count: usize, first: usize, step: usize },
    /// Row `first` and every `step`th after it, of expert `index` in a stack of `count` in MXFP4, whose exponents are in a
    /// tensor of their own ([`scales_of`]).
    ExpertBlocks { index: usize, count: usize, first: usize, step: usize },
}

/// Parts of each group of rows of a tensor: the first part of all groups, then the second of all, and the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowGroups {
    /// How many groups there are.
    pub(crate) count: usize,
    /// Rows of a group.
    pub(crate) rows: usize,
    /// The first row of each part in its group, and how many it has.
    pub(crate) parts: [(usize, usize); 3],
}

impl RowGroups {
    /// The rows of the tensor that are taken, in their order.
    pub(crate) fn taken(self) -> impl Iterator<Item = usize> {
        let RowGroups { count, rows, parts } = self;
        let of_part = move |(first, taken): (usize, usize)| {
            (0..count).map(move |group| group * rows + first..).map(move |from| from.take(taken))
        };
        parts.into_iter().flat_map(of_part).flatten()
    }
}

impl TensorLocation {
    pub(crate) fn groups(name: String, groups: RowGroups) -> Self {
        TensorLocation { name, slice: Slice::Groups(groups) }
    }

    pub(crate) fn whole(name: String) -> Self {
        TensorLocation { name, slice: Slice::Whole }
    }

    pub(crate) fn rows(name: String, first: usize, of: usize) -> Self {
        TensorLocation { name, slice: Slice::Rows { first, of } }
    }
}

/// How the name of a tensor of MXFP4 blocks ends.
pub(crate) const BLOCKS: &str = "_blocks";

/// The tensor with the exponents of a tensor of MXFP4 blocks.
pub(crate) fn scales_of(blocks: &str) -> String {
    format!("{}_scales", blocks.strip_suffix(BLOCKS).unwrap_or(blocks))
}
