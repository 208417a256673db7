//! Arithmetic peaks: loops of independent multiply-adds in registers.

use crate::Tier;
#[cfg(target_arch = "x86_64")]
use crate::simd::amx::{Amx, ROWS, Tiles};
use crate::simd::{self, DotKind, Job, Simd};
use std::hint::black_box;

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Eight-bit integers, summed in 32 bits.
    Int8,
    /// bf16, summed in f32.
    Bf16,
    /// f32.
    F32,
}

impl Numbers {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Numbers::Int8 => "int8",
            Numbers::Bf16 => "bf16",
            Numbers::F32 => "f32",
        }
    }
}

/// Some thousand rounds; how many multiply-adds they were.
pub(super) fn multiply_add(tier: Tier, numbers: Numbers) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(amx) = Amx::for_tier(tier).filter(|_| numbers == Numbers::Bf16) {
        return tiles(amx);
    }
    match numbers {
        Numbers::Int8 => simd::dispatch(tier, Int8),
        Numbers::Bf16 => simd::dispatch(tier, Bf16),
        Numbers::F32 => simd::dispatch(tier, F32),
    }
}

/// Two tiles of rows times two of weights, all zeros, read anew for each round.
#[cfg(target_arch = "x86_64")]
fn tiles(amx: Amx) -> f64 {
    let tiles = Tiles::new(amx, ROWS, 64);
    let zeros = [0u8; 64 * ROWS];
    tiles.zero::<0>();
    tiles.zero::<1>();
    tiles.zero::<2>();
    tiles.zero::<3>();
    for _ in 0..ROUNDS {
        tiles.load_a::<0, _>(&zeros, 64, 0);
        tiles.load_a::<1, _>(&zeros, 64, 0);
        tiles.load_b::<0, _>(&zeros, 64);
        tiles.load_b::<1, _>(&zeros, 64);
        tiles.dot_bf16::<0, 0, 0>();
        tiles.dot_bf16::<1, 0, 1>();
        tiles.dot_bf16::<2, 1, 0>();
        tiles.dot_bf16::<3, 1, 1>();
    }
    (ROUNDS * 4 * ROWS * 16 * 32) as f64
}

/// The instructions of the peak of `numbers` on `tier`.
pub(super) fn instructions(tier: Tier, numbers: Numbers) -> &'static str {
    match (tier, numbers) {
        (Tier::Amx | Tier::AmxFp16, Numbers::Bf16) => "tdpbf16ps, tiles of 16 x 32 numbers",
        (_, Numbers::Int8) => simd::int8_instructions(tier),
        (Tier::Avx512, Numbers::Bf16) if simd::has_bf16_dot(tier) => "vdpbf16ps, 512 bits",
        (Tier::Scalar, Numbers::F32) => "plain code",
        (_, Numbers::F32) => "fused multiply-add",
        (_, _) => "widened to f32, multiply-add",
    }
}

/// The most accumulators of [`accumulators`].
const MAX_ACCUMULATORS: usize = 24;

/// Independent accumulators: at least latency times instructions a cycle, with registers left for the operands.
const fn accumulators<S: Simd>() -> usize {
    if many_registers::<S>() { MAX_ACCUMULATORS } else { 12 }
}

/// Whether there are registers for two of weights beside [`MAX_ACCUMULATORS`], each broadcast of activations shared by both.
const fn many_registers<S: Simd>() -> bool {
    matches!(S::TIER, Tier::Avx512)
}

/// Rounds over the sums for each look at the clock.
const ROUNDS: usize = 20_000;

/// Which register of weights and which number of `x` sum `i` is of. In pairs two sums share the number: to read one for each is what limits
/// a CPU that starts as many products a cycle as it reads registers.
#[inline(always)]
fn factors(i: usize, pairs: bool) -> [usize; 2] {
    if pairs { [i % 2, i / 2] } else { [0, i] }
}

// Each returns how many multiply-adds it did. Operands are read again each round from memory that the compiler must
// think changed, so that no product can be taken out of the loop; the numbers keep every sum small.

/// Dot products of bytes.
pub(super) struct Int8;

impl Job for Int8 {
    type Out = f64;
    const DOT_KIND: DotKind = DotKind::Int8;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let weights = [[3u8; 64]; 2];
        let x = [[5i8, -5, 5, -5]; MAX_ACCUMULATORS];
        let mut sums = [s.splat_i(0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let w = black_box(&weights).each_ref();
            let w = [s.load_bytes(w[0]), s.load_bytes(w[1])];
            let x = black_box(&x);
            for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                let [of_w, of_x] = factors(i, many_registers::<S>());
                *sum = s.dot(*sum, w[of_w], s.splat4(&x[of_x]));
            }
        }
        let mut results = [s.splat(0.0); MAX_ACCUMULATORS];
        for (result, sum) in results.iter_mut().zip(sums) {
            *result = s.to_f(sum);
        }
        keep(s, results);
        (ROUNDS * accumulators::<S>() * S::LANES * 4) as f64
    }
}

/// Dot products of bf16 pairs.
pub(super) struct Bf16;

impl Job for Bf16 {
    type Out = f64;
    const DOT_KIND: DotKind = DotKind::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        // 1.0 in bf16 is 0x3f80; its sign bit is 0x8000.
        let weights: [[u8; 64]; 2] = [std::array::from_fn(|i| if i % 2 == 0 { 0x80 } else { 0x3f }); 2];
        let x = [0xbf80_3f80_u32 as i32; MAX_ACCUMULATORS];
        let x_f32 = [1.0f32; MAX_ACCUMULATORS];
        let mut sums = [s.splat(0.0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let w = black_box(&weights).each_ref();
            let w = [s.load_bytes(w[0]), s.load_bytes(w[1])];
            if S::BF16_DOT {
                let x = black_box(&x);
                for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                    let [of_w, of_x] = factors(i, many_registers::<S>());
                    *sum = s.bf16_dot(*sum, w[of_w], s.splat_i(x[of_x]));
                }
            } else {
                let x = black_box(&x_f32);
                let low = s.cast_f(s.shl::<16>(w[0]));
                let high = s.cast_f(s.and(w[0], s.splat_i(0xffff_0000_u32 as i32)));
                for (sum, &value) in sums[..accumulators::<S>()].iter_mut().zip(x) {
                    let value = s.splat(value);
                    *sum = s.fma(high, value, s.fma(low, value, *sum));
                }
            }
        }
        keep(s, sums);
        (ROUNDS * accumulators::<S>() * S::LANES * 2) as f64
    }
}

/// Fused multiply-adds.
pub(super) struct F32;

impl Job for F32 {
    type Out = f64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let weights = [0.5f32; 64];
        let x = [0.25f32; MAX_ACCUMULATORS];
        let mut sums = [s.splat(0.0); MAX_ACCUMULATORS];
        for _ in 0..ROUNDS {
            let weights = black_box(&weights);
            let w = [s.load(&weights[..]), s.load(&weights[S::LANES..])];
            let x = black_box(&x);
            for (i, sum) in sums[..accumulators::<S>()].iter_mut().enumerate() {
                let [of_w, of_x] = factors(i, matches!(S::TIER, Tier::Avx512 | Tier::Avx2));
                *sum = s.fma(w[of_w], s.splat(x[of_x]), *sum);
            }
        }
        keep(s, sums);
        (ROUNDS * accumulators::<S>() * S::LANES) as f64
    }
}

/// Makes the compiler believe that the sums are used.
#[inline(always)]
pub(super) fn keep<S: Simd, const N: usize>(s: S, sums: [S::F; N]) {
    for sum in sums {
        let mut out = [0.0f32; 64];
        s.store(sum, &mut out);
        black_box(out);
    }
}
