//! Weight formats in packed panels: layout, packing at load, and unpacking in the micro-kernels. One file per format, a
//! few lines each.
//!
//! At load, [`pack`] interleaves the rows of a matrix into *panels* of [`Simd::LANES`] rows, so that each lane of a
//! register is one output row and a dot product needs no horizontal sum. A panel is one forward stream of blocks:
//!
//! ```text
//! block      head: the block's scales (and minima), a vector each
//!            then for each 32 weights (a sub-block):
//!              the sub-block's own scales and minima, a vector of bytes each
//!              the codes: byte vectors of LANES rows × 4 consecutive k
//! ```
//!
//! A format's blocks are laid out as the pair of a code layout ([`codes`]) and a scale layout ([`scales`]) says; formats of
//! the same layout ([`blocks`]) share micro-kernels. What a format's bytes in a file mean is defined in `tensor/format`, file by file under the same names, and read through that definition.

pub(crate) mod blocks;
pub(crate) mod codes;
mod grid;
pub(crate) mod scales;

mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod raw;
mod tq1_0;
mod tq2_0;

pub(crate) use blocks::BlockLayout;
pub(crate) use grid::Grid;
pub(crate) use iq1_m::Iq1M;
pub(crate) use iq1_s::Iq1S;
pub(crate) use iq2_s::Iq2S;
pub(crate) use iq2_xs::Iq2Xs;
pub(crate) use iq2_xxs::Iq2Xxs;
pub(crate) use iq3_s::Iq3S;
pub(crate) use iq3_xxs::Iq3Xxs;
pub(crate) use iq4_nl::Iq4Nl;
pub(crate) use iq4_xs::Iq4Xs;
pub(crate) use mxfp4::Mxfp4;
pub(crate) use nvfp4::Nvfp4;
pub(crate) use q2_k::Q2K;
pub(crate) use q3_k::Q3K;
pub(crate) use q4_0::Q4_0;
pub(crate) use q4_1::Q4_1;
pub(crate) use q4_k::Q4K;
pub(crate) use q5_0::Q5_0;
pub(crate) use q5_1::Q5_1;
pub(crate) use q5_k::Q5K;
pub(crate) use q6_k::Q6K;
pub(crate) use q8_0::Q8_0;
pub(crate) use tq1_0::Tq1;
pub(crate) use tq2_0::Tq2;

use crate::tune::{self, maddubs_i16, pow2_scale, tune};
use codes::Codes;
use cpu::simd::Simd;
use raw::RawBlock;
pub(crate) use raw::{QUADS, SUB};
use scales::Scales;
use tensor::Dtype;
use tensor::format::{self, MAX_GROUPS};

impl RawBlock {
    /// Parses `block`, a block of `F` as in a file.
    fn read<F: Format>(&mut self, block: &[u8]) {
        let weights = F::DTYPE.block_weights();
        let groups = weights / F::BLOCK_SHAPE.group;
        let codes = &mut self.codes[..weights];
        if !format::indices(F::DTYPE, block, codes) {
            let (mut scale, mut min) = ([0.0; MAX_GROUPS], [0.0; MAX_GROUPS]);
            format::codes(F::DTYPE, block, codes, &mut scale[..groups], &mut min[..groups]);
        }
        let (sub_scales, sub_minima) = (&mut self.sub_scales[..groups], &mut self.sub_minima[..groups]);
        match format::sub_scales(F::DTYPE, block, sub_scales, sub_minima) {
            Some(factors) => (self.d, self.dmin) = (factors.d, factors.dmin),
            None => {
                let bytes = format::scale_bytes(F::DTYPE, block).unwrap_or_default();
                self.scale_bytes[..groups].copy_from_slice(bytes);
            }
        }
    }

    /// An upper bound of the magnitude of the block's weights.
    fn max_abs<F: Format>(&self) -> f32 {
        let groups = F::DTYPE.block_weights() / F::BLOCK_SHAPE.group;
        let largest = |of: &mut dyn Iterator<Item = u8>| f32::from(of.max().unwrap_or_default());
        let code =
            F::BLOCK_SHAPE.offset.max(i32::from(F::BLOCK_SHAPE.max_code) - F::BLOCK_SHAPE.offset) as f32;
        let factor = |bits: u16| half::f16::from_bits(bits).to_f32().abs();
        if let Some(scale) = ScalesOf::<F>::SCALE_OF_BYTE {
            let scales = self.scale_bytes[..groups].iter().map(|byte| scale(*byte));
            return scales.fold(0.0, f32::max) * code;
        }
        let scale = F::BLOCK_SHAPE.unit()
            * factor(self.d)
            * largest(&mut self.sub_scales[..groups].iter().map(|scale| scale.unsigned_abs()));
        scale * code + factor(self.dmin) * largest(&mut self.sub_minima[..groups].iter().copied())
    }
}

/// A quantized format.
pub(crate) trait Format {
    /// The format's name and meaning.
    const DTYPE: Dtype;
    /// The layout of its blocks in a panel.
    type Layout: BlockLayout;
    /// The values that its codes index, if they do.
    const VALUES: [i8; 16] = [0; 16];

    /// The shape of its blocks, from its definition.
    const BLOCK_SHAPE: format::BlockShape = match format::block_shape(Self::DTYPE) {
        Some(shape) => shape,
        None => panic!("a quantized format"),
    };
    /// What its codes mean.
    const GRID: &'static Grid = &Grid::new(&Self::VALUES, Self::BLOCK_SHAPE.unit());
}

/// The layout of the blocks of the format `F`.
pub(crate) type LayoutOf<F> = <F as Format>::Layout;
type CodesOf<F> = <LayoutOf<F> as BlockLayout>::Codes;
type ScalesOf<F> = <LayoutOf<F> as BlockLayout>::Scales;

/// Bytes of a panel's block for `lanes` rows.
pub(crate) const fn block_bytes<F: BlockLayout>(lanes: usize) -> usize {
    lanes * (F::Scales::HEAD_BYTES + F::WEIGHTS / SUB * sub_block_bytes_per_lane::<F>())
}

/// Bytes of a sub-block with its share of the block's head: a block is so many for each sub-block.
const fn sub_block_share<F: BlockLayout>(lanes: usize) -> usize {
    block_bytes::<F>(lanes) * SUB / F::WEIGHTS
}

const fn sub_block_bytes_per_lane<F: BlockLayout>() -> usize {
    F::Scales::SUB_BYTES + F::Codes::BYTES
}

/// 32 weights of each lane's row (a sub-block), unpacked.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked<'a, S: Simd> {
    /// Codes, a register for each quad.
    pub(crate) w: [S::I; 8],
    /// The packed codes, for loops that unpack a quad when they need it.
    pub(crate) codes: &'a [u8],
    /// What they mean.
    pub(crate) grid: &'static Grid,
    /// Scale of each half; equal where one scale serves both.
    pub(crate) scale: [S::F; 2],
    /// Bias of each half: the minimum, negated.
    pub(crate) bias: [S::F; 2],
    /// Scales of the halves as integers, where [`int8_sub_scales`].
    pub(crate) sub_scales: [S::I; 2],
    /// The factor of those.
    pub(crate) factor: S::F,
}

/// Whether scales of 16 weights are applied as integers, by the instruction that widens products.
pub(crate) const fn int8_sub_scales<S: Simd, F: BlockLayout>() -> bool {
    maddubs_i16::<S>() && F::Scales::INT8_SUB_SCALES && !F::Codes::EIGHT_BIT
}

/// Whether a sub-block can be accumulated in one integer sum: one scale, or integer scales of 16 weights.
pub(crate) const fn i16_accumulable<F: BlockLayout>() -> bool {
    F::Scales::GROUPS == 1 || (F::Scales::INT8_SUB_SCALES && !F::Codes::EIGHT_BIT)
}

/// Whether unpacking takes so many instructions that sharing it among rows gains more than sharing activations among
/// panels.
pub(crate) const fn unpack_bound<F: BlockLayout>() -> bool {
    !F::Codes::EIGHT_BIT && (F::Codes::BITS > 4 || F::Scales::BIAS || F::Scales::GROUPS == 2)
}

/// Reads the head of `block`.
#[inline(always)]
pub(crate) fn head<S: Simd, F: BlockLayout>(s: S, grid: &Grid, block: &[u8]) -> [S::F; 2] {
    let [factor, bias] = F::Scales::head(s, &block[..F::Scales::HEAD_BYTES * S::LANES]);
    if F::HAS_UNIT { [s.mul(factor, s.splat(grid.unit)), bias] } else { [factor, bias] }
}

/// The sub-block scales and the codes of sub-block `i` of `block`.
#[inline(always)]
pub(crate) fn sub_block<S: Simd, F: BlockLayout>(block: &[u8], i: usize) -> (&[u8], &[u8]) {
    let sub = &block[S::LANES * (F::Scales::HEAD_BYTES + i * sub_block_bytes_per_lane::<F>())..]
        [..S::LANES * sub_block_bytes_per_lane::<F>()];
    sub.split_at(F::Scales::SUB_BYTES * S::LANES)
}

/// Unpacks sub-block `i` of `block`, whose [`head`] is `head`.
#[inline(always)]
pub(crate) fn unpack<'a, S: Simd, F: BlockLayout>(
    s: S,
    grid: &'static Grid,
    head: [S::F; 2],
    block: &'a [u8],
    i: usize,
) -> Unpacked<'a, S> {
    let (stored, codes) = sub_block::<S, F>(block, i);
    let (scale, bias) = F::Scales::get(s, head, stored);
    let sub_scales =
        if int8_sub_scales::<S, F>() { F::Scales::sub_scales_i16(s, stored) } else { [s.splat_i(0); 2] };
    Unpacked { w: F::Codes::get(s, grid, codes), codes, grid, scale, bias, sub_scales, factor: head[0] }
}

/// The zero point of the codes of `F` as they are multiplied. With [`Int8Path::Pow2Scale`](crate::tune::Int8Path) and
/// minima, the middle of their range, so that the bf16 minima are small.
pub(crate) const fn zero_point<S: Simd, F: BlockLayout>() -> i32 {
    match pow2_scale::<S>() && F::Scales::BIAS && F::Scales::GROUPS == 1 {
        true => 1 << (F::Codes::BITS - 1),
        false => F::ZERO_POINT - if F::Codes::EIGHT_BIT { S::U8_ZERO_POINT } else { 0 },
    }
}

/// A sub-block of 32 weights of each lane's row.
#[derive(Clone, Copy)]
pub(crate) struct SubBlock<'a, S: Simd> {
    pub(crate) head: [S::F; 2],
    /// The block that it is sub-block `i` of.
    pub(crate) block: &'a [u8],
    pub(crate) i: usize,
}

impl<S: Simd> SubBlock<'_, S> {
    /// Scales and biases of both halves.
    #[inline(always)]
    pub(crate) fn scales<F: BlockLayout>(self, s: S) -> ([S::F; 2], [S::F; 2]) {
        F::Scales::get(s, self.head, sub_block::<S, F>(self.block, self.i).0)
    }

    /// The bias of the sub-block, for codes that count from [`zero_point`].
    #[inline(always)]
    fn bias<F: BlockLayout>(self, s: S) -> S::F {
        let (scale, bias) = self.scales::<F>(s);
        s.fma(scale[0], s.splat(const { zero_point::<S, F>() as f32 }), bias[0])
    }

    /// The bias as bf16 pairs, with that of the next sub-block where `both`, otherwise with zero.
    #[inline(always)]
    pub(crate) fn bf16_biases<F: BlockLayout>(self, s: S, both: bool) -> S::I {
        let second = if both { SubBlock { i: self.i + 1, ..self }.bias::<F>(s) } else { s.splat(0.0) };
        s.pack_bf16_pair(self.bias::<F>(s), second)
    }
}

/// Prefetch distance in bytes of each of `P` panels.
pub(crate) const fn prefetch_distance<S: Simd, const P: usize>() -> usize {
    tune::<S>().prefetch.distance[(P > 1) as usize]
}

/// Software prefetch of weights: while the micro-kernel consumes a sub-block of `P` panels, as many bytes of a later
/// block are prefetched. Where several rows share the weights, loads come in bursts that the hardware prefetcher does
/// not keep up with.
#[derive(Clone, Copy)]
pub(crate) struct Prefetcher<'a, const P: usize> {
    blocks: [&'a [u8]; P],
    /// Where the prefetched bytes begin, relative to `blocks`.
    offset: usize,
}

impl<'a, const P: usize> Prefetcher<'a, P> {
    /// For sub-block `i` of `blocks`, each of which begins `bytes_left` bytes before the end of its panel. Past that
    /// end, `wrap_skip` bytes are skipped.
    #[inline(always)]
    pub(crate) fn new<S: Simd, F: BlockLayout>(
        blocks: [&'a [u8]; P],
        i: usize,
        bytes_left: usize,
        wrap_skip: usize,
    ) -> Self {
        // In whole sub-blocks, so that none crosses the end of the panel.
        let (span, ahead) = const { (sub_block_share::<F>(S::LANES), prefetch_distance::<S, P>()) };
        let offset = i * span + ahead / span * span;
        Prefetcher { blocks, offset: if offset < bytes_left { offset } else { offset + wrap_skip } }
    }

    /// Issues chunk `chunk` of `chunks` of the prefetches. All at once they would fill the load queue, and what follows
    /// would wait.
    #[inline(always)]
    pub(crate) fn issue<S: Simd, F: BlockLayout>(&self, s: S, chunk: usize, chunks: usize) {
        let lines = const { sub_block_share::<F>(S::LANES).div_ceil(64) };
        for line in chunk * lines / chunks..(chunk + 1) * lines / chunks {
            for block in self.blocks {
                tune::prefetch(s, block, self.offset + 64 * line);
            }
        }
    }
}

/// The block of `panel` that holds `column`, and the index of its sub-block; prefetches a later one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn find_sub_block<S: Simd, F: BlockLayout>(
    s: S,
    panel: &[u8],
    column: usize,
) -> Option<(&[u8], usize)> {
    let bytes = block_bytes::<F>(S::LANES);
    let block = panel.get(column / F::WEIGHTS * bytes..)?.get(..bytes)?;
    let i = column % F::WEIGHTS / SUB;
    Prefetcher::new::<S, F>([block], i, panel.len(), 0).issue::<S, F>(s, 0, 1);
    Some((block, i))
}

/// Packs `rows` (each a row of the file) into a panel of `lanes` rows; missing rows stay zero. Returns an upper bound
/// of the magnitude of the weights.
pub(crate) fn pack<F: Format>(lanes: usize, rows: &mut dyn Iterator<Item = &[u8]>, panel: &mut [u8]) -> f32 {
    const {
        assert!(SUB / F::BLOCK_SHAPE.group == ScalesOf::<F>::GROUPS);
        assert!(F::BLOCK_SHAPE.has_min == ScalesOf::<F>::BIAS);
        assert!(LayoutOf::<F>::WEIGHTS == F::DTYPE.block_weights());
        let zero_point = if CodesOf::<F>::TABLE_LOOKUP { 128 } else { F::BLOCK_SHAPE.offset };
        assert!(LayoutOf::<F>::ZERO_POINT == zero_point);
        assert!(LayoutOf::<F>::HAS_UNIT || F::BLOCK_SHAPE.unit_exponent == 0);
        assert!(CodesOf::<F>::BITS != 7, "`gemm::q8::dot_quads` has no arm for codes of 7 bits");
    }
    let (mut raw, mut max_abs) = (RawBlock::new(), 0.0f32);
    for (lane, row) in rows.take(lanes).enumerate() {
        for (file, block) in row
            .chunks_exact(F::DTYPE.block_bytes())
            .zip(panel.chunks_exact_mut(block_bytes::<LayoutOf<F>>(lanes)))
        {
            raw.read::<F>(file);
            max_abs = max_abs.max(raw.max_abs::<F>());
            let (head, subs) = block.split_at_mut(ScalesOf::<F>::HEAD_BYTES * lanes);
            ScalesOf::<F>::put_head(&raw, lane, lanes, head);
            for (i, sub) in
                subs.chunks_exact_mut(lanes * sub_block_bytes_per_lane::<LayoutOf<F>>()).enumerate()
            {
                let (sub_scales, codes) = sub.split_at_mut(ScalesOf::<F>::SUB_BYTES * lanes);
                ScalesOf::<F>::put_sub_scales(&raw, i, lane, lanes, sub_scales);
                if let Some(q) = raw.codes[i * SUB..].first_chunk::<SUB>() {
                    CodesOf::<F>::put(q, lane, codes);
                }
            }
        }
    }
    max_abs
}
