//! KV cache in 8 bits, multiplied as integers.
//!
//! Four operands of a dot product share 32 bits. Keys are `[head_dim / 4, 32 positions, 4]` codes plus 128, then
//! `[head_dim / 32, 32]` scales: one for each 32 dimensions of a key, as in ggml's Q8_0. Values are `[8, value_dim, 4
//! positions]` signed codes, then 32 scales, one a position, which the attention weight is multiplied by. Scales are
//! IEEE binary16, little-endian; that of a row that is not finite is infinite, so that results are not finite either.
//!
//! The other factor, a query or the attention weights of a block, is rounded to 15 or 14 bits and multiplied in two
//! passes: as a coarse and a fine plane of 8 bits; or with [`Int8Path::MaddubsI16`](crate::tune::Int8Path) as `i16`,
//! the codes of even dimensions and then of odd ones, widened to `i16`. Integer sums are exact, so neither order nor
//! path changes a result.

use cpu::simd::{DotKind, Simd};
use half::f16;

use crate::kv_block::BLOCK_TOKENS;
use crate::kv_block::MAX_HEAD_DIM;
use crate::kv_layout::{KvFormat, prefetch_span, unroll_factor};
use crate::partial;
use crate::tune::{self, maddubs_i16};

/// Dimensions of a key that share a scale.
const GROUP: usize = 32;
/// Steps of the fine plane in one of the coarse plane.
const FINE_STEPS: f32 = 128.0;
/// The largest code in two planes: coarse 127, fine 0.
const MAX_CODE: f32 = 127.0 * FINE_STEPS;
/// Factors below this are zero: their inverse would overflow.
const MIN_FACTOR: f32 = 1e-30;

/// Bytes of the scales of 32 keys of `key_dim` dimensions.
pub(crate) const fn key_scale_bytes(key_dim: usize) -> usize {
    2 * BLOCK_TOKENS * key_dim.div_ceil(GROUP)
}

/// Bytes of the scales of 32 values.
pub(crate) const VALUE_SCALE_BYTES: usize = 2 * BLOCK_TOKENS;

/// Stores the key of position `offset` of a block.
#[inline(always)]
pub(crate) fn write_key<S: Simd>(s: S, key: &[f32], out: &mut [u8], key_dim: usize, offset: usize) {
    let (codes, scales) = out.split_at_mut(BLOCK_TOKENS * key_dim);
    for (g, part) in key.chunks(GROUP).enumerate() {
        let mut signed = [0; GROUP];
        let scale = encode(s, part, &mut signed);
        for (d, code) in signed[..part.len()].iter().enumerate() {
            let d = g * GROUP + d;
            codes[(d / 4 * BLOCK_TOKENS + offset) * 4 + d % 4] = code.cast_unsigned() ^ 0x80;
        }
        scales[2 * (g * BLOCK_TOKENS + offset)..][..2].copy_from_slice(&scale.to_le_bytes());
    }
}

/// Stores the value of position `offset` of a block.
#[inline(always)]
pub(crate) fn write_value<S: Simd>(s: S, value: &[f32], out: &mut [u8], value_dim: usize, offset: usize) {
    let (codes, scales) = out.split_at_mut(BLOCK_TOKENS * value_dim);
    let mut signed = [0; MAX_HEAD_DIM];
    let scale = encode(s, value, &mut signed);
    let row = codes[offset / 4 * value_dim * 4..].as_chunks_mut::<4>().0;
    for (out, code) in row.iter_mut().zip(&signed[..value.len()]) {
        out[offset % 4] = code.cast_unsigned();
    }
    scales[2 * offset..][..2].copy_from_slice(&scale.to_le_bytes());
}

/// Rounds values to codes from -127 to 127; returns the scale.
#[inline(always)]
fn encode<S: Simd>(s: S, row: &[f32], codes: &mut [i8]) -> f16 {
    let max_abs = max_magnitude(row);
    let scale = if max_abs.is_finite() { f16::from_f32(max_abs / 127.0) } else { f16::INFINITY };
    let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
    for at in (0..row.len()).step_by(S::LANES) {
        let v = s.mul(partial::load(s, row, at), s.splat(inverse));
        // A subnormal scale may have been rounded down by far.
        s.store_i8(s.max(s.min(v, s.splat(127.0)), s.splat(-127.0)), &mut codes[at..]);
    }
    scale
}

/// The largest magnitude; NaN if any is: as bits, magnitudes are ordered, infinity above numbers and NaN above both.
#[inline(always)]
fn max_magnitude(row: &[f32]) -> f32 {
    f32::from_bits(row.iter().fold(0, |max_abs, v| max_abs.max(v.abs().to_bits())))
}

/// Factors `code · scale`, split for two passes: `code = 128 · coarse + fine`, or `i16` codes of even and of odd
/// positions.
pub(crate) struct SplitFactors<const N: usize, const X: usize> {
    halves: [[[i8; X]; N]; 2],
    scale: [f32; N],
}

impl<const N: usize, const X: usize> SplitFactors<N, X> {
    const ZERO: SplitFactors<N, X> = SplitFactors { halves: [[[0; X]; N]; 2], scale: [0.0; N] };

    /// Sets row `i`, whose largest magnitude is `max_abs`. Fine codes are from -64 to 64; with `NON_NEGATIVE`, for
    /// factors that are not negative, from 0 to 127.
    #[inline(always)]
    fn set<S: Simd, const NON_NEGATIVE: bool>(&mut self, s: S, i: usize, row: &[f32], max_abs: f32) {
        self.scale[i] = if max_abs < MIN_FACTOR { 0.0 } else { max_abs / MAX_CODE };
        let inverse = if max_abs < MIN_FACTOR || !max_abs.is_finite() { 0.0 } else { MAX_CODE / max_abs };
        let [first, second] = &mut self.halves;
        let (first, second) = (&mut first[i], &mut second[i]);
        // Rounds down by rounding to nearest after subtracting 127/256.
        let down = s.splat(if NON_NEGATIVE { -127.0 / 256.0 } else { 0.0 });
        for at in (0..row.len()).step_by(S::LANES) {
            let scaled = s.mul(partial::load(s, row, at), s.splat(inverse));
            if const { maddubs_i16::<S>() } {
                s.store_i16_split(scaled, &mut first[at..], &mut second[at..]);
                continue;
            }
            let code = s.round(scaled);
            let coarse = s.round(s.fma(code, s.splat(1.0 / FINE_STEPS), down));
            s.store_i8(coarse, &mut first[at..]);
            s.store_i8(s.fma(coarse, s.splat(-FINE_STEPS), code), &mut second[at..]);
        }
    }

    /// The sum of the codes of row `i` in each of its first `groups` groups.
    #[inline(always)]
    fn sums<S: Simd>(&self, i: usize, groups: usize) -> [i32; MAX_HEAD_DIM / GROUP] {
        let mut sums = [0; MAX_HEAD_DIM / GROUP];
        let [first, second] = self.halves.each_ref().map(|half| half[i].as_chunks::<GROUP>().0);
        // Loops over groups of a constant length, so that they are vectorized.
        for (sum, (first, second)) in sums[..groups].iter_mut().zip(first.iter().zip(second)) {
            if const { maddubs_i16::<S>() } {
                for (first, second) in first.as_chunks::<2>().0.iter().zip(second.as_chunks::<2>().0) {
                    let [first, second] =
                        [first, second].map(|word| i16::from_le_bytes(word.map(i8::cast_unsigned)));
                    *sum += i32::from(first) + i32::from(second);
                }
            } else {
                for (first, second) in first.iter().zip(second) {
                    *sum += 128 * i32::from(*first) + i32::from(*second);
                }
            }
        }
        sums
    }
}

/// Prepared queries: factors, and the start of the accumulators.
pub(crate) struct Queries<const N: usize> {
    factors: SplitFactors<N, MAX_HEAD_DIM>,
    /// By group: keys are codes plus 128, of which the dot product subtracts [`Simd::U8_ZERO_POINT`].
    start: [[i32; MAX_HEAD_DIM / GROUP]; N],
}

/// The KV cache in 8 bits.
pub(crate) struct KvQ8;

impl KvFormat for KvQ8 {
    const DOT_KIND: DotKind = DotKind::Int8;
    type Token = ();
    const ALL_TILE_SIZES: bool = false;
    type Queries<const N: usize> = Queries<N>;

    fn begin((): (), _: usize) -> KvQ8 {
        KvQ8
    }

    fn scratch<const N: usize>() -> Queries<N> {
        Queries { factors: SplitFactors::ZERO, start: [[0; MAX_HEAD_DIM / GROUP]; N] }
    }

    #[inline(always)]
    fn queries<S: Simd, const N: usize>(&self, s: S, q: [&[f32]; N], prepared: &mut Queries<N>) {
        let Queries { factors, start } = prepared;
        for i in 0..N {
            factors.set::<S, false>(s, i, q[i], max_magnitude(q[i]));
            for (start, codes) in start[i].iter_mut().zip(factors.sums::<S>(i, q[i].len().div_ceil(GROUP))) {
                // The first pass in planes counts 128 times, this start with it.
                *start = if const { maddubs_i16::<S>() } {
                    -codes * 128
                } else {
                    -codes * (128 - S::U8_ZERO_POINT) / 128
                };
            }
        }
    }

    #[inline(always)]
    fn add_scores<S: Simd, const N: usize>(
        &self,
        s: S,
        queries: &Queries<N>,
        keys: &[u8],
        dim: usize,
        prefetch_ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    ) {
        let (codes, scales) = keys.split_at(BLOCK_TOKENS * dim.next_multiple_of(4));
        if unroll_factor::<S, N>() > 1 {
            for at in (0..BLOCK_TOKENS).step_by(2 * S::LANES) {
                score_strip::<S, N, 2>(s, queries, codes, scales, at, prefetch_ahead, scores);
            }
        } else {
            for at in (0..BLOCK_TOKENS).step_by(S::LANES) {
                score_strip::<S, N, 1>(s, queries, codes, scales, at, prefetch_ahead, scores);
            }
        }
    }

    #[inline(always)]
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        stride: usize,
        written: usize,
        prefetch_ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        let (codes, scales) = values.split_at(BLOCK_TOKENS * stride);
        // Positions that are not written have any scale, and weights of zero.
        tune::prefetch(s, scales, prefetch_ahead);
        let mut scale = [0.0; BLOCK_TOKENS];
        for (at, scale) in scale.chunks_exact_mut(S::LANES).enumerate() {
            s.store(s.load_f16_bytes(&scales[2 * at * S::LANES..]), scale);
        }
        scale[written..].fill(0.0);
        let mut factors = SplitFactors::<N, BLOCK_TOKENS>::ZERO;
        for i in 0..N {
            let (mut scaled, mut max_abs) = ([0.0; BLOCK_TOKENS], s.splat(0.0));
            for at in (0..BLOCK_TOKENS).step_by(S::LANES) {
                let v = s.mul(s.load(&weights[i][at..]), s.load(&scale[at..]));
                max_abs = s.max(v, max_abs);
                s.store(v, &mut scaled[at..]);
            }
            factors.set::<S, true>(s, i, &scaled, s.reduce_max(max_abs));
        }
        let codes = &codes[..written.div_ceil(4) * 4 * stride];
        if unroll_factor::<S, N>() > 1 {
            for at in (0..stride).step_by(2 * S::LANES) {
                value_strip::<S, N, 2>(s, &factors, codes, stride, at, prefetch_ahead, sums);
            }
        } else {
            for at in (0..stride).step_by(S::LANES) {
                value_strip::<S, N, 1>(s, &factors, codes, stride, at, prefetch_ahead, sums);
            }
        }
    }
}

/// Scores of `U` registers of positions, from `at` on.
#[inline(always)]
fn score_strip<S: Simd, const N: usize, const U: usize>(
    s: S,
    queries: &Queries<N>,
    codes: &[u8],
    scales: &[u8],
    at: usize,
    prefetch_ahead: usize,
    scores: &mut [[f32; BLOCK_TOKENS]; N],
) {
    let Queries { factors, start } = queries;
    let mut sums = [[s.splat(0.0); U]; N];
    let groups = codes.chunks(GROUP * BLOCK_TOKENS).zip(scales.chunks_exact(2 * BLOCK_TOKENS));
    for (g, (rows, scales)) in groups.enumerate() {
        let mut dots = [[s.splat_i(0); U]; N];
        for i in 0..N {
            dots[i] = [s.splat_i(start[i][g]); U];
        }
        let (width, from) = (4 * BLOCK_TOKENS, g * GROUP);
        add_products::<S, N, U, MAX_HEAD_DIM, true>(
            s,
            factors,
            from,
            rows,
            width,
            at,
            prefetch_ahead,
            &mut dots,
        );
        tune::prefetch(s, &scales[2 * at..], prefetch_ahead);
        for u in 0..U {
            let scale = s.load_f16_bytes(&scales[2 * (at + u * S::LANES)..]);
            for i in 0..N {
                sums[i][u] = s.fma(s.to_f(dots[i][u]), scale, sums[i][u]);
            }
        }
    }
    for i in 0..N {
        for u in 0..U {
            s.store(s.mul(sums[i][u], s.splat(factors.scale[i])), &mut scores[i][at + u * S::LANES..]);
        }
    }
}

/// Adds weighted values to `U` registers of columns, from `at` on.
#[inline(always)]
fn value_strip<S: Simd, const N: usize, const U: usize>(
    s: S,
    factors: &SplitFactors<N, BLOCK_TOKENS>,
    codes: &[u8],
    stride: usize,
    at: usize,
    prefetch_ahead: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    let mut dots = [[s.splat_i(0); U]; N];
    add_products::<S, N, U, BLOCK_TOKENS, false>(
        s,
        factors,
        0,
        codes,
        4 * stride,
        at,
        prefetch_ahead,
        &mut dots,
    );
    for i in 0..N {
        let scale = s.splat(factors.scale[i]);
        for u in 0..U {
            let sum = &mut sums[i][at + u * S::LANES..];
            s.store(s.fma(s.to_f(dots[i][u]), scale, s.load(sum)), sum);
        }
    }
}

/// `dots[i][u] += Σ_t rows[t][4 (at + u LANES)..] · codes[i][from + 4 t..]` over rows of `width` bytes, four at a time
/// in each lane; the products of the coarse plane count 128 times. `KEYS` are codes plus 128 and their factors are
/// signed; values are signed and their factors are not negative.
#[inline(always)]
fn add_products<S: Simd, const N: usize, const U: usize, const X: usize, const KEYS: bool>(
    s: S,
    factors: &SplitFactors<N, X>,
    from: usize,
    rows: &[u8],
    width: usize,
    at: usize,
    prefetch_ahead: usize,
    dots: &mut [[S::I; U]; N],
) {
    let [first, second] = &factors.halves;
    add_dots::<S, N, U, X, KEYS, false>(s, first, from, rows, width, at, prefetch_ahead, dots);
    if !const { maddubs_i16::<S>() } {
        for i in 0..N {
            for u in 0..U {
                dots[i][u] = s.shl::<7>(dots[i][u]);
            }
        }
    }
    add_dots::<S, N, U, X, KEYS, true>(s, second, from, rows, width, at, prefetch_ahead, dots);
}

/// One of the two passes of [`add_products`]: the innermost loop of attention over 8 bits. The register tile is `N` ×
/// `U`.
#[inline(always)]
fn add_dots<
    S: Simd,
    const N: usize,
    const U: usize,
    const X: usize,
    const KEYS: bool,
    const SECOND_PASS: bool,
>(
    s: S,
    factors: &[[i8; X]; N],
    from: usize,
    rows: &[u8],
    width: usize,
    at: usize,
    prefetch_ahead: usize,
    dots: &mut [[S::I; U]; N],
) {
    // Sliced here, so that the loop has no bounds checks.
    let count = rows.len() / width;
    let mut quads: [&[[i8; 4]]; N] = [&[]; N];
    for i in 0..N {
        quads[i] = &factors[i][from..].as_chunks().0[..count];
    }
    let bytes = const { 4 * U * S::LANES };
    let prefetch_span = &prefetch_span(rows, 4 * at, width)[..count * bytes];
    for (t, row) in (0..count).zip(rows.chunks_exact(width)) {
        let row = &row[4 * at..][..bytes];
        if const { !SECOND_PASS && unroll_factor::<S, N>() > 1 } {
            for line in (0..bytes).step_by(64) {
                tune::prefetch(s, prefetch_span, prefetch_ahead.wrapping_add(t * bytes + line));
            }
        }
        let mut stored = [s.splat_i(0); U];
        for u in 0..U {
            stored[u] = s.load_bytes(&row[4 * u * S::LANES..]);
            if const { maddubs_i16::<S>() } {
                stored[u] = match KEYS {
                    true => s.widen_bytes::<SECOND_PASS, false>(stored[u]),
                    false => s.widen_bytes::<SECOND_PASS, true>(stored[u]),
                };
            }
        }
        for i in 0..N {
            let factor = s.splat4(&quads[i][t]);
            for u in 0..U {
                dots[i][u] = match KEYS {
                    _ if const { maddubs_i16::<S>() } => s.dot_i16(dots[i][u], stored[u], factor),
                    true => s.dot_u8(dots[i][u], stored[u], factor),
                    false => s.dot(dots[i][u], factor, stored[u]),
                };
            }
        }
    }
}
