//! Loads and stores of partial registers at the end of a row.

use cpu::simd::Simd;

/// Lanes of the widest registers.
pub(crate) const MAX_LANES: usize = 16;

/// Loads the register of `row` at `at`, zero-padded past the row's end.
#[inline(always)]
pub(crate) fn load<S: Simd>(s: S, row: &[f32], at: usize) -> S::F {
    const { assert!(S::LANES <= MAX_LANES) };
    let part = &row[at..];
    if part.len() >= S::LANES {
        return s.load(part);
    }
    let mut all = [0.0; MAX_LANES];
    all[..part.len()].copy_from_slice(part);
    s.load(&all)
}

/// Stores `v` to `row` from `at` on, up to the row's end.
#[inline(always)]
pub(crate) fn store<S: Simd>(s: S, v: S::F, row: &mut [f32], at: usize) {
    const { assert!(S::LANES <= MAX_LANES) };
    let part = &mut row[at..];
    if part.len() >= S::LANES {
        return s.store(v, part);
    }
    let mut all = [0.0; MAX_LANES];
    s.store(v, &mut all);
    part.copy_from_slice(&all[..part.len()]);
}
