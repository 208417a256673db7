//! AVX-512 with VNNI (Ice Lake, Zen 4 and later), with or without the bf16 dot product, with or without f16 arithmetic.

use std::arch::asm;
use std::arch::x86_64::*;

use super::traits::{Job, Simd};
use crate::{Tier, Uarch};

/// Proof that this CPU has AVX-512 F, BW, DQ, VL and VNNI, and `avx512bf16` when `BF16`, `avx512fp16` when `FP16`.
/// `ZEN4` needs no instruction: it makes [`Simd::UARCH`] that of Zen 4.
#[derive(Clone, Copy, Debug)]
pub struct Avx512<const BF16: bool, const FP16: bool = false, const ZEN4: bool = false>(());

impl<const BF16: bool, const FP16: bool, const ZEN4: bool> Avx512<BF16, FP16, ZEN4> {
    /// The token, if this CPU has the instructions.
    pub fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && (!BF16 || is_x86_feature_detected!("avx512bf16"))
            && (!FP16 || is_x86_feature_detected!("avx512fp16"));
        has.then_some(Self(()))
    }
}

impl<const BF16: bool> Avx512<BF16> {
    /// The same, compiled for [`Uarch::Zen4`].
    pub(super) fn for_zen4(self) -> Avx512<BF16, false, true> {
        Avx512(())
    }
}

impl Avx512<false, true> {
    /// The same without f16 arithmetic.
    pub(super) fn plain(self) -> Avx512<false> {
        Avx512(())
    }
}

/// Reduces each of sixteen registers with `op`, that of `$x[i]` into lane `i`: two registers at a time.
macro_rules! reduce_each {
    ($op:ident, $x:expr) => {{
        let x: [__m512; 16] = $x;
        let zero = _mm512_setzero_ps();
        let (mut two, mut four, mut eight) = ([zero; 8], [zero; 4], [zero; 2]);
        for i in 0..8 {
            let (a, b) = (x[2 * i], x[2 * i + 1]);
            two[i] = $op(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        }
        for i in 0..4 {
            let (a, b) = (_mm512_castps_pd(two[2 * i]), _mm512_castps_pd(two[2 * i + 1]));
            let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            four[i] = $op(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
        }
        for i in 0..2 {
            let (a, b) = (four[2 * i], four[2 * i + 1]);
            eight[i] = $op(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        }
        let [a, b] = eight;
        let all = $op(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let mut out = [0.0; 16];
        _mm512_storeu_ps(out.as_mut_ptr(), all);
        out
    }};
}

/// See [`Simd::prefetch_barrier`].
#[target_feature(enable = "avx512f")]
#[inline]
fn prefetch_barrier(mut v: __m512i) -> __m512i {
    // SAFETY: no instruction, only a place that memory reads and prefetches are not moved across.
    unsafe { asm!("/* {} */", inout(zmm_reg) v, options(nostack, preserves_flags)) };
    v
}

/// Functions that are compiled in the codegen unit of a type.
///
/// # Safety
/// Of each function: the CPU has the instructions, as the token says.
trait InUnit {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c,bmi2")]
    #[inline(never)]
    unsafe fn with_bf16<J: Job, const ZEN4: bool>(s: Avx512<true, false, ZEN4>, job: J) -> J::Out {
        job.run(s)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2")]
    #[inline(never)]
    unsafe fn without_bf16<J: Job, const ZEN4: bool>(s: Avx512<false, false, ZEN4>, job: J) -> J::Out {
        job.run(s)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512fp16,avx2,fma,f16c,bmi2")]
    #[inline(never)]
    unsafe fn with_fp16<J: Job>(s: Avx512<false, true>, job: J) -> J::Out {
        job.run(s)
    }
}

impl<U> InUnit for U {}

/// Calls intrinsics, for whose instructions the token vouches.
macro_rules! isa {
    ($($e:tt)*) => {
        // SAFETY: `self` is only made by `new`, after these instructions were detected; memory is only
        // touched through slices whose length was checked.
        unsafe { $($e)* }
    };
}

const N: usize = 16;

impl<const BF16: bool, const FP16: bool, const ZEN4: bool> Simd for Avx512<BF16, FP16, ZEN4> {
    const TIER: Tier = Tier::Avx512;
    const LANES: usize = N;
    const UARCH: Uarch = if ZEN4 { Uarch::Zen4 } else { Uarch::Generic };
    const BF16_DOT: bool = BF16;
    const U8_ZERO_POINT: i32 = 0;
    const INT8: &'static str = "vpdpbusd, 512 bits";
    type F = __m512;
    type I = __m512i;

    #[inline(always)]
    fn call_in_unit<U, J: Job>(self, job: J) -> J::Out {
        const { assert!(!(BF16 && FP16), "no job wants both") };
        match (BF16, FP16) {
            (_, true) => isa!(<U as InUnit>::with_fp16(Avx512(()), job)),
            (true, _) => isa!(<U as InUnit>::with_bf16::<_, ZEN4>(Avx512(()), job)),
            _ => isa!(<U as InUnit>::without_bf16::<_, ZEN4>(Avx512(()), job)),
        }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        isa!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> __m512 {
        isa!(_mm512_loadu_ps(x[..N].as_ptr()))
    }
    #[inline(always)]
    fn store(self, x: __m512, out: &mut [f32]) {
        isa!(_mm512_storeu_ps(out[..N].as_mut_ptr(), x))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        isa!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        isa!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        isa!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn pow2(self, n: __m512) -> __m512 {
        isa!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
            _mm512_cvtps_epi32(n),
            _mm512_set1_epi32(127)
        ))))
    }
    #[inline(always)]
    fn reduce_sum(self, a: __m512) -> f32 {
        isa!(_mm512_reduce_add_ps(a))
    }
    #[inline(always)]
    fn reduce_max(self, a: __m512) -> f32 {
        // NaN is dropped: of two unordered values the second is taken.
        isa!(_mm512_reduce_max_ps(_mm512_max_ps(a, _mm512_set1_ps(f32::NEG_INFINITY))))
    }
    #[inline(always)]
    fn reduce_sum16(self, x: &[__m512; 16]) -> [f32; 16] {
        isa!(reduce_each!(_mm512_add_ps, *x))
    }
    #[inline(always)]
    fn reduce_max16(self, x: &[__m512; 16]) -> [f32; 16] {
        let mut numbers = *x;
        for x in &mut numbers {
            // As in [`Simd::reduce_max`].
            *x = isa!(_mm512_max_ps(*x, _mm512_set1_ps(f32::NEG_INFINITY)));
        }
        isa!(reduce_each!(_mm512_max_ps, numbers))
    }
    #[inline(always)]
    fn transpose_8x16(self, rows: &[[i32; 16]; 8]) -> [[i32; 8]; 16] {
        isa!(super::avx2::transpose_8x16(rows))
    }
    #[inline(always)]
    fn prefetch(self, x: &[u8], ahead: usize) {
        // A prefetch of any address is allowed; it reads nothing.
        isa!(_mm_prefetch::<_MM_HINT_T0>(x.as_ptr().wrapping_add(ahead).cast()))
    }
    #[inline(always)]
    fn prefetch_barrier(self, v: __m512i) -> __m512i {
        isa!(prefetch_barrier(v))
    }
    #[inline(always)]
    fn prefetch_l2<T>(self, x: &[T], ahead: usize) {
        isa!(_mm_prefetch::<_MM_HINT_T1>(x.as_ptr().cast::<i8>().wrapping_add(ahead)))
    }
    #[inline(always)]
    fn prefetch_write<T>(self, out: &mut [T]) {
        // The intrinsic for a write hint is compiled to a prefetch for reading, as `prfchw` is no target feature: where
        // another core reads the line too, the write would have to wait again. All CPUs with AVX-512 have the
        // instruction.
        // SAFETY: no memory is read or written, a prefetch of any address is allowed.
        unsafe {
            asm!("prefetchw [{}]", in(reg) out.as_ptr().addr(), options(nomem, nostack, preserves_flags));
        }
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16]) -> __m512 {
        isa!(_mm512_cvtph_ps(_mm256_loadu_si256(x[..N].as_ptr().cast())))
    }
    #[inline(always)]
    fn store_f16(self, x: __m512, out: &mut [u16]) {
        isa!(_mm256_storeu_si256(
            out[..N].as_mut_ptr().cast(),
            _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
        ))
    }
    #[inline(always)]
    fn load_f16_bytes(self, x: &[u8]) -> __m512 {
        isa!(_mm512_cvtph_ps(_mm256_loadu_si256(x[..2 * N].as_ptr().cast())))
    }
    #[inline(always)]
    fn load_f32_bytes(self, x: &[u8]) -> __m512 {
        isa!(_mm512_loadu_ps(x[..4 * N].as_ptr().cast()))
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8]) -> __m512 {
        isa!(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(x[..N].as_ptr().cast()))))
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8]) -> __m512 {
        isa!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x[..N].as_ptr().cast()))))
    }
    #[inline(always)]
    fn store_i8(self, x: __m512, out: &mut [i8]) {
        isa!(_mm_storeu_si128(out[..N].as_mut_ptr().cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x))))
    }
    #[inline(always)]
    fn load_bytes(self, x: &[u8]) -> __m512i {
        isa!(_mm512_loadu_si512(x[..4 * N].as_ptr().cast()))
    }
    #[inline(always)]
    fn store_bytes(self, x: __m512i, out: &mut [u8]) {
        isa!(_mm512_storeu_si512(out[..4 * N].as_mut_ptr().cast(), x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m512i {
        isa!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn splat_b(self, x: u8) -> __m512i {
        isa!(_mm512_set1_epi8(x.cast_signed()))
    }
    #[inline(always)]
    fn splat4(self, x: &[i8]) -> __m512i {
        isa!(_mm512_set1_epi32(x[..4].as_ptr().cast::<i32>().read_unaligned()))
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        isa!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        isa!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shr<const S: i32>(self, a: __m512i) -> __m512i {
        isa!(_mm512_srl_epi32(a, _mm_cvtsi32_si128(S)))
    }
    #[inline(always)]
    fn shl<const S: i32>(self, a: __m512i) -> __m512i {
        isa!(_mm512_sll_epi32(a, _mm_cvtsi32_si128(S)))
    }
    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: __m512i) -> __m512i {
        isa!(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), index))
    }
    #[inline(always)]
    fn to_f(self, a: __m512i) -> __m512 {
        isa!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn cast_f(self, a: __m512i) -> __m512 {
        isa!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: __m512) -> __m512i {
        isa!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn dot(self, acc: __m512i, w: __m512i, x: __m512i) -> __m512i {
        isa!(_mm512_dpbusd_epi32(acc, w, x))
    }
    #[inline(always)]
    fn dot_u8(self, acc: __m512i, w: __m512i, x: __m512i) -> __m512i {
        isa!(_mm512_dpbusd_epi32(acc, w, x))
    }
    #[inline(always)]
    fn to_f16_pair(self, x: __m512) -> __m512i {
        isa!({
            let each = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
            let once = _mm512_cvtepu16_epi32(each);
            _mm512_or_si512(once, _mm512_slli_epi32::<16>(once))
        })
    }
    #[inline(always)]
    fn f16_sub(self, a: __m512i, b: __m512i) -> __m512i {
        if FP16 {
            isa!(_mm512_castph_si512(_mm512_sub_ph(_mm512_castsi512_ph(a), _mm512_castsi512_ph(b))))
        } else {
            super::traits::map_f16(self, [a, b, b], |[a, b, _]| a - b)
        }
    }
    #[inline(always)]
    fn f16_mul(self, a: __m512i, b: __m512i) -> __m512i {
        if FP16 {
            isa!(_mm512_castph_si512(_mm512_mul_ph(_mm512_castsi512_ph(a), _mm512_castsi512_ph(b))))
        } else {
            super::traits::map_f16(self, [a, b, b], |[a, b, _]| a * b)
        }
    }
    #[inline(always)]
    fn f16_fma(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        if FP16 {
            isa!(_mm512_castph_si512(_mm512_fmadd_ph(
                _mm512_castsi512_ph(a),
                _mm512_castsi512_ph(b),
                _mm512_castsi512_ph(c)
            )))
        } else {
            super::traits::map_f16(self, [a, b, c], |[a, b, c]| a * b + c)
        }
    }
    #[inline(always)]
    fn pack_bf16_pair(self, low: __m512, high: __m512) -> __m512i {
        isa!({
            let half = _mm512_set1_epi32(0x8000);
            let low = _mm512_srli_epi32::<16>(_mm512_add_epi32(_mm512_castps_si512(low), half));
            let high = _mm512_add_epi32(_mm512_castps_si512(high), half);
            // `low`, or what `high` and the mask have in common.
            _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()))
        })
    }
    #[inline(always)]
    fn add_i(self, a: __m512i, b: __m512i) -> __m512i {
        isa!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn bf16_dot(self, acc: __m512, w: __m512i, x: __m512i) -> __m512 {
        if BF16 {
            // SAFETY: with `BF16` the token vouches for avx512bf16; both types are 64 plain bytes.
            isa!(_mm512_dpbf16_ps(
                acc,
                std::mem::transmute::<__m512i, __m512bh>(w),
                std::mem::transmute::<__m512i, __m512bh>(x)
            ))
        } else {
            let high = self.splat_i(0xffff_0000_u32.cast_signed());
            let acc = self.fma(self.cast_f(self.shl::<16>(w)), self.cast_f(self.shl::<16>(x)), acc);
            self.fma(self.cast_f(self.and(w, high)), self.cast_f(self.and(x, high)), acc)
        }
    }
}
