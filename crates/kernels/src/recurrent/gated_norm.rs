//! The gated RMS norm by groups of columns, which follows Mamba-2's recurrence.

use cpu::simd::{Job, Simd, dispatch};

use crate::elementwise::{Activation, activate_slice, parallel_rows};
use crate::{Compute, norm};

/// Computes `gate = norm(silu(gate) · x)` for rows of `weight.len()` values: an RMS norm of each `group` of columns, with a
/// weight for each column.
///
/// # Panics
/// When shapes do not fit.
pub fn gated_norm_groups(
    c: &Compute,
    gate: &mut [f32],
    x: &[f32],
    weight: &[f32],
    (group, eps): (usize, f32),
) {
    let width = weight.len();
    assert_eq!(gate.len(), x.len(), "gates and what they gate");
    assert!(group > 0 && width.is_multiple_of(group), "groups of {group} of {width} columns");
    parallel_rows(c, gate, width, &|first, gate| {
        let x = &x[first * width..][..gate.len()];
        dispatch(c.tier, GatedNorm { gate, x, weight, group, eps });
    });
}

struct GatedNorm<'a> {
    gate: &'a mut [f32],
    x: &'a [f32],
    weight: &'a [f32],
    group: usize,
    eps: f32,
}

impl Job for GatedNorm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.weight.len();
        for (gate, x) in self.gate.chunks_exact_mut(width).zip(self.x.chunks_exact(width)) {
            activate_slice(s, Activation::Silu, None, Some(x), gate);
            for (part, weight) in gate.chunks_exact_mut(self.group).zip(self.weight.chunks_exact(self.group))
            {
                norm::in_place(s, part, weight, self.eps);
            }
        }
    }
}
