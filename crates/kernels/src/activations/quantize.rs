//! Quantization of activations to eight and sixteen bits.

use cpu::simd::{Job, Simd};

use super::block::{BLOCK, Block, MAGIC, ROW_GROUP};
use super::pow2::Powers;
use super::source::{BLOCK_RUN, RUN_VALUES, RowSource};
use crate::bf16::bf16_of_number;
use crate::tune::tune;

/// Blocks below which a hand-over to other threads costs more than it brings.
pub(super) const PARALLEL_MIN_BLOCKS: usize = 192;

/// How rows are quantized.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuantForm {
    /// Eight bits, with any scale.
    Q8,
    /// Eight bits, with a scale that is a sum of two powers of two, for [`Simd::TWOS`].
    Pow2,
    /// Sixteen bits, as a coarse and a fine row of eight bits.
    Q16,
}

pub(super) struct QuantizeRows<'a> {
    /// From the first row of the first group on.
    pub(super) x: RowSource<'a>,
    pub(super) cols: usize,
    /// The column to begin with: not zero for a part of a group.
    pub(super) from: usize,
    pub(super) form: QuantForm,
    pub(super) row_len: usize,
    /// Whole groups, or blocks of one.
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
                // The row's first block, and the others `width` on from one to the next.
                let mut runs = out[parts * r..].chunks_mut(BLOCK_RUN * width).peekable();
                for at in (self.from..to).step_by(RUN_VALUES) {
                    let Some(out) = runs.next() else { break };
                    if const { tune::<S>().prefetch.gemm }
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

/// `x`, a whole number of less than 22 bits, as an integer. (A cast is done one at a time, for what it does with other numbers.)
#[inline(always)]
fn to_int(x: f32) -> i32 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed()
}

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
