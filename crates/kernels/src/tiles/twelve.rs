//! bfloat16 weights in twelve bits, made tiles.

use std::ops::Range;

use cpu::lanes::Simd;
use cpu::lanes::amx::Amx;

use super::blocked::{DEPTH, Near, Weights, blocked};
use crate::matmul::Work;
use crate::twelve;

/// Computes `work` of weights in twelve bits times rows of pairs, which lie in tiles.
pub(crate) fn twelves(amx: Amx, work: &mut Work<'_>, pairs: &[[i8; 4]]) {
    blocked::<Twelves, _>(amx, Twelves, work, pairs, 0);
}

struct Twelves;

impl Weights for Twelves {
    #[inline(always)]
    fn bring<S: Simd>(&self, s: S, panel: &[u8], cols: usize, from: usize, tile: usize, near: &mut Near) {
        const { assert!(DEPTH == twelve::PIECE) };
        // All at once: the exceptions are those of a piece.
        if tile == 0 {
            let mut coming = twelve::Coming::new(panel, S::LANES, cols, from / DEPTH);
            coming.bring(s, usize::MAX, 1, near.0.as_flattened_mut());
        }
    }

    fn lies(lanes: usize, cols: usize, from: usize) -> Range<usize> {
        twelve::lies(lanes, cols, from / DEPTH)
    }
}
