//! Layouts of the scales of a block in a panel.
//!
//! A *head* is stored once a block, *sub-block scales* once 32 weights. `get` returns scale and bias for each half of
//! the sub-block; with one scale for all 32, both halves are the same register. A bias is the minimum, negated.

use super::raw::RawBlock;
use cpu::simd::Simd;
use tensor::format::{mxfp4, nvfp4};

/// A scale layout.
pub(crate) trait Scales: 'static {
    /// Bytes of the head for each row.
    const HEAD_BYTES: usize;
    /// Bytes of the sub-block scales for each row.
    const SUB_BYTES: usize;
    /// Scales in a sub-block: 1 or 2.
    const GROUPS: usize;
    /// Whether there is a bias.
    const BIAS: bool;
    /// Writes the head of `lane`.
    fn put_head(raw: &RawBlock, lane: usize, lanes: usize, head: &mut [u8]);
    /// Writes the scales of sub-block `i` of `lane`.
    fn put_sub_scales(_raw: &RawBlock, _i: usize, _lane: usize, _lanes: usize, _sub_scales: &mut [u8]) {}
    /// The scale that a byte means, where scales are bytes.
    const SCALE_OF_BYTE: Option<fn(u8) -> f32> = None;
    /// Whether scales are signed bytes, one for 16 weights, without a bias.
    const INT8_SUB_SCALES: bool = false;
    /// Reads the head: the factors of scales, and of biases where there are any, for all lanes.
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2];
    /// The scales of both halves as `i16`, twice in each lane, where [`Scales::INT8_SUB_SCALES`]; the head's factor is
    /// applied later.
    fn sub_scales_i16<S: Simd>(s: S, _sub_scales: &[u8]) -> [S::I; 2] {
        [s.splat_i(0); 2]
    }
    /// Scale and bias of each half, for all lanes.
    fn get<S: Simd>(s: S, head: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]);
}

fn put16(v: u16, lane: usize, out: &mut [u8]) {
    out[2 * lane..2 * lane + 2].copy_from_slice(&v.to_le_bytes());
}

/// The scale, and the minimum negated.
fn put_pair(raw: &RawBlock, lane: usize, lanes: usize, head: &mut [u8]) {
    let (d, m) = head.split_at_mut(2 * lanes);
    put16(raw.d, lane, d);
    put16(raw.dmin ^ 0x8000, lane, m);
}

#[inline(always)]
fn factor<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
    [s.load_f16_bytes(head), s.splat(0.0)]
}

#[inline(always)]
fn factors<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
    [s.load_f16_bytes(head), s.load_f16_bytes(&head[2 * S::LANES..])]
}

/// A half-precision scale for 32 weights.
pub(crate) struct F16Scale;

impl Scales for F16Scale {
    const HEAD_BYTES: usize = 2;
    const SUB_BYTES: usize = 0;
    const GROUPS: usize = 1;
    const BIAS: bool = false;
    fn put_head(raw: &RawBlock, lane: usize, _: usize, head: &mut [u8]) {
        put16(raw.d, lane, head);
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factor(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, _]: [S::F; 2], _: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        ([d; 2], [s.splat(0.0); 2])
    }
}

/// A half-precision scale and bias (the minimum, negated) for 32 weights.
pub(crate) struct F16ScaleBias;

impl Scales for F16ScaleBias {
    const HEAD_BYTES: usize = 4;
    const SUB_BYTES: usize = 0;
    const GROUPS: usize = 1;
    const BIAS: bool = true;
    fn put_head(raw: &RawBlock, lane: usize, lanes: usize, head: &mut [u8]) {
        put_pair(raw, lane, lanes, head);
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factors(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(_: S, [d, m]: [S::F; 2], _: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        ([d; 2], [m; 2])
    }
}

/// A power of two for 32 weights: 2^(byte − 128), as MXFP4's E8M0 with doubled values.
pub(crate) struct Exponent;

impl Scales for Exponent {
    const SCALE_OF_BYTE: Option<fn(u8) -> f32> = Some(mxfp4::half_power);
    const HEAD_BYTES: usize = 1;
    const SUB_BYTES: usize = 0;
    const GROUPS: usize = 1;
    const BIAS: bool = false;
    fn put_head(raw: &RawBlock, lane: usize, _: usize, head: &mut [u8]) {
        head[lane] = raw.scale_bytes[0];
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        // The two smallest of 256 exponents are denormal; they round up to the least normal number, 1.2e-38.
        let n = s.max(s.sub(s.load_u8(head), s.splat(128.0)), s.splat(-126.0));
        [s.pow2(n), s.splat(0.0)]
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, _]: [S::F; 2], _: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        ([d; 2], [s.splat(0.0); 2])
    }
}

/// Half-precision factors of scale and bias for 256 weights, each times a byte for 32 weights. The bias factor is
/// stored negated, so that bias = factor · byte.
pub(crate) struct SuperScaleBias32;

impl Scales for SuperScaleBias32 {
    const HEAD_BYTES: usize = 4;
    const SUB_BYTES: usize = 2;
    const GROUPS: usize = 1;
    const BIAS: bool = true;
    fn put_head(raw: &RawBlock, lane: usize, lanes: usize, head: &mut [u8]) {
        put_pair(raw, lane, lanes, head);
    }
    fn put_sub_scales(raw: &RawBlock, i: usize, lane: usize, lanes: usize, sub_scales: &mut [u8]) {
        sub_scales[lane] = raw.sub_scales[i].cast_unsigned();
        sub_scales[lanes + lane] = raw.sub_minima[i];
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factors(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, m]: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        let scale = s.mul(d, s.load_u8(sub_scales));
        let bias = s.mul(m, s.load_u8(&sub_scales[S::LANES..]));
        ([scale; 2], [bias; 2])
    }
}

/// As [`SuperScaleBias32`], with a byte for 16 weights whose low nibble is the scale and whose high nibble the bias.
pub(crate) struct SuperScaleBias16;

impl Scales for SuperScaleBias16 {
    const HEAD_BYTES: usize = 4;
    const SUB_BYTES: usize = 2;
    const GROUPS: usize = 2;
    const BIAS: bool = true;
    fn put_head(raw: &RawBlock, lane: usize, lanes: usize, head: &mut [u8]) {
        put_pair(raw, lane, lanes, head);
    }
    fn put_sub_scales(raw: &RawBlock, i: usize, lane: usize, lanes: usize, sub_scales: &mut [u8]) {
        for half in 0..2 {
            sub_scales[half * lanes + lane] =
                raw.sub_scales[2 * i + half].cast_unsigned() | (raw.sub_minima[2 * i + half] << 4);
        }
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factors(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, m]: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        let (mut scale, mut bias) = ([d; 2], [m; 2]);
        for half in 0..2 {
            let both = s.load_u8(&sub_scales[half * S::LANES..]);
            // The high nibble: x/16 rounded down, as x/16 − 15/32 rounded to nearest.
            let high = s.round(s.fma(both, s.splat(0.0625), s.splat(-0.46875)));
            scale[half] = s.mul(d, s.fma(high, s.splat(-16.0), both));
            bias[half] = s.mul(m, high);
        }
        (scale, bias)
    }
}

/// A half-precision factor for 256 weights times a signed byte for 32.
pub(crate) struct SuperScale32;

impl Scales for SuperScale32 {
    const HEAD_BYTES: usize = 2;
    const SUB_BYTES: usize = 1;
    const GROUPS: usize = 1;
    const BIAS: bool = false;
    fn put_head(raw: &RawBlock, lane: usize, _: usize, head: &mut [u8]) {
        put16(raw.d, lane, head);
    }
    fn put_sub_scales(raw: &RawBlock, i: usize, lane: usize, _: usize, sub_scales: &mut [u8]) {
        sub_scales[lane] = raw.sub_scales[i].cast_unsigned();
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factor(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, _]: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        ([s.mul(d, s.load_i8(sub_scales)); 2], [s.splat(0.0); 2])
    }
}

/// A half-precision factor for 256 weights times a signed byte for 16.
pub(crate) struct SuperScale16;

impl Scales for SuperScale16 {
    const HEAD_BYTES: usize = 2;
    const SUB_BYTES: usize = 2;
    const GROUPS: usize = 2;
    const BIAS: bool = false;
    fn put_head(raw: &RawBlock, lane: usize, _: usize, head: &mut [u8]) {
        put16(raw.d, lane, head);
    }
    fn put_sub_scales(raw: &RawBlock, i: usize, lane: usize, lanes: usize, sub_scales: &mut [u8]) {
        for half in 0..2 {
            sub_scales[half * lanes + lane] = raw.sub_scales[2 * i + half].cast_unsigned();
        }
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, head: &[u8]) -> [S::F; 2] {
        factor(s, head)
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [d, _]: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        let scale = [s.mul(d, s.load_i8(sub_scales)), s.mul(d, s.load_i8(&sub_scales[S::LANES..]))];
        (scale, [s.splat(0.0); 2])
    }
    const INT8_SUB_SCALES: bool = true;
    #[inline(always)]
    fn sub_scales_i16<S: Simd>(s: S, sub_scales: &[u8]) -> [S::I; 2] {
        [s.load_i8_dup_i16(sub_scales), s.load_i8_dup_i16(&sub_scales[S::LANES..])]
    }
}

/// A float of eight bits without a sign (E4M3) for 16 weights, halved for values that are doubled, as in NVFP4.
pub(crate) struct E4M3Scale16;

impl Scales for E4M3Scale16 {
    const SCALE_OF_BYTE: Option<fn(u8) -> f32> = Some(nvfp4::half_scale);
    const HEAD_BYTES: usize = 0;
    const SUB_BYTES: usize = 2;
    const GROUPS: usize = 2;
    const BIAS: bool = false;
    fn put_head(_: &RawBlock, _: usize, _: usize, _: &mut [u8]) {}
    fn put_sub_scales(raw: &RawBlock, i: usize, lane: usize, lanes: usize, sub_scales: &mut [u8]) {
        for half in 0..2 {
            let byte = raw.scale_bytes[2 * i + half];
            // Zero for what is no number; without the bit that counts for nothing.
            sub_scales[half * lanes + lane] = if byte == 0x7f { 0 } else { byte & 0x7f };
        }
    }
    #[inline(always)]
    fn head<S: Simd>(s: S, _: &[u8]) -> [S::F; 2] {
        [s.splat(1.0), s.splat(0.0)]
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, [factor, _]: [S::F; 2], sub_scales: &[u8]) -> ([S::F; 2], [S::F; 2]) {
        let scale = [e4m3(s, sub_scales), e4m3(s, &sub_scales[S::LANES..])];
        ([s.mul(scale[0], factor), s.mul(scale[1], factor)], [s.splat(0.0); 2])
    }
}

/// Half of the float that each byte means, an exponent of four bits over a mantissa of three.
#[inline(always)]
fn e4m3<S: Simd>(s: S, bytes: &[u8]) -> S::F {
    let both = s.load_u8(bytes);
    // The exponent: x/8 rounded down, as x/8 − 7/16 rounded to nearest.
    let exponent = s.round(s.fma(both, s.splat(0.125), s.splat(-0.4375)));
    let mantissa = s.fma(exponent, s.splat(-8.0), both);
    // The mantissa has a leading one, which is not stored, unless the exponent is zero; that one counts as one.
    let normal = s.min(exponent, s.splat(1.0));
    let steps = s.fma(normal, s.splat(8.0), mantissa);
    s.mul(steps, s.pow2(s.sub(s.max(exponent, s.splat(1.0)), s.splat(11.0))))
}
