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
mod table;
mod zen4;

use cpu::simd::{Simd, has_zen4_bf16};
use cpu::{Tier, Uarch};

pub(crate) use table::{CacheLevel, Int8Path, Tune};

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

/// Whether activations in eight bits get scales that are sums of two powers of two (`Int8Path::Pow2Scale`) on `tier` of this CPU.
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
