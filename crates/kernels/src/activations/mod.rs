//! The activations of a GEMM, in each format that some weight layout is multiplied with.
//!
//! Rows are quantized or packed once and shared by all matrices that read them (Q, K and V; gate and up). Norms, SwiGLU and activation
//! functions can be fused with that: [`Activations::set_normed`], [`Activations::set_gated`], [`Activations::set_activated`].
//!
//! | file | what |
//! |---|---|
//! | `formats.rs` | which formats are wanted |
//! | `block.rs`, `quantize.rs`, `pow2.rs` | 8 and 16 bits, in blocks of 32 columns |
//! | `u7.rs` | 7 bits with a zero point, in blocks of 64 columns |
//! | `pack_bf16.rs`, `pack_f16.rs` | pairs of bf16 and f16 |
//! | `source.rs` | where rows come from: as they are, norms, gated, activated |

mod block;
mod formats;
mod pack_bf16;
mod pack_f16;
mod pow2;
mod quantize;
mod source;
mod u7;

pub(crate) use block::{BLOCK, Block, QuantizedRows, ROW_GROUP, RowGroups, ZERO_BLOCKS};
pub use formats::ActFormats;
pub(crate) use pack_bf16::{AMX_TILE_PAIRS, PAIR_CHUNK, PairGroups};
pub(crate) use pack_f16::{F16Rows, power_above, power_of_two};
pub(crate) use u7::{U7_BLOCK, U7Block, U7Rows};

use cpu::AlignedVec;
use cpu::simd::dispatch;

use pack_bf16::{AMX_TILE_ROWS, PackBf16, PairShape};
use pack_f16::{MeasureRows, PackF16};
use quantize::{PARALLEL_MIN_BLOCKS, QuantForm, QuantizeRows};
use source::RowSource;
use u7::QuantizeU7;

use crate::Compute;
use crate::elementwise::{self, Activation, parallel_rows};
use crate::norm::RowNorm;
use crate::tune::has_pow2_scale;

/// Values below which one thread packs them: handing tasks to others would take longer.
const PARALLEL_MIN_VALUES: usize = 8 << 10;

/// Rows of activations `[rows, cols]` in one or more formats. [`Activations::new`] reserves all memory; pages of unused formats stay
/// untouched.
pub struct Activations {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether `q8` has two planes for each row: 16 bits.
    pub(crate) q16: bool,
    /// Whether blocks in `q8` are [`QuantizedRows::Pow2`].
    pow2: bool,
    /// The number of rows in `q8`, from the first: all, or the decode rows where prefill rows are in bf16.
    pub(crate) quantized_rows: usize,
    q8: Vec<Block>,
    /// Blocks in 7 bits, none until rows are set in that format.
    u7: Vec<U7Block>,
    max_u7: usize,
    pub(crate) bf16: AlignedVec<[i8; 4]>,
    f16: AlignedVec<[i8; 4]>,
    /// The scale of each row in `f16`, a power of two.
    descale: Vec<f32>,
    pub(crate) f32: AlignedVec<f32>,
}

impl Activations {
    /// Buffers for `max_rows` rows of up to `max_cols` columns.
    pub fn new(max_rows: usize, max_cols: usize) -> Activations {
        // One group more, for tiles of more rows than there are.
        let q8 = 2 * max_rows * max_cols.div_ceil(BLOCK) + ROW_GROUP;
        // Whole AMX tiles, whichever the tier, and one more: the last tile is read in full.
        let pairs = max_rows * max_cols.div_ceil(AMX_TILE_PAIRS * 2) * AMX_TILE_PAIRS
            + AMX_TILE_ROWS * AMX_TILE_PAIRS;
        Activations {
            rows: 0,
            cols: 0,
            q16: false,
            pow2: false,
            quantized_rows: 0,
            q8: vec![Block::ZERO; q8],
            u7: Vec::new(),
            max_u7: max_rows * max_cols.div_ceil(U7_BLOCK),
            bf16: AlignedVec::new(pairs),
            f16: AlignedVec::new(pairs),
            descale: vec![0.0; max_rows],
            f32: AlignedVec::new(max_rows * max_cols),
        }
    }

    /// Sets the rows to `x`, `[rows, cols]`, in `formats`. The first `decode_rows` are decode rows, the others prefill rows: with
    /// [`Compute::prompt_tiles`], AMX tiers multiply quantized weights × prefill rows in bf16, which rounds otherwise and is faster for
    /// many rows ([`ActFormats::q8_decode_bf16_prefill`]). Which rows are which must not depend on the batch.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows, fewer than `decode_rows`, or more than [`Activations::new`] reserved,
    /// and when `formats` has both 8 and 16 bits ([`Precision::Fast`](crate::Precision) and `Fine`).
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

    /// Sets the rows to `act(gate) · up`, fused: the same bits as [`gated`](crate::gated) and then [`Activations::set`], without writing
    /// `f32` in between where no format needs it. May overwrite `gate`.
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

    /// Sets the rows to `act(x + bias)`, fused: the same bits as [`add_bias`](crate::add_bias),
    /// [`activate`](crate::activate) and then [`Activations::set`], without writing `f32` in between where no format
    /// needs it. May overwrite `x`.
    ///
    /// # Panics
    /// As [`Activations::set`], and when `bias` has not `cols` values.
    pub fn set_activated(
        &mut self,
        c: &Compute,
        act: Activation,
        bias: Option<&[f32]>,
        x: &mut [f32],
        cols: usize,
        formats: ActFormats,
        decode_rows: usize,
    ) {
        assert!(bias.is_none_or(|bias| bias.len() == cols), "a bias of {cols} columns");
        if formats.needs_f32() {
            if let Some(bias) = bias {
                elementwise::add_bias(c, x, bias);
            }
            elementwise::activate(c, act, x);
            self.set(c, x, cols, formats, decode_rows);
        } else {
            self.quantize_and_pack(c, RowSource::Activated { act, x, bias }, cols, formats, decode_rows);
        }
    }

    /// Sets the rows to the norms of the rows `x`, fused: the same bits as [`RowNorm::rows`] into `scratch` and then
    /// [`Activations::set`]. `scratch` is written only where a format needs `f32`.
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
        assert_eq!(x.len(), scratch.len(), "scratch for norms");
        if formats.needs_f32() {
            norm.rows(c, x, scratch);
            self.set(c, scratch, cols, formats, decode_rows);
        } else {
            self.quantize_and_pack(c, RowSource::Normed { x, norm }, cols, formats, decode_rows);
        }
    }

    /// Writes all of `formats` but f32 and f16 from the rows of `x`.
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
        assert!(decode_rows <= self.rows, "{decode_rows} decode rows among {}", self.rows);
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
        if formats.u7 {
            self.quantize_u7(c, x);
        }
        assert!(!(formats.q8 && formats.q16), "rows are quantized to eight bits or to sixteen, not both");
        self.q16 = formats.q16;
        if formats.q8 || formats.q16 {
            let (planes, row_len) = (self.planes(), cols.div_ceil(BLOCK));
            let rows = planes * self.quantized_rows;
            let form = match (formats.q16, has_pow2_scale(c.tier)) {
                (true, _) => QuantForm::Q16,
                (_, true) => QuantForm::Pow2,
                (_, false) => QuantForm::Q8,
            };
            self.pow2 = form == QuantForm::Pow2;
            let out = &mut self.q8[..rows * row_len];
            // Few rows are split along K, many into whole groups.
            let (width, span) = match rows <= ROW_GROUP {
                true => {
                    let share = || row_len.div_ceil(c.pool.threads()).next_multiple_of(2);
                    (rows.max(1), if out.len() < PARALLEL_MIN_BLOCKS { row_len } else { share() })
                }
                false => (ROW_GROUP, rows.div_ceil(ROW_GROUP).div_ceil(8 * c.pool.threads()) * row_len),
            };
            c.pool.chunks_mut(out, span * width, &|i, out| {
                let (group, from) = (i * span / row_len, i * span % row_len * BLOCK);
                let x = x.slice(group * ROW_GROUP / planes * cols..self.quantized_rows * cols);
                dispatch(c.tier, QuantizeRows { x, cols, from, form, row_len, out });
            });
        }
    }

    /// Writes the rows `x` in 7 bits.
    fn quantize_u7(&mut self, c: &Compute, x: RowSource<'_>) {
        let (rows, cols, row_len) = (self.rows, self.cols, self.cols.div_ceil(U7_BLOCK));
        // Reserved at the first use, for the tiers and models that read it.
        let need = self.max_u7.max(rows * row_len);
        if self.u7.len() < need {
            self.u7.resize(need, U7Block::ZERO);
        }
        let tasks = if x.len() < PARALLEL_MIN_VALUES { 1 } else { 4 * c.pool.threads() };
        let part = rows.div_ceil(tasks).max(1);
        c.pool.chunks_mut(&mut self.u7[..rows * row_len], part * row_len, &|i, out| {
            let x = x.slice(i * part * cols..x.len());
            dispatch(c.tier, QuantizeU7 { x, cols, out });
        });
    }

    /// Writes the rows `x` as f16.
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

    /// The rows in bf16, on a tier without AMX.
    pub(crate) fn pairs(&self) -> PairGroups<'_> {
        PairGroups { pairs: &self.bf16, rows: self.rows, row_len: PairShape::GROUPED.row_len(self.cols) }
    }

    /// The rows in f16.
    pub(crate) fn f16(&self) -> F16Rows<'_> {
        F16Rows { pairs: &self.f16, descale: &self.descale }
    }

    /// The rows in 7 bits.
    pub(crate) fn u7(&self) -> U7Rows<'_> {
        let row_len = self.cols.div_ceil(U7_BLOCK);
        U7Rows { blocks: &self.u7[..self.rows * row_len], rows: self.rows, row_len }
    }

    /// Rows of blocks to a row: two planes in 16 bits, one in 8.
    fn planes(&self) -> usize {
        if self.q16 { 2 } else { 1 }
    }

    /// The rows in 8 bits, or the planes of rows in 16 bits, coarse and fine in turn.
    pub(crate) fn quantized(&self) -> QuantizedRows<'_> {
        let (rows, row_len) = (self.planes() * self.quantized_rows, self.cols.div_ceil(BLOCK));
        let rows = RowGroups { blocks: &self.q8[..rows * row_len + ROW_GROUP], rows, row_len };
        if self.pow2 { QuantizedRows::Pow2(rows) } else { QuantizedRows::Plain(rows) }
    }
}
