//! Tuning: one table for each micro-architecture.
//!
//! [`cpu::simd`] says which instructions a CPU has; these tables say what is fast with them. [`tune`] finds the table
//! at compile time from the token a kernel is compiled for, so that each kernel reads constants. To tune another
//! micro-architecture: a case in [`cpu::Uarch`], a token that names it, and a table here (CONTRIBUTING.md).
//!
//! A register tile is MR rows of activations × NR panels; a panel is as many outputs as a register has lanes. MR is the
//! least of [`Tune::mr`], `MicroKernel::MR` of the format (8; 2 for GEMV) and the rows that are interleaved,
//! `ROW_GROUP` (8). MC is in bytes of activations: 2 · K bytes a row in 8 bits. NC is a task's panels, by
//! `panels_per_task` in `gemm/mod.rs`. Over all of K, without KC:
//!
//! | quantized weights | lanes | int8 path | M = 1, 2 | M = 3, 4 | M ≥ 5 (NEON 7) | MC |
//! |---|---|---|---|---|---|---|
//! | [`avx512`]: Zen 5, Ice Lake, Sapphire Rapids | 16 | `vpdpbusd` | M × 2 | 4 × 2 | 8 × 2 | 256 KiB |
//! | [`zen4`], 8-bit activations | 16 | `vpdpbusd`, power-of-two scales | M × 1 | 4 × 2 | 8 × 1 | 256 KiB |
//! | [`zen4`], 16-bit activations | 16 | `vpdpbusd` | M × 1 | 4 × 2 | 8 × 2 | 256 KiB |
//! | [`avx2`]: Zen 3, Haswell and later | 8 | `vpmaddubsw` in `i16` | 1 × 1 | 4 × 2 | 4 × 2; 8 × 1 from 8 rows where unpacking dominates | 512 KiB |
//! | [`neon`] | 4 | `sdot`, `usdot` | 1 × 1 | 1 × 1, unpacked once for 4 rows | 1 × 1, unpacked once for 8 rows | 512 KiB |
//! | [`scalar`] | 8 | plain | 1 × 1 | 1 × 1, unpacked once for 2 rows | as before | 512 KiB |
//!
//! A row in 16 bits counts as two in M. On AVX2 `Q2_K` is 1 × 1 for every M, and formats with 8-bit codes are M × 1 for
//! M ≤ 2.
//!
//! | float weights | table | M = 1 | M = 2 | M = 3, 4 | M ≥ 5 (NEON 7) | MC, KC |
//! |---|---|---|---|---|---|---|
//! | `f32`, `f16` | AVX-512, NEON | 1 × 4 | 2 × 2 | 4 × 1 | 8 × 1 | MC 512 KiB |
//! | | AVX2 | 1 × 4 | 2 × 2 | 4 × 2 | 4 × 2 | MC 512 KiB |
//! | bf16 | AVX-512, NEON | 1 × 4 | 2 × 4 | 4 × 2 | 8 × 1 | MC 512 KiB |
//! | | AVX2 | 1 × 4 | 2 × 4 | 4 × 2 | 4 × 2 | MC 512 KiB |
//! | all | scalar | 1 × 2 | 2 × 1 | 2 × 1 | 2 × 1 | MC 512 KiB |
//! | [`bf16_dict12`] | AVX-512 | 1 × 2 | 2 × 2 | 4 × 2 | 8 × 2 | MC 512 KiB; for M > 64: MC 256 rows, KC 256 |
//!
//! On AMX a panel is 16 outputs, and a tile 16 rows × one panel; `amx.rs` has the numbers:
//!
//! | weights | M | register tile | MC | KC | NC |
//! |---|---|---|---|---|---|
//! | bf16 | < 32 | 1 tile × 4 panels | 512 KiB | all of K | – |
//! | bf16 | 32 to 63 | 2 tiles × 2 panels, the last 16 rows or fewer 1 × 4 | 512 KiB | all of K | – |
//! | bf16 | ≥ 64 | 2 tiles × 2 panels | 512 rows | 256 | 16 panels |
//! | `bf16_dict12`; quantized, dequantized to bf16 (prefill rows) | < 64 | 1 or 2 tiles × 2 panels | – | 256 | 2 panels |
//! | the same | ≥ 64 | 2 tiles × 2 panels | 512 rows | 256 | 16 panels |
//! | quantized, dequantized to f16 (`amx-fp16`) | ≤ 32 | 1 or 2 tiles × 2 panels | – | 32 | – |
//! | the same | > 32 | as `bf16_dict12` | | | |
//!
//! K is blocked only where weights are decoded into a cache buffer first ([`KC`]). Prefetch distances:
//!
//! | what | distance, into | set by | issued by |
//! |---|---|---|---|
//! | quantized weights, M ≤ 2 | 3 KiB, L1; none on Zen 4 and NEON | `Prefetch::gemv_weights`, `distance` | `unpack::Prefetcher` |
//! | quantized weights, M ≥ 3, and what AMX decodes | 3 KiB, L1; Zen 4: 8 KiB for one panel, 4 KiB for each of two, L2; none on NEON | `Prefetch::distance` | the same, whatever the switches say |
//! | `bf16_dict12`, M ≤ 64 | as M ≥ 3, for every M | `Prefetch::distance` | `gemm/bf16_dict12.rs` |
//! | `f32`, `f16`, plain bf16 weights | none | – | – |
//! | activations, MR = 8 of more than 8 rows | 16 KiB, L2; AVX-512 only, without power-of-two scales | `Prefetch::gemm_activations_and_output`, `activations` | `gemm/q8.rs` |
//! | output lines of a register tile | those of the tile, for writing; AVX-512 only | `Prefetch::gemm_activations_and_output` | `gemm/driver.rs`, `gemm/bf16_dict12.rs` |
//! | rows that are quantized or packed | the next run of 512 values, L2; AVX-512 only | [`RUNS_AHEAD`] | `activations/source.rs` |
//! | `bf16_dict12`, M > 64 | 4 groups of 8 columns | `bf16_dict12::PREFETCH_GROUPS` | `gemm/bf16_dict12.rs` |
//! | KV cache | the next block, or the next head's first one | the block table | `attention.rs` (`ahead`), `kv_layout.rs`, `kv_q8.rs`, `amx/attention.rs` |
//! | `bf16_dict12` on AMX | the next K-block, L2; L1 for M < 64 | [`KC`] | `amx/blocked.rs`: `prefetch_next_k_block` |
//! | activations on AMX | the next K-block, L2, from 1.5 MiB on | `amx::L2_ACTIVATION_BYTES` | `amx/blocked.rs`: `prefetch_rows_and_output` |

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod avx2;
mod avx512;
pub(crate) mod bf16_dict12;
mod neon;
mod scalar;
mod table;
mod zen4;

use cpu::simd::{Simd, has_zen4_bf16};
use cpu::{Tier, Uarch};

pub(crate) use table::{CacheLevel, Int8Path, Tune};

/// KC: columns of a K-block, which is decoded into L1 before it is multiplied: 16 KiB of two panels, in each of two
/// buffers. Of AMX, and of dictionary-compressed bf16, whose packed layout is cut by it: who changes it raises
/// [`PANEL_FORMAT_VERSION`](crate::PANEL_FORMAT_VERSION).
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX decodes a K-block at a time"))]
pub(crate) const KC: usize = 256;

/// Prefetch distance of rows that are quantized or packed, in runs of values: the next run, or the first of the next
/// row.
pub(crate) const RUNS_AHEAD: usize = 1;

/// The table for the token `S`.
pub(crate) const fn tune<S: Simd>() -> Tune {
    match (S::TIER, S::UARCH) {
        (Tier::Scalar, _) => scalar::TUNE,
        (Tier::Neon, _) => neon::TUNE,
        (Tier::Avx2, _) => avx2::TUNE,
        (Tier::Avx512 | Tier::Amx | Tier::AmxFp16, Uarch::Generic) => avx512::TUNE,
        (Tier::Avx512 | Tier::Amx | Tier::AmxFp16, Uarch::Zen4) if S::BF16_DOT => zen4::TUNE_BF16,
        (Tier::Avx512 | Tier::Amx | Tier::AmxFp16, Uarch::Zen4) => zen4::TUNE,
    }
}

/// Whether kernels of the token `S` accumulate as [`Int8Path::MaddubsI16`].
pub(crate) const fn maddubs_i16<S: Simd>() -> bool {
    matches!(tune::<S>().int8, Int8Path::MaddubsI16)
}

/// Whether kernels of the token `S` multiply as [`Int8Path::Pow2Scale`].
pub(crate) const fn pow2_scale<S: Simd>() -> bool {
    matches!(tune::<S>().int8, Int8Path::Pow2Scale)
}

/// Whether activations in eight bits get scales that are sums of two powers of two (`Int8Path::Pow2Scale`) on `tier` of this CPU.
pub fn has_pow2_scale(tier: Tier) -> bool {
    has_zen4_bf16(tier)
}

/// Whether [`Precision::Int8`](crate::Precision) is the fastest eight bits on `tier`: without a dot product of bytes, eight-bit codes
/// of other formats are taken apart into magnitude and sign, for every product.
pub fn multiplies_u7(tier: Tier) -> bool {
    tier == Tier::Avx2
}

/// Prefetches the cache line `ahead` bytes after the start of `x`, of weights or of the KV cache, into the table's cache level.
#[inline(always)]
pub(crate) fn prefetch<S: Simd>(s: S, x: &[u8], ahead: usize) {
    match const { tune::<S>().prefetch.level } {
        CacheLevel::L1 => s.prefetch(x, ahead),
        CacheLevel::L2 => s.prefetch_l2(x, ahead),
    }
}
