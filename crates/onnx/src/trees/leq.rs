//! Splits as `feature <= threshold`, the one comparison that the fast forms know.

use super::forest::Mode;
use super::real::Real;

/// A split as `feature <= threshold`.
pub(super) struct Leq<T> {
    pub column: u32,
    pub threshold: T,
    /// Whether a missing value takes the way where the comparison holds.
    pub nan_yes: bool,
    /// Whether the children change places.
    pub swapped: bool,
}

/// The split as `feature <= threshold`, if it can be said so.
pub(super) fn as_leq<T: Real>(column: u32, threshold: T, mode: Mode, nan_yes: bool) -> Option<Leq<T>> {
    // Less than -infinity, and comparisons with NaN, hold for nothing, which `<=` cannot say.
    let lowest = threshold == T::NEG_INFINITY;
    let (threshold, swapped) = match mode {
        _ if threshold.nan() => return None,
        Mode::Leq => (threshold, false),
        Mode::Gt => (threshold, true),
        Mode::Lt if !lowest => (threshold.below(), false),
        Mode::Gte if !lowest => (threshold.below(), true),
        Mode::Lt | Mode::Gte | Mode::Eq | Mode::Neq | Mode::Member(_) => return None,
    };
    Some(Leq { column, threshold, nan_yes: nan_yes != swapped, swapped })
}

/// The column of a feature that splits look at.
pub(super) fn column(columns: &[u32], feature: u32) -> u32 {
    columns.binary_search(&feature).unwrap_or_default() as u32
}
