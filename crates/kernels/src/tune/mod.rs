//! Tuning: one table for each micro-architecture.
//!
//! [`cpu::simd`] says which instructions a CPU has; these tables say what is fast with them. [`tune`] finds the table at compile time
//! from the lanes a kernel is compiled for, so that each kernel reads constants. To tune another micro-architecture: a case in
//! [`cpu::Uarch`], lanes that name it, and a table here.
//!
//! | table | lanes | MR | NR | int8 path | GEMV prefetch | prefetch distance | into |
//! |---|---|---|---|---|---|---|---|
//! | [`avx512`]: Zen 5, Ice Lake, Sapphire Rapids | 16 | 8 | 2 panels = 32 | VNNI | yes | 3 KiB | L1 |
//! | [`zen4`] | 16 | 8 | 2 panels = 32; GEMV 1 panel | VNNI, power-of-two scales | no | 8 KiB, 4 KiB | L2 |
//! | [`avx2`]: Zen 3, Haswell and later | 8 | 8 | 1 panel = 8; 2 panels × 4 rows in `gemm/q8_i16.rs` | `vpmaddubsw` in i16 | yes | 3 KiB | L1 |
//! | [`neon`] | 4 | 8 | 1 panel = 4 | `sdot`, `usdot` | no | – | – |
//! | [`scalar`] | 8 | 2 | 1 panel = 8 | plain | no | – | – |
//!
//! K is not blocked but where weights are decoded into a cache buffer first: KC is 256 there ([`amx::KC`], `bf16_dict12::K_BLOCK`).

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod avx2;
mod avx512;
mod neon;
mod scalar;
mod zen4;

use cpu::simd::{Simd, has_zen4_bf16};
use cpu::{Tier, Uarch};

/// What is fast on a micro-architecture. None of it changes a result but [`Int8Path::Pow2Scale`].
#[derive(Clone, Copy)]
pub(crate) struct Tune {
    /// MR: the most rows of a GEMM register tile.
    pub(crate) mr: usize,
    /// NR in panels, for quantized weights: panels that share each broadcast of activations. With two, several rows and both panels
    /// are interleaved in the innermost loop, which hides the latency of the dot product.
    pub(crate) nr_panels: usize,
    /// NR in panels, at least, for `f32` and bf16 weights: two where a broadcast is an instruction of its own.
    pub(crate) nr_panels_float: usize,
    /// How eight-bit codes are multiplied and accumulated.
    pub(crate) int8: Int8Path,
    /// MC: rows pass over all panels of a task in chunks of so many bytes. Half of a 1 MiB L2 cache, the other half is the panels'.
    pub(crate) mc_bytes: usize,
    /// The most queries of an attention tile; above 8 where there are 32 registers.
    pub(crate) query_tile: usize,
    /// Software prefetch.
    pub(crate) prefetch: Prefetch,
}

/// Software prefetch of streams that the hardware prefetcher does not keep up with.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    /// Prefetch weights for one or two rows (GEMV) too, and values of the KV cache that three or four queries share. Off where the
    /// hardware prefetcher keeps up with one stream; GEMV then takes one panel at a time, whatever [`Tune::nr_panels`] says.
    pub(crate) gemv: bool,
    /// Prefetch the activations, and the output that they fill, when M is large.
    pub(crate) gemm: bool,
    /// Prefetch distance of weights in bytes: of one stream, and of each of two that are read side by side. About 100 ns of reading.
    pub(crate) distance: [usize; 2],
    /// Prefetch distance of activations in bytes, where `gemm`.
    pub(crate) activations: usize,
    /// The cache that weights and the KV cache are prefetched into.
    pub(crate) level: CacheLevel,
}

/// A cache that a prefetch instruction fills.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheLevel {
    /// The first level (`prefetcht0`).
    L1,
    /// The second level (`prefetcht1`).
    L2,
}

/// How products of eight-bit codes are accumulated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int8Path {
    /// Four products are added to an `i32` lane by one instruction (VNNI, `sdot`, `usdot`), or by plain code.
    Dot,
    /// Without VNNI: `vpmaddubsw` adds pairs in `i16`, of as many quads as fit, and `vpmaddwd` widens them once. Scales of 16 weights
    /// are multiplied in by the widening, eight-bit codes are taken apart into magnitude and sign, and the KV cache in eight bits is
    /// multiplied as words. With 16 registers, the register tile is 4 rows × 2 panels (`gemm/q8_i16.rs`).
    MaddubsI16,
    /// [`Int8Path::Dot`] where every multiply shares one unit: scales of activations are sums of two powers of two, applied by
    /// additions, and the minima of two sub-blocks are multiplied at once as bf16 pairs (`gemm/q8_pow2.rs`). Needs
    /// [`Simd::BF16_DOT`].
    Pow2Scale,
}

/// The table for the lanes `S`.
pub(crate) const fn tune<S: Simd>() -> Tune {
    match (S::TIER, S::UARCH) {
        (Tier::Scalar, _) => scalar::TUNE,
        (Tier::Neon, _) => neon::TUNE,
        (Tier::Avx2, _) => avx2::TUNE,
        (_, Uarch::Generic) => avx512::TUNE,
        (_, Uarch::Zen4) if S::BF16_DOT => zen4::TUNE_BF16,
        (_, Uarch::Zen4) => zen4::TUNE,
    }
}

/// Whether the lanes `S` accumulate as [`Int8Path::MaddubsI16`].
pub(crate) const fn maddubs_i16<S: Simd>() -> bool {
    matches!(tune::<S>().int8, Int8Path::MaddubsI16)
}

/// Whether the lanes `S` multiply as [`Int8Path::Pow2Scale`].
pub(crate) const fn pow2_scale<S: Simd>() -> bool {
    matches!(tune::<S>().int8, Int8Path::Pow2Scale)
}

/// Whether activations in eight bits get [`Int8Path::Pow2Scale`] on `tier` of this CPU.
pub fn has_pow2_scale(tier: Tier) -> bool {
    has_zen4_bf16(tier)
}

/// Prefetches the cache line `ahead` bytes after the start of `x`, of weights or of the KV cache, into the table's cache level.
#[inline(always)]
pub(crate) fn prefetch<S: Simd>(s: S, x: &[u8], ahead: usize) {
    match const { tune::<S>().prefetch.level } {
        CacheLevel::L1 => s.prefetch(x, ahead),
        CacheLevel::L2 => s.prefetch_l2(x, ahead),
    }
}
