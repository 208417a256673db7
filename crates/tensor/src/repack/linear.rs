//! A linear layer with its parts: codes, scales, zero points.

use half::{bf16, f16};

use super::codes::{self, CodeLayout, PIECE, Word, code_bytes};
use super::error::Error;
use super::write::Block;
use crate::Dtype;

/// Rows that are read at once.
const TILE_ROWS: usize = 16;

/// The scales of a layer: floats, one to a rectangle of weights.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// F32, F16 or BF16.
    pub dtype: Dtype,
    /// The floats.
    pub bytes: &'a [u8],
    /// Rows that share a scale.
    pub rows: usize,
    /// Columns that share a scale.
    pub cols: usize,
    /// Whether scales of one group of columns follow each other (`[groups, rows]`), and not those of one row.
    pub columns_first: bool,
}

/// The codes that mean zero.
#[derive(Clone, Copy, Debug)]
pub enum Zeros<'a> {
    /// The middle of the range.
    Middle,
    /// One to each group of columns and row, packed like codes of 4 or 8 bits.
    Packed {
        /// The words.
        bytes: &'a [u8],
        /// How they lie.
        layout: ZeroLayout,
    },
}

impl Zeros<'_> {
    /// Whether words of zero points hold so many rows.
    fn fit(&self, rows: usize, layout: CodeLayout) -> bool {
        match self {
            Zeros::Middle | Zeros::Packed { layout: ZeroLayout::RowsFirst, .. } => true,
            Zeros::Packed { .. } => rows.is_multiple_of(layout.codes_a_word()),
        }
    }
}

/// How packed zero points lie, each word 32/bits rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroLayout {
    /// `[groups, rows · bits / 32]`, what is added to a stored number (in its bits) to have the zero point.
    Gptq {
        /// 1 in the first version of the format, else 0.
        plus: u32,
    },
    /// `[groups, rows / 8]`, in AWQ's order.
    Awq,
    /// `[rows · bits / 32, groups]`.
    RowsFirst,
}

/// A linear layer as another library quantized it: `rows` outputs × `cols` inputs.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    rows: usize,
    cols: usize,
    layout: CodeLayout,
    codes: &'a [u8],
    scales: Scales<'a>,
    zeros: Zeros<'a>,
}

impl<'a> Linear<'a> {
    /// Checks that all parts have the lengths that the shape asks for.
    ///
    /// # Errors
    /// Another shape than blocks can hold, or another number of bytes.
    pub fn new(
        (rows, cols): (usize, usize),
        layout: CodeLayout,
        codes: &'a [u8],
        scales: Scales<'a>,
        zeros: Zeros<'a>,
    ) -> Result<Linear<'a>, Error> {
        let group = scales.cols;
        let whole = scales.rows > 0
            && group > 0
            && cols > 0
            && cols.is_multiple_of(PIECE)
            && (group.is_multiple_of(PIECE) || group >= cols)
            && layout.fits(rows)
            && zeros.fit(rows, layout)
            && matches!(scales.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        if !whole {
            return Err(Error::Shape { rows, cols, group });
        }
        if matches!(zeros, Zeros::Packed { layout: ZeroLayout::Awq, .. }) && layout.bits() != 4 {
            return Err(Error::ZeroBits { bits: layout.bits() });
        }
        let linear = Linear { rows, cols, layout, codes, scales, zeros };
        linear.check("codes", codes.len(), code_bytes(layout, rows, cols))?;
        let floats = linear.row_groups().checked_mul(linear.col_groups());
        let bytes = floats.and_then(|floats| floats.checked_mul(scales.dtype.block_bytes()));
        linear.check("scales", scales.bytes.len(), bytes)?;
        if let Zeros::Packed { bytes, layout: zeros } = zeros {
            let words = match zeros {
                ZeroLayout::RowsFirst => rows.div_ceil(layout.codes_a_word()),
                ZeroLayout::Gptq { .. } | ZeroLayout::Awq => rows / layout.codes_a_word(),
            };
            let need = words.checked_mul(linear.col_groups()).and_then(|words| words.checked_mul(4));
            linear.check("zero points", bytes.len(), need)?;
        }
        Ok(linear)
    }

    /// The format that a layer of such codes becomes.
    pub const fn becomes(layout: CodeLayout, has_zeros: bool) -> Dtype {
        match layout {
            CodeLayout::E4M3 => Dtype::BF16,
            CodeLayout::Int8 => Dtype::Q8_0,
            _ if layout.bits() == 8 => Dtype::Q8_0,
            _ if has_zeros => Dtype::Q5_0,
            _ => Dtype::Q4_0,
        }
    }

    /// The format that this layer becomes.
    pub fn dtype(&self) -> Dtype {
        Linear::becomes(self.layout, matches!(self.zeros, Zeros::Packed { .. }))
    }

    /// Writes whole rows from `first` on as blocks of [`Linear::dtype`].
    ///
    /// # Errors
    /// A code or a scale that the format does not hold.
    ///
    /// # Panics
    /// If `out` is not whole rows, or they are not all below the layer's.
    pub fn rows_into(&self, first: usize, out: &mut [u8]) -> Result<(), Error> {
        let row_bytes = self.dtype().row_bytes(self.cols).expect("`new` checked that rows are whole blocks");
        assert!(out.len().is_multiple_of(row_bytes), "{} bytes are not rows of {row_bytes}", out.len());
        let count = out.len() / row_bytes;
        assert!(first + count <= self.rows, "rows {first} to {} of {}", first + count, self.rows);
        for (tile, out) in out.chunks_mut(TILE_ROWS * row_bytes).enumerate() {
            let first = first + tile * TILE_ROWS;
            let mut codes = [[0; PIECE]; TILE_ROWS];
            let codes = &mut codes[..out.len() / row_bytes];
            for col in (0..self.cols).step_by(PIECE) {
                self.layout.read(self.codes, (self.rows, self.cols), (first, col), codes);
                for (i, (codes, out)) in codes.iter().zip(out.chunks_exact_mut(row_bytes)).enumerate() {
                    let row = first + i;
                    let block = Block { dtype: self.dtype(), row, col, scale: self.scale(row, col) };
                    block.write(self.zero(row, col), codes, out)?;
                }
            }
        }
        Ok(())
    }

    fn check(&self, part: &'static str, have: usize, need: Option<usize>) -> Result<(), Error> {
        let need = need.unwrap_or(usize::MAX);
        if need == have { Ok(()) } else { Err(Error::Bytes { part, need, have }) }
    }

    fn row_groups(&self) -> usize {
        self.rows.div_ceil(self.scales.rows)
    }

    fn col_groups(&self) -> usize {
        self.cols.div_ceil(self.scales.cols)
    }

    fn scale(&self, row: usize, col: usize) -> f32 {
        let (row, col) = (row / self.scales.rows, col / self.scales.cols);
        let index = match self.scales.columns_first {
            true => col * self.row_groups() + row,
            false => row * self.col_groups() + col,
        };
        let bytes = &self.scales.bytes[index * self.scales.dtype.block_bytes()..];
        match self.scales.dtype {
            Dtype::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
            Dtype::BF16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
            _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        }
    }

    /// The code that means zero.
    fn zero(&self, row: usize, col: usize) -> i32 {
        let bits = self.layout.bits();
        let Zeros::Packed { bytes, layout } = self.zeros else { return 1 << (bits - 1) };
        let (a_word, group, groups) = (self.layout.codes_a_word(), col / self.scales.cols, self.col_groups());
        let word = match layout {
            ZeroLayout::Gptq { .. } | ZeroLayout::Awq => group * (self.rows / a_word) + row / a_word,
            ZeroLayout::RowsFirst => row / a_word * groups + group,
        };
        let (place, plus) = match layout {
            ZeroLayout::Gptq { plus } => (row % a_word, plus),
            ZeroLayout::Awq => (codes::AWQ_PLACES[row % 8], 0),
            ZeroLayout::RowsFirst => (row % a_word, 0),
        };
        let stored = Word::at(bytes, word).code(bits, place);
        // The first version keeps the zero point 0 as the greatest number.
        ((u32::from(stored) + plus) & ((1 << bits) - 1)) as i32
    }
}
