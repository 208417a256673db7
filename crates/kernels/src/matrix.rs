//! A weight matrix, packed for one tier.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cpu::simd::{Job, Simd, dispatch, has_f16_tiles, has_tiles, lanes};
use cpu::{Arena, ReadonlyBytes, Tier};
use tensor::Dtype;

use crate::activations::{ActFormats, U7_BLOCK, power_above, power_of_two};
use crate::elementwise::parallel_rows;
use crate::kv_shape::multiplies_bf16;
use crate::partial::MAX_LANES;
use crate::unpack::{self, BlockLayout, Grid};
use crate::{Compute, Error, bf16_dict12, int8};

/// How exactly a GEMM computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Quantized weights as they are, activations in 8 bits or bf16.
    Fast,
    /// As `Fast`, with activations in 16 bits instead of 8: twice the multiplies, the same bytes read. For the output
    /// head, whose rounding errors go straight into the logits.
    Fine,
    /// As `Fast`, but float weights in 8 bits, in blocks of 64 columns, and their activations in 7 bits with a zero
    /// point, in blocks of 64: see [`multiplies_u7`](crate::multiplies_u7).
    Int8,
    /// Weights dequantized to `f32` at load, activations in `f32`: slow and large, the reference for quality tests.
    F32,
}

/// Packed bytes of a packing task: some hundred microseconds, and at least half a huge page of the file.
const TASK_BYTES: usize = 1 << 20;

/// The layout of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Blocks of a quantized format, see [`crate::unpack`].
    Quantized(Dtype),
    /// A vector of `f32` for each k.
    F32,
    /// A vector of f16 for each k.
    F16,
    /// A vector of bf16 pairs for each two k.
    Bf16,
    /// Dictionary-compressed bf16, see [`crate::bf16_dict12`].
    Bf16Dict12,
    /// Floats in 8 bits, see [`crate::int8`].
    Int8,
}

/// Calls `$body` with `$F` as the format type of `$dtype`; `$other` for the float types.
macro_rules! with_format {
    ($dtype:expr, $F:ident => $body:expr, $other:expr) => {{
        use ::tensor::Dtype as D;
        use $crate::unpack::*;
        macro_rules! arm {
            ($t:ty) => {{
                type $F = $t;
                $body
            }};
        }
        match $dtype {
            D::Q4_0 => arm!(Q4_0),
            D::Q4_1 => arm!(Q4_1),
            D::Q5_0 => arm!(Q5_0),
            D::Q5_1 => arm!(Q5_1),
            D::Q8_0 => arm!(Q8_0),
            D::Q2_K => arm!(Q2K),
            D::Q3_K => arm!(Q3K),
            D::Q4_K => arm!(Q4K),
            D::Q5_K => arm!(Q5K),
            D::Q6_K => arm!(Q6K),
            D::IQ4_NL => arm!(Iq4Nl),
            D::IQ4_XS => arm!(Iq4Xs),
            D::MXFP4 => arm!(Mxfp4),
            D::NVFP4 => arm!(Nvfp4),
            D::IQ1_S => arm!(Iq1S),
            D::IQ1_M => arm!(Iq1M),
            D::IQ2_XXS => arm!(Iq2Xxs),
            D::IQ2_XS => arm!(Iq2Xs),
            D::IQ2_S => arm!(Iq2S),
            D::IQ3_XXS => arm!(Iq3Xxs),
            D::IQ3_S => arm!(Iq3S),
            D::TQ1_0 => arm!(Tq1),
            D::TQ2_0 => arm!(Tq2),
            D::F32 | D::F16 | D::BF16 => $other,
        }
    }};
}
pub(crate) use with_format;

/// A matrix of packed weights `[rows, cols]`: `rows` outputs (N), `cols` inputs (K).
pub struct Matrix {
    pub(crate) layout: Layout,
    pub(crate) q16_activations: bool,
    pub(crate) tier: Tier,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Rows of a panel.
    pub(crate) lanes: usize,
    pub(crate) panel_bytes: usize,
    /// An exponent: quantized weights are below 2^`max_exponent` in magnitude.
    pub(crate) max_exponent: i32,
    pub(crate) data: ReadonlyBytes,
}

impl Matrix {
    /// Packs `bytes`, row-major blocks of `dtype` as in a file, for the tier and threads of `c`.
    ///
    /// # Errors
    /// When the bytes are too few or too many, a row is not a whole number of blocks, a weight is NaN or infinite, or
    /// memory does not suffice.
    pub fn pack(
        c: &Compute,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        bytes: &[u8],
        p: Precision,
    ) -> Result<Matrix, Error> {
        let packed = usize::try_from(Matrix::packed_bytes(c.tier, dtype, rows, cols, p)).ok();
        let mut arena = Arena::new(packed.into_iter()).map_err(|source| no_memory(bytes.len(), source))?;
        Matrix::pack_into(c, &mut arena, dtype, rows, cols, bytes, p, &|_| ())
    }

    /// As [`Matrix::pack`], into memory from `arena`. Calls `on_consumed`, from any of the threads, with parts of
    /// `bytes` that will not be read again, so that the caller can drop the pages of the file and never holds a large
    /// tensor twice.
    ///
    /// Each thread packs, and so touches first, the rows that [`matmul()`](crate::matmul()) gives to it.
    ///
    /// # Errors
    /// As [`Matrix::pack`].
    pub fn pack_into(
        c: &Compute,
        arena: &mut Arena,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        bytes: &[u8],
        p: Precision,
        on_consumed: &(dyn Fn(Range<usize>) + Sync),
    ) -> Result<Matrix, Error> {
        let row_bytes =
            dtype.row_bytes(cols).ok_or(Error::RowLength { cols, dtype, block: dtype.block_weights() })?;
        let need = row_bytes as u64 * rows as u64;
        if need != bytes.len() as u64 {
            return Err(Error::Bytes { rows, cols, dtype, need, got: bytes.len() });
        }
        let file = File { dtype, rows, cols, row_bytes, bytes, on_consumed };
        let (matrix, fits) = file.pack(c, arena, layout(dtype, cols, p, lanes(c.tier)), p)?;
        if fits {
            return Ok(matrix);
        }
        // The weights have too many exceptions.
        drop(matrix);
        file.pack(c, arena, Layout::Bf16, p).map(|(matrix, _)| matrix)
    }

    /// N, the outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// K, the inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Asks the system to read packed weights soon that are on the disk; see [`ReadonlyBytes::read_ahead`].
    pub fn read_ahead(&self) {
        self.data.read_ahead();
    }

    /// Bytes of the packed weights.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The exponent of the power of two that quantized weights are below: an argument of [`Matrix::from_panels`].
    pub fn max_exponent(&self) -> i32 {
        self.max_exponent
    }

    /// The scale of quantized weights that are dequantized to f16: below 2¹⁴, so that three times as much, which scaled
    /// codes may be before the bias is added, fits as well.
    pub(crate) fn f16_scale(&self) -> f32 {
        power_of_two(14 - self.max_exponent)
    }

    /// Bytes that [`Matrix::pack`] would take on `tier`, without packing.
    pub fn packed_bytes(tier: Tier, dtype: Dtype, rows: usize, cols: usize, p: Precision) -> u64 {
        let lanes = lanes(tier);
        rows.div_ceil(lanes) as u64 * panel_bytes(layout(dtype, cols, p, lanes), lanes, cols) as u64
    }

    /// The format of activations that a product with this matrix reads.
    pub fn activations(&self) -> ActFormats {
        match self.layout {
            Layout::Quantized(_) if has_f16_tiles(self.tier) => {
                ActFormats { f16: true, ..ActFormats::default() }
            }
            Layout::Quantized(_) if self.q16_activations => ActFormats { q16: true, ..ActFormats::default() },
            Layout::Quantized(_) => {
                ActFormats { q8: true, q8_decode_bf16_prefill: has_tiles(self.tier), ..ActFormats::default() }
            }
            Layout::Bf16 | Layout::Bf16Dict12 if multiplies_bf16(self.tier) => {
                ActFormats { bf16: true, ..ActFormats::default() }
            }
            Layout::Int8 => ActFormats { u7: true, ..ActFormats::default() },
            Layout::F32 | Layout::F16 | Layout::Bf16 | Layout::Bf16Dict12 => {
                ActFormats { f32: true, ..ActFormats::default() }
            }
        }
    }

    /// Dequantizes the rows `which` to `f32`, one after the other, for an embedding look-up.
    ///
    /// # Panics
    /// When a row is not below [`Matrix::rows`] or `out` is not as many times [`Matrix::cols`] long.
    pub fn rows_into(&self, c: &Compute, which: &[u32], out: &mut [f32]) {
        assert_eq!(out.len(), which.len() * self.cols, "{} rows of {}", which.len(), self.cols);
        parallel_rows(c, out, self.cols, &|first, out| {
            for (row, out) in which[first..].iter().zip(out.chunks_exact_mut(self.cols)) {
                self.row_into(*row as usize, out);
            }
        });
    }

    /// Dequantizes row `row` to `f32`.
    ///
    /// # Panics
    /// When `row` is not below [`Matrix::rows`] or `out` is not [`Matrix::cols`] long.
    pub fn row_into(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.cols, "row {row} of {} into {}", self.rows, out.len());
        let panel = &self.data[row / self.lanes * self.panel_bytes..][..self.panel_bytes];
        let lane = row % self.lanes;
        match self.layout {
            Layout::Quantized(dtype) => {
                with_format!(dtype, F => {
                    let row = Row::<LayoutOf<F>> { panel, lane, out, grid: F::GRID, layout: Default::default() };
                    dispatch(self.tier, row)
                }, ())
            }
            Layout::F32 => each_k(panel, self.lanes, lane, out, |b: [u8; 4]| f32::from_le_bytes(b)),
            Layout::Int8 => int8::row(panel, self.lanes, lane, out),
            Layout::Bf16Dict12 => bf16_dict12::row(self.lanes, self.cols, lane, panel, out),
            Layout::F16 => {
                each_k(panel, self.lanes, lane, out, |b: [u8; 2]| half::f16::from_le_bytes(b).to_f32())
            }
            Layout::Bf16 => {
                for (pair, out) in panel.chunks_exact(4 * self.lanes).zip(out.chunks_mut(2)) {
                    for (half, o) in out.iter_mut().enumerate() {
                        let at = 4 * lane + 2 * half;
                        *o = half::bf16::from_le_bytes([pair[at], pair[at + 1]]).to_f32();
                    }
                }
            }
        }
    }
}

fn each_k<const B: usize>(
    panel: &[u8],
    lanes: usize,
    lane: usize,
    out: &mut [f32],
    value: impl Fn([u8; B]) -> f32,
) {
    for (vector, o) in panel.chunks_exact(B * lanes).zip(out) {
        if let Some(bytes) = vector[B * lane..].first_chunk::<B>() {
            *o = value(*bytes);
        }
    }
}

struct Row<'a, F> {
    panel: &'a [u8],
    lane: usize,
    out: &'a mut [f32],
    grid: &'static Grid,
    layout: std::marker::PhantomData<F>,
}

impl<F: BlockLayout> Job for Row<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let block = unpack::block_bytes::<F>(S::LANES);
        let mut all = [0.0f32; MAX_LANES];
        let mut pick = |v: S::F| {
            s.store(v, &mut all);
            all[self.lane]
        };
        // The code of one k is the dot product with a unit vector.
        let mut units = [s.splat_i(0); 4];
        for (k, unit) in units.iter_mut().enumerate() {
            *unit = s.splat_i(1 << (8 * k));
        }
        for (block, out) in self.panel.chunks_exact(block).zip(self.out.chunks_exact_mut(F::WEIGHTS)) {
            let head = unpack::head::<S, F>(s, self.grid, block);
            for (i, out) in out.chunks_exact_mut(unpack::SUB).enumerate() {
                let u = unpack::unpack::<S, F>(s, self.grid, head, block, i);
                let (scale, bias) = (u.scale.map(&mut pick), u.bias.map(&mut pick));
                for (k, o) in out.iter_mut().enumerate() {
                    let wide = <F::Codes as unpack::codes::Codes>::EIGHT_BIT;
                    let (zero, x) = (s.splat_i(0), units[k % 4]);
                    let dot = if wide { s.dot_u8(zero, u.w[k / 4], x) } else { s.dot(zero, u.w[k / 4], x) };
                    let shift = F::ZERO_POINT - if wide { S::U8_ZERO_POINT } else { 0 };
                    *o = scale[k / 16] * (pick(s.to_f(dot)) - shift as f32) + bias[k / 16];
                }
            }
        }
    }
}

/// A matrix in a file.
struct File<'a> {
    dtype: Dtype,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
    on_consumed: &'a (dyn Fn(Range<usize>) + Sync),
}

impl File<'_> {
    /// Packs the matrix in `layout`; also returns whether the layout holds all of its weights.
    fn pack(
        &self,
        c: &Compute,
        arena: &mut Arena,
        layout: Layout,
        p: Precision,
    ) -> Result<(Matrix, bool), Error> {
        let &File { dtype, rows, cols, row_bytes, bytes, .. } = self;
        let lanes = lanes(c.tier);
        let panel_bytes = panel_bytes(layout, lanes, cols);
        let total = rows.div_ceil(lanes).checked_mul(panel_bytes);
        let memory = |source| no_memory(bytes.len(), source);
        let total = total.ok_or_else(|| memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut data = arena.take(total).map_err(memory)?;
        let (finite, fits) = (AtomicBool::new(true), AtomicBool::new(true));
        // Bits of floats that are not negative are ordered as the floats are.
        let max_abs_bits = AtomicU32::new(0);
        if cols > 0 && rows > 0 {
            let panels = TASK_BYTES.div_ceil(panel_bytes).max(1);
            c.pool.chunks_mut(&mut data, panels * panel_bytes, &|task, chunk| {
                let start = task * panels * lanes * row_bytes;
                let end = bytes.len().min(start + panels * lanes * row_bytes);
                let rows = bytes[start..end].chunks(lanes * row_bytes);
                for (rows, panel) in rows.zip(chunk.chunks_exact_mut(panel_bytes)) {
                    // While the rows are in cache; they are packed whatever they hold.
                    if tensor::check_finite(dtype, rows).is_err() {
                        finite.store(false, Ordering::Relaxed);
                    }
                    if !fits.load(Ordering::Relaxed) {
                        return;
                    }
                    match pack_panel(layout, dtype, lanes, cols, rows, panel) {
                        Some(max_abs) => _ = max_abs_bits.fetch_max(max_abs.to_bits(), Ordering::Relaxed),
                        None => fits.store(false, Ordering::Relaxed),
                    }
                }
                (self.on_consumed)(start..end);
            });
        }
        if !finite.into_inner() {
            // Again in order, to find the first one.
            tensor::check_finite(dtype, bytes).map_err(Error::Weights)?;
        }
        let q16_activations = p == Precision::Fine;
        let max_exponent = power_above(f32::from_bits(max_abs_bits.into_inner()));
        let (tier, data) = (c.tier, data.freeze());
        let matrix =
            Matrix { layout, q16_activations, tier, rows, cols, lanes, panel_bytes, max_exponent, data };
        Ok((matrix, fits.into_inner()))
    }
}

fn no_memory(bytes: usize, source: std::io::Error) -> Error {
    Error::Memory { bytes: bytes as u64, source }
}

pub(crate) fn layout(dtype: Dtype, cols: usize, p: Precision, lanes: usize) -> Layout {
    match (p, dtype) {
        (Precision::Int8, Dtype::F32 | Dtype::F16 | Dtype::BF16) => Layout::Int8,
        (Precision::F32, _) | (_, Dtype::F32) => Layout::F32,
        (_, Dtype::F16) => Layout::F16,
        (_, Dtype::BF16)
            if lanes >= bf16_dict12::MIN_LANES && cols.is_multiple_of(bf16_dict12::K_MULTIPLE) =>
        {
            Layout::Bf16Dict12
        }
        (_, Dtype::BF16) => Layout::Bf16,
        _ => Layout::Quantized(dtype),
    }
}

pub(crate) fn panel_bytes(layout: Layout, lanes: usize, cols: usize) -> usize {
    match layout {
        Layout::F32 => cols * lanes * 4,
        Layout::F16 => cols * lanes * 2,
        Layout::Bf16 => cols.div_ceil(2) * lanes * 4,
        Layout::Bf16Dict12 => bf16_dict12::panel_bytes(lanes, cols),
        Layout::Int8 => cols.div_ceil(U7_BLOCK) * int8::block_bytes(lanes),
        Layout::Quantized(dtype) => {
            with_format!(dtype, F => cols / dtype.block_weights() * unpack::block_bytes::<LayoutOf<F>>(lanes), 0)
        }
    }
}

/// Packs rows of the file into a panel. Returns an upper bound of their magnitude where they are quantized; none if
/// they do not fit the layout.
pub(crate) fn pack_panel(
    layout: Layout,
    dtype: Dtype,
    lanes: usize,
    cols: usize,
    rows: &[u8],
    panel: &mut [u8],
) -> Option<f32> {
    let row_bytes = dtype.row_bytes(cols).unwrap_or(1).max(1);
    let mut each = rows.chunks_exact(row_bytes);
    match layout {
        Layout::Quantized(dtype) => {
            return with_format!(dtype, F => Some(unpack::pack::<F>(lanes, &mut each, panel)), None);
        }
        Layout::F16 => interleave::<2>(&mut each, lanes, panel),
        Layout::Bf16 => interleave::<4>(&mut each, lanes, panel),
        Layout::Bf16Dict12 => return bf16_dict12::pack(lanes, cols, rows, panel).then_some(0.0),
        Layout::Int8 => int8::pack(dtype, each, lanes, cols, panel),
        Layout::F32 if dtype == Dtype::F32 => interleave::<4>(&mut each, lanes, panel),
        Layout::F32 => {
            let mut wide = vec![0.0f32; cols];
            for (lane, row) in each.enumerate() {
                // `pack` checked the lengths: a decoder that still refuses leaves zeros.
                if tensor::dequantize(dtype, row, &mut wide).is_err() {
                    continue;
                }
                for (k, v) in wide.iter().enumerate() {
                    let at = (k * lanes + lane) * 4;
                    panel[at..at + 4].copy_from_slice(&v.to_le_bytes());
                }
            }
        }
    }
    Some(0.0)
}

/// Interleaves the rows in units of `B` bytes; a last unit that a row fills only in part is padded with zeros.
fn interleave<const B: usize>(rows: &mut dyn Iterator<Item = &[u8]>, lanes: usize, panel: &mut [u8]) {
    for (lane, row) in rows.take(lanes).enumerate() {
        let (whole, rest) = row.as_chunks::<B>();
        let mut to = panel.chunks_exact_mut(B * lanes);
        for (from, to) in whole.iter().zip(&mut to) {
            to[lane * B..][..B].copy_from_slice(from);
        }
        if let Some(to) = to.next().filter(|_| !rest.is_empty()) {
            to[lane * B..][..rest.len()].copy_from_slice(rest);
        }
    }
}
