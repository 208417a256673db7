//! The input rows of a matrix product, in each form that some weight format reads.
//!
//! Rows are quantized once and shared by all matrices that read them (Q, K and V; gate and up).

use cpu::simd::{Job, Simd, dispatch, has_pow2_scale, has_tiles};
use cpu::{AlignedVec, Tier};
use std::ops::{BitOr, Range};

use crate::Compute;
use crate::elementwise::{self, Activation, parallel_rows};
use crate::kv::{bf16, bf16_of_number};
use crate::norm::{RowNorm, RowStats};
use crate::partial;

/// Weights that share one scale of the quantized activations.
pub(crate) const BLOCK: usize = 32;

/// Which forms of the rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActFormats {
    /// Eight bits, and a scale for each 32 values.
    pub q8: bool,
    /// Sixteen bits, as two rows of eight: the coarse part, then the rest.
    pub q16: bool,
    /// bfloat16 pairs.
    pub bf16: bool,
    /// Eight bits for rows of answers only, bfloat16 pairs for those of prompts: see [`Activations::set`].
    pub q8_decode_bf16_prefill: bool,
    /// Pairs of half-precision floats.
    pub f16: bool,
    /// As they are.
    pub f32: bool,
}

impl ActFormats {
    /// Whether a form is wanted for which rows are written as floats first.
    fn needs_f32(self) -> bool {
        self.f32 || self.f16
    }
}

impl BitOr for ActFormats {
    type Output = ActFormats;
    fn bitor(self, o: ActFormats) -> ActFormats {
        ActFormats {
            q8: self.q8 | o.q8,
            q16: self.q16 | o.q16,
            bf16: self.bf16 | o.bf16,
            q8_decode_bf16_prefill: self.q8_decode_bf16_prefill | o.q8_decode_bf16_prefill,
            f16: self.f16 | o.f16,
            f32: self.f32 | o.f32,
        }
    }
}

/// Thirty-two activations in eight bits, with what the weight formats' offsets and minima need, ready to be broadcast:
/// one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Rounded to nearest even, from -127 to 127.
    pub(crate) q: [i8; BLOCK],
    /// The rest, [`PlainBlock`] or [`Pow2Block`].
    meta: [i32; 8],
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Zeros.
    const ZERO: Block = Block { q: [0; BLOCK], meta: [0; 8] };

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

/// Rows that lie together, block by block, so that a tile of them is one stream to read.
pub(crate) const ROW_GROUP: usize = 8;

/// Quantized rows. A group holds [`ROW_GROUP`] rows, the last one what is left: first block 0 of each of its rows, then
/// block 1 of each, and so on.
#[derive(Clone, Copy)]
pub(crate) struct RowGroups<'a> {
    blocks: &'a [Block],
    rows: usize,
    row_len: usize,
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

/// Pairs of bfloat16 of a row that lie together in a group.
pub(crate) const PAIR_CHUNK: usize = 4;

/// Rows as pairs of bfloat16, where they do not lie in tiles. A group holds [`ROW_GROUP`] rows, the last one what is left: first the [`PAIR_CHUNK`]
/// first pairs of each of its rows, then the next of each, and so on, the last ones filled up with zeros.
#[derive(Clone, Copy)]
pub(crate) struct PairGroups<'a> {
    /// The rows, and enough of whatever after them for a tile of more rows than there are.
    pairs: &'a [[i8; 4]],
    rows: usize,
    row_len: usize,
}

impl<'a> PairGroups<'a> {
    /// The stream that begins with the first pairs of `row`, and its step: how many pairs on the next ones of the same row lie.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [[i8; 4]], usize) {
        let first = row - row % ROW_GROUP;
        let width = ROW_GROUP.min(self.rows - first);
        (&self.pairs[first * self.row_len + (row - first) * PAIR_CHUNK..], width * PAIR_CHUNK)
    }
}

/// Rows of activations. All memory is taken by [`Activations::new`]; physical pages only for the forms that are used.
pub struct Activations {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether `q8` has two rows for each row.
    pub(crate) q16: bool,
    /// Rows in `q8`, from the first: all, but where those of prompts are multiplied in bfloat16.
    pub(crate) quantized_rows: usize,
    q8: Vec<Block>,
    pub(crate) bf16: AlignedVec<[i8; 4]>,
    f16: AlignedVec<[i8; 4]>,
    /// What a row in `halves` is multiplied by to be what it was.
    descale: Vec<f32>,
    pub(crate) f32: AlignedVec<f32>,
}

/// Rows as half-precision floats.
#[derive(Clone, Copy)]
pub(crate) struct F16Rows<'a> {
    /// The rows as they lie in tiles, and a tile's worth of whatever after them. Of four columns a pair of the first and third comes
    /// first, then one of the second and fourth.
    pub(crate) pairs: &'a [[i8; 4]],
    /// What makes the values of a row of what it holds, a power of two.
    pub(crate) descale: &'a [f32],
}

impl Activations {
    /// Room for `max_rows` rows of up to `max_cols` columns.
    pub fn new(max_rows: usize, max_cols: usize) -> Activations {
        // And a tile's worth of blocks more, for tiles of more rows than there are.
        let q8 = 2 * max_rows * max_cols.div_ceil(BLOCK) + ROW_GROUP;
        // Whole tiles' worth, whichever the tier, and one tile more: the last ones are read whole.
        let pairs = max_rows * max_cols.div_ceil(AMX_TILE_PAIRS * 2) * AMX_TILE_PAIRS
            + AMX_TILE_ROWS * AMX_TILE_PAIRS;
        Activations {
            rows: 0,
            cols: 0,
            q16: false,
            quantized_rows: 0,
            q8: vec![Block::ZERO; q8],
            bf16: AlignedVec::new(pairs),
            f16: AlignedVec::new(pairs),
            descale: vec![0.0; max_rows],
            f32: AlignedVec::new(max_rows * max_cols),
        }
    }

    /// Takes the rows `x` of `[rows, cols]`, in the forms that `formats` names. The first `decode_rows` of them belong to answers, the
    /// others to prompts: where `c` says so, tiers with tiles multiply quantized weights by these in another way, which rounds
    /// otherwise and is faster for many rows ([`ActFormats::q8_decode_bf16_prefill`]). Which rows are whose must not depend on the batch.
    ///
    /// # Panics
    /// When `x` is no whole number of rows, fewer than `decode_rows`, or larger than what [`Activations::new`] made room for, and when
    /// matrices of both [`Precision::Fast`](crate::Precision) and `Fine` are to read the same rows.
    pub fn set(&mut self, c: &Compute, x: &[f32], cols: usize, formats: ActFormats, decode_rows: usize) {
        self.quantize_and_pack(c, RowSource::Plain(x), cols, formats, decode_rows);
        if formats.f32 {
            parallel_rows(c, &mut self.f32[..x.len()], cols, &|first, out| {
                out.copy_from_slice(&x[first * cols..][..out.len()]);
            });
        }
        if formats.f16 {
            self.pack_f16(c, x);
        }
    }

    /// Takes the rows `act(gate) · up`, the same bits as after [`gated`](crate::gated) and [`Activations::set`]: where rows are quantized or
    /// rounded, they are so as soon as they are worked out, and are not written in between.
    ///
    /// # Panics
    /// As [`Activations::set`], and when the lengths differ.
    pub fn set_gated(
        &mut self,
        c: &Compute,
        act: Activation,
        gate: &mut [f32],
        up: &[f32],
        cols: usize,
        formats: ActFormats,
        decode_rows: usize,
    ) {
        assert_eq!(gate.len(), up.len(), "gate and up");
        if formats.needs_f32() {
            elementwise::gated(c, act, gate, up);
            self.set(c, gate, cols, formats, decode_rows);
        } else {
            self.quantize_and_pack(c, RowSource::Gated { act, gate, up }, cols, formats, decode_rows);
        }
    }

    /// Takes the norms of the rows `x`, the same bits as after [`RowNorm::rows`] and [`Activations::set`]. Where they can be
    /// used as soon as they are worked out, nothing is written to `scratch`, which otherwise holds them.
    ///
    /// # Panics
    /// As [`Activations::set`], and when shapes do not fit.
    pub fn set_normed(
        &mut self,
        c: &Compute,
        norm: RowNorm<'_>,
        x: &[f32],
        scratch: &mut [f32],
        formats: ActFormats,
        decode_rows: usize,
    ) {
        let cols = norm.cols();
        assert_eq!(x.len(), scratch.len(), "room for norms");
        if formats.needs_f32() {
            norm.rows(c, x, scratch);
            self.set(c, scratch, cols, formats, decode_rows);
        } else {
            self.quantize_and_pack(c, RowSource::Normed { x, norm }, cols, formats, decode_rows);
        }
    }

    /// Quantizes and rounds the rows `x`, for all that `formats` names but floats.
    fn quantize_and_pack(
        &mut self,
        c: &Compute,
        x: RowSource<'_>,
        cols: usize,
        formats: ActFormats,
        decode_rows: usize,
    ) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} values in rows of {cols}", x.len());
        (self.rows, self.cols) = (x.len() / cols, cols);
        assert!(decode_rows <= self.rows, "{decode_rows} rows of answers among {}", self.rows);
        self.quantized_rows =
            if formats.q8_decode_bf16_prefill && c.prompt_tiles { decode_rows } else { self.rows };
        if formats.bf16 || self.quantized_rows < self.rows {
            let shape = PairShape::of(c.tier);
            let row_len = shape.row_len(cols);
            let out = &mut self.bf16[..self.rows * row_len];
            let tasks = if x.len() < PARALLEL_MIN_VALUES { 1 } else { 4 * c.pool.threads() };
            let rows = self.rows.div_ceil(tasks).max(1).next_multiple_of(shape.rows);
            c.pool.chunks_mut(out, rows * row_len, &|i, out| {
                dispatch(c.tier, PackBf16 { x: x.slice(i * rows * cols..x.len()), cols, shape, out });
            });
        }
        assert!(!(formats.q8 && formats.q16), "rows are quantized to eight bits or to sixteen, not both");
        self.q16 = formats.q16;
        if formats.q8 || formats.q16 {
            let (parts, row_len) = (self.parts(), cols.div_ceil(BLOCK));
            let rows = parts * self.quantized_rows;
            let form = match (formats.q16, has_pow2_scale(c.tier)) {
                (true, _) => QuantForm::Q16,
                (_, true) => QuantForm::Pow2,
                (_, false) => QuantForm::Q8,
            };
            let out = &mut self.q8[..rows * row_len];
            // Few rows are cut along their length, many into whole groups.
            let (width, span) = match rows <= ROW_GROUP {
                true => {
                    let share = || row_len.div_ceil(c.pool.threads()).next_multiple_of(2);
                    (rows.max(1), if out.len() < PARALLEL_MIN_BLOCKS { row_len } else { share() })
                }
                false => (ROW_GROUP, rows.div_ceil(ROW_GROUP).div_ceil(8 * c.pool.threads()) * row_len),
            };
            c.pool.chunks_mut(out, span * width, &|i, out| {
                let (group, from) = (i * span / row_len, i * span % row_len * BLOCK);
                let x = x.slice(group * ROW_GROUP / parts * cols..self.quantized_rows * cols);
                dispatch(c.tier, QuantizeRows { x, cols, from, form, row_len, out });
            });
        }
    }

    /// Rounds the rows `x` to half precision.
    fn pack_f16(&mut self, c: &Compute, x: &[f32]) {
        let cols = self.cols;
        let shape = PairShape { rows: AMX_TILE_ROWS, pairs: AMX_TILE_PAIRS };
        let row_len = shape.row_len(cols);
        let tasks = if x.len() < PARALLEL_MIN_VALUES { 1 } else { 4 * c.pool.threads() };
        let rows = self.rows.div_ceil(tasks).max(1).next_multiple_of(shape.rows);
        let descale = &mut self.descale[..self.rows];
        c.pool.chunks_mut(descale, rows, &|i, descale| {
            dispatch(c.tier, MeasureRows { x: &x[i * rows * cols..], cols, descale });
        });
        let (descale, out) = (&*descale, &mut self.f16[..self.rows * row_len]);
        c.pool.chunks_mut(out, rows * row_len, &|i, out| {
            dispatch(
                c.tier,
                PackF16 { x: &x[i * rows * cols..], cols, descale: &descale[i * rows..], shape, out },
            );
        });
    }

    /// The rows as pairs of bfloat16, on a tier without tiles.
    pub(crate) fn pairs(&self) -> PairGroups<'_> {
        PairGroups { pairs: &self.bf16, rows: self.rows, row_len: PairShape::GROUPED.row_len(self.cols) }
    }

    /// The rows as half-precision floats.
    pub(crate) fn f16(&self) -> F16Rows<'_> {
        F16Rows { pairs: &self.f16, descale: &self.descale }
    }

    /// Quantized rows for each row: the coarse part and the rest, or one.
    fn parts(&self) -> usize {
        if self.q16 { 2 } else { 1 }
    }

    /// The rows in eight bits; where they are fine, each as two, one after the other.
    pub(crate) fn quantized(&self) -> RowGroups<'_> {
        let (rows, row_len) = (self.parts() * self.quantized_rows, self.cols.div_ceil(BLOCK));
        RowGroups { blocks: &self.q8[..rows * row_len + ROW_GROUP], rows, row_len }
    }
}

/// Values below which a hand-over to other threads costs more than rounding them to bfloat16.
const PARALLEL_MIN_VALUES: usize = 8 << 10;

/// Rows of a tile: `cpu::simd::amx::ROWS`, which other architectures do not have.
const AMX_TILE_ROWS: usize = 16;
/// Pairs of bfloat16 in a row of a tile.
pub(crate) const AMX_TILE_PAIRS: usize = 16;

/// How pairs of bfloat16 lie: groups of `rows` rows, the last one what is left, hold `pairs` pairs of each of their rows, then the next
/// `pairs` of each, the last of them filled up with zeros.
#[derive(Clone, Copy)]
struct PairShape {
    rows: usize,
    pairs: usize,
}

impl PairShape {
    /// As [`PairGroups`].
    const GROUPED: PairShape = PairShape { rows: ROW_GROUP, pairs: PAIR_CHUNK };

    /// In groups, or where the tier has tiles, tile after tile.
    fn of(tier: Tier) -> PairShape {
        if has_tiles(tier) {
            PairShape { rows: AMX_TILE_ROWS, pairs: AMX_TILE_PAIRS }
        } else {
            PairShape::GROUPED
        }
    }

    /// Pairs that a row takes.
    fn row_len(self, cols: usize) -> usize {
        cols.div_ceil(2).next_multiple_of(self.pairs)
    }
}

/// Values worked out at a time: those of [`BLOCK_RUN`] blocks.
const RUN_VALUES: usize = BLOCK_RUN * BLOCK;

/// Where rows come from.
#[derive(Clone, Copy)]
enum RowSource<'a> {
    /// As they are.
    Plain(&'a [f32]),
    /// `act(gate) · up`.
    Gated { act: Activation, gate: &'a [f32], up: &'a [f32] },
    /// Norms of rows.
    Normed { x: &'a [f32], norm: RowNorm<'a> },
}

impl<'a> RowSource<'a> {
    fn len(self) -> usize {
        match self {
            RowSource::Plain(x) | RowSource::Gated { gate: x, .. } | RowSource::Normed { x, .. } => x.len(),
        }
    }

    /// The values `these`, which begin a row.
    fn slice(self, these: Range<usize>) -> RowSource<'a> {
        match self {
            RowSource::Plain(x) => RowSource::Plain(&x[these]),
            RowSource::Gated { act, gate, up } => {
                RowSource::Gated { act, gate: &gate[these.clone()], up: &up[these] }
            }
            RowSource::Normed { x, norm } => RowSource::Normed { x: &x[these], norm },
        }
    }

    /// What the row of `cols` values from `at` on must be known of as a whole.
    #[inline(always)]
    fn stats<S: Simd>(self, s: S, at: usize, cols: usize) -> RowStats {
        match self {
            RowSource::Plain(_) | RowSource::Gated { .. } => RowStats::default(),
            RowSource::Normed { x, norm } => norm.stats(s, &x[at..at + cols]),
        }
    }

    /// The `count` values, at most [`RUN_VALUES`], from column `from` on of the row that begins at `at`: worked out in `scratch`, where they are
    /// not there already.
    #[inline(always)]
    fn values<'r, S: Simd>(
        self,
        s: S,
        (at, stats): (usize, RowStats),
        from: usize,
        count: usize,
        scratch: &'r mut [f32; RUN_VALUES],
    ) -> &'r [f32]
    where
        'a: 'r,
    {
        let these = at + from..at + from + count;
        let scratch = &mut scratch[..count];
        // The next stretch, or the next row's first.
        let ahead = 4 * count;
        match self {
            RowSource::Plain(x) => {
                if const { S::PREFETCH_GEMM } {
                    s.prefetch_span_l2(&x[these.clone()], ahead);
                }
                return &x[these];
            }
            RowSource::Gated { act, gate, up } => {
                let (gate, up) = (&gate[these.clone()], &up[these]);
                if const { S::PREFETCH_GEMM } {
                    s.prefetch_span_l2(gate, ahead);
                    s.prefetch_span_l2(up, ahead);
                }
                elementwise::activate_slice(s, act, Some(gate), Some(up), scratch);
            }
            RowSource::Normed { x, norm } => norm.part(s, &x[these], stats, from, scratch),
        }
        scratch
    }
}

/// Rounds rows to bfloat16.
struct PackBf16<'a> {
    /// From the first row of `out` on.
    x: RowSource<'a>,
    cols: usize,
    shape: PairShape,
    /// Whole groups, or what is left at the end.
    out: &'a mut [[i8; 4]],
}

impl Job for PackBf16<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (PairShape { rows, pairs }, cols) = (self.shape, self.cols);
        let row_len = self.shape.row_len(cols);
        let mut scratch = [0.0; RUN_VALUES];
        for (group, out) in self.out.chunks_mut(rows * row_len).enumerate() {
            let width = out.len() / row_len;
            for r in 0..width {
                let row = (group * rows + r) * cols;
                let row = (row, self.x.stats(s, row, cols));
                let runs = out.chunks_mut(width * RUN_VALUES / 2);
                for (from, out) in (0..cols).step_by(RUN_VALUES).zip(runs) {
                    let values = self.x.values(s, row, from, RUN_VALUES.min(cols - from), &mut scratch);
                    for (part, out) in values.chunks(2 * pairs).zip(out.chunks_exact_mut(width * pairs)) {
                        let out = &mut out[r * pairs..(r + 1) * pairs];
                        out[part.len() / 2..].fill([0; 4]);
                        // Written so that the compiler takes a register of values at a time.
                        for (v, out) in part.iter().zip(out.as_flattened_mut().as_chunks_mut::<2>().0) {
                            let [low, high, ..] = bf16(*v).to_le_bytes();
                            *out = [low.cast_signed(), high.cast_signed()];
                        }
                    }
                }
            }
        }
    }
}

/// 2^`power`, or the nearest power of two that is a normal number and so is its inverse.
pub(crate) fn power_of_two(power: i32) -> f32 {
    f32::from_bits((power.clamp(-126, 126) + 127).cast_unsigned() << 23)
}

/// The least power of two that `x`, not negative and finite, is below.
pub(crate) fn power_above(x: f32) -> i32 {
    (x.to_bits() >> 23).cast_signed() - 126
}

/// Finds what rows are to be multiplied by after they were brought below 2¹⁵, the upper end of half precision.
struct MeasureRows<'a> {
    /// From the first of them on.
    x: &'a [f32],
    cols: usize,
    descale: &'a mut [f32],
}

impl Job for MeasureRows<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let zero = s.splat(0.0);
        for (row, descale) in self.x.chunks_exact(self.cols).zip(self.descale) {
            let mut maxima = [zero; 4];
            for (i, part) in row.chunks(S::LANES).enumerate() {
                let v = partial::load(s, part, 0);
                maxima[i % 4] = s.max(maxima[i % 4], s.max(v, s.sub(zero, v)));
            }
            let max_abs = s.reduce_max(s.max(s.max(maxima[0], maxima[1]), s.max(maxima[2], maxima[3])));
            // A row of zeros stays one; of one that overflowed nothing is left anyway.
            *descale = if max_abs > 0.0 && max_abs.is_finite() {
                power_of_two(power_above(max_abs) - 15)
            } else {
                1.0
            };
        }
    }
}

/// Rounds rows to half precision.
struct PackF16<'a> {
    /// From the first row of `out` on.
    x: &'a [f32],
    cols: usize,
    /// Of the rows of `x`.
    descale: &'a [f32],
    shape: PairShape,
    /// Whole groups, or what is left at the end.
    out: &'a mut [[i8; 4]],
}

impl Job for PackF16<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PairShape { rows, pairs } = self.shape;
        let groups = self.out.chunks_mut(rows * self.shape.row_len(self.cols));
        let descale = self.descale.chunks(rows);
        for ((x, out), descale) in self.x.chunks(rows * self.cols).zip(groups).zip(descale) {
            let width = x.len() / self.cols;
            for ((r, row), descale) in x.chunks_exact(self.cols).enumerate().zip(descale) {
                let lift = s.splat(1.0 / descale);
                for (part, out) in row.chunks(2 * pairs).zip(out.chunks_exact_mut(width * pairs)) {
                    let mut halves = [0; 2 * AMX_TILE_PAIRS];
                    for at in (0..part.len()).step_by(S::LANES) {
                        s.store_f16(s.mul(partial::load(s, part, at), lift), &mut halves[at..]);
                    }
                    // Of four, the second and third change places: with arithmetic that the compiler does for a register at a time.
                    let to = out[r * pairs..(r + 1) * pairs].as_flattened_mut().as_chunks_mut::<8>().0;
                    for (four, out) in halves.as_chunks::<4>().0.iter().zip(to) {
                        let four = four.iter().rev().fold(0, |bits, half| bits << 16 | u64::from(*half));
                        let (second, third) = (four >> 16 & 0xffff, four >> 32 & 0xffff);
                        let four = four & 0xffff_0000_0000_ffff | third << 16 | second << 32;
                        *out = four.to_le_bytes().map(u8::cast_signed);
                    }
                }
            }
        }
    }
}

/// Blocks below which a hand-over to other threads costs more than it brings.
const PARALLEL_MIN_BLOCKS: usize = 192;

/// How rows are quantized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuantForm {
    /// Eight bits, with any scale.
    Q8,
    /// Eight bits, with a scale that is a sum of two powers of two, for [`Simd::TWOS`].
    Pow2,
    /// Sixteen bits, as a coarse and a fine row of eight bits.
    Q16,
}

struct QuantizeRows<'a> {
    /// From the first row of the first group on.
    x: RowSource<'a>,
    cols: usize,
    /// The column to begin with: not zero for a part of a group.
    from: usize,
    form: QuantForm,
    row_len: usize,
    /// Whole groups, or blocks of one.
    out: &'a mut [Block],
}

impl Job for QuantizeRows<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let parts = if self.form == QuantForm::Q16 { 2 } else { 1 };
        let (cols, group) = (self.cols, ROW_GROUP / parts);
        let rows = self.x.len() / cols;
        let mut scratch = [0.0; RUN_VALUES];
        for (first, out) in (0..rows).step_by(group).zip(self.out.chunks_mut(ROW_GROUP * self.row_len)) {
            let width = parts * group.min(rows - first);
            let to = cols.min(self.from + out.len() / width * BLOCK);
            for r in 0..width / parts {
                let row = (first + r) * cols;
                let row = (row, self.x.stats(s, row, cols));
                // The row's first block, and the others `width` on from one to the next.
                let mut runs = out[parts * r..].chunks_mut(BLOCK_RUN * width).peekable();
                for at in (self.from..to).step_by(RUN_VALUES) {
                    let Some(out) = runs.next() else { break };
                    if const { S::PREFETCH_GEMM }
                        && matches!(self.x, RowSource::Gated { .. })
                        && let Some(next) = runs.peek_mut()
                    {
                        for block in next.chunks_mut(width) {
                            s.prefetch_write(block);
                        }
                    }
                    let values = self.x.values(s, row, at, RUN_VALUES.min(to - at), &mut scratch);
                    let (to_int, part) = values.as_chunks::<BLOCK>();
                    blocks(s, self.form, to_int, out, width);
                    if !part.is_empty() {
                        let mut padded = [0.0; BLOCK];
                        padded[..part.len()].copy_from_slice(part);
                        blocks(s, self.form, &[padded], &mut out[to_int.len() * width..], width);
                    }
                }
            }
        }
    }
}

/// Quantizes the blocks `x`, at most [`BLOCK_RUN`], to blocks of `out`, or pairs of them where they are fine, that lie `stride`.
#[inline(always)]
fn blocks<S: Simd>(s: S, form: QuantForm, x: &[[f32; BLOCK]], out: &mut [Block], stride: usize) {
    // No closures: they would be compiled without the tier's instructions.
    if form == QuantForm::Q16 {
        for (x, out) in x.iter().zip(out.chunks_mut(stride)) {
            quantize_q16(s, x, out);
        }
    } else {
        quantize(s, form == QuantForm::Pow2, x, out, stride);
    }
}

/// The largest magnitudes of `x`, a lane's share of the block each.
#[inline(always)]
fn max_abs<S: Simd>(s: S, x: &[f32; BLOCK]) -> S::F {
    let zero = s.splat(0.0);
    let mut max_abs = zero;
    for part in x.chunks_exact(S::LANES) {
        let v = s.load(part);
        max_abs = s.max(max_abs, s.max(v, s.sub(zero, v)));
    }
    max_abs
}

/// The step and its inverse that map the magnitude `max_abs` to `levels`; zeros for a block that is zero, or
/// holds no finite values: such a row stays visible in the residual stream, here it must only do no harm.
#[inline(always)]
fn step(max_abs: f32, levels: f32) -> (f32, f32) {
    let inverse = levels / max_abs;
    // Nothing finite is largest in a block whose inverse is zero or no number, and of one that is all zeros it is infinite, as of a denormal
    // one, which is zero at this precision. Two plain comparisons, of which the compiler takes a register at a time.
    let usable = (inverse > 0.0) & (inverse <= f32::MAX);
    if usable { (max_abs / levels, inverse) } else { (0.0, 0.0) }
}

/// A float whose last place is one, with room for sums of products above and below.
const MAGIC: f32 = (3 << 22) as f32;

/// A step that is the sum of two powers of two, of which the second may be negative.
#[derive(Clone, Copy, Default)]
struct Powers {
    first: f32,
    second: f32,
}

impl Powers {
    /// The least such step that maps the magnitude `max_abs` to at most 127; zeros as [`step`], and for a block that is nearly zero or infinite.
    #[inline(always)]
    fn step(max_abs: f32) -> Powers {
        const POWER: u32 = 0x7f80_0000;
        // Powers closer to nothing would not leave a sum of both, times `MAGIC`, exact.
        const LEAST: f32 = 1.0 / 4096.0;
        let step = max_abs / 127.0;
        let low = f32::from_bits(step.to_bits() & POWER);
        let least = low * LEAST;
        let more = step - low;
        let more = if more > least { more } else { least };
        let more = f32::from_bits(more.to_bits().wrapping_add(!POWER & 0x7fff_ffff) & POWER);
        let neg_sums = low + low - step;
        let neg_sums = if neg_sums > least { neg_sums } else { least };
        let neg_sums = f32::from_bits(neg_sums.to_bits() & POWER);
        let (first, second) = if more + more > low { (low + low, -neg_sums) } else { (low, more) };
        // Plain comparisons, of which the compiler takes a register at a time.
        let usable = (step > 1e-30) & (step < 1e30);
        if usable { Powers { first, second } } else { Powers::default() }
    }

    /// The floats whose last places they are.
    #[inline(always)]
    fn magic(self) -> [f32; 2] {
        [self.first * MAGIC, self.second * MAGIC]
    }
}

/// `x`, a whole number of less than 22 bits, as an integer. (A cast is done one at a time, for what it does with other numbers.)
#[inline(always)]
fn to_int(x: f32) -> i32 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed()
}

/// Blocks of a row that are quantized together: what is worked out for each of them is so for a register of them at a time.
const BLOCK_RUN: usize = 16;

/// Quantizes the blocks `x`, at most [`BLOCK_RUN`], to blocks of `out` that lie `stride`.
#[inline(always)]
fn quantize<S: Simd>(s: S, pow2: bool, x: &[[f32; BLOCK]], out: &mut [Block], stride: usize) {
    let count = x.len().min(BLOCK_RUN);
    let mut maxima = [s.splat(0.0); BLOCK_RUN];
    for i in 0..count {
        maxima[i] = max_abs(s, &x[i]);
    }
    let maxima = s.reduce_max16(&maxima);
    let (mut scales, mut inverses) = ([0.0; BLOCK_RUN], [0.0; BLOCK_RUN]);
    let mut powers = [Powers::default(); BLOCK_RUN];
    if pow2 {
        for i in 0..BLOCK_RUN {
            powers[i] = Powers::step(maxima[i]);
        }
        for i in 0..BLOCK_RUN {
            scales[i] = powers[i].first + powers[i].second;
            inverses[i] = if scales[i] > 0.0 { 1.0 / scales[i] } else { 0.0 };
        }
    } else {
        for i in 0..BLOCK_RUN {
            (scales[i], inverses[i]) = step(maxima[i], 127.0);
        }
    }
    let (low, high) = (s.splat(-127.0), s.splat(127.0));
    let mut halves = [[s.splat(0.0); BLOCK_RUN]; 2];
    for i in 0..count {
        let block = &mut out[i * stride];
        if inverses[i] == 0.0 {
            block.q = [0; BLOCK];
            continue;
        }
        let inverse = s.splat(inverses[i]);
        let mut sums = [s.splat(0.0); 2];
        for (j, (part, q)) in x[i].chunks_exact(S::LANES).zip(block.q.chunks_exact_mut(S::LANES)).enumerate()
        {
            let v = s.min(s.max(s.round(s.mul(s.load(part), inverse)), low), high);
            s.store_i8(v, q);
            let half = j * S::LANES / (BLOCK / 2);
            sums[half] = s.add(sums[half], v);
        }
        (halves[0][i], halves[1][i]) = (sums[0], sums[1]);
    }
    let halves = HalfSums { first: s.reduce_sum16(&halves[0]), second: s.reduce_sum16(&halves[1]) };
    let meta = s.transpose_8x16(&halves.meta(&scales, pow2.then_some(&powers)));
    for i in 0..count {
        out[i * stride].meta = meta[i];
    }
}

/// The sums of the halves of each block's `q`: small integers, which floats hold exactly.
struct HalfSums<const N: usize> {
    first: [f32; N],
    second: [f32; N],
}

impl<const N: usize> HalfSums<N> {
    /// What blocks hold beside `q`, part by part: of blocks whose steps are `scales`, the sums of `powers` where they are in twos. Then the
    /// first block is one of every other.
    #[inline(always)]
    fn meta(&self, scales: &[f32; N], powers: Option<&[Powers; N]>) -> [[i32; N]; 8] {
        let HalfSums { first, second } = self;
        let mut neg_sums = [[0; N]; 2];
        // Loops of their own over all blocks, so that the compiler takes a register of them at a time.
        for i in 0..N {
            neg_sums[0][i] = -to_int(first[i]);
            neg_sums[1][i] = -to_int(second[i]);
        }
        let mut sums = [0.0; N];
        for i in 0..N {
            sums[i] = (first[i] + second[i]) * scales[i];
        }
        let mut meta = [[0; N]; 8];
        if let Some(powers) = powers {
            let mut bf16_sums = [0; N];
            for i in 0..N {
                bf16_sums[i] = bf16_of_number(sums[i]);
            }
            for i in 0..N {
                meta[7][i] = (bf16_sums[i] | bf16_sums[(i + 1) % N] << 16).cast_signed();
            }
            for i in 0..N {
                let [first, second] = powers[i].magic();
                let [from, second_delta] = [first, second].map(|x| x.to_bits().cast_signed());
                meta[0][i] = from;
                meta[1][i] = from.wrapping_add(8 * (neg_sums[0][i] + neg_sums[1][i]));
                meta[2][i] = from.wrapping_add(128 * (neg_sums[0][i] + neg_sums[1][i]));
                meta[3][i] = from.wrapping_add(32 * neg_sums[0][i]);
                meta[4][i] = from.wrapping_add(32 * neg_sums[1][i]);
                meta[5][i] = second_delta.wrapping_sub(from);
                meta[6][i] = (-(first + second)).to_bits().cast_signed();
            }
        } else {
            for i in 0..N {
                meta[0][i] = scales[i].to_bits().cast_signed();
                meta[1][i] = 8 * (neg_sums[0][i] + neg_sums[1][i]);
                meta[2][i] = 128 * (neg_sums[0][i] + neg_sums[1][i]);
                meta[3][i] = 32 * neg_sums[0][i];
                meta[4][i] = 32 * neg_sums[1][i];
                // At most 16 · 127, so that the lower half of each is all of it.
                meta[5][i] = neg_sums[0][i] & 0xffff | neg_sums[1][i] << 16;
                meta[6][i] = sums[i].to_bits().cast_signed();
            }
        }
        meta
    }
}

/// The steps of the rest in a step of the coarse part: the rest then lies in -127..=127.
const FINE_STEPS: f32 = 254.0;

#[inline(always)]
fn quantize_q16<S: Simd>(s: S, x: &[f32; BLOCK], out: &mut [Block]) {
    let [coarse, fine, ..] = out else { return };
    let (scale, inverse) = step(s.reduce_max(max_abs(s, x)), 127.0 * FINE_STEPS + 127.0);
    let (low, high) = (s.splat(-127.0), s.splat(127.0));
    let mut sums = [[s.splat(0.0); 2]; 2];
    for (i, part) in x.chunks_exact(S::LANES).enumerate() {
        let v = if inverse == 0.0 { s.splat(0.0) } else { s.round(s.mul(s.load(part), s.splat(inverse))) };
        let high_part = s.min(s.max(s.round(s.mul(v, s.splat(1.0 / FINE_STEPS))), low), high);
        let low_part = s.min(s.max(s.fma(high_part, s.splat(-FINE_STEPS), v), low), high);
        s.store_i8(high_part, &mut coarse.q[i * S::LANES..]);
        s.store_i8(low_part, &mut fine.q[i * S::LANES..]);
        let half = i * S::LANES / (BLOCK / 2);
        (sums[0][half], sums[1][half]) = (s.add(sums[0][half], high_part), s.add(sums[1][half], low_part));
    }
    for (block, scale, [first, second]) in [(coarse, scale * FINE_STEPS, sums[0]), (fine, scale, sums[1])] {
        let halves = HalfSums { first: [s.reduce_sum(first)], second: [s.reduce_sum(second)] };
        block.meta = halves.meta(&[scale], None).map(|[part]| part);
    }
}
