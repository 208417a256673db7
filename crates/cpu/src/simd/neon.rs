//! NEON (aarch64): four lanes. The dot product of bytes is one instruction where the CPU has `dotprod` or `i8mm`, and is
//! built from widening multiplies, which every aarch64 CPU has, where it has neither. All three give the same bits: the
//! sums are of integers.
//!
//! The instructions of both extensions are written as assembly, because their intrinsics are not stable yet; so are the
//! conversions of half-precision floats, whose intrinsics need a type that is not.

use std::arch::aarch64::*;
use std::arch::asm;

use super::traits::{Job, Simd};
use crate::Tier;

/// Calls intrinsics, for whose instructions the token vouches.
macro_rules! isa {
    ($($e:tt)*) => {
        // SAFETY: `self` is only made by `new`, after these instructions were detected; memory is only
        // touched through slices whose length was checked.
        unsafe { $($e)* }
    };
}

/// Proof that this CPU has NEON, and `dotprod` (`asimddp`) when `DOTPROD`, and `i8mm` when `I8MM`, which requires
/// `DOTPROD`. Of `i8mm`, `usdot` is used and `smmla` is not: docs/lab/neon.md, decision 15.
#[derive(Clone, Copy, Debug)]
pub struct Neon<const DOTPROD: bool, const I8MM: bool>(());

impl<const DOTPROD: bool, const I8MM: bool> Neon<DOTPROD, I8MM> {
    /// The token, if this CPU has the instructions.
    pub fn new() -> Option<Self> {
        const { assert!(DOTPROD || !I8MM, "i8mm is used together with dotprod") };
        let has = std::arch::is_aarch64_feature_detected!("neon")
            && (!DOTPROD || std::arch::is_aarch64_feature_detected!("dotprod"))
            && (!I8MM || std::arch::is_aarch64_feature_detected!("i8mm"));
        has.then_some(Self(()))
    }
}

impl<const DOTPROD: bool, const I8MM: bool> Neon<DOTPROD, I8MM> {
    /// The product with quad `QUAD` of `x` by the instruction for that. Only to be called where `DOTPROD`.
    #[inline(always)]
    fn quad<const QUAD: usize, const BITS: u32>(
        self,
        acc: uint8x16_t,
        w: uint8x16_t,
        x: uint8x16_t,
    ) -> uint8x16_t {
        match (BITS == 8, I8MM) {
            (true, true) => isa!(usdot_quad::<QUAD>(acc, w, x)),
            (true, false) => isa!(sdot_quad::<QUAD>(acc, veorq_u8(w, vdupq_n_u8(128)), x)),
            (false, _) => isa!(sdot_quad::<QUAD>(acc, w, x)),
        }
    }
}

/// Functions that are compiled in the codegen unit of a type.
///
/// # Safety
/// Of each function: the CPU has the instructions, as the token says.
trait InUnit {
    #[target_feature(enable = "neon")]
    #[inline(never)]
    unsafe fn plain<J: Job>(s: Neon<false, false>, job: J) -> J::Out {
        job.run(s)
    }

    #[target_feature(enable = "neon,dotprod")]
    #[inline(never)]
    unsafe fn with_dotprod<J: Job>(s: Neon<true, false>, job: J) -> J::Out {
        job.run(s)
    }

    #[target_feature(enable = "neon,dotprod,i8mm")]
    #[inline(never)]
    unsafe fn with_i8mm<J: Job>(s: Neon<true, true>, job: J) -> J::Out {
        job.run(s)
    }
}

impl<U> InUnit for U {}

/// A function of the dot product `$name` with `$features` on, in its forms for all lanes alike and for one quad of `x`.
macro_rules! dot_products {
    ($name:ident, $by_quad:ident, $mnemonic:literal, $features:literal) => {
        /// In each lane `acc + Σ w[j] * x[j]` over its four bytes.
        #[inline]
        #[target_feature(enable = $features)]
        fn $name(acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
            let mut sum = acc;
            // SAFETY: only the named registers are read and written, by an instruction that the function's features have.
            unsafe {
                asm!(concat!($mnemonic, " {a:v}.4s, {w:v}.16b, {x:v}.16b"), a = inout(vreg) sum, w = in(vreg) w,
                    x = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
            }
            sum
        }

        /// In each lane `acc + Σ w[j] * x[4 * QUAD + j]` over its four bytes.
        #[inline]
        #[target_feature(enable = $features)]
        fn $by_quad<const QUAD: usize>(acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
            const { assert!(QUAD < 4, "four quads in a register") };
            let mut sum = acc;
            // SAFETY: only the named registers are read and written, by an instruction that the function's features have.
            unsafe {
                asm!(concat!($mnemonic, " {a:v}.4s, {w:v}.16b, {x:v}.4b[{q}]"), a = inout(vreg) sum,
                    w = in(vreg) w, x = in(vreg) x, q = const QUAD,
                    options(pure, nomem, nostack, preserves_flags));
            }
            sum
        }
    };
}

dot_products!(sdot, sdot_quad, "sdot", "neon,dotprod");
// The first factor unsigned, the second signed.
dot_products!(usdot, usdot_quad, "usdot", "neon,i8mm");

const N: usize = 4;

impl<const DOTPROD: bool, const I8MM: bool> Simd for Neon<DOTPROD, I8MM> {
    const TIER: Tier = Tier::Neon;
    const LANES: usize = N;
    const BF16_DOT: bool = false;
    const U8_ZERO_POINT: i32 = if I8MM { 0 } else { 128 };
    const INT8: &'static str = match (DOTPROD, I8MM) {
        (_, true) => "sdot and usdot, 128 bits",
        (true, false) => "sdot, 128 bits",
        (false, false) => "widening multiplies, 128 bits",
    };
    type F = float32x4_t;
    type I = uint8x16_t;

    #[inline(always)]
    fn call_in_unit<U, J: Job>(self, job: J) -> J::Out {
        isa!(match (DOTPROD, I8MM) {
            (_, true) => <U as InUnit>::with_i8mm(Neon(()), job),
            (true, false) => <U as InUnit>::with_dotprod(Neon(()), job),
            (false, false) => <U as InUnit>::plain(Neon(()), job),
        })
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
    fn reduce_sum(self, a: float32x4_t) -> f32 {
        isa!(vaddvq_f32(a))
    }
    #[inline(always)]
    fn reduce_max(self, a: float32x4_t) -> f32 {
        isa!(vmaxnmvq_f32(a))
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16]) -> float32x4_t {
        widen(isa!(vld1_u16(x[..N].as_ptr())))
    }
    #[inline(always)]
    fn store_f16(self, x: float32x4_t, out: &mut [u16]) {
        isa!(vst1_u16(out[..N].as_mut_ptr(), narrow(x)))
    }
    #[inline(always)]
    fn load_f16_bytes(self, x: &[u8]) -> float32x4_t {
        widen(isa!(vreinterpret_u16_u8(vld1_u8(x[..2 * N].as_ptr()))))
    }
    #[inline(always)]
    fn load_f32_bytes(self, x: &[u8]) -> float32x4_t {
        isa!(vreinterpretq_f32_u8(vld1q_u8(x[..4 * N].as_ptr())))
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8]) -> float32x4_t {
        let four = u32::from_le_bytes([x[0], x[1], x[2], x[3]]);
        isa!(vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(u64::from(four)))))))
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8]) -> float32x4_t {
        let four = u32::from_le_bytes([x[0], x[1], x[2], x[3]]);
        isa!(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(u64::from(four)))))))
    }
    #[inline(always)]
    fn store_i8(self, x: float32x4_t, out: &mut [i8]) {
        let four = isa!({
            let narrow = vqmovn_s32(vcvtnq_s32_f32(x));
            vget_lane_u32::<0>(vreinterpret_u32_s8(vqmovn_s16(vcombine_s16(narrow, narrow))))
        });
        out[..N].copy_from_slice(&four.to_le_bytes().map(u8::cast_signed));
    }
    #[inline(always)]
    fn load_bytes(self, x: &[u8]) -> uint8x16_t {
        isa!(vld1q_u8(x[..4 * N].as_ptr()))
    }
    #[inline(always)]
    fn store_bytes(self, x: uint8x16_t, out: &mut [u8]) {
        isa!(vst1q_u8(out[..4 * N].as_mut_ptr(), x))
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
    fn bits(self, a: float32x4_t) -> uint8x16_t {
        isa!(vreinterpretq_u8_f32(a))
    }
    #[inline(always)]
    fn dot(self, acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        if DOTPROD { isa!(sdot(acc, w, x)) } else { isa!(widening(acc, w, x)) }
    }
    #[inline(always)]
    fn dot_u8(self, acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        if I8MM { isa!(usdot(acc, w, x)) } else { self.dot(acc, isa!(veorq_u8(w, vdupq_n_u8(128))), x) }
    }
    /// By the quad's number in a register of activations: two loads where the broadcasts of the default take eight.
    #[inline(always)]
    fn dot_quads<const QUADS: usize, const BITS: u32>(
        self,
        mut acc: uint8x16_t,
        w: &[uint8x16_t; 8],
        x: &[i8; 32],
        from: usize,
    ) -> uint8x16_t {
        const { assert!(QUADS == 4 || QUADS == 8) };
        if !DOTPROD {
            return self.dot_quad_by_quad::<QUADS, BITS>(acc, w, x, from);
        }
        for four in (from..from + QUADS).step_by(4) {
            let x = isa!(vreinterpretq_u8_s8(vld1q_s8(x[4 * four..][..16].as_ptr())));
            let w = [w[four], w[four + 1], w[four + 2], w[four + 3]];
            acc = self.quad::<0, BITS>(acc, w[0], x);
            acc = self.quad::<1, BITS>(acc, w[1], x);
            acc = self.quad::<2, BITS>(acc, w[2], x);
            acc = self.quad::<3, BITS>(acc, w[3], x);
        }
        acc
    }
    #[inline(always)]
    fn bf16_dot(self, acc: float32x4_t, w: uint8x16_t, x: uint8x16_t) -> float32x4_t {
        let high = self.splat_i(0xffff_0000_u32.cast_signed());
        let acc = self.fma(self.cast_f(self.shl::<16>(w)), self.cast_f(self.shl::<16>(x)), acc);
        self.fma(self.cast_f(self.and(w, high)), self.cast_f(self.and(x, high)), acc)
    }
}

/// The dot product without an instruction for it. Two products fit in sixteen bits: at most 2 · 128 · 127.
#[inline]
#[target_feature(enable = "neon")]
fn widening(acc: uint8x16_t, w: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
    let (w, x) = (vreinterpretq_s8_u8(w), vreinterpretq_s8_u8(x));
    let (low, high) = (vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x));
    let pairs: int16x8_t;
    // SAFETY: only the named registers are read and written, by an instruction of the base architecture. As an intrinsic it
    // is taken apart into two shuffles and an addition.
    unsafe {
        asm!("addp {o:v}.8h, {l:v}.8h, {h:v}.8h", o = out(vreg) pairs, l = in(vreg) low, h = in(vreg) high,
            options(pure, nomem, nostack, preserves_flags));
    }
    vreinterpretq_u8_s32(vpadalq_s16(vreinterpretq_s32_u8(acc), pairs))
}

/// Half-precision floats as floats.
#[inline(always)]
fn widen(halves: uint16x4_t) -> float32x4_t {
    let floats: float32x4_t;
    // SAFETY: only the named registers are read and written, by an instruction of the base architecture.
    unsafe {
        asm!("fcvtl {o:v}.4s, {i:v}.4h", o = out(vreg) floats, i = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags));
    }
    floats
}

/// Floats as half-precision ones, rounded to nearest even.
#[inline(always)]
fn narrow(floats: float32x4_t) -> uint16x4_t {
    let halves: uint16x4_t;
    // SAFETY: only the named registers are read and written, by an instruction of the base architecture.
    unsafe {
        asm!("fcvtn {o:v}.4h, {i:v}.4s", o = out(vreg) halves, i = in(vreg) floats,
            options(pure, nomem, nostack, preserves_flags));
    }
    halves
}
