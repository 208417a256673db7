//! Weights that were floats in 8 bits, in blocks of 64 columns with an `f32` scale: [`Layout::Int8`](crate::matrix::Layout).
//!
//! A panel has for each block of a row, in this order: 16 quads of codes (four bytes of each row of the panel), the scales, and the sums
//! of the codes times their scale, which the offsets of activations are multiplied by. The last block is padded with zeros.

use tensor::Dtype;

use crate::activations::U7_BLOCK;

/// Bytes of a block of a panel: codes, scales and sums.
pub(crate) const fn block_bytes(lanes: usize) -> usize {
    lanes * (U7_BLOCK + 2 * size_of::<f32>())
}

/// The largest magnitude of a code.
const TOP: f32 = 127.0;

/// Packs rows of `dtype`, of floats, into a panel.
pub(crate) fn pack<'r>(
    dtype: Dtype,
    rows: impl Iterator<Item = &'r [u8]>,
    lanes: usize,
    cols: usize,
    panel: &mut [u8],
) {
    let mut wide = vec![0.0f32; cols];
    for (lane, row) in rows.enumerate() {
        // `Matrix::pack` checked the lengths: a decoder that still refuses leaves zeros.
        if tensor::dequantize(dtype, row, &mut wide).is_err() {
            continue;
        }
        for (values, block) in wide.chunks(U7_BLOCK).zip(panel.chunks_exact_mut(block_bytes(lanes))) {
            let most = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let scale = most / TOP;
            let inverse = if scale > 0.0 { TOP / most } else { 0.0 };
            let (codes, floats) = block.split_at_mut(lanes * U7_BLOCK);
            let mut sum = 0.0;
            for (k, value) in values.iter().enumerate() {
                let code = (value * inverse).round_ties_even().clamp(-TOP, TOP);
                codes[k / 4 * 4 * lanes + 4 * lane + k % 4] = (code as i8).cast_unsigned();
                sum += code;
            }
            floats[4 * lane..][..4].copy_from_slice(&scale.to_le_bytes());
            floats[4 * (lanes + lane)..][..4].copy_from_slice(&(sum * scale).to_le_bytes());
        }
    }
}

/// Dequantizes the row `lane` of a panel.
pub(crate) fn row(panel: &[u8], lanes: usize, lane: usize, out: &mut [f32]) {
    for (block, out) in panel.chunks_exact(block_bytes(lanes)).zip(out.chunks_mut(U7_BLOCK)) {
        let (codes, floats) = block.split_at(lanes * U7_BLOCK);
        let scale = floats[4 * lane..].first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
        for (k, out) in out.iter_mut().enumerate() {
            let code = codes[k / 4 * 4 * lanes + 4 * lane + k % 4].cast_signed();
            *out = f32::from(code) * scale;
        }
    }
}
