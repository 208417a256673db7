//! The input rows of a matrix product, in each form that some weight format reads.
//!
//! Rows are quantized once and shared by all matrices that read them (Q, K and V; gate and up).

use cpu::lanes::{Job, Simd, dispatch, has_tiles, has_twos};
use cpu::{Lines, Tier};
use std::ops::{BitOr, Range};

use crate::Compute;
use crate::elementwise::{self, Activation, in_rows};
use crate::kv::{bf16, bf16_of_number};
use crate::norm::{RowNorm, Spread};
use crate::registers;

/// Weights that share one scale of the quantized activations.
pub(crate) const BLOCK: usize = 32;

/// Which forms of the rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Needs {
    /// Eight bits, and a scale for each 32 values.
    pub int8: bool,
    /// Sixteen bits, as two rows of eight: the coarse part, then the rest.
    pub fine: bool,
    /// bfloat16 pairs.
    pub bf16: bool,
    /// Eight bits for rows of answers only, bfloat16 pairs for those of prompts: see [`Activations::set`].
    pub wide: bool,
    /// Pairs of half-precision floats.
    pub halves: bool,
    /// As they are.
    pub f32: bool,
}

impl Needs {
    /// Whether a form is wanted for which rows are written as floats first.
    fn floats(self) -> bool {
        self.f32 || self.halves
    }
}

impl BitOr for Needs {
    type Output = Needs;
    fn bitor(self, o: Needs) -> Needs {
        Needs {
            int8: self.int8 | o.int8,
            fine: self.fine | o.fine,
            bf16: self.bf16 | o.bf16,
            wide: self.wide | o.wide,
            halves: self.halves | o.halves,
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
    /// The rest, [`Plain`] or [`InTwos`].
    rest: [i32; 8],
}

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Zeros.
    const ZERO: Block = Block { q: [0; BLOCK], rest: [0; 8] };

    /// The rest for lanes that are not [`Simd::TWOS`], and of rows in sixteen bits.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Plain {
        let [scale, less_8, less_128, first, second, less_words, sum, _] = self.rest;
        let (scale, sum) = (float(scale), float(sum));
        Plain { scale, less_8, less_128, less_half_32: [first, second], less_words, sum }
    }

    /// The rest for lanes that are [`Simd::TWOS`], of rows in eight bits.
    #[inline(always)]
    pub(crate) fn in_twos(&self) -> InTwos {
        let [from, from_8, from_128, first, second, beyond, less, sums] = self.rest;
        let (from_half_32, less) = ([first, second], float(less));
        InTwos { from, from_8, from_128, from_half_32, beyond, less, sums }
    }
}

fn float(bits: i32) -> f32 {
    f32::from_bits(bits.cast_unsigned())
}

/// What belongs to 32 activations `q`.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// Value of one step.
    pub(crate) scale: f32,
    /// The sum of `q`, negated, times what codes of this offset start from: 8 or 128.
    pub(crate) less_8: i32,
    pub(crate) less_128: i32,
    /// The sums of the two halves, negated, times an offset of 32.
    pub(crate) less_half_32: [i32; 2],
    /// The same without the offset, as words.
    pub(crate) less_words: i32,
    /// The sum of `q` times `scale`.
    pub(crate) sum: f32,
}

impl Plain {
    /// The sum of the half `half` of `q`, times `scale`.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        (-self.less_half_32[half] >> 5) as f32 * self.scale
    }
}

/// What belongs to 32 activations `q` whose step is the sum of two powers of two, of which the second may be negative
/// (docs/decisions/0050). A sum of products that starts from the bits of a large float is one that is as many of its last places larger.
#[derive(Clone, Copy)]
pub(crate) struct InTwos {
    /// The bits of a float whose last place is the first power.
    from: i32,
    /// The same, less what codes of this offset start from: the sum of `q` times 8 or 128.
    pub(crate) from_8: i32,
    pub(crate) from_128: i32,
    /// The same for the two halves and an offset of 32.
    pub(crate) from_half_32: [i32; 2],
    /// What the bits of a float whose last place is the second power are above `from`.
    pub(crate) beyond: i32,
    /// Both floats, added and negated.
    pub(crate) less: f32,
    /// The sum of `q` times the step, and in every other block, the first of a row among them, that of the next, as bfloat16.
    pub(crate) sums: i32,
}

impl InTwos {
    /// What products of the half `half` of `q`, or of all, with codes of the offset `offset` start from, where there is no field for it.
    #[inline(always)]
    pub(crate) fn start(&self, half: Option<usize>, offset: i32) -> i32 {
        let less = match half {
            Some(half) => self.from_half_32[half].wrapping_sub(self.from) >> 5,
            None => self.from_8.wrapping_sub(self.from) >> 3,
        };
        self.from.wrapping_add(offset * less)
    }

    /// The sum of the half `half` of `q`, times the step.
    #[inline(always)]
    pub(crate) fn sum_half(&self, half: usize) -> f32 {
        let sum = self.from.wrapping_sub(self.from_half_32[half]) >> 5;
        // Exact: the step is a few bits.
        sum as f32 * (self.less * const { -1.0 / LARGE })
    }
}

/// No activations, of either kind.
pub(crate) static NONE: [Block; GROUP] = [Block::ZERO; GROUP];

/// Rows that lie together, block by block, so that a tile of them is one stream to read.
pub(crate) const GROUP: usize = 8;

/// Quantized rows. A group holds [`GROUP`] rows, the last one what is left: first block 0 of each of its rows, then
/// block 1 of each, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Grouped<'a> {
    blocks: &'a [Block],
    rows: usize,
    a_row: usize,
}

impl<'a> Grouped<'a> {
    /// The rows from `first` on, which begins a group.
    pub(crate) fn from(self, first: usize) -> Grouped<'a> {
        let Grouped { blocks, rows, a_row } = self;
        Grouped { blocks: &blocks[first * a_row..], rows: rows - first, a_row }
    }

    /// Rows that there are.
    pub(crate) fn count(&self) -> usize {
        self.rows
    }

    /// The stream that begins with block 0 of `row`, and its step: how many blocks on block 1 lies. Behind it are blocks enough for a tile
    /// of more rows than there are.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [Block], usize) {
        let first = row - row % GROUP;
        let width = GROUP.min(self.rows - first);
        (&self.blocks[first * self.a_row + row - first..(first + width) * self.a_row + GROUP], width)
    }
}

/// Pairs of bfloat16 of a row that lie together in a group.
pub(crate) const CHUNK: usize = 4;

/// Rows as pairs of bfloat16, where they do not lie in tiles. A group holds [`GROUP`] rows, the last one what is left: first the [`CHUNK`]
/// first pairs of each of its rows, then the next of each, and so on, the last ones filled up with zeros.
#[derive(Clone, Copy)]
pub(crate) struct GroupedPairs<'a> {
    /// The rows, and enough of whatever after them for a tile of more rows than there are.
    pairs: &'a [[i8; 4]],
    rows: usize,
    a_row: usize,
}

impl<'a> GroupedPairs<'a> {
    /// The stream that begins with the first pairs of `row`, and its step: how many pairs on the next ones of the same row lie.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [[i8; 4]], usize) {
        let first = row - row % GROUP;
        let width = GROUP.min(self.rows - first);
        (&self.pairs[first * self.a_row + (row - first) * CHUNK..], width * CHUNK)
    }
}

/// Rows of activations. All memory is taken by [`Activations::new`]; physical pages only for the forms that are used.
pub struct Activations {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether `int8` has two rows for each row.
    pub(crate) fine: bool,
    /// Rows in `int8`, from the first: all, but where those of prompts are multiplied in bfloat16.
    pub(crate) narrow: usize,
    int8: Vec<Block>,
    pub(crate) bf16: Lines<[i8; 4]>,
    halves: Lines<[i8; 4]>,
    /// What a row in `halves` is multiplied by to be what it was.
    undo: Vec<f32>,
    pub(crate) f32: Lines<f32>,
}

/// Rows as half-precision floats.
#[derive(Clone, Copy)]
pub(crate) struct HalfRows<'a> {
    /// The rows as they lie in tiles, and a tile's worth of whatever after them. Of four columns a pair of the first and third comes
    /// first, then one of the second and fourth.
    pub(crate) pairs: &'a [[i8; 4]],
    /// What makes the values of a row of what it holds, a power of two.
    pub(crate) undo: &'a [f32],
}

impl Activations {
    /// Room for `max_rows` rows of up to `max_cols` columns.
    pub fn new(max_rows: usize, max_cols: usize) -> Activations {
        // And a tile's worth of blocks more, for tiles of more rows than there are.
        let int8 = 2 * max_rows * max_cols.div_ceil(BLOCK) + GROUP;
        // Whole tiles' worth, whichever the tier, and one tile more: the last ones are read whole.
        let pairs = max_rows * max_cols.div_ceil(TILE_PAIRS * 2) * TILE_PAIRS + TILE_ROWS * TILE_PAIRS;
        Activations {
            rows: 0,
            cols: 0,
            fine: false,
            narrow: 0,
            int8: vec![Block::ZERO; int8],
            bf16: Lines::new(pairs),
            halves: Lines::new(pairs),
            undo: vec![0.0; max_rows],
            f32: Lines::new(max_rows * max_cols),
        }
    }

    /// Takes the rows `x` of `[rows, cols]`, in the forms that `needs` names. The first `answers` of them belong to answers, the
    /// others to prompts: where `c` says so, tiers with tiles multiply quantized weights by these in another way, which rounds
    /// otherwise and is faster for many rows ([`Needs::wide`]). Which rows are whose must not depend on the batch.
    ///
    /// # Panics
    /// When `x` is no whole number of rows, fewer than `answers`, or larger than what [`Activations::new`] made room for, and when
    /// matrices of both [`Precision::Fast`](crate::Precision) and `Fine` are to read the same rows.
    pub fn set(&mut self, c: &Compute, x: &[f32], cols: usize, needs: Needs, answers: usize) {
        self.take(c, Source::Plain(x), cols, needs, answers);
        if needs.f32 {
            in_rows(c, &mut self.f32[..x.len()], cols, &|first, out| {
                out.copy_from_slice(&x[first * cols..][..out.len()]);
            });
        }
        if needs.halves {
            self.halve(c, x);
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
        needs: Needs,
        answers: usize,
    ) {
        assert_eq!(gate.len(), up.len(), "gate and up");
        if needs.floats() {
            elementwise::gated(c, act, gate, up);
            self.set(c, gate, cols, needs, answers);
        } else {
            self.take(c, Source::Gated { act, gate, up }, cols, needs, answers);
        }
    }

    /// Takes the norms of the rows `x`, the same bits as after [`RowNorm::rows`] and [`Activations::set`]. Where they can be
    /// used as soon as they are worked out, nothing is written to `room`, which otherwise holds them.
    ///
    /// # Panics
    /// As [`Activations::set`], and when shapes do not fit.
    pub fn set_normed(
        &mut self,
        c: &Compute,
        norm: RowNorm<'_>,
        x: &[f32],
        room: &mut [f32],
        needs: Needs,
        answers: usize,
    ) {
        let cols = norm.cols();
        assert_eq!(x.len(), room.len(), "room for norms");
        if needs.floats() {
            norm.rows(c, x, room);
            self.set(c, room, cols, needs, answers);
        } else {
            self.take(c, Source::Normed { x, norm }, cols, needs, answers);
        }
    }

    /// Quantizes and rounds the rows `x`, for all that `needs` names but floats.
    fn take(&mut self, c: &Compute, x: Source<'_>, cols: usize, needs: Needs, answers: usize) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} values in rows of {cols}", x.len());
        (self.rows, self.cols) = (x.len() / cols, cols);
        assert!(answers <= self.rows, "{answers} rows of answers among {}", self.rows);
        self.narrow = if needs.wide && c.prompt_tiles { answers } else { self.rows };
        if needs.bf16 || self.narrow < self.rows {
            let shape = PairShape::of(c.tier);
            let a_row = shape.a_row(cols);
            let out = &mut self.bf16[..self.rows * a_row];
            let tasks = if x.len() < FEW { 1 } else { 4 * c.pool.threads() };
            let rows = self.rows.div_ceil(tasks).max(1).next_multiple_of(shape.rows);
            c.pool.chunks_mut(out, rows * a_row, &|i, out| {
                dispatch(c.tier, Round { x: x.slice(i * rows * cols..x.len()), cols, shape, out });
            });
        }
        assert!(!(needs.int8 && needs.fine), "rows are quantized to eight bits or to sixteen, not both");
        self.fine = needs.fine;
        if needs.int8 || needs.fine {
            let (parts, a_row) = (self.parts(), cols.div_ceil(BLOCK));
            let rows = parts * self.narrow;
            let form = match (needs.fine, has_twos(c.tier)) {
                (true, _) => Form::Fine,
                (_, true) => Form::InTwos,
                (_, false) => Form::Plain,
            };
            let out = &mut self.int8[..rows * a_row];
            // Few rows are cut along their length, many into whole groups.
            let (width, span) = match rows <= GROUP {
                true => {
                    let share = || a_row.div_ceil(c.pool.threads()).next_multiple_of(2);
                    (rows.max(1), if out.len() < ALONE { a_row } else { share() })
                }
                false => (GROUP, rows.div_ceil(GROUP).div_ceil(8 * c.pool.threads()) * a_row),
            };
            c.pool.chunks_mut(out, span * width, &|i, out| {
                let (group, from) = (i * span / a_row, i * span % a_row * BLOCK);
                let x = x.slice(group * GROUP / parts * cols..self.narrow * cols);
                dispatch(c.tier, Quantize { x, cols, from, form, a_row, out });
            });
        }
    }

    /// Rounds the rows `x` to half precision.
    fn halve(&mut self, c: &Compute, x: &[f32]) {
        let cols = self.cols;
        let shape = PairShape { rows: TILE_ROWS, pairs: TILE_PAIRS };
        let a_row = shape.a_row(cols);
        let tasks = if x.len() < FEW { 1 } else { 4 * c.pool.threads() };
        let rows = self.rows.div_ceil(tasks).max(1).next_multiple_of(shape.rows);
        let undo = &mut self.undo[..self.rows];
        c.pool.chunks_mut(undo, rows, &|i, undo| {
            dispatch(c.tier, Measure { x: &x[i * rows * cols..], cols, undo });
        });
        let (undo, out) = (&*undo, &mut self.halves[..self.rows * a_row]);
        c.pool.chunks_mut(out, rows * a_row, &|i, out| {
            dispatch(c.tier, Halve { x: &x[i * rows * cols..], cols, undo: &undo[i * rows..], shape, out });
        });
    }

    /// The rows as pairs of bfloat16, on a tier without tiles.
    pub(crate) fn pairs(&self) -> GroupedPairs<'_> {
        GroupedPairs { pairs: &self.bf16, rows: self.rows, a_row: PairShape::GROUPED.a_row(self.cols) }
    }

    /// The rows as half-precision floats.
    pub(crate) fn halves(&self) -> HalfRows<'_> {
        HalfRows { pairs: &self.halves, undo: &self.undo }
    }

    /// Quantized rows for each row: the coarse part and the rest, or one.
    fn parts(&self) -> usize {
        if self.fine { 2 } else { 1 }
    }

    /// The rows in eight bits; where they are fine, each as two, one after the other.
    pub(crate) fn quantized(&self) -> Grouped<'_> {
        let (rows, a_row) = (self.parts() * self.narrow, self.cols.div_ceil(BLOCK));
        Grouped { blocks: &self.int8[..rows * a_row + GROUP], rows, a_row }
    }
}

/// Values below which a hand-over to other threads costs more than rounding them to bfloat16.
const FEW: usize = 8 << 10;

/// Rows of a tile: `cpu::lanes::amx::ROWS`, which other architectures do not have.
const TILE_ROWS: usize = 16;
/// Pairs of bfloat16 in a row of a tile.
pub(crate) const TILE_PAIRS: usize = 16;

/// How pairs of bfloat16 lie: groups of `rows` rows, the last one what is left, hold `pairs` pairs of each of their rows, then the next
/// `pairs` of each, the last of them filled up with zeros.
#[derive(Clone, Copy)]
struct PairShape {
    rows: usize,
    pairs: usize,
}

impl PairShape {
    /// As [`GroupedPairs`].
    const GROUPED: PairShape = PairShape { rows: GROUP, pairs: CHUNK };

    /// In groups, or where the tier has tiles, tile after tile.
    fn of(tier: Tier) -> PairShape {
        if has_tiles(tier) { PairShape { rows: TILE_ROWS, pairs: TILE_PAIRS } } else { PairShape::GROUPED }
    }

    /// Pairs that a row takes.
    fn a_row(self, cols: usize) -> usize {
        cols.div_ceil(2).next_multiple_of(self.pairs)
    }
}

/// Values worked out at a time: those of [`RUN`] blocks.
const STRETCH: usize = RUN * BLOCK;

/// Where rows come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// As they are.
    Plain(&'a [f32]),
    /// `act(gate) · up`.
    Gated { act: Activation, gate: &'a [f32], up: &'a [f32] },
    /// Norms of rows.
    Normed { x: &'a [f32], norm: RowNorm<'a> },
}

impl<'a> Source<'a> {
    fn len(self) -> usize {
        match self {
            Source::Plain(x) | Source::Gated { gate: x, .. } | Source::Normed { x, .. } => x.len(),
        }
    }

    /// The values `these`, which begin a row.
    fn slice(self, these: Range<usize>) -> Source<'a> {
        match self {
            Source::Plain(x) => Source::Plain(&x[these]),
            Source::Gated { act, gate, up } => {
                Source::Gated { act, gate: &gate[these.clone()], up: &up[these] }
            }
            Source::Normed { x, norm } => Source::Normed { x: &x[these], norm },
        }
    }

    /// What the row of `cols` values from `at` on must be known of as a whole.
    #[inline(always)]
    fn spread<S: Simd>(self, s: S, at: usize, cols: usize) -> Spread {
        match self {
            Source::Plain(_) | Source::Gated { .. } => Spread::default(),
            Source::Normed { x, norm } => norm.spread(s, &x[at..at + cols]),
        }
    }

    /// The `count` values, at most [`STRETCH`], from column `from` on of the row that begins at `at`: worked out in `room`, where they are
    /// not there already.
    #[inline(always)]
    fn stretch<'r, S: Simd>(
        self,
        s: S,
        (at, spread): (usize, Spread),
        from: usize,
        count: usize,
        room: &'r mut [f32; STRETCH],
    ) -> &'r [f32]
    where
        'a: 'r,
    {
        let these = at + from..at + from + count;
        let room = &mut room[..count];
        // The next stretch, or the next row's first.
        let ahead = 4 * count;
        match self {
            Source::Plain(x) => {
                if const { S::MANY_AHEAD } {
                    s.prefetch_all_far(&x[these.clone()], ahead);
                }
                return &x[these];
            }
            Source::Gated { act, gate, up } => {
                let (gate, up) = (&gate[these.clone()], &up[these]);
                if const { S::MANY_AHEAD } {
                    s.prefetch_all_far(gate, ahead);
                    s.prefetch_all_far(up, ahead);
                }
                elementwise::activate_part(s, act, Some(gate), Some(up), room);
            }
            Source::Normed { x, norm } => norm.part(s, &x[these], spread, from, room),
        }
        room
    }
}

/// Rounds rows to bfloat16.
struct Round<'a> {
    /// From the first row of `out` on.
    x: Source<'a>,
    cols: usize,
    shape: PairShape,
    /// Whole groups, or what is left at the end.
    out: &'a mut [[i8; 4]],
}

impl Job for Round<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (PairShape { rows, pairs }, cols) = (self.shape, self.cols);
        let a_row = self.shape.a_row(cols);
        let mut room = [0.0; STRETCH];
        for (group, out) in self.out.chunks_mut(rows * a_row).enumerate() {
            let width = out.len() / a_row;
            for r in 0..width {
                let row = (group * rows + r) * cols;
                let row = (row, self.x.spread(s, row, cols));
                let stretches = out.chunks_mut(width * STRETCH / 2);
                for (from, out) in (0..cols).step_by(STRETCH).zip(stretches) {
                    let values = self.x.stretch(s, row, from, STRETCH.min(cols - from), &mut room);
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
struct Measure<'a> {
    /// From the first of them on.
    x: &'a [f32],
    cols: usize,
    undo: &'a mut [f32],
}

impl Job for Measure<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let zero = s.splat(0.0);
        for (row, undo) in self.x.chunks_exact(self.cols).zip(self.undo) {
            let mut tops = [zero; 4];
            for (i, part) in row.chunks(S::LANES).enumerate() {
                let v = registers::load(s, part, 0);
                tops[i % 4] = s.max(tops[i % 4], s.max(v, s.sub(zero, v)));
            }
            let top = s.max_lane(s.max(s.max(tops[0], tops[1]), s.max(tops[2], tops[3])));
            // A row of zeros stays one; of one that overflowed nothing is left anyway.
            *undo = if top > 0.0 && top.is_finite() { power_of_two(power_above(top) - 15) } else { 1.0 };
        }
    }
}

/// Rounds rows to half precision.
struct Halve<'a> {
    /// From the first row of `out` on.
    x: &'a [f32],
    cols: usize,
    /// Of the rows of `x`.
    undo: &'a [f32],
    shape: PairShape,
    /// Whole groups, or what is left at the end.
    out: &'a mut [[i8; 4]],
}

impl Job for Halve<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PairShape { rows, pairs } = self.shape;
        let groups = self.out.chunks_mut(rows * self.shape.a_row(self.cols));
        let undo = self.undo.chunks(rows);
        for ((x, out), undo) in self.x.chunks(rows * self.cols).zip(groups).zip(undo) {
            let width = x.len() / self.cols;
            for ((r, row), undo) in x.chunks_exact(self.cols).enumerate().zip(undo) {
                let lift = s.splat(1.0 / undo);
                for (part, out) in row.chunks(2 * pairs).zip(out.chunks_exact_mut(width * pairs)) {
                    let mut halves = [0; 2 * TILE_PAIRS];
                    for at in (0..part.len()).step_by(S::LANES) {
                        s.store_f16(s.mul(registers::load(s, part, at), lift), &mut halves[at..]);
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
const ALONE: usize = 192;

/// How rows are quantized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// To eight bits.
    Plain,
    /// To eight bits, with steps for lanes that are [`Simd::TWOS`].
    InTwos,
    /// To sixteen bits.
    Fine,
}

struct Quantize<'a> {
    /// From the first row of the first group on.
    x: Source<'a>,
    cols: usize,
    /// The column to begin with: not zero for a part of a group.
    from: usize,
    form: Form,
    a_row: usize,
    /// Whole groups, or blocks of one.
    out: &'a mut [Block],
}

impl Job for Quantize<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let parts = if self.form == Form::Fine { 2 } else { 1 };
        let (cols, group) = (self.cols, GROUP / parts);
        let rows = self.x.len() / cols;
        let mut room = [0.0; STRETCH];
        for (first, out) in (0..rows).step_by(group).zip(self.out.chunks_mut(GROUP * self.a_row)) {
            let width = parts * group.min(rows - first);
            let to = cols.min(self.from + out.len() / width * BLOCK);
            for r in 0..width / parts {
                let row = (first + r) * cols;
                let row = (row, self.x.spread(s, row, cols));
                // The row's first block, and the others `width` on from one to the next.
                let mut stretches = out[parts * r..].chunks_mut(RUN * width).peekable();
                for at in (self.from..to).step_by(STRETCH) {
                    let Some(out) = stretches.next() else { break };
                    if const { S::MANY_AHEAD }
                        && matches!(self.x, Source::Gated { .. })
                        && let Some(next) = stretches.peek_mut()
                    {
                        for block in next.chunks_mut(width) {
                            s.prefetch_out(block);
                        }
                    }
                    let values = self.x.stretch(s, row, at, STRETCH.min(to - at), &mut room);
                    let (whole, part) = values.as_chunks::<BLOCK>();
                    blocks(s, self.form, whole, out, width);
                    if !part.is_empty() {
                        let mut padded = [0.0; BLOCK];
                        padded[..part.len()].copy_from_slice(part);
                        blocks(s, self.form, &[padded], &mut out[whole.len() * width..], width);
                    }
                }
            }
        }
    }
}

/// Quantizes the blocks `x`, at most [`RUN`], to blocks of `out`, or pairs of them where they are fine, that lie `apart`.
#[inline(always)]
fn blocks<S: Simd>(s: S, form: Form, x: &[[f32; BLOCK]], out: &mut [Block], apart: usize) {
    // No closures: they would be compiled without the tier's instructions.
    if form == Form::Fine {
        for (x, out) in x.iter().zip(out.chunks_mut(apart)) {
            quantize_fine(s, x, out);
        }
    } else {
        quantize(s, form == Form::InTwos, x, out, apart);
    }
}

/// The largest magnitudes of `x`, a lane's share of the block each.
#[inline(always)]
fn top<S: Simd>(s: S, x: &[f32; BLOCK]) -> S::F {
    let zero = s.splat(0.0);
    let mut top = zero;
    for part in x.chunks_exact(S::LANES) {
        let v = s.load(part);
        top = s.max(top, s.max(v, s.sub(zero, v)));
    }
    top
}

/// The step and its inverse that map the magnitude `top` to `levels`; zeros for a block that is zero, or
/// holds no finite values: such a row stays visible in the residual stream, here it must only do no harm.
#[inline(always)]
fn step(top: f32, levels: f32) -> (f32, f32) {
    let inverse = levels / top;
    // Nothing finite is largest in a block whose inverse is zero or no number, and of one that is all zeros it is infinite, as of a denormal
    // one, which is zero at this precision. Two plain comparisons, of which the compiler takes a register at a time.
    let usable = (inverse > 0.0) & (inverse <= f32::MAX);
    if usable { (top / levels, inverse) } else { (0.0, 0.0) }
}

/// A float whose last place is one, with room for sums of products above and below.
const LARGE: f32 = (3 << 22) as f32;

/// A step that is the sum of two powers of two, of which the second may be negative.
#[derive(Clone, Copy, Default)]
struct Powers {
    first: f32,
    second: f32,
}

impl Powers {
    /// The least such step that maps the magnitude `top` to at most 127; zeros as [`step`], and for a block that is nearly zero or infinite.
    #[inline(always)]
    fn step(top: f32) -> Powers {
        const POWER: u32 = 0x7f80_0000;
        // Powers closer to nothing would not leave a sum of both, times `LARGE`, exact.
        const LEAST: f32 = 1.0 / 4096.0;
        let step = top / 127.0;
        let low = f32::from_bits(step.to_bits() & POWER);
        let least = low * LEAST;
        let more = step - low;
        let more = if more > least { more } else { least };
        let more = f32::from_bits(more.to_bits().wrapping_add(!POWER & 0x7fff_ffff) & POWER);
        let less = low + low - step;
        let less = if less > least { less } else { least };
        let less = f32::from_bits(less.to_bits() & POWER);
        let (first, second) = if more + more > low { (low + low, -less) } else { (low, more) };
        // Plain comparisons, of which the compiler takes a register at a time.
        let usable = (step > 1e-30) & (step < 1e30);
        if usable { Powers { first, second } } else { Powers::default() }
    }

    /// The floats whose last places they are.
    #[inline(always)]
    fn large(self) -> [f32; 2] {
        [self.first * LARGE, self.second * LARGE]
    }
}

/// `x`, a whole number of less than 22 bits, as an integer. (A cast is done one at a time, for what it does with other numbers.)
#[inline(always)]
fn whole(x: f32) -> i32 {
    (x + LARGE).to_bits().wrapping_sub(LARGE.to_bits()).cast_signed()
}

/// Blocks of a row that are quantized together: what is worked out for each of them is so for a register of them at a time.
const RUN: usize = 16;

/// Quantizes the blocks `x`, at most [`RUN`], to blocks of `out` that lie `apart`.
#[inline(always)]
fn quantize<S: Simd>(s: S, in_twos: bool, x: &[[f32; BLOCK]], out: &mut [Block], apart: usize) {
    let count = x.len().min(RUN);
    let mut tops = [s.splat(0.0); RUN];
    for i in 0..count {
        tops[i] = top(s, &x[i]);
    }
    let tops = s.max_lanes(&tops);
    let (mut scales, mut inverses) = ([0.0; RUN], [0.0; RUN]);
    let mut powers = [Powers::default(); RUN];
    if in_twos {
        for i in 0..RUN {
            powers[i] = Powers::step(tops[i]);
        }
        for i in 0..RUN {
            scales[i] = powers[i].first + powers[i].second;
            inverses[i] = if scales[i] > 0.0 { 1.0 / scales[i] } else { 0.0 };
        }
    } else {
        for i in 0..RUN {
            (scales[i], inverses[i]) = step(tops[i], 127.0);
        }
    }
    let (low, high) = (s.splat(-127.0), s.splat(127.0));
    let mut halves = [[s.splat(0.0); RUN]; 2];
    for i in 0..count {
        let block = &mut out[i * apart];
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
    let halves = Halves { first: s.sums(&halves[0]), second: s.sums(&halves[1]) };
    let rest = s.columns(&halves.rest(&scales, in_twos.then_some(&powers)));
    for i in 0..count {
        out[i * apart].rest = rest[i];
    }
}

/// The sums of the halves of each block's `q`: small integers, which floats hold exactly.
struct Halves<const N: usize> {
    first: [f32; N],
    second: [f32; N],
}

impl<const N: usize> Halves<N> {
    /// What blocks hold beside `q`, part by part: of blocks whose steps are `scales`, the sums of `powers` where they are in twos. Then the
    /// first block is one of every other.
    #[inline(always)]
    fn rest(&self, scales: &[f32; N], powers: Option<&[Powers; N]>) -> [[i32; N]; 8] {
        let Halves { first, second } = self;
        let mut less = [[0; N]; 2];
        // Loops of their own over all blocks, so that the compiler takes a register of them at a time.
        for i in 0..N {
            less[0][i] = -whole(first[i]);
            less[1][i] = -whole(second[i]);
        }
        let mut sums = [0.0; N];
        for i in 0..N {
            sums[i] = (first[i] + second[i]) * scales[i];
        }
        let mut rest = [[0; N]; 8];
        if let Some(powers) = powers {
            let mut brains = [0; N];
            for i in 0..N {
                brains[i] = bf16_of_number(sums[i]);
            }
            for i in 0..N {
                rest[7][i] = (brains[i] | brains[(i + 1) % N] << 16).cast_signed();
            }
            for i in 0..N {
                let [first, second] = powers[i].large();
                let [from, beyond] = [first, second].map(|x| x.to_bits().cast_signed());
                rest[0][i] = from;
                rest[1][i] = from.wrapping_add(8 * (less[0][i] + less[1][i]));
                rest[2][i] = from.wrapping_add(128 * (less[0][i] + less[1][i]));
                rest[3][i] = from.wrapping_add(32 * less[0][i]);
                rest[4][i] = from.wrapping_add(32 * less[1][i]);
                rest[5][i] = beyond.wrapping_sub(from);
                rest[6][i] = (-(first + second)).to_bits().cast_signed();
            }
        } else {
            for i in 0..N {
                rest[0][i] = scales[i].to_bits().cast_signed();
                rest[1][i] = 8 * (less[0][i] + less[1][i]);
                rest[2][i] = 128 * (less[0][i] + less[1][i]);
                rest[3][i] = 32 * less[0][i];
                rest[4][i] = 32 * less[1][i];
                // At most 16 · 127, so that the lower half of each is all of it.
                rest[5][i] = less[0][i] & 0xffff | less[1][i] << 16;
                rest[6][i] = sums[i].to_bits().cast_signed();
            }
        }
        rest
    }
}

/// The steps of the rest in a step of the coarse part: the rest then lies in -127..=127.
const FINE: f32 = 254.0;

#[inline(always)]
fn quantize_fine<S: Simd>(s: S, x: &[f32; BLOCK], out: &mut [Block]) {
    let [coarse, rest, ..] = out else { return };
    let (scale, inverse) = step(s.max_lane(top(s, x)), 127.0 * FINE + 127.0);
    let (low, high) = (s.splat(-127.0), s.splat(127.0));
    let mut sums = [[s.splat(0.0); 2]; 2];
    for (i, part) in x.chunks_exact(S::LANES).enumerate() {
        let v = if inverse == 0.0 { s.splat(0.0) } else { s.round(s.mul(s.load(part), s.splat(inverse))) };
        let top = s.min(s.max(s.round(s.mul(v, s.splat(1.0 / FINE))), low), high);
        let left = s.min(s.max(s.fma(top, s.splat(-FINE), v), low), high);
        s.store_i8(top, &mut coarse.q[i * S::LANES..]);
        s.store_i8(left, &mut rest.q[i * S::LANES..]);
        let half = i * S::LANES / (BLOCK / 2);
        (sums[0][half], sums[1][half]) = (s.add(sums[0][half], top), s.add(sums[1][half], left));
    }
    for (block, scale, [first, second]) in [(coarse, scale * FINE, sums[0]), (rest, scale, sums[1])] {
        let halves = Halves { first: [s.sum(first)], second: [s.sum(second)] };
        block.rest = halves.rest(&[scale], None).map(|[part]| part);
    }
}
