//! The scalar tier: eight lanes as arrays, the definition of each operation.

use half::f16;

use super::traits::{Job, Simd};
use crate::Tier;

/// Lanes without special instructions.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

const N: usize = 8;
/// Eight floats.
pub type F = [f32; N];
/// Eight 32-bit integers, or 32 bytes in little-endian order.
pub type I = [u32; N];

/// A value for each lane. A loop, as `array::from_fn` and `map` are several functions for each closure, which take time to compile.
#[inline(always)]
fn each<T: Copy + Default>(lane: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [T::default(); N];
    for i in 0..N {
        all[i] = lane(i);
    }
    all
}

#[inline(always)]
fn bytes(x: u32) -> [u8; 4] {
    x.to_le_bytes()
}

/// Functions that are compiled in the codegen unit of a type.
trait InUnit {
    #[inline(never)]
    fn plain<J: Job>(s: Scalar, job: J) -> J::Out {
        job.run(s)
    }
}

impl<U> InUnit for U {}

impl Simd for Scalar {
    const TIER: Tier = Tier::Scalar;
    const LANES: usize = N;
    const BF16_DOT: bool = false;
    const U8_ZERO_POINT: i32 = 0;
    const INT8: &'static str = "plain code";
    type F = F;
    type I = I;

    #[inline(always)]
    fn call_in_unit<U, J: Job>(self, job: J) -> J::Out {
        <U as InUnit>::plain(self, job)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        [x; N]
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> F {
        each(|i| x[..N][i])
    }
    #[inline(always)]
    fn store(self, x: F, out: &mut [f32]) {
        out[..N].copy_from_slice(&x);
    }
    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        each(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn round(self, a: F) -> F {
        each(|i| a[i].round_ties_even())
    }
    #[inline(always)]
    fn pow2(self, n: F) -> F {
        each(|i| f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn reduce_sum(self, a: F) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    fn reduce_max(self, a: F) -> f32 {
        a.iter().fold(f32::NEG_INFINITY, |m, &v| if v > m { v } else { m })
    }
    #[inline(always)]
    fn load_f16(self, x: &[u16]) -> F {
        each(|i| f16::from_bits(x[..N][i]).to_f32())
    }
    #[inline(always)]
    fn store_f16(self, x: F, out: &mut [u16]) {
        out[..N].iter_mut().zip(x).for_each(|(o, v)| *o = f16::from_f32(v).to_bits());
    }
    #[inline(always)]
    fn load_f16_bytes(self, x: &[u8]) -> F {
        let x = &x[..2 * N];
        each(|i| f16::from_le_bytes([x[2 * i], x[2 * i + 1]]).to_f32())
    }
    #[inline(always)]
    fn load_f32_bytes(self, x: &[u8]) -> F {
        let x = &x[..4 * N];
        each(|i| f32::from_le_bytes([x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]]))
    }
    #[inline(always)]
    fn load_u8(self, x: &[u8]) -> F {
        each(|i| f32::from(x[..N][i]))
    }
    #[inline(always)]
    fn load_i8(self, x: &[u8]) -> F {
        each(|i| f32::from(x[..N][i].cast_signed()))
    }
    #[inline(always)]
    fn store_i8(self, x: F, out: &mut [i8]) {
        out[..N].iter_mut().zip(x).for_each(|(o, v)| *o = v.round_ties_even() as i8);
    }
    #[inline(always)]
    fn load_bytes(self, x: &[u8]) -> I {
        let x = &x[..4 * N];
        each(|i| u32::from_le_bytes([x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]]))
    }
    #[inline(always)]
    fn store_bytes(self, x: I, out: &mut [u8]) {
        for (x, out) in x.iter().zip(out[..4 * N].chunks_exact_mut(4)) {
            out.copy_from_slice(&x.to_le_bytes());
        }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        [x.cast_unsigned(); N]
    }
    #[inline(always)]
    fn splat_b(self, x: u8) -> I {
        [u32::from_le_bytes([x; 4]); N]
    }
    #[inline(always)]
    fn splat4(self, x: &[i8]) -> I {
        let x = &x[..4];
        [u32::from_le_bytes([x[0] as u8, x[1] as u8, x[2] as u8, x[3] as u8]); N]
    }
    #[inline(always)]
    fn and(self, a: I, b: I) -> I {
        each(|i| a[i] & b[i])
    }
    #[inline(always)]
    fn or(self, a: I, b: I) -> I {
        each(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn shr<const S: i32>(self, a: I) -> I {
        each(|i| a[i] >> S)
    }
    #[inline(always)]
    fn shl<const S: i32>(self, a: I) -> I {
        each(|i| a[i] << S)
    }
    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: I) -> I {
        each(|i| u32::from_le_bytes(bytes(index[i]).map(|b| table[usize::from(b & 15)])))
    }
    #[inline(always)]
    fn to_f(self, a: I) -> F {
        each(|i| a[i].cast_signed() as f32)
    }
    #[inline(always)]
    fn cast_f(self, a: I) -> F {
        each(|i| f32::from_bits(a[i]))
    }
    #[inline(always)]
    fn bits(self, a: F) -> I {
        each(|i| a[i].to_bits())
    }
    #[inline(always)]
    fn dot(self, acc: I, w: I, x: I) -> I {
        each(|i| {
            let (w, x) = (bytes(w[i]), bytes(x[i]));
            let sum: i32 = (0..4).map(|j| i32::from(w[j]) * i32::from(x[j].cast_signed())).sum();
            acc[i].wrapping_add(sum.cast_unsigned())
        })
    }
    #[inline(always)]
    fn dot_u8(self, acc: I, w: I, x: I) -> I {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn bf16_dot(self, acc: F, w: I, x: I) -> F {
        each(|i| {
            let low = f32::from_bits(w[i] << 16) * f32::from_bits(x[i] << 16);
            let high = f32::from_bits(w[i] & 0xffff_0000) * f32::from_bits(x[i] & 0xffff_0000);
            acc[i] + low + high
        })
    }
}
