//! Blocks of 32 quantized activations.

/// Weights that share one scale of the quantized activations.
pub(crate) const BLOCK: usize = 32;

/// Thirty-two activations in eight bits, with what the weight formats' offsets and minima need, ready to be broadcast:
/// one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Rounded to nearest even, from -127 to 127.
    pub(crate) q: [i8; BLOCK],
    /// The rest, [`PlainBlock`] or [`Pow2Block`].
    pub(super) meta: [i32; 8],
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Zeros.
    pub(super) const ZERO: Block = Block { q: [0; BLOCK], meta: [0; 8] };

    /// The rest for lanes that are not [`Simd::TWOS`], and of rows in sixteen bits.
    #[inline(always)]
    pub(crate) fn plain(&self) -> PlainBlock {
        let [scale, neg_sum_8, neg_sum_128, first, second, neg_sum_i16, sum, _] = self.meta;
        let (scale, sum) = (float(scale), float(sum));
        PlainBlock { scale, neg_sum_8, neg_sum_128, neg_half_sum_32: [first, second], neg_sum_i16, sum }
    }

    /// The rest for lanes that are [`Simd::TWOS`], of rows in eight bits.
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

/// What belongs to 32 activations `q`.
#[derive(Clone, Copy)]
pub(crate) struct PlainBlock {
    /// Value of one step.
    pub(crate) scale: f32,
    /// The sum of `q`, negated, times what codes of this offset start from: 8 or 128.
    pub(crate) neg_sum_8: i32,
    pub(crate) neg_sum_128: i32,
    /// The sums of the two halves, negated, times an offset of 32.
    pub(crate) neg_half_sum_32: [i32; 2],
    /// The same without the offset, as words.
    pub(crate) neg_sum_i16: i32,
    /// The sum of `q` times `scale`.
    pub(crate) sum: f32,
}

impl PlainBlock {
    /// The sum of the half `half` of `q`, times `scale`.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        (-self.neg_half_sum_32[half] >> 5) as f32 * self.scale
    }
}

/// What belongs to 32 activations `q` whose step is the sum of two powers of two, of which the second may be negative
/// (docs/decisions/0050). A sum of products that starts from the bits of a large float is one that is as many of its last places larger.
#[derive(Clone, Copy)]
pub(crate) struct Pow2Block {
    /// The bits of a float whose last place is the first power.
    init_bits: i32,
    /// The same, less what codes of this offset start from: the sum of `q` times 8 or 128.
    pub(crate) init_8: i32,
    pub(crate) init_128: i32,
    /// The same for the two halves and an offset of 32.
    pub(crate) init_half_32: [i32; 2],
    /// What the bits of a float whose last place is the second power are above `init_bits`.
    pub(crate) second_delta: i32,
    /// Both floats, added and negated.
    pub(crate) neg_magic: f32,
    /// The sum of `q` times the step, and in every other block, the first of a row among them, that of the next, as bfloat16.
    pub(crate) bf16_sums: i32,
}

impl Pow2Block {
    /// What products of the half `half` of `q`, or of all, with codes of the offset `offset` start from, where there is no field for it.
    #[inline(always)]
    pub(crate) fn init(&self, half: Option<usize>, offset: i32) -> i32 {
        let neg_sums = match half {
            Some(half) => self.init_half_32[half].wrapping_sub(self.init_bits) >> 5,
            None => self.init_8.wrapping_sub(self.init_bits) >> 3,
        };
        self.init_bits.wrapping_add(offset * neg_sums)
    }

    /// The sum of the half `half` of `q`, times the step.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        let sum = self.init_bits.wrapping_sub(self.init_half_32[half]) >> 5;
        // Exact: the step is a few bits.
        sum as f32 * (self.neg_magic * const { -1.0 / MAGIC })
    }
}

/// No activations, of either kind.
pub(crate) static ZERO_BLOCKS: [Block; ROW_GROUP] = [Block::ZERO; ROW_GROUP];

/// A float whose last place is one, with room for sums of products above and below.
pub(super) const MAGIC: f32 = (3 << 22) as f32;

/// Rows that lie together, block by block, so that a tile of them is one stream to read.
pub(crate) const ROW_GROUP: usize = 8;

/// Quantized rows. A group holds [`ROW_GROUP`] rows, the last one what is left: first block 0 of each of its rows, then
/// block 1 of each, and so on.
#[derive(Clone, Copy)]
pub(crate) struct RowGroups<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) rows: usize,
    pub(super) row_len: usize,
}

impl<'a> RowGroups<'a> {
    /// The rows from `first` on, which begins a group.
    pub(crate) fn from(self, first: usize) -> RowGroups<'a> {
        let RowGroups { blocks, rows, row_len } = self;
        RowGroups { blocks: &blocks[first * row_len..], rows: rows - first, row_len }
    }

    /// Rows that there are.
    pub(crate) fn count(&self) -> usize {
        self.rows
    }

    /// The stream that begins with block 0 of `row`, and its step: how many blocks on block 1 lies. Behind it are blocks enough for a tile
    /// of more rows than there are.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [Block], usize) {
        let first = row - row % ROW_GROUP;
        let width = ROW_GROUP.min(self.rows - first);
        (&self.blocks[first * self.row_len + row - first..(first + width) * self.row_len + ROW_GROUP], width)
    }
}
