//! Blocks of 32 quantized activations, and how the blocks of several rows are interleaved.

/// Columns that share one scale of the quantized activations.
pub(crate) const BLOCK: usize = 32;

/// 32 activations in 8 bits, with the scale and the sums that weight formats with zero points and minima need: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// The codes, rounded to nearest even, from -127 to 127.
    pub(crate) q: [i8; BLOCK],
    /// Scale and sums as bits, those of a [`PlainBlock`] or of a [`Pow2Block`]: [`QuantizedRows`] tells which.
    pub(super) meta: [i32; 8],
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Zeros.
    pub(super) const ZERO: Block = Block { q: [0; BLOCK], meta: [0; 8] };

    /// Scale and sums, for rows that are [`QuantizedRows::Plain`].
    #[inline(always)]
    pub(crate) fn plain(&self) -> PlainBlock {
        let [scale, neg_sum_8, neg_sum_128, first, second, neg_sum_i16, sum, _] = self.meta;
        let (scale, sum) = (float(scale), float(sum));
        PlainBlock { scale, neg_sum_8, neg_sum_128, neg_half_sum_32: [first, second], neg_sum_i16, sum }
    }

    /// Scale and sums, for rows that are [`QuantizedRows::Pow2`].
    #[inline(always)]
    pub(crate) fn pow2(&self) -> Pow2Block {
        let [init_bits, init_8, init_128, first, second, second_delta, neg_magic, bf16_sums] = self.meta;
        let (init_half_32, neg_magic) = ([first, second], float(neg_magic));
        Pow2Block { init_bits, init_8, init_128, init_half_32, second_delta, neg_magic, bf16_sums }
    }
}

fn float(bits: i32) -> f32 {
    f32::from_bits(bits.cast_unsigned())
}

/// Scale and sums of 32 activations `q`.
#[derive(Clone, Copy)]
pub(crate) struct PlainBlock {
    /// The scale: `x ≈ scale · q`.
    pub(crate) scale: f32,
    /// `-8 · Σ q`, for codes with a zero point of 8.
    pub(crate) neg_sum_8: i32,
    /// `-128 · Σ q`.
    pub(crate) neg_sum_128: i32,
    /// `-32 · Σ q` of each half.
    pub(crate) neg_half_sum_32: [i32; 2],
    /// `-Σ q` of each half as `i16`, the first in the low half.
    pub(crate) neg_sum_i16: i32,
    /// `scale · Σ q`, which minima are multiplied by.
    pub(crate) sum: f32,
}

impl PlainBlock {
    /// `scale · Σ q` of half `half`.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        (-self.neg_half_sum_32[half] >> 5) as f32 * self.scale
    }
}

/// Scale and sums of 32 activations `q` whose scale is `2^a ± 2^b` (docs/lab/zen-4.md#decision-50).
///
/// An `i32` accumulator that starts from the bits of the float `MAGIC · 2^a` is, read as a float, `(MAGIC + Σ) · 2^a`: the scale is applied
/// by additions alone.
#[derive(Clone, Copy)]
pub(crate) struct Pow2Block {
    /// The bits of `MAGIC · 2^a`.
    init_bits: i32,
    /// The same minus `8 · Σ q`, for codes with a zero point of 8.
    pub(crate) init_8: i32,
    /// The same minus `128 · Σ q`.
    pub(crate) init_128: i32,
    /// The same minus `32 · Σ q` of each half.
    pub(crate) init_half_32: [i32; 2],
    /// The bits of `±MAGIC · 2^b` minus `init_bits`.
    pub(crate) second_delta: i32,
    /// `-MAGIC · (2^a ± 2^b)`.
    pub(crate) neg_magic: f32,
    /// `scale · Σ q` as bf16, in the low half; in every other block from the first of a row on, that of the next block in the high half.
    pub(crate) bf16_sums: i32,
}

impl Pow2Block {
    /// The start of an accumulator of half `half`, or of all, for codes with any zero point `offset`.
    #[inline(always)]
    pub(crate) fn init(&self, half: Option<usize>, offset: i32) -> i32 {
        let neg_sums = match half {
            Some(half) => self.init_half_32[half].wrapping_sub(self.init_bits) >> 5,
            None => self.init_8.wrapping_sub(self.init_bits) >> 3,
        };
        self.init_bits.wrapping_add(offset * neg_sums)
    }

    /// `scale · Σ q` of half `half`.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        let sum = self.init_bits.wrapping_sub(self.init_half_32[half]) >> 5;
        // Exact: the scale has two bits.
        sum as f32 * (self.neg_magic * const { -1.0 / MAGIC })
    }
}

/// Blocks of zeros, of either kind.
pub(crate) static ZERO_BLOCKS: [Block; ROW_GROUP] = [Block::ZERO; ROW_GROUP];

/// 1.5 · 2²³: a float whose last place is one, with room for 22-bit integers above and below.
pub(super) const MAGIC: f32 = (3 << 22) as f32;

/// Rows whose blocks are interleaved, so that a register tile of them is one stream to read.
pub(crate) const ROW_GROUP: usize = 8;

/// Quantized rows, and which scale and sums their blocks hold.
#[derive(Clone, Copy)]
pub(crate) enum QuantizedRows<'a> {
    /// Blocks with any scale: [`Block::plain`].
    Plain(RowGroups<'a>),
    /// Blocks with scales of two powers of two: [`Block::pow2`].
    Pow2(RowGroups<'a>),
}

impl<'a> QuantizedRows<'a> {
    /// The rows from `first` on, a multiple of [`ROW_GROUP`].
    pub(crate) fn from(self, first: usize) -> QuantizedRows<'a> {
        match self {
            QuantizedRows::Plain(rows) => QuantizedRows::Plain(rows.from(first)),
            QuantizedRows::Pow2(rows) => QuantizedRows::Pow2(rows.from(first)),
        }
    }
}

/// Interleaved blocks of rows. A group holds [`ROW_GROUP`] rows, the last one what is left: first block 0 of each of its rows, then
/// block 1 of each, and so on.
#[derive(Clone, Copy)]
pub(crate) struct RowGroups<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) rows: usize,
    pub(super) row_len: usize,
}

impl<'a> RowGroups<'a> {
    /// The rows from `first` on, a multiple of [`ROW_GROUP`].
    fn from(self, first: usize) -> RowGroups<'a> {
        let RowGroups { blocks, rows, row_len } = self;
        RowGroups { blocks: &blocks[first * row_len..], rows: rows - first, row_len }
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows
    }

    /// The stream from block 0 of `row` on, and its step: the distance in blocks to block 1. It is long enough for a tile of more rows
    /// than there are.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [Block], usize) {
        let first = row - row % ROW_GROUP;
        let width = ROW_GROUP.min(self.rows - first);
        (&self.blocks[first * self.row_len + row - first..(first + width) * self.row_len + ROW_GROUP], width)
    }
}
