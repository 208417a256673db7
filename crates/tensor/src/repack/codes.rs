//! How other libraries lay out the codes of a linear layer.

/// Columns that are read and written at once.
pub(super) const PIECE: usize = 32;

/// How codes lie. Codes of words are unsigned; the lowest bits are the first code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLayout {
    /// compressed-tensors, packed: words of consecutive columns, `[rows, cols · bits / 32]`.
    Rows {
        /// 4 or 8.
        bits: u32,
    },
    /// GPTQ: words of consecutive columns, `[cols · bits / 32, rows]`.
    Columns {
        /// 4 or 8.
        bits: u32,
    },
    /// AWQ (GEMM): words of eight rows in an order of their own, `[cols, rows / 8]`, 4 bits.
    Awq,
    /// Signed bytes, `[rows, cols]`.
    Int8,
    /// Floats of 8 bits, `[rows, cols]`.
    E4M3,
}

/// The nibble of a word that each of eight rows has in AWQ's order, which puts rows 0 2 4 6 1 3 5 7 one after the other.
pub(super) const AWQ_PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

impl CodeLayout {
    /// Bits of a code.
    pub const fn bits(self) -> u32 {
        match self {
            CodeLayout::Rows { bits } | CodeLayout::Columns { bits } => bits,
            CodeLayout::Awq => 4,
            CodeLayout::Int8 | CodeLayout::E4M3 => 8,
        }
    }

    /// Codes in a word of 32 bits.
    pub(super) const fn codes_a_word(self) -> usize {
        (32 / self.bits()) as usize
    }

    /// Whether words can hold codes of these bits, of so many rows.
    pub(super) const fn fits(self, rows: usize) -> bool {
        let bits = self.bits();
        (bits == 4 || bits == 8) && (!matches!(self, CodeLayout::Awq) || rows.is_multiple_of(8))
    }
}

/// Bytes of all codes.
pub(super) fn code_bytes(layout: CodeLayout, rows: usize, cols: usize) -> Option<usize> {
    // Columns are a multiple of 32, so that words are whole.
    rows.checked_mul(cols / 8)?.checked_mul(layout.bits() as usize)
}

/// A word of codes.
#[derive(Clone, Copy)]
pub(super) struct Word(u32);

impl Word {
    /// Word `index` of `bytes`.
    pub(super) fn at(bytes: &[u8], index: usize) -> Word {
        let four = &bytes[4 * index..][..4];
        Word(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
    }

    /// The code at `place`.
    pub(super) fn code(self, bits: u32, place: usize) -> u8 {
        (self.0 >> (bits as usize * place)) as u8 & ((1u32 << bits) - 1) as u8
    }
}

impl CodeLayout {
    /// Reads the codes of a tile of the matrix, `rows` × `cols`: rows from `row` on, columns from `col` on; signed bytes plus
    /// 128. Several rows at a time: where words follow each other down the rows, those of one row alone would take a cache
    /// line each.
    pub(super) fn read(
        self,
        codes: &[u8],
        (rows, cols): (usize, usize),
        (row, col): (usize, usize),
        out: &mut [[u8; PIECE]],
    ) {
        let (bits, a_word) = (self.bits(), self.codes_a_word());
        match self {
            CodeLayout::Rows { .. } => {
                for (i, out) in out.iter_mut().enumerate() {
                    let first = ((row + i) * cols + col) / a_word;
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = Word::at(codes, first + at / a_word).code(bits, at % a_word);
                    }
                }
            }
            CodeLayout::Columns { .. } => {
                for word in 0..PIECE / a_word {
                    let first = (col / a_word + word) * rows + row;
                    for (i, out) in out.iter_mut().enumerate() {
                        let word_of_row = Word::at(codes, first + i);
                        for place in 0..a_word {
                            out[word * a_word + place] = word_of_row.code(bits, place);
                        }
                    }
                }
            }
            CodeLayout::Awq => {
                for at in 0..PIECE {
                    let first = (col + at) * (rows / 8);
                    for (i, out) in out.iter_mut().enumerate() {
                        let row = row + i;
                        out[at] = Word::at(codes, first + row / 8).code(4, AWQ_PLACES[row % 8]);
                    }
                }
            }
            CodeLayout::Int8 | CodeLayout::E4M3 => {
                let flip = if self == CodeLayout::Int8 { 0x80 } else { 0 };
                for (i, out) in out.iter_mut().enumerate() {
                    let bytes = &codes[(row + i) * cols + col..];
                    for (out, byte) in out.iter_mut().zip(bytes) {
                        *out = byte ^ flip;
                    }
                }
            }
        }
    }
}
