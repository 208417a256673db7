//! One quad of K: the innermost step of the micro-kernels that multiply bytes.

use cpu::simd::Simd;

use super::work::unrolled;
use crate::activations::Block;
use crate::unpack::BlockLayout;
use crate::unpack::codes::Codes;

/// Adds quad `j` of each row × the codes of that quad of each panel.
#[inline(always)]
pub(super) fn dot_quad<S: Simd, F: BlockLayout, const MR: usize, const NR: usize>(
    s: S,
    x: &[Block],
    j: usize,
    w: &[S::I; NR],
    dots: &mut [[S::I; MR]; NR],
) {
    unrolled!(t < MR, {
        let four = s.splat4(&x[t].q[4 * j..]);
        for p in 0..NR {
            dots[p][t] = if F::Codes::EIGHT_BIT {
                s.dot_u8(dots[p][t], w[p], four)
            } else {
                s.dot(dots[p][t], w[p], four)
            };
        }
    });
}
