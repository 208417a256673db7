//! Floats as they lie in memory.

use cpu::lanes::Simd;

use crate::kv::pair;

/// A stored float type.
pub(crate) trait Stored {
    /// Bytes of a value.
    const BYTES: usize;
    /// Reads a register of values.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F;
}

/// IEEE binary32.
pub(crate) struct Single;

impl Stored for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f32_bytes(bytes)
    }
}

/// IEEE binary16.
pub(crate) struct Half;

impl Stored for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f16_bytes(bytes)
    }
}

/// A stored type as a term of a sum of products: what it is multiplied with, and how.
pub(crate) trait Term {
    /// Numbers in a term.
    const NUMBERS: usize;
    /// Bytes of a term.
    const BYTES: usize;
    /// The other factor of a term.
    type Factor: Copy + Default;
    /// A register of terms, or of one factor.
    type Register<S: Simd>: Copy;
    /// The factors of a row of numbers.
    fn factors(row: &[f32], out: &mut [Self::Factor]);
    /// Reads a register of terms.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> Self::Register<S>;
    /// The factor in all lanes.
    fn splat<S: Simd>(s: S, factor: Self::Factor) -> Self::Register<S>;
    /// `sum + term · factor`
    fn add_product<S: Simd>(s: S, term: Self::Register<S>, factor: Self::Register<S>, sum: S::F) -> S::F;
}

impl<T: Stored> Term for T {
    const NUMBERS: usize = 1;
    const BYTES: usize = T::BYTES;
    type Factor = f32;
    type Register<S: Simd> = S::F;
    #[inline(always)]
    fn factors(row: &[f32], out: &mut [f32]) {
        out.copy_from_slice(row);
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        T::load(s, bytes)
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, factor: f32) -> S::F {
        s.splat(factor)
    }
    #[inline(always)]
    fn add_product<S: Simd>(s: S, term: S::F, factor: S::F, sum: S::F) -> S::F {
        s.fma(term, factor, sum)
    }
}

/// Two bfloat16 numbers that are multiplied together: those half a row apart.
pub(crate) struct Pair;

impl Term for Pair {
    const NUMBERS: usize = 2;
    const BYTES: usize = 4;
    type Factor = u32;
    type Register<S: Simd> = S::I;
    #[inline(always)]
    fn factors(row: &[f32], out: &mut [u32]) {
        let half = out.len();
        for (i, out) in out.iter_mut().enumerate() {
            *out = pair(row[i], if half + i < row.len() { row[half + i] } else { 0.0 });
        }
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::I {
        s.load_bytes(bytes)
    }
    #[inline(always)]
    fn splat<S: Simd>(s: S, factor: u32) -> S::I {
        s.splat_i(factor.cast_signed())
    }
    #[inline(always)]
    fn add_product<S: Simd>(s: S, term: S::I, factor: S::I, sum: S::F) -> S::F {
        s.bf16_dot(sum, term, factor)
    }
}
