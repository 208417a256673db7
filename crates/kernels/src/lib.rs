//! Fast arithmetic on CPUs: GEMM and GEMV on packed weights, attention, norms, rotary embedding, activations.
//!
//! Where things are, for a reader who knows BLIS or llama.cpp:
//!
//! | what | where |
//! |---|---|
//! | GEMM entry, partition into tasks of the thread pool, dispatch | `gemm/mod.rs`: [`matmul`], [`matmul_group`] |
//! | the loops around the micro-kernel (MC, NR, MR) | `gemm/driver.rs` |
//! | the GEMM's micro-kernel, quantized weights | `gemm/q8.rs`: `microkernel_dot` (VNNI, `sdot`); `gemm/q8_i16.rs` (AVX2); `gemm/q8_pow2.rs` (Zen 4) |
//! | micro-kernels of float weights | `gemm/float.rs`, `gemm/bf16.rs`, `gemm/bf16_dict12.rs` (lossless 12-bit bf16) |
//! | AMX tiles: micro-kernel, cache blocking | `amx/tile.rs`, `amx/blocked.rs` |
//! | MR, NR, MC, int8 path, prefetch distances | `tune/`: one table for each micro-architecture; KC, MC, NC of AMX in `tune/amx.rs` |
//! | software prefetch of weights | `unpack/mod.rs`: `Prefetcher`, by the distances of `tune/` |
//! | weight formats: packed layout, unpacking in registers | `unpack/`, one file a format, as `tensor/format` defines it |
//! | packing at load, packed cache | `matrix.rs`, `panels.rs` |
//! | quantization of activations | `activations/` |
//! | KV cache and attention | `kv.rs`, `kv_layout.rs` (f32, f16, bf16), `kv_q8.rs`, `attention.rs` |
//!
//! In short: a panel has as many rows of the weight matrix as a register has lanes, interleaved in quads of k. The micro-kernel broadcasts a
//! quad of activations and computes MR rows × NR panels (8 × 2 with AVX-512) over all of K; K is not blocked but where weights are
//! decoded into L1 first. A format is an *unpacker*; the loops are written once, generic over it and over [`cpu::simd::Simd`], which
//! says which instructions there are. The tier is dispatched once for each task. The scalar tier is the reference of all tests.
//!
//! A row's result never depends on the rows around it, on the tile it is in or on the number of threads: sums run over K in one fixed
//! order, and threads split M and N, never K. Batched equals alone, bit for bit.
//!
//! Deliberately absent: `unsafe`, I/O, the clock, logging, and allocation outside constructors.

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod bf16;
mod bf16_dict12;
mod elementwise;
mod error;
mod gemm;
mod kv;
mod kv_block;
mod kv_layout;
mod kv_q8;
mod matrix;
mod norm;
mod panels;
mod partial;
mod rope;
mod tune;
mod unpack;

pub use activations::{ActFormats, Activations};
pub use attention::{AttentionParams, SeqRows, attention};
pub use elementwise::{Activation, activate, add, add_bias, gated, scale, soft_cap};
pub use error::Error;
pub use gemm::{MAX_GROUP, matmul, matmul_group};
pub use kv::{KvDtype, KvPool, KvShape};
pub use kv_block::{BLOCK_TOKENS, MAX_HEAD_DIM};
pub use matrix::{Matrix, Precision};
pub use norm::{RowNorm, rms_norm_in_place};
pub use panels::PANEL_FORMAT_VERSION;
pub use rope::{Pairing, RopeTable, rope};
pub use tune::has_pow2_scale;

use cpu::{Pool, Tier};

/// What computes: a SIMD tier and a thread pool.
pub struct Compute {
    /// The tier of instructions.
    pub tier: Tier,
    /// The threads.
    pub pool: Pool,
    /// Whether prefill rows × quantized weights are multiplied in bf16 on AMX tiles, where the tier has them: see [`Activations::set`].
    pub prompt_tiles: bool,
}

impl Compute {
    /// Kernels of `tier` on `pool`, prefill rows as decode rows.
    pub fn new(tier: Tier, pool: Pool) -> Compute {
        Compute { tier, pool, prompt_tiles: false }
    }
}
