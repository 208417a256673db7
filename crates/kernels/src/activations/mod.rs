//! The activations of a GEMM.

mod block;
mod formats;
mod pack_bf16;
mod pack_f16;
mod pow2;
mod quantize;
mod source;

pub(crate) use block::{BLOCK, Block, ROW_GROUP, RowGroups, ZERO_BLOCKS};
pub use formats::ActFormats;
pub(crate) use pack_bf16::{AMX_TILE_PAIRS, PAIR_CHUNK, PairGroups};
pub(crate) use pack_f16::{F16Rows, power_above, power_of_two};

use cpu::AlignedVec;
use cpu::simd::dispatch;

use pack_bf16::{AMX_TILE_ROWS, PackBf16, PairShape};
use pack_f16::{MeasureRows, PackF16};
use quantize::{PARALLEL_MIN_BLOCKS, QuantForm, QuantizeRows};
use source::RowSource;

use crate::Compute;
use crate::elementwise::{self, Activation, parallel_rows};
use crate::norm::RowNorm;
use crate::tune::has_pow2_scale;

/// Values below which a hand-over to other threads costs more than rounding them to bfloat16.
const PARALLEL_MIN_VALUES: usize = 8 << 10;

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
