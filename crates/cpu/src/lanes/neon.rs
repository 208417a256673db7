//! NEON (aarch64): four lanes. The dot product is built from widening multiplies, which every aarch64 CPU has.

use std::arch::aarch64::*;

use half::f16;

use super::{Job, Simd};
use crate::Tier;

/// Proof that this CPU has NEON.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Neon {
    /// The token, if this CPU has the instructions.
    pub fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

#[target_feature(enable = "neon")]
fn with_neon<J: Job>(s: Neon, job: J) -> J::Out {
    job.run(s)
}

/// Calls intrinsics that the token's existence vouches for.
macro_rules! isa {
    ($($e:tt)*) => {
        // SAFETY: `self` is only made by `new`, after the CPU was asked for these instructions; memory is only
        // touched through slices whose length was checked.
        unsafe { $($e)* }
    };
}

const N: usize = 4;

impl Simd for Neon {
    const TIER: Tier = Tier::Neon;
    const LANES: usize = N;
    const TILE: usize = 8;
    const BF16_DOT: bool = false;
    const WIDE_ZERO: i32 = 128;
    type F = float32x4_t;
    type I = uint8x16_t;

    #[inline]
    fn call<J: Job>(self, job: J) -> J::Out {
        isa!(with_neon(self, job))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        isa!(vdupq_n_f32(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> float32x4_t {
        isa!(vld1q_f32(x[..N].as_ptr()))
    }
    #[inline(always)]
    fn store(self, x: float32x4_t, out: &mut [f32]) {
        isa!(vst1q_f32(out[..N].as_mut_ptr(), x))
    }
    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        isa!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vmaxnmq_f32(a, b))
    }
    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        isa!(vminnmq_f32(a, b))
    }
    #[inline(always)]
    fn round(self, a: float32x4_t) -> float32x4_t {
        isa!(vrndnq_f32(a))
    }
    #[inline(always)]
    fn pow2(self, n: float32x4_t) -> float32x4_t {
        isa!(vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)))))
    }
    #[inline(always)]
    fn sum(self, a: float32x4_t) -> f32 {
        isa!(vaddvq_f32(a))
    }
    #[inline(always)]
    fn max_lane(self, a: float32x4_t) -> f32 {
        isa!(vmaxnmvq_f32(a))
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16]) -> float32x4_t {
        let x = &x[..N];
        self.load(&[0, 1, 2, 3].map(|i: usize| f16::from_bits(x[i]).to_f32()))
    }
    #[inline(always)]
    fn store_f16(self, x: float32x4_t, out: &mut [u16]) {
        let mut whole = [0.0; N];
        self.store(x, &mut whole);
        out[..N].iter_mut().zip(whole).for_each(|(o, v)| *o = f16::from_f32(v).to_bits());
    }
    #[inline(always)]
    fn load_f16_bytes(self, x: &[u8]) -> float32x4_t {
        let x = &x[..2 * N];
        self.load(&[0, 1, 2, 3].map(|i: usize| f16::from_le_bytes([x[2 * i], x[2 * i + 1]]).to_f32()))
    }
    #[inline(always)]
    fn load_f32_bytes(self, x: &[u8]) -> float32x4_t {
        isa!(vreinterpretq_f32_u8(vld1q_u8(x[..4 * N].as_ptr())))
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8]) -> float32x4_t {
        let x = &x[..N];
        self.load(&[0, 1, 2, 3].map(|i: usize| f32::from(x[i])))
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8]) -> float32x4_t {
        let x = &x[..N];
        self.load(&[0, 1, 2, 3].map(|i: usize| f32::from(x[i].cast_signed())))
    }
    #[inline(always)]
    fn store_i8(self, x: float32x4_t, out: &mut [i8]) {
        let mut whole = [0i32; N];
        isa!(vst1q_s32(whole.as_mut_ptr(), vcvtnq_s32_f32(x)));
        out[..N].iter_mut().zip(whole).for_each(|(o, v)| *o = v.clamp(-128, 127) as i8);
    }
    #[inline(always)]
    fn load_bytes(self, x: &[u8]) -> uint8x16_t {
        isa!(vld1q_u8(x[..4 * N].as_ptr()))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> uint8x16_t {
        isa!(vreinterpretq_u8_s32(vdupq_n_s32(x)))
    }
    #[inline(always)]
    fn splat_b(self, x: u8) -> uint8x16_t {
        isa!(vdupq_n_u8(x))
    }
    #[inline(always)]
    fn splat4(self, x: &[i8]) -> uint8x16_t {
        isa!(vreinterpretq_u8_s32(vdupq_n_s32(x[..4].as_ptr().cast::<i32>().read_unaligned())))
    }
    #[inline(always)]
    fn and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        isa!(vandq_u8(a, b))
    }
    #[inline(always)]
    fn or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        isa!(vorrq_u8(a, b))
    }
    #[inline(always)]
    fn shr<const S: i32>(self, a: uint8x16_t) -> uint8x16_t {
        isa!(vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(-S))))
    }
    #[inline(always)]
    fn shl<const S: i32>(self, a: uint8x16_t) -> uint8x16_t {
        isa!(vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(S))))
    }
    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: uint8x16_t) -> uint8x16_t {
        isa!(vqtbl1q_u8(vld1q_u8(table.as_ptr()), index))
    }
    #[inline(always)]
    fn to_f(self, a: uint8x16_t) -> float32x4_t {
        isa!(vcvtq_f32_s32(vreinterpretq_s32_u8(a)))
    }
    #[inline(always)]
    fn cast_f(self, a: uint8x16_t) -> float32x4_t {
        isa!(vreinterpretq_f32_u8(a))
    }
    #[inline(always)]
    fn dot(self, acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        isa!({
            let (w, x) = (vreinterpretq_s8_u8(w), vreinterpretq_s8_u8(x));
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
            let high = vpaddlq_s16(vmull_high_s8(w, x));
            vreinterpretq_u8_s32(vaddq_s32(vreinterpretq_s32_u8(acc), vpaddq_s32(low, high)))
        })
    }
    #[inline(always)]
    fn dot_wide(self, acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        let signed = isa!(veorq_u8(w, vdupq_n_u8(128)));
        self.dot(acc, signed, x)
    }
    #[inline(always)]
    fn bf16_dot(self, acc: float32x4_t, w: uint8x16_t, x: uint8x16_t) -> float32x4_t {
        let high = self.splat_i(0xffff_0000_u32.cast_signed());
        let acc = self.fma(self.cast_f(self.shl::<16>(w)), self.cast_f(self.shl::<16>(x)), acc);
        self.fma(self.cast_f(self.and(w, high)), self.cast_f(self.and(x, high)), acc)
    }
}
