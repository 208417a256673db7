//! Keys and values in eight bits, multiplied as integers.
//!
//! Four numbers that are multiplied together share 32 bits. Keys are `[head_dim / 4, 32 positions, 4]` codes plus 128, then
//! `[head_dim / 32, 32]` scales: a scale for each 32 numbers of a key, as in ggml's Q8_0. Values are `[8, value_dim, 4
//! positions]` signed codes, then 32 scales, one a position: an attention weight takes its value's scale along. Scales are
//! IEEE binary16, little-endian; a row that is not finite has an infinite one, so that what is made of it is not finite either.
//!
//! The other factor, a query or a block's attention weights, is rounded to 15 or 14 bits and multiplied in two passes: as a coarse
//! and a fine part, each of eight bits, or where [`Simd::WORDS`] says so with the codes of even numbers and then of odd ones, widened
//! to words. That is twice the multiplies of one part, and no error beside that of the stored codes. Sums of products are exact
//! integers, so neither their order nor the way could change a result.

use cpu::lanes::{Products, Simd};
use half::f16;

use crate::attention::MAX_HEAD_DIM;
use crate::kv::BLOCK_TOKENS;
use crate::registers;
use crate::stored::{Kept, asked, together};

/// Numbers of a key that share a scale.
const GROUP: usize = 32;
/// Steps of the fine part in one of the coarse part.
const FINE: f32 = 128.0;
/// The largest code in two parts: coarse 127, fine 0.
const MOST: f32 = 127.0 * FINE;
/// Below this a factor is nothing: its inverse would not be a number.
const LEAST: f32 = 1e-30;

/// Bytes of the scales of 32 keys of `key_dim` numbers.
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

/// Rounds numbers to codes from -127 to 127; returns the scale.
#[inline(always)]
fn encode<S: Simd>(s: S, row: &[f32], codes: &mut [i8]) -> f16 {
    let most = largest(row);
    let scale = if most.is_finite() { f16::from_f32(most / 127.0) } else { f16::INFINITY };
    let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
    for at in (0..row.len()).step_by(S::LANES) {
        let v = s.mul(registers::load(s, row, at), s.splat(inverse));
        // A subnormal scale may be rounded down by far.
        s.store_i8(s.max(s.min(v, s.splat(127.0)), s.splat(-127.0)), &mut codes[at..]);
    }
    scale
}

/// The largest magnitude. That of NaN is NaN: as bits, magnitudes are ordered, infinity above numbers and NaN above both.
#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    f32::from_bits(row.iter().fold(0, |most, v| most.max(v.abs().to_bits())))
}

/// Factors, `code · scale`, of which each pass multiplies one of two halves: `code = 128 · coarse + fine`, or words of the even
/// numbers and of the odd ones.
pub(crate) struct Parts<const N: usize, const X: usize> {
    halves: [[[i8; X]; N]; 2],
    scale: [f32; N],
}

impl<const N: usize, const X: usize> Parts<N, X> {
    const ZERO: Parts<N, X> = Parts { halves: [[[0; X]; N]; 2], scale: [0.0; N] };

    /// Sets row `i`, whose largest magnitude is `most`. Fine parts are from -64 to 64, or with `UNSIGNED` and factors that
    /// are not negative from 0 to 127.
    #[inline(always)]
    fn set<S: Simd, const UNSIGNED: bool>(&mut self, s: S, i: usize, row: &[f32], most: f32) {
        self.scale[i] = if most < LEAST { 0.0 } else { most / MOST };
        let inverse = if most < LEAST || !most.is_finite() { 0.0 } else { MOST / most };
        let [first, second] = &mut self.halves;
        let (first, second) = (&mut first[i], &mut second[i]);
        // A whole code over 128, less 127/256, rounds to nearest as it would be rounded down.
        let down = s.splat(if UNSIGNED { -127.0 / 256.0 } else { 0.0 });
        for at in (0..row.len()).step_by(S::LANES) {
            let scaled = s.mul(registers::load(s, row, at), s.splat(inverse));
            if S::WORDS {
                s.store_words(scaled, &mut first[at..], &mut second[at..]);
                continue;
            }
            let code = s.round(scaled);
            let coarse = s.round(s.fma(code, s.splat(1.0 / FINE), down));
            s.store_i8(coarse, &mut first[at..]);
            s.store_i8(s.fma(coarse, s.splat(-FINE), code), &mut second[at..]);
        }
    }

    /// The sum of the codes of row `i` in each of its first `groups` groups.
    #[inline(always)]
    fn sums<S: Simd>(&self, i: usize, groups: usize) -> [i32; MAX_HEAD_DIM / GROUP] {
        let mut sums = [0; MAX_HEAD_DIM / GROUP];
        let [first, second] = self.halves.each_ref().map(|half| half[i].as_chunks::<GROUP>().0);
        // Loops over groups of a known length, of which the compiler takes registers at a time.
        for (sum, (first, second)) in sums[..groups].iter_mut().zip(first.iter().zip(second)) {
            if S::WORDS {
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

/// Queries as factors, and what to subtract from their products with keys.
pub(crate) struct Queries<const N: usize> {
    parts: Parts<N, MAX_HEAD_DIM>,
    /// By group: keys are codes plus 128, of which the tier's product of bytes takes off [`Simd::WIDE_ZERO`].
    start: [[i32; MAX_HEAD_DIM / GROUP]; N],
}

/// Keys and values in eight bits.
pub(crate) struct Eight;

impl Kept for Eight {
    const PRODUCTS: Products = Products::Bytes;
    type With = ();
    const EVERY_TILE: bool = false;
    type Queries<const N: usize> = Queries<N>;

    fn begin((): (), _: usize) -> Eight {
        Eight
    }

    fn room<const N: usize>() -> Queries<N> {
        Queries { parts: Parts::ZERO, start: [[0; MAX_HEAD_DIM / GROUP]; N] }
    }

    #[inline(always)]
    fn queries<S: Simd, const N: usize>(&self, s: S, q: [&[f32]; N], ready: &mut Queries<N>) {
        let Queries { parts, start } = ready;
        for i in 0..N {
            parts.set::<S, false>(s, i, q[i], largest(q[i]));
            for (start, codes) in start[i].iter_mut().zip(parts.sums::<S>(i, q[i].len().div_ceil(GROUP))) {
                // The first products in parts count 128 times, this with them.
                *start = if S::WORDS { -codes * 128 } else { -codes * (128 - S::WIDE_ZERO) / 128 };
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
        ahead: usize,
        scores: &mut [[f32; BLOCK_TOKENS]; N],
    ) {
        let (codes, scales) = keys.split_at(BLOCK_TOKENS * dim.next_multiple_of(4));
        if together::<S, N>() > 1 {
            for at in (0..BLOCK_TOKENS).step_by(2 * S::LANES) {
                score_strip::<S, N, 2>(s, queries, codes, scales, at, ahead, scores);
            }
        } else {
            for at in (0..BLOCK_TOKENS).step_by(S::LANES) {
                score_strip::<S, N, 1>(s, queries, codes, scales, at, ahead, scores);
            }
        }
    }

    #[inline(always)]
    fn add_values<S: Simd, const N: usize>(
        &self,
        s: S,
        weights: &[[f32; BLOCK_TOKENS]; N],
        values: &[u8],
        wide: usize,
        written: usize,
        ahead: usize,
        sums: &mut [[f32; MAX_HEAD_DIM]; N],
    ) {
        let (codes, scales) = values.split_at(BLOCK_TOKENS * wide);
        // What nobody wrote yet has any scale, and weights of zero.
        s.prefetch(scales, ahead);
        let mut scale = [0.0; BLOCK_TOKENS];
        for (at, scale) in scale.chunks_exact_mut(S::LANES).enumerate() {
            s.store(s.load_f16_bytes(&scales[2 * at * S::LANES..]), scale);
        }
        scale[written..].fill(0.0);
        let mut parts = Parts::<N, BLOCK_TOKENS>::ZERO;
        for i in 0..N {
            let (mut scaled, mut most) = ([0.0; BLOCK_TOKENS], s.splat(0.0));
            for at in (0..BLOCK_TOKENS).step_by(S::LANES) {
                let v = s.mul(s.load(&weights[i][at..]), s.load(&scale[at..]));
                most = s.max(v, most);
                s.store(v, &mut scaled[at..]);
            }
            parts.set::<S, true>(s, i, &scaled, s.max_lane(most));
        }
        let codes = &codes[..written.div_ceil(4) * 4 * wide];
        if together::<S, N>() > 1 {
            for at in (0..wide).step_by(2 * S::LANES) {
                value_strip::<S, N, 2>(s, &parts, codes, wide, at, ahead, sums);
            }
        } else {
            for at in (0..wide).step_by(S::LANES) {
                value_strip::<S, N, 1>(s, &parts, codes, wide, at, ahead, sums);
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
    ahead: usize,
    scores: &mut [[f32; BLOCK_TOKENS]; N],
) {
    let Queries { parts, start } = queries;
    let mut sums = [[s.splat(0.0); U]; N];
    let groups = codes.chunks(GROUP * BLOCK_TOKENS).zip(scales.chunks_exact(2 * BLOCK_TOKENS));
    for (g, (rows, scales)) in groups.enumerate() {
        let mut dots = [[s.splat_i(0); U]; N];
        for i in 0..N {
            dots[i] = [s.splat_i(start[i][g]); U];
        }
        let (width, from) = (4 * BLOCK_TOKENS, g * GROUP);
        add_products::<S, N, U, MAX_HEAD_DIM, true>(s, parts, from, rows, width, at, ahead, &mut dots);
        s.prefetch(&scales[2 * at..], ahead);
        for u in 0..U {
            let scale = s.load_f16_bytes(&scales[2 * (at + u * S::LANES)..]);
            for i in 0..N {
                sums[i][u] = s.fma(s.to_f(dots[i][u]), scale, sums[i][u]);
            }
        }
    }
    for i in 0..N {
        for u in 0..U {
            s.store(s.mul(sums[i][u], s.splat(parts.scale[i])), &mut scores[i][at + u * S::LANES..]);
        }
    }
}

/// Adds weighted values to `U` registers of columns, from `at` on.
#[inline(always)]
fn value_strip<S: Simd, const N: usize, const U: usize>(
    s: S,
    parts: &Parts<N, BLOCK_TOKENS>,
    codes: &[u8],
    wide: usize,
    at: usize,
    ahead: usize,
    sums: &mut [[f32; MAX_HEAD_DIM]; N],
) {
    let mut dots = [[s.splat_i(0); U]; N];
    add_products::<S, N, U, BLOCK_TOKENS, false>(s, parts, 0, codes, 4 * wide, at, ahead, &mut dots);
    for i in 0..N {
        let scale = s.splat(parts.scale[i]);
        for u in 0..U {
            let sum = &mut sums[i][at + u * S::LANES..];
            s.store(s.fma(s.to_f(dots[i][u]), scale, s.load(sum)), sum);
        }
    }
}

/// `dots[i][u] += Σ_t rows[t][4 (at + u LANES)..] · codes[i][from + 4 t..]` over rows of `width` bytes, four at a time in each lane, with
/// `dots` of the products in parts counted 128 times. `KEYS` are codes plus 128 and the factors signed; values are signed and the
/// factors are not.
#[inline(always)]
fn add_products<S: Simd, const N: usize, const U: usize, const X: usize, const KEYS: bool>(
    s: S,
    parts: &Parts<N, X>,
    from: usize,
    rows: &[u8],
    width: usize,
    at: usize,
    ahead: usize,
    dots: &mut [[S::I; U]; N],
) {
    let [first, second] = &parts.halves;
    add_dots::<S, N, U, X, KEYS, false>(s, first, from, rows, width, at, ahead, dots);
    if !S::WORDS {
        for i in 0..N {
            for u in 0..U {
                dots[i][u] = s.shl::<7>(dots[i][u]);
            }
        }
    }
    add_dots::<S, N, U, X, KEYS, true>(s, second, from, rows, width, at, ahead, dots);
}

/// One of the two passes of [`add_products`].
#[inline(always)]
fn add_dots<S: Simd, const N: usize, const U: usize, const X: usize, const KEYS: bool, const SECOND: bool>(
    s: S,
    factors: &[[i8; X]; N],
    from: usize,
    rows: &[u8],
    width: usize,
    at: usize,
    ahead: usize,
    dots: &mut [[S::I; U]; N],
) {
    // Cut where it can be seen: else each factor's bounds are checked for each row.
    let count = rows.len() / width;
    let mut quads: [&[[i8; 4]]; N] = [&[]; N];
    for i in 0..N {
        quads[i] = &factors[i][from..].as_chunks().0[..count];
    }
    let bytes = const { 4 * U * S::LANES };
    let asked = &asked(rows, 4 * at, width)[..count * bytes];
    for (t, row) in (0..count).zip(rows.chunks_exact(width)) {
        let row = &row[4 * at..][..bytes];
        if const { !SECOND && together::<S, N>() > 1 } {
            for line in (0..bytes).step_by(64) {
                s.prefetch(asked, ahead.wrapping_add(t * bytes + line));
            }
        }
        let mut stored = [s.splat_i(0); U];
        for u in 0..U {
            stored[u] = s.load_bytes(&row[4 * u * S::LANES..]);
            if S::WORDS {
                stored[u] = match KEYS {
                    true => s.words::<SECOND, false>(stored[u]),
                    false => s.words::<SECOND, true>(stored[u]),
                };
            }
        }
        for i in 0..N {
            let factor = s.splat4(&quads[i][t]);
            for u in 0..U {
                dots[i][u] = match KEYS {
                    _ if S::WORDS => s.dot_words(dots[i][u], stored[u], factor),
                    true => s.dot_wide(dots[i][u], stored[u], factor),
                    false => s.dot(dots[i][u], factor, stored[u]),
                };
            }
        }
    }
}
