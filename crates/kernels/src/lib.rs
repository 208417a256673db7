//! Fast arithmetic on CPUs: GEMM and GEMV on packed weights, attention, norms, rotary embedding, activations.
//!
//! Where things are, for a reader who knows BLIS or llama.cpp:
//!
//! | what | where |
//! |---|---|
//! | GEMM entry, partition into tasks (NC), dispatch by weight layout and tier | `gemm/mod.rs`: [`matmul`], [`matmul_group`], `gemm_task` |
//! | the loops around the micro-kernel (MC, NR, MR), for GEMV too | `gemm/driver.rs`: `Gemm::run`, `loop_m` |
//! | loops that also block K (KC) | `amx/blocked.rs`; `gemm/bf16_dict12.rs`: `Dict12Blocked` |
//! | micro-kernels | the next table |
//! | MR, NR, KC, MC, NC, int8 path, prefetch distances, by micro-architecture | `tune/`: its `mod.rs` has all in tables |
//! | software prefetch of weights | `unpack/mod.rs`: `Prefetcher` |
//! | weight formats: packed layout, unpacking in registers | `unpack/`, one file per format, of a code layout (`codes.rs`) and a scale layout (`scales.rs`); what a file's bytes mean is in `tensor/format` |
//! | packing at load | `matrix.rs`: [`Matrix::pack_into`], `pack_panel`; `unpack/mod.rs`: `pack` |
//! | packed cache | `panels.rs` |
//! | quantization of activations | `activations/` |
//! | KV cache: blocks, writing; the heads of its layers | `kv.rs`, `kv_q8.rs` (8 bits); `kv_shape.rs` |
//! | attention: tiles of queries, loop over KV blocks, online softmax | `attention.rs`: `Attend::tile`, `OnlineSoftmax` |
//! | linear attention and convolutions with a state instead of a KV cache | `recurrent/`, their states `states.rs` |
//! | attention: biases of scores by position (ALiBi, T5, DeBERTa) | `attention_bias.rs`: [`ScoreBias`] |
//! | attention: innermost loops, q·k and weights·v | `kv_layout.rs`: `accumulate_operand` (f32, f16, bf16); `kv_q8.rs`: `add_dots`; `amx/attention.rs`: `add_scores`, `add_weighted` |
//!
//! The micro-kernel of GEMM and GEMV, by instruction set (M rows of activations):
//!
//! | | quantized weights | `f32`, `f16` | bf16 |
//! |---|---|---|---|
//! | AVX-512 (VNNI) | `gemm/q8.rs`: `microkernel_dot` | `gemm/float.rs` | `gemm/bf16_dict12.rs` (lossless 12 bits), `gemm/bf16.rs` |
//! | Zen 4 | 8-bit activations `gemm/q8_pow2.rs`: `tile`; 16-bit ones as AVX-512 | as AVX-512 | as AVX-512 |
//! | AVX2 | M ≥ 3: `gemm/q8_i16.rs`: `microkernel_i16`; M ≤ 2, and `Q2_K`: `gemm/q8.rs`: `dot_quads`, `microkernel_dot`, or `gemv_i16_scaled` | `gemm/float.rs` | `gemm/bf16.rs` |
//! | NEON (`sdot`, `usdot`) | `gemm/q8.rs`: `dot_quads`, one row × one panel at a time | `gemm/float.rs` | `gemm/bf16.rs` |
//! | AMX (bf16 tiles) | prefill rows with [`Compute::prompt_tiles`]: `amx/dequant_bf16.rs`; all others, and 16-bit activations, as AVX-512 | as AVX-512 | `amx/bf16_dict12.rs`, `amx/bf16.rs` |
//! | AMX-FP16 (f16 tiles) | any M: `amx/f16_tiles.rs` | as AVX-512 | as AMX |
//!
//! Float weights that are quantized when they are packed ([`Precision::Int8`], for encoders on AVX2) have a layout of their
//! own, `int8.rs`, and one micro-kernel for all tiers, `gemm/u7.rs`.
//!
//! What multiplies AMX tiles is `amx/tile.rs`: `multiply` (small M, edges) and `amx/blocked.rs`: `full_block` (2 × 2
//! tiles). Where `dot_quads` or `dot_scaled` is named, the instructions are in `cpu::simd`, in the file of the token.
//!
//! Deliberately not used: int8 AMX tiles (decisions 23 and 24: sums would leave the tiles every 32 weights), and of
//! NEON `smmla` and `bfdot` (decision 15). There is no tier for AVX-VNNI in 256 bits (such CPUs run AVX2) or SVE (they
//! run NEON). A new format or instruction set goes where `CONTRIBUTING.md` lists ("A weight format", "A SIMD tier").
//!
//! In short: a panel has as many rows of the weight matrix as a register has lanes, interleaved in quads of k (bf16: in
//! pairs; `f32` and `f16`: one k at a time). The micro-kernel broadcasts a quad of activations and computes MR rows ×
//! NR panels (8 × 2 with AVX-512) over all of K; K is blocked only where weights are decoded into L1 first. Each format
//! supplies its unpacking code (the trait `Format`); the loops are written once for every path but AMX and K-blocked
//! 12-bit bf16, generic over the format and over [`cpu::simd::Simd`], which says which instructions there are. The tier
//! is dispatched once for each task. The scalar tier is the reference of all tests.
//!
//! A row's result never depends on the rows around it, on the tile it is in or on the number of threads: sums run over
//! K in one fixed order, and threads split M and N, never K. Batched equals alone, bit for bit.
//!
//! Deliberately absent: `unsafe`, I/O, the clock, logging, and allocation outside constructors and packing. Two
//! exceptions: `amx/blocked.rs` allocates a thread's accumulators at its first large GEMM, and [`KvPool::write`] grows
//! its lists when a step touches more than 512 blocks.

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod attention_bias;
mod attention_head;
mod bf16;
mod bf16_dict12;
mod elementwise;
mod error;
mod gemm;
mod int8;
mod kv;
mod kv_block;
mod kv_layout;
mod kv_q8;
mod kv_shape;
mod matrix;
mod norm;
mod panels;
mod partial;
mod recurrent;
mod rope;
mod states;
mod tune;
mod unpack;

pub use activations::{ActFormats, Activations};
pub use attention::{SeqRows, attention};
pub use attention_bias::{DisentangledBias, DistanceBias, PositionScores, RelativeIndex, ScoreBias};
pub use attention_head::{AttentionParams, Mask};
pub use elementwise::{
    Activation, CLAMPED_SWISH_ALPHA, CLAMPED_SWISH_LIMIT, activate, add, add_bias, gated, multiply_columns,
    scale, soft_cap, take_columns,
};
pub use error::Error;
pub use gemm::{MAX_GROUP, Product, matmul, matmul_each, matmul_group};
pub use kv::KvPool;
pub use kv_block::{BLOCK_TOKENS, MAX_HEAD_DIM};
pub use kv_shape::{KvDtype, KvHeads, KvShape};
pub use matrix::{Matrix, Precision};
pub use norm::{RowNorm, l2_norm_heads, rms_norm_in_place};
pub use panels::PANEL_FORMAT_VERSION;
pub use recurrent::{
    CausalConv, LinearAttention, LinearRows, StateRule, causal_conv, gated_norm_groups, linear_attention,
};
pub use rope::{Pairing, RopeTable, rope};
pub use states::{NO_STATE, StatePool, StateShape};
pub use tune::{has_pow2_scale, multiplies_u7};

use cpu::{Pool, Tier};

/// Execution context: a SIMD tier and a thread pool.
pub struct Compute {
    /// The tier of instructions.
    pub tier: Tier,
    /// The threads.
    pub pool: Pool,
    /// Whether prefill rows × quantized weights are multiplied in bf16 on AMX tiles, where the tier has them: see [`Activations::set`].
    pub prompt_tiles: bool,
}

impl Compute {
    /// Kernels of `tier` on `pool`, computing prefill rows like decode rows.
    pub fn new(tier: Tier, pool: Pool) -> Compute {
        Compute { tier, pool, prompt_tiles: false }
    }
}
