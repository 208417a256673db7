//! Arithmetic, fast: matrix products on packed weights, attention, norms, rotary embedding, activations.
//!
//! The shape of the room: a weight format is an *unpacker* (`unpack/`, one file a format); the loops over it are
//! written once (`matmul`), generic over the SIMD tier and the number of rows. The tier is chosen once for each job
//! that is handed to the pool. The scalar tier is the truth that the others are tested against.
//!
//! A row's result never depends on the rows around it, on the tile it falls into or on the number of threads: sums
//! run over `k` in one fixed order, and threads split output columns, never `k`. Batched equals alone, bit for bit.
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
pub use attention::{SeqRows, attention};
pub use elementwise::{Activation, activate, add, add_bias, gated, scale, soft_cap};
pub use error::Error;
pub use gemm::{MAX_GROUP, matmul, matmul_group};
pub use kv::{KvDtype, KvPool, KvShape};
pub use kv_block::{BLOCK_TOKENS, MAX_HEAD_DIM};
pub use matrix::{Matrix, Precision};
pub use norm::{RowNorm, rms_norm_in_place};
pub use panels::PANELS;
pub use rope::{Pairing, RopeTable, rope};
pub use tune::has_pow2_scale;

use cpu::{Pool, Tier};

/// Who computes: a SIMD tier and the threads.
pub struct Compute {
    /// The instructions to use.
    pub tier: Tier,
    /// The threads to use.
    pub pool: Pool,
    /// Whether rows of prompts multiply quantized weights in tiles, where the tier has them: see [`Activations::set`].
    pub prompt_tiles: bool,
}

impl Compute {
    /// Kernels that run on `pool` with the instructions of `tier`, prompts as answers.
    pub fn new(tier: Tier, pool: Pool) -> Compute {
        Compute { tier, pool, prompt_tiles: false }
    }
}
