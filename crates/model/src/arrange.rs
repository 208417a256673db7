//! Weights that a file stores in another order than row after row. Each is put in that order when it is packed.

use crate::tensor_location::RowGroups;
use tensor::Dtype;

/// How a weight lies in its bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement<'a> {
    /// Row after row.
    Rows,
    /// Rows of each group of rows, part after part.
    Groups(RowGroups),
    /// Value `first` and every `step`th after it: gate or up, interleaved.
    Every { first: usize, step: usize },
    /// Transposed: row `r` is column `first + step · r` of a matrix of `step` times as many columns.
    Columns { first: usize, step: usize },
    /// Transposed, in this format; where that is not the weight's, it has blocks, and the weight is in half precision.
    Transposed(Dtype),
    /// MXFP4 with exponents apart: row `r` is row `first + step · r` of blocks of 16 bytes, and of `scales`, a byte a block.
    Blocks { scales: &'a [u8], first: usize, step: usize },
}

/// Bytes of a block of 32 weights without its exponent.
const NIBBLES: usize = 16;

impl Arrangement<'_> {
    /// The weight `[rows, cols]` row after row in its format, if it lies otherwise in `bytes`, whose length was checked.
    pub(crate) fn in_rows(self, dtype: Dtype, rows: usize, cols: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Arrangement::Rows => None,
            Arrangement::Groups(groups) => {
                let size = dtype.row_bytes(cols)?;
                Some(groups.taken().flat_map(|row| &bytes[row * size..][..size]).copied().collect())
            }
            Arrangement::Every { first, step } => {
                let values = bytes.chunks_exact(dtype.block_bytes());
                Some(values.skip(first).step_by(step).flatten().copied().collect())
            }
            Arrangement::Columns { first, step } => {
                Some(columns(bytes, dtype.block_bytes(), (rows, cols), first, step))
            }
            Arrangement::Transposed(stored) if stored == dtype => {
                Some(columns(bytes, dtype.block_bytes(), (rows, cols), 0, 1))
            }
            Arrangement::Transposed(stored) => {
                let mut values = vec![0.0; rows * cols];
                tensor::dequantize(stored, bytes, &mut values).expect("the tensor's shape was checked");
                let halves: Vec<u8> =
                    values.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect();
                Some(columns(&halves, 2, (rows, cols), 0, 1))
            }
            Arrangement::Blocks { scales, first, step } => {
                let of_row = cols / 32;
                let blocks = bytes.chunks_exact(of_row * NIBBLES).zip(scales.chunks_exact(of_row));
                let mut out = Vec::with_capacity(rows * of_row * (1 + NIBBLES));
                for (blocks, scales) in blocks.skip(first).step_by(step) {
                    for (block, scale) in blocks.as_chunks::<NIBBLES>().0.iter().zip(scales) {
                        out.push(*scale);
                        out.extend(halves_apart(block));
                    }
                }
                Some(out)
            }
        }
    }
}

/// The columns `first`, `first + step`, … of values of `size` bytes, as `rows` rows of `cols`.
fn columns(bytes: &[u8], size: usize, (rows, cols): (usize, usize), first: usize, step: usize) -> Vec<u8> {
    let mut out = vec![0; rows * cols * size];
    for (col, line) in bytes.chunks_exact(rows * step * size).enumerate() {
        let values = line.chunks_exact(size).skip(first).step_by(step);
        for (row, value) in values.enumerate() {
            out[(row * cols + col) * size..][..size].copy_from_slice(value);
        }
    }
    out
}

/// A block of 32 codes of four bits, two consecutive ones a byte, as a GGUF has them: code `i` and code `i + 16` in byte
/// `i`, the first in the low half.
fn halves_apart(block: &[u8; NIBBLES]) -> [u8; NIBBLES] {
    let code = |i: usize| block[i / 2] >> (4 * (i % 2)) & 15;
    std::array::from_fn(|i| code(i) | code(i + NIBBLES) << 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_value_and_column_is_taken() {
        let values: Vec<u8> = (0..12u16).flat_map(|v| v.to_le_bytes()).collect();
        let numbers =
            |bytes: Vec<u8>| bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect::<Vec<_>>();
        let take = |arrangement: Arrangement, rows, cols| {
            numbers(arrangement.in_rows(Dtype::BF16, rows, cols, &values).unwrap())
        };
        assert_eq!(take(Arrangement::Every { first: 1, step: 2 }, 1, 6), [1, 3, 5, 7, 9, 11]);
        // Three rows of four columns: columns 1 and 3 are two rows of three.
        assert_eq!(take(Arrangement::Columns { first: 1, step: 2 }, 2, 3), [1, 5, 9, 3, 7, 11]);
        assert_eq!(
            take(Arrangement::Columns { first: 0, step: 1 }, 4, 3),
            [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
        );
    }

    #[test]
    fn parts_of_groups_of_rows_are_put_together() {
        // Two groups of four rows of two bytes: the second row of both, then the last two of both.
        let rows: Vec<u8> = (0..8).flat_map(|row| [row, 10 + row]).collect();
        let groups = RowGroups { count: 2, rows: 4, parts: [(1, 1), (2, 2), (0, 0)] };
        let got = Arrangement::Groups(groups).in_rows(Dtype::F16, 6, 1, &rows).unwrap();
        let want: Vec<u8> = [1, 5, 2, 3, 6, 7].into_iter().flat_map(|row| [row, 10 + row]).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn blocks_are_transposed_in_half_precision() {
        let values: Vec<f32> = (0..64u8).map(|v| f32::from(v) - 32.0).collect();
        let mut blocks = Vec::new();
        tensor::quantize(Dtype::Q8_0, &values, &mut blocks).unwrap();
        let mut stored = vec![0.0; 64];
        tensor::dequantize(Dtype::Q8_0, &blocks, &mut stored).unwrap();
        // Two rows of 32 become 32 rows of two.
        let got = Arrangement::Transposed(Dtype::Q8_0).in_rows(Dtype::F16, 32, 2, &blocks).unwrap();
        let got: Vec<f32> =
            got.chunks(2).map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f32()).collect();
        for (row, pair) in got.chunks(2).enumerate() {
            let want = [stored[row], stored[32 + row]].map(|value| half::f16::from_f32(value).to_f32());
            assert_eq!(pair, want, "row {row}");
        }
        let plain = Arrangement::Transposed(Dtype::F16).in_rows(Dtype::F16, 2, 1, &[1, 2, 3, 4]).unwrap();
        assert_eq!(plain, [1, 2, 3, 4]);
    }

    #[test]
    fn blocks_get_their_exponent_and_codes_keep_their_place() {
        // Codes 0, 1, … 15, 0, … of two rows, of which the second is taken.
        let row: Vec<u8> = (0..16u8).map(|i| (2 * i % 16) | (((2 * i + 1) % 16) << 4)).collect();
        let blocks = [vec![0; 16], row].concat();
        let arrangement = Arrangement::Blocks { scales: &[7, 130], first: 1, step: 2 };
        let got = arrangement.in_rows(Dtype::MXFP4, 1, 32, &blocks).unwrap();
        let want: Vec<u8> = std::iter::once(130).chain((0..16u8).map(|i| i | i << 4)).collect();
        assert_eq!(got, want);
    }
}
