//! AVX2 with FMA and F16C (Haswell, Zen and later).
//!
//! There is no dot product of bytes, so `vpmaddubsw` adds pairs in 16 bits and `vpmaddwd` widens them. It saturates,
//! which codes up to 127 cannot reach (2 · 127 · 128 = 32,512); wider codes are split into magnitude and sign (2 · 128
//! · 127). Of narrow codes several such sums fit (8 · 2 · 15 · 128 = 30,720), and are widened once.

use std::arch::asm;
use std::arch::x86_64::*;

use super::traits::{Job, Simd, i16_quads};
use crate::Tier;

/// Proof that this CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, if this CPU has the instructions.
    pub fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

/// Functions that are compiled in the codegen unit of a type.
trait InUnit {
    /// Runs `job`.
    ///
    /// # Safety
    /// The CPU has the instructions, as the token says.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline(never)]
    unsafe fn with_avx2<J: Job>(s: Avx2, job: J) -> J::Out {
        job.run(s)
    }
}

impl<U> InUnit for U {}

/// Returns `x`, and fixes the order of the additions around it. The compiler would reassociate integer additions to do
/// one row after the other, and spill the weights of all of them.
#[target_feature(enable = "avx2")]
#[inline]
fn schedule_barrier(mut x: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {} */", inout(ymm_reg) x, options(nomem, nostack, preserves_flags)) };
    x
}

/// Calls intrinsics, for whose instructions the token vouches.
macro_rules! isa {
    ($($e:tt)*) => {
        // SAFETY: `self` is only made by `new`, after these instructions were detected; memory is only
        // touched through slices whose length was checked.
        unsafe { $($e)* }
    };
}

const N: usize = 8;

/// See [`Simd::transpose_8x16`].
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn transpose_8x16(rows: &[[i32; 16]; 8]) -> [[i32; 8]; 16] {
    let mut columns = [[0; 8]; 16];
    for (half, columns) in columns.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // Of both halves of a register, columns 0 to 3 of four rows.
        let mut fours = [[_mm256_setzero_si256(); 4]; 2];
        for (fours, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
            // SAFETY: a row is as long as two registers.
            let [a, b, c, d] =
                rows.each_ref().map(|row| unsafe { _mm256_loadu_si256(row[8 * half..].as_ptr().cast()) });
            let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (next_low, next_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            *fours = [
                _mm256_unpacklo_epi64(low, next_low),
                _mm256_unpackhi_epi64(low, next_low),
                _mm256_unpacklo_epi64(high, next_high),
                _mm256_unpackhi_epi64(high, next_high),
            ];
        }
        for i in 0..4 {
            let (above, below) = (fours[0][i], fours[1][i]);
            // SAFETY: a column is as long as a register.
            unsafe {
                let (first, second) = (columns[i].as_mut_ptr().cast(), columns[4 + i].as_mut_ptr().cast());
                _mm256_storeu_si256(first, _mm256_permute2x128_si256::<0x20>(above, below));
                _mm256_storeu_si256(second, _mm256_permute2x128_si256::<0x31>(above, below));
            }
        }
    }
    columns
}

impl Simd for Avx2 {
    const TIER: Tier = Tier::Avx2;
    const LANES: usize = N;
    const BF16_DOT: bool = false;
    const U8_ZERO_POINT: i32 = 128;
    const INT8: &'static str = "vpmaddubsw + vpmaddwd, 256 bits";
    type F = __m256;
    type I = __m256i;

    #[inline(always)]
    fn call_in_unit<U, J: Job>(self, job: J) -> J::Out {
        isa!(<U as InUnit>::with_avx2(self, job))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        isa!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> __m256 {
        isa!(_mm256_loadu_ps(x[..N].as_ptr()))
    }
    #[inline(always)]
    fn store(self, x: __m256, out: &mut [f32]) {
        isa!(_mm256_storeu_ps(out[..N].as_mut_ptr(), x))
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        isa!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        isa!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        isa!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn pow2(self, n: __m256) -> __m256 {
        isa!(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
            _mm256_cvtps_epi32(n),
            _mm256_set1_epi32(127)
        ))))
    }
    #[inline(always)]
    fn reduce_sum(self, a: __m256) -> f32 {
        isa!({
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn reduce_max(self, a: __m256) -> f32 {
        isa!({
            // NaN is dropped: of two unordered values the second is taken.
            let a = _mm256_max_ps(a, _mm256_set1_ps(f32::NEG_INFINITY));
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn transpose_8x16(self, rows: &[[i32; 16]; 8]) -> [[i32; 8]; 16] {
        isa!(transpose_8x16(rows))
    }
    #[inline(always)]
    fn prefetch(self, x: &[u8], ahead: usize) {
        // A prefetch of any address is allowed; it reads nothing.
        isa!(_mm_prefetch::<_MM_HINT_T0>(x.as_ptr().wrapping_add(ahead).cast()))
    }
    #[inline(always)]
    fn prefetch_l2<T>(self, x: &[T], ahead: usize) {
        isa!(_mm_prefetch::<_MM_HINT_T1>(x.as_ptr().cast::<i8>().wrapping_add(ahead)))
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16]) -> __m256 {
        isa!(_mm256_cvtph_ps(_mm_loadu_si128(x[..N].as_ptr().cast())))
    }
    #[inline(always)]
    fn store_f16(self, x: __m256, out: &mut [u16]) {
        isa!(_mm_storeu_si128(out[..N].as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)))
    }
    #[inline(always)]
    fn load_f16_bytes(self, x: &[u8]) -> __m256 {
        isa!(_mm256_cvtph_ps(_mm_loadu_si128(x[..2 * N].as_ptr().cast())))
    }
    #[inline(always)]
    fn load_f32_bytes(self, x: &[u8]) -> __m256 {
        isa!(_mm256_loadu_ps(x[..4 * N].as_ptr().cast()))
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8]) -> __m256 {
        isa!(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(x[..N].as_ptr().cast()))))
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8]) -> __m256 {
        isa!(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(x[..N].as_ptr().cast()))))
    }
    #[inline(always)]
    fn store_i8(self, x: __m256, out: &mut [i8]) {
        isa!({
            let whole = _mm256_cvtps_epi32(x);
            let words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            _mm_storel_epi64(out[..N].as_mut_ptr().cast(), _mm_packs_epi16(words, words));
        });
    }
    #[inline(always)]
    fn load_bytes(self, x: &[u8]) -> __m256i {
        isa!(_mm256_loadu_si256(x[..4 * N].as_ptr().cast()))
    }
    #[inline(always)]
    fn store_bytes(self, x: __m256i, out: &mut [u8]) {
        isa!(_mm256_storeu_si256(out[..4 * N].as_mut_ptr().cast(), x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m256i {
        isa!(_mm256_set1_epi32(x))
    }
    #[inline(always)]
    fn splat_b(self, x: u8) -> __m256i {
        isa!(_mm256_set1_epi8(x.cast_signed()))
    }
    #[inline(always)]
    fn splat4(self, x: &[i8]) -> __m256i {
        isa!(_mm256_set1_epi32(x[..4].as_ptr().cast::<i32>().read_unaligned()))
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        isa!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        isa!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shr<const S: i32>(self, a: __m256i) -> __m256i {
        isa!(_mm256_srli_epi32::<S>(a))
    }
    #[inline(always)]
    fn shl<const S: i32>(self, a: __m256i) -> __m256i {
        isa!(_mm256_slli_epi32::<S>(a))
    }
    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: __m256i) -> __m256i {
        isa!(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), index))
    }
    #[inline(always)]
    fn to_f(self, a: __m256i) -> __m256 {
        isa!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn cast_f(self, a: __m256i) -> __m256 {
        isa!(_mm256_castsi256_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: __m256) -> __m256i {
        isa!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn dot(self, acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        isa!(_mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1))))
    }
    #[inline(always)]
    fn dot_u8(self, acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        isa!({
            let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
            schedule_barrier(_mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))))
        })
    }
    #[inline(always)]
    fn dot_quads<const QUADS: usize, const BITS: u32>(
        self,
        acc: __m256i,
        w: &[__m256i; 8],
        x: &[i8; 32],
        from: usize,
    ) -> __m256i {
        match BITS {
            8 => self.dot_quad_by_quad::<QUADS, BITS>(acc, w, x, from),
            _ => self.dot_scaled::<QUADS, BITS>(acc, w, x, from, isa!(_mm256_set1_epi16(1))),
        }
    }
    #[inline(always)]
    fn dot_scaled<const QUADS: usize, const BITS: u32>(
        self,
        mut acc: __m256i,
        w: &[__m256i; 8],
        x: &[i8; 32],
        from: usize,
        scale: __m256i,
    ) -> __m256i {
        // As many pairs as cannot overflow are added before they are widened.
        let together = const { i16_quads(BITS) };
        for first in (from..from + QUADS).step_by(together.min(QUADS)) {
            let mut pairs = self.splat_i(0);
            for j in first..first + together.min(QUADS) {
                let four = self.splat4(&x[4 * j..]);
                pairs = isa!(_mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[j], four)));
            }
            acc = isa!(_mm256_add_epi32(acc, _mm256_madd_epi16(pairs, scale)));
        }
        acc
    }
    #[inline(always)]
    fn maddubs_i16(self, acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        isa!(schedule_barrier(_mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x))))
    }
    #[inline(always)]
    fn madd_i16_to_i32(self, acc: __m256i, short: __m256i, scale: __m256i) -> __m256i {
        isa!(schedule_barrier(_mm256_add_epi32(acc, _mm256_madd_epi16(short, scale))))
    }
    #[inline(always)]
    fn load_i8_dup_i16(self, x: &[u8]) -> __m256i {
        isa!({
            let lanes = _mm256_cvtepi8_epi32(_mm_loadl_epi64(x[..N].as_ptr().cast()));
            let twice = _mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
            _mm256_shuffle_epi8(lanes, _mm256_broadcastsi128_si256(twice))
        })
    }
    #[inline(always)]
    fn store_i16_split(self, x: __m256, even: &mut [i8], odd: &mut [i8]) {
        isa!({
            let whole = _mm256_cvtps_epi32(x);
            let words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            let apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
            let apart = _mm_shuffle_epi8(words, apart);
            _mm_storel_epi64(even[..N].as_mut_ptr().cast(), apart);
            _mm_storel_epi64(odd[..N].as_mut_ptr().cast(), _mm_unpackhi_epi64(apart, apart));
        });
    }
    #[inline(always)]
    fn widen_bytes<const ODD: bool, const SIGNED: bool>(self, x: __m256i) -> __m256i {
        isa!(match (ODD, SIGNED) {
            (false, false) => _mm256_and_si256(x, _mm256_set1_epi16(0xff)),
            (true, false) => _mm256_srli_epi16::<8>(x),
            (false, true) => _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(x)),
            (true, true) => _mm256_srai_epi16::<8>(x),
        })
    }
    #[inline(always)]
    fn dot_i16(self, acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        isa!(_mm256_add_epi32(acc, _mm256_madd_epi16(w, x)))
    }
    #[inline(always)]
    fn bf16_dot(self, acc: __m256, w: __m256i, x: __m256i) -> __m256 {
        let high = self.splat_i(0xffff_0000_u32.cast_signed());
        let acc = self.fma(self.cast_f(self.shl::<16>(w)), self.cast_f(self.shl::<16>(x)), acc);
        self.fma(self.cast_f(self.and(w, high)), self.cast_f(self.and(x, high)), acc)
    }
}
