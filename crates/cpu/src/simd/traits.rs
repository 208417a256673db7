//! The traits that a kernel is written against: [`Simd`], the operations of a tier, and [`Job`], a kernel.

use crate::{Tier, Uarch};

/// The dot products of a [`Job`] for which some CPUs of a tier have instructions of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DotKind {
    /// None besides FMA of `f32`.
    F32,
    /// Eight-bit integers: [`Simd::dot`], [`Simd::dot_u8`], [`Simd::dot_quads`] (VNNI, `sdot`, `usdot`).
    Int8,
    /// bf16 pairs: [`Simd::bf16_dot`] (`vdpbf16ps`).
    Bf16,
}

/// A kernel, compiled for each tier; more than once for tiers with several instruction sets, by its [`DotKind`].
pub trait Job {
    /// The result.
    type Out;
    /// The dot products that the kernel should have instructions for. It computes the same without them, slower.
    const DOT_KIND: DotKind = DotKind::F32;
    /// Runs the kernel with the instructions of the token `s`. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// The registers and instructions of one tier: [`Simd::LANES`] floats, as many 32-bit integers, or four times as many
/// bytes.
///
/// # Panics
/// Loads and stores panic when the slice is shorter than the register.
pub trait Simd: Copy + Send + Sync + 'static {
    /// The tier.
    const TIER: Tier;
    /// Floats in a register.
    const LANES: usize;
    /// The micro-architecture that the code is compiled for, by which `kernels::tune` finds its table;
    /// [`Uarch::Generic`] for tiers with a single table.
    const UARCH: Uarch = Uarch::Generic;
    /// Whether [`Simd::bf16_dot`] is one instruction (`vdpbf16ps`); where it is not, kernels widen to `f32` instead.
    const BF16_DOT: bool;
    /// The zero point that [`Simd::dot_u8`] subtracts from each weight code.
    const U8_ZERO_POINT: i32;
    /// The instructions of [`Simd::dot`] and [`Simd::dot_u8`], and their width.
    const INT8: &'static str;
    /// A register of floats.
    type F: Copy;
    /// A register of 32-bit integers or bytes.
    type I: Copy;

    /// Runs `job` compiled with this tier's instructions, as a function of its own: it is never inlined into the
    /// caller.
    #[inline(always)]
    fn call<J: Job>(self, job: J) -> J::Out {
        self.call_in_unit::<J, J>(job)
    }

    /// As [`Simd::call`], compiled in the codegen unit of the type `U`. The compiler works on several units in
    /// parallel, and a job's code goes to the unit of its type: jobs that are generic over many types would all be
    /// compiled one after the other.
    fn call_in_unit<U, J: Job>(self, job: J) -> J::Out;

    /// The value `x` in all lanes.
    fn splat(self, x: f32) -> Self::F;
    /// Reads the first lanes of `x`.
    fn load(self, x: &[f32]) -> Self::F;
    /// Writes to the first lanes of `out`.
    fn store(self, x: Self::F, out: &mut [f32]);
    /// `a + b`
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once where the tier can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger of each pair.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller of each pair.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `2^n` for integral `n` from -126 to 127.
    fn pow2(self, n: Self::F) -> Self::F;
    /// The sum of all lanes, in an order fixed for the tier.
    fn reduce_sum(self, a: Self::F) -> f32;
    /// The largest lane that is a number.
    fn reduce_max(self, a: Self::F) -> f32;
    /// [`Simd::reduce_sum`] of each of `x`, in any order.
    #[inline(always)]
    fn reduce_sum16(self, x: &[Self::F; 16]) -> [f32; 16] {
        let mut sums = [0.0; 16];
        for i in 0..16 {
            sums[i] = self.reduce_sum(x[i]);
        }
        sums
    }
    /// [`Simd::reduce_max`] of each of `x`.
    #[inline(always)]
    fn reduce_max16(self, x: &[Self::F; 16]) -> [f32; 16] {
        let mut most = [0.0; 16];
        for i in 0..16 {
            most[i] = self.reduce_max(x[i]);
        }
        most
    }
    /// The columns of `rows`: an 8 × 16 transpose.
    #[inline(always)]
    fn transpose_8x16(self, rows: &[[i32; 16]; 8]) -> [[i32; 8]; 16] {
        let mut columns = [[0; 8]; 16];
        for (i, row) in rows.iter().enumerate() {
            for (column, v) in columns.iter_mut().zip(row) {
                column[i] = *v;
            }
        }
        columns
    }

    /// Prefetches the cache line `ahead` bytes after the start of `x` into L1, on tiers with a prefetch instruction.
    #[inline(always)]
    fn prefetch(self, _x: &[u8], _ahead: usize) {}
    /// Returns `v` and keeps the compiler from moving prefetches across this place: it would issue them all at the end
    /// of a loop. On tiers other than AVX-512 it does nothing.
    #[inline(always)]
    fn prefetch_barrier(self, v: Self::I) -> Self::I {
        v
    }
    /// [`Simd::prefetch`] into L2 only.
    #[inline(always)]
    fn prefetch_l2<T>(self, _x: &[T], _ahead: usize) {}
    /// [`Simd::prefetch_l2`] for each cache line of `x`.
    #[inline(always)]
    fn prefetch_span_l2<T>(self, x: &[T], ahead: usize) {
        for line in x.chunks(const { 64 / size_of::<T>() }) {
            self.prefetch_l2(line, ahead);
        }
    }

    /// Prefetches the cache line at the start of `out` for writing.
    #[inline(always)]
    fn prefetch_write<T>(self, _out: &mut [T]) {}

    /// Reads f16 (IEEE binary16 bits).
    fn load_f16(self, x: &[u16]) -> Self::F;
    /// Writes f16, rounding to nearest even.
    fn store_f16(self, x: Self::F, out: &mut [u16]);
    /// Reads f16 from little-endian bytes.
    fn load_f16_bytes(self, x: &[u8]) -> Self::F;
    /// Reads floats from little-endian bytes.
    fn load_f32_bytes(self, x: &[u8]) -> Self::F;
    /// Reads unsigned bytes, one a lane, as floats.
    fn load_u8(self, x: &[u8]) -> Self::F;
    /// Reads signed bytes, one a lane, as floats.
    fn load_i8(self, x: &[u8]) -> Self::F;
    /// Rounds to nearest even and writes as signed bytes; the values must lie in -128..=127.
    fn store_i8(self, x: Self::F, out: &mut [i8]);

    /// Reads `4 * LANES` bytes.
    fn load_bytes(self, x: &[u8]) -> Self::I;
    /// Writes `4 * LANES` bytes.
    fn store_bytes(self, x: Self::I, out: &mut [u8]);
    /// The integer `x` in all lanes.
    fn splat_i(self, x: i32) -> Self::I;
    /// The byte `x` in all bytes.
    fn splat_b(self, x: u8) -> Self::I;
    /// The first four bytes of `x` in all lanes.
    fn splat4(self, x: &[i8]) -> Self::I;
    /// Bitwise and.
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// Each 32-bit lane shifted right by `N`, zeros coming in.
    fn shr<const N: i32>(self, a: Self::I) -> Self::I;
    /// Each 32-bit lane shifted left by `N`.
    fn shl<const N: i32>(self, a: Self::I) -> Self::I;
    /// Each byte of `index` (0 to 15) replaced by that entry of `table`.
    fn lookup(self, table: &[u8; 16], index: Self::I) -> Self::I;
    /// Each lane as a float.
    fn to_f(self, a: Self::I) -> Self::F;
    /// The bits of each lane as a float.
    fn cast_f(self, a: Self::I) -> Self::F;
    /// The bits of each float.
    fn bits(self, a: Self::F) -> Self::I;

    /// In each lane `acc + Σ w[j] * x[j]` over its four bytes, `w` unsigned and at most 127, `x` signed.
    fn dot(self, acc: Self::I, w: Self::I, x: Self::I) -> Self::I;
    /// In each lane `acc + Σ (w[j] - U8_ZERO_POINT) * x[j]` over its four bytes, `w` unsigned, `x` signed and not -128.
    fn dot_u8(self, acc: Self::I, w: Self::I, x: Self::I) -> Self::I;
    /// [`Simd::dot`], or [`Simd::dot_u8`] for codes of eight bits, of each of `w[from]` to `w[from + QUADS - 1]` with the quad of
    /// `x` of the same number in all lanes. `from` and `QUADS` are multiples of four; codes are below `1 << BITS`.
    #[inline(always)]
    fn dot_quads<const QUADS: usize, const BITS: u32>(
        self,
        acc: Self::I,
        w: &[Self::I; 8],
        x: &[i8; 32],
        from: usize,
    ) -> Self::I {
        self.dot_quad_by_quad::<QUADS, BITS>(acc, w, x, from)
    }
    /// `acc` + the sums of [`Simd::dot_quads`], each times its lane's number in `scale`, as [`Simd::load_i8_dup_i16`] reads it; `BITS` is
    /// at most 7. Fast only on AVX2, like [`Simd::maddubs_i16`].
    #[inline(always)]
    fn dot_scaled<const QUADS: usize, const BITS: u32>(
        self,
        acc: Self::I,
        w: &[Self::I; 8],
        x: &[i8; 32],
        from: usize,
        scale: Self::I,
    ) -> Self::I {
        let (mut sums, mut dots, mut scales) = ([0; 64], [0; 64], [0; 64]);
        self.store_bytes(acc, &mut sums);
        self.store_bytes(self.dot_quads::<QUADS, BITS>(self.splat_i(0), w, x, from), &mut dots);
        self.store_bytes(scale, &mut scales);
        for ((sum, dot), scale) in
            sums.as_chunks_mut::<4>().0.iter_mut().zip(dots.as_chunks::<4>().0).zip(scales.as_chunks::<4>().0)
        {
            let product = i32::from_le_bytes(*dot) * i32::from(scale[0].cast_signed());
            *sum = i32::from_le_bytes(*sum).wrapping_add(product).to_le_bytes();
        }
        self.load_bytes(&sums)
    }
    /// In each `i16` lane `acc + w[0] * x[0] + w[1] * x[1]` over its two bytes, `w` unsigned and at most 127, `x`
    /// signed, the sum at most 32,767 in magnitude: see [`i16_quads`]. Fast on AVX2 only.
    #[inline(always)]
    fn maddubs_i16(self, acc: Self::I, w: Self::I, x: Self::I) -> Self::I {
        let (mut sums, mut ws, mut xs) = ([0; 64], [0; 64], [0; 64]);
        self.store_bytes(acc, &mut sums);
        self.store_bytes(w, &mut ws);
        self.store_bytes(x, &mut xs);
        for ((sum, w), x) in
            sums.as_chunks_mut::<2>().0.iter_mut().zip(ws.as_chunks::<2>().0).zip(xs.as_chunks::<2>().0)
        {
            let product = |i: usize| i16::from(w[i]) * i16::from(x[i].cast_signed());
            *sum = i16::from_le_bytes(*sum).wrapping_add(product(0)).wrapping_add(product(1)).to_le_bytes();
        }
        self.load_bytes(&sums)
    }
    /// Widens sums of [`Simd::maddubs_i16`] to `i32`: [`Simd::dot_i16`] of them with `scale`.
    #[inline(always)]
    fn madd_i16_to_i32(self, acc: Self::I, short: Self::I, scale: Self::I) -> Self::I {
        self.dot_i16(acc, short, scale)
    }
    /// Reads signed bytes, one a lane, each widened to both `i16` of its lane.
    #[inline(always)]
    fn load_i8_dup_i16(self, x: &[u8]) -> Self::I {
        let mut all = [0; 64];
        for (out, byte) in
            all.as_chunks_mut::<2>().0.iter_mut().zip(x[..Self::LANES].iter().flat_map(|b| [b; 2]))
        {
            *out = i16::from(byte.cast_signed()).to_le_bytes();
        }
        self.load_bytes(&all)
    }
    /// [`Simd::dot_quads`], a quad after the other.
    #[inline(always)]
    fn dot_quad_by_quad<const QUADS: usize, const BITS: u32>(
        self,
        mut acc: Self::I,
        w: &[Self::I; 8],
        x: &[i8; 32],
        from: usize,
    ) -> Self::I {
        for j in from..from + QUADS {
            let four = self.splat4(&x[4 * j..]);
            acc = if BITS == 8 { self.dot_u8(acc, w[j], four) } else { self.dot(acc, w[j], four) };
        }
        acc
    }
    /// Rounds to nearest even and writes as little-endian `i16`: of four lanes the first and third to `even`, the
    /// second and fourth to `odd`, the values in -32768..=32767. Fast only on AVX2, like [`Simd::widen_bytes`] and
    /// [`Simd::dot_i16`].
    #[inline(always)]
    fn store_i16_split(self, x: Self::F, even: &mut [i8], odd: &mut [i8]) {
        let mut all = [0.0; 16];
        self.store(x, &mut all);
        for (i, word) in all[..Self::LANES].iter().map(|v| v.round_ties_even() as i16).enumerate() {
            let out = if i % 2 == 0 { &mut *even } else { &mut *odd };
            let [low, high] = word.to_le_bytes();
            (out[i / 2 * 2], out[i / 2 * 2 + 1]) = (low.cast_signed(), high.cast_signed());
        }
    }
    /// In each lane its bytes 0 and 2, or 1 and 3 if `ODD`, widened to two `i16`; as signed bytes if `SIGNED`.
    #[inline(always)]
    fn widen_bytes<const ODD: bool, const SIGNED: bool>(self, x: Self::I) -> Self::I {
        let mut all = [0; 64];
        self.store_bytes(x, &mut all);
        for pair in all.as_chunks_mut::<2>().0 {
            let byte = pair[usize::from(ODD)];
            *pair = if SIGNED { i16::from(byte.cast_signed()) } else { i16::from(byte) }.to_le_bytes();
        }
        self.load_bytes(&all)
    }
    /// In each lane `acc + w[0] * x[0] + w[1] * x[1]` over its two `i16`, both signed.
    #[inline(always)]
    fn dot_i16(self, acc: Self::I, w: Self::I, x: Self::I) -> Self::I {
        let (mut sums, mut ws, mut xs) = ([0; 64], [0; 64], [0; 64]);
        self.store_bytes(acc, &mut sums);
        self.store_bytes(w, &mut ws);
        self.store_bytes(x, &mut xs);
        for ((sum, w), x) in
            sums.as_chunks_mut::<4>().0.iter_mut().zip(ws.as_chunks::<4>().0).zip(xs.as_chunks::<4>().0)
        {
            let product = |i| {
                i32::from(i16::from_le_bytes([w[i], w[i + 1]]))
                    * i32::from(i16::from_le_bytes([x[i], x[i + 1]]))
            };
            *sum = i32::from_le_bytes(*sum).wrapping_add(product(0)).wrapping_add(product(2)).to_le_bytes();
        }
        self.load_bytes(&sums)
    }
    /// Each lane rounded to f16, to nearest even, in both halves of its lane.
    #[inline(always)]
    fn to_f16_pair(self, x: Self::F) -> Self::I {
        let mut all = [0.0; 16];
        self.store(x, &mut all);
        let mut bytes = [0; 64];
        for (out, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(all) {
            let [low, high] = half::f16::from_f32(x).to_le_bytes();
            *out = [low, high, low, high];
        }
        self.load_bytes(&bytes)
    }
    /// `a - b` of the f16 in both halves of each lane.
    #[inline(always)]
    fn f16_sub(self, a: Self::I, b: Self::I) -> Self::I {
        map_f16(self, [a, b, b], |[a, b, _]| a - b)
    }
    /// `a * b` likewise.
    #[inline(always)]
    fn f16_mul(self, a: Self::I, b: Self::I) -> Self::I {
        map_f16(self, [a, b, b], |[a, b, _]| a * b)
    }
    /// `a * b + c` likewise, rounded once.
    #[inline(always)]
    fn f16_fma(self, a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        map_f16(self, [a, b, c], |[a, b, c]| a * b + c)
    }
    /// In each lane `acc + w[0] * x[0] + w[1] * x[1]` over its two bf16 halves.
    fn bf16_dot(self, acc: Self::F, w: Self::I, x: Self::I) -> Self::F;

    /// In each lane `low` and `high` as bf16, rounded to nearest, the first in the low half; numbers only. Slow where not
    /// [`Simd::BF16_DOT`].
    #[inline(always)]
    fn pack_bf16_pair(self, low: Self::F, high: Self::F) -> Self::I {
        let (mut lows, mut highs, mut bytes) = ([0.0; 16], [0.0; 16], [0; 64]);
        self.store(low, &mut lows);
        self.store(high, &mut highs);
        for ((out, low), high) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(lows).zip(highs) {
            let rounded = |x: f32| x.to_bits().wrapping_add(0x8000);
            *out = (rounded(low) >> 16 | rounded(high) & 0xffff_0000).to_le_bytes();
        }
        self.load_bytes(&bytes)
    }

    /// `a + b` of integers, wrapping. Fast on AVX-512 only.
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        let (mut sums, mut others) = ([0; 64], [0; 64]);
        self.store_bytes(a, &mut sums);
        self.store_bytes(b, &mut others);
        for (sum, other) in sums.as_chunks_mut::<4>().0.iter_mut().zip(others.as_chunks::<4>().0) {
            *sum = i32::from_le_bytes(*sum).wrapping_add(i32::from_le_bytes(*other)).to_le_bytes();
        }
        self.load_bytes(&sums)
    }

    /// `e^x`, to about two units in the last place; inputs are clamped to where the result is a normal number.
    ///
    /// Argument reduction by `ln 2` in two parts and a degree-6 Taylor polynomial on |r| ≤ ln 2 / 2, whose
    /// truncation error is below 2e-7 relative.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        let x = self.min(self.max(x, self.splat(-87.0)), self.splat(88.0));
        let n = self.round(self.mul(x, self.splat(std::f32::consts::LOG2_E)));
        let r = self.fma(n, self.splat(-0.693_359_4), x);
        let r = self.fma(n, self.splat(2.121_944_4e-4), r);
        let mut p = self.splat(1.0 / 720.0);
        for c in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = self.fma(p, r, self.splat(c));
        }
        self.mul(p, self.pow2(n))
    }
}

/// `f` of each f16 in three registers, in more precision than the result has: a product of two is exact, a sum nearly
/// always.
#[inline(always)]
pub(super) fn map_f16<S: Simd>(s: S, of: [S::I; 3], f: fn([f64; 3]) -> f64) -> S::I {
    let mut bytes = [[0; 64]; 3];
    for (of, bytes) in of.into_iter().zip(&mut bytes) {
        s.store_bytes(of, bytes);
    }
    let mut out = [0; 64];
    for (i, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let half = |of: &[u8; 64]| half::f16::from_le_bytes([of[2 * i], of[2 * i + 1]]).to_f64();
        *out = half::f16::from_f64(f([half(&bytes[0]), half(&bytes[1]), half(&bytes[2])])).to_le_bytes();
    }
    s.load_bytes(&out)
}

/// The quads of codes below `1 << bits`, times signed bytes, that [`Simd::maddubs_i16`] can accumulate without
/// overflow, at most 8.
pub const fn i16_quads(bits: u32) -> usize {
    let fit = (1 << 15) / (2 * 128 * ((1 << bits) - 1));
    if fit < 8 { fit } else { 8 }
}
