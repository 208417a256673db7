//! Quantization of activations to 8 bits, and to 16 as a coarse and a fine plane of 8.

use cpu::simd::{Job, Simd};

use super::block::{BLOCK, Block, MAGIC, ROW_GROUP};
use super::pow2::Powers;
use super::source::{BLOCK_RUN, RUN_VALUES, RowSource};
use crate::bf16::bf16_of_number;
use crate::tune::tune;

/// Blocks below which one thread quantizes them: handing tasks to others would take longer.
pub(super) const PARALLEL_MIN_BLOCKS: usize = 192;

/// How rows are quantized.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuantForm {
    /// Eight bits, with any scale.
    Q8,
    /// Eight bits, with a scale that is a sum of two powers of two ([`Int8Path::Pow2Scale`](crate::tune::Int8Path)).
    Pow2,
    /// Sixteen bits, as a coarse and a fine plane of eight.
    Q16,
}

/// The job that quantizes rows.
pub(super) struct QuantizeRows<'a> {
    /// The rows from the first of the first group on.
    pub(super) x: RowSource<'a>,
    pub(super) cols: usize,
    /// The first column; not zero where a group is split along K.
    pub(super) from: usize,
    pub(super) form: QuantForm,
    pub(super) row_len: usize,
    /// Whole groups, or some blocks of one group.
    pub(super) out: &'a mut [Block],
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
                // Runs of the row's blocks, which are `width` apart.
                let mut runs = out[parts * r..].chunks_mut(BLOCK_RUN * width).peekable();
                for at in (self.from..to).step_by(RUN_VALUES) {
                    let Some(out) = runs.next() else { break };
                    if const { tune::<S>().prefetch.gemm_activations_and_output }
                        && matches!(self.x, RowSource::Gated { .. })
                        && let Some(next) = runs.peek_mut()
                    {
                        for block in next.chunks_mut(width) {
                            s.prefetch_write(block);
                        }
                    }
                    let values = self.x.values(s, row, at, RUN_VALUES.min(to - at), &mut scratch);
                    let (whole, tail) = values.as_chunks::<BLOCK>();
                    blocks(s, self.form, whole, out, width);
                    if !tail.is_empty() {
                        let mut padded = [0.0; BLOCK];
                        padded[..tail.len()].copy_from_slice(tail);
                        blocks(s, self.form, &[padded], &mut out[whole.len() * width..], width);
                    }
                }
            }
        }
    }
}

/// Quantizes the blocks `x`, at most [`BLOCK_RUN`], to blocks of `out`, or to pairs of planes, that are `stride` apart.
#[inline(always)]
fn blocks<S: Simd>(s: S, form: QuantForm, x: &[[f32; BLOCK]], out: &mut [Block], stride: usize) {
    // No closures: they would be compiled without the instructions of the tier.
    if form == QuantForm::Q16 {
        for (x, out) in x.iter().zip(out.chunks_mut(stride)) {
            quantize_q16(s, x, out);
        }
    } else {
        quantize(s, form == QuantForm::Pow2, x, out, stride);
    }
}

/// The largest magnitude of `x` in each lane.
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

/// The scale that maps `max_abs` to `levels`, and its inverse; zeros for a block that is zero or not finite. (Such a row stays NaN or
/// infinite in the residual stream.)
#[inline(always)]
pub(super) fn scale_for(max_abs: f32, levels: f32) -> (f32, f32) {
    let inverse = levels / max_abs;
    // The inverse is zero or NaN for a block that is not finite, infinite for one of zeros or denormals. Two plain comparisons, so that it
    // is vectorized.
    let usable = (inverse > 0.0) & (inverse <= f32::MAX);
    if usable { (max_abs / levels, inverse) } else { (0.0, 0.0) }
}

/// `x`, a whole number of less than 22 bits, as an integer. (A cast saturates, and is not vectorized.)
#[inline(always)]
fn to_int(x: f32) -> i32 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed()
}

/// Quantizes the blocks `x`, at most [`BLOCK_RUN`], to 8 bits in blocks of `out` that are `stride` apart.
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
            powers[i] = Powers::scale_for(maxima[i]);
        }
        for i in 0..BLOCK_RUN {
            scales[i] = powers[i].first + powers[i].second;
            inverses[i] = if scales[i] > 0.0 { 1.0 / scales[i] } else { 0.0 };
        }
    } else {
        for i in 0..BLOCK_RUN {
            (scales[i], inverses[i]) = scale_for(maxima[i], 127.0);
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

/// `Σ q` of both halves of each block: small integers, which floats hold exactly.
struct HalfSums<const N: usize> {
    first: [f32; N],
    second: [f32; N],
}

impl<const N: usize> HalfSums<N> {
    /// The fields of [`Block`] other than `q`, transposed, for blocks with these `scales`, which are the sums of
    /// `powers` where those are given; then the first block is an even one of its row.
    #[inline(always)]
    fn meta(&self, scales: &[f32; N], powers: Option<&[Powers; N]>) -> [[i32; N]; 8] {
        let HalfSums { first, second } = self;
        let mut neg_sums = [[0; N]; 2];
        // One loop a field, so that each is vectorized.
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
                let [first_bits, second_bits] = [first, second].map(|x| x.to_bits().cast_signed());
                meta[0][i] = first_bits;
                meta[1][i] = first_bits.wrapping_add(8 * (neg_sums[0][i] + neg_sums[1][i]));
                meta[2][i] = first_bits.wrapping_add(128 * (neg_sums[0][i] + neg_sums[1][i]));
                meta[3][i] = first_bits.wrapping_add(32 * neg_sums[0][i]);
                meta[4][i] = first_bits.wrapping_add(32 * neg_sums[1][i]);
                meta[5][i] = second_bits.wrapping_sub(first_bits);
                meta[6][i] = (-(first + second)).to_bits().cast_signed();
            }
        } else {
            for i in 0..N {
                meta[0][i] = scales[i].to_bits().cast_signed();
                meta[1][i] = 8 * (neg_sums[0][i] + neg_sums[1][i]);
                meta[2][i] = 128 * (neg_sums[0][i] + neg_sums[1][i]);
                meta[3][i] = 32 * neg_sums[0][i];
                meta[4][i] = 32 * neg_sums[1][i];
                // At most 16 · 127 in magnitude: each fits into 16 bits.
                meta[5][i] = neg_sums[0][i] & 0xffff | neg_sums[1][i] << 16;
                meta[6][i] = sums[i].to_bits().cast_signed();
            }
        }
        meta
    }
}

/// Steps of the fine plane in one of the coarse plane; the fine codes are then in -127..=127.
const FINE_STEPS: f32 = 254.0;

/// Quantizes a block to 16 bits: a coarse and a fine plane.
#[inline(always)]
fn quantize_q16<S: Simd>(s: S, x: &[f32; BLOCK], out: &mut [Block]) {
    let [coarse, fine, ..] = out else { return };
    let (scale, inverse) = scale_for(s.reduce_max(max_abs(s, x)), 127.0 * FINE_STEPS + 127.0);
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
