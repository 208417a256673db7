//! GEMM of dictionary-compressed bf16 weights on AMX.

use std::ops::Range;

use cpu::simd::Simd;
use cpu::simd::amx::Amx;

use super::blocked::blocked;
use super::tile::{DecodedKBlock, K_BLOCK, Weights};
use crate::bf16_dict12;
use crate::gemm::work::Work;

/// Computes `work`: dictionary-compressed weights × rows in AMX tile order.
pub(crate) fn gemm(amx: Amx, work: &mut Work<'_>, pairs: &[[i8; 4]]) {
    blocked::<Dict12Weights, _>(amx, Dict12Weights, work, pairs, 0);
}

struct Dict12Weights;

impl Weights for Dict12Weights {
    #[inline(always)]
    fn decode_into<S: Simd>(
        &self,
        s: S,
        panel: &[u8],
        cols: usize,
        from: usize,
        tile: usize,
        decoded: &mut DecodedKBlock,
    ) {
        const { assert!(K_BLOCK == bf16_dict12::K_BLOCK) };
        // The whole K-block at once: its exceptions are one list.
        if tile == 0 {
            let mut decoder = bf16_dict12::PanelDecoder::new(panel, S::LANES, cols, from / K_BLOCK);
            decoder.decode_into(s, usize::MAX, 1, decoded.0.as_flattened_mut());
        }
    }

    fn byte_range(lanes: usize, cols: usize, from: usize) -> Range<usize> {
        bf16_dict12::byte_range(lanes, cols, from / K_BLOCK)
    }
}
