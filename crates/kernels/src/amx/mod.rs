//! GEMM and attention on AMX tiles. A tile multiplies bf16 pairs many times as fast as registers do, but sums in an
//! order of its own: what uses tiles does so for any number of rows, so that batched equals alone.
//!
//! Products are of bf16 (`TDPBF16PS`) or f16 (`TDPFP16PS`). Int8 tiles (`TDPBSSD`) are deliberately not used: the sums
//! of quantized weights would leave the tiles every 32 weights to be scaled (decisions 23 and 24).
//!
//! | file | what |
//! |---|---|
//! | `tile.rs` | tiles, accumulators; `multiply`, the micro-kernel for small M and edges |
//! | `blocked.rs` | cache blocking for many rows (MC, NC in [`crate::tune::amx`], KC in [`crate::tune`]); `full_block`, the micro-kernel of 2 × 2 tiles |
//! | `bf16.rs`, `bf16_dict12.rs` | bf16 weights, plain and dictionary-compressed |
//! | `f16_tiles.rs` | quantized weights dequantized to f16, where tiles and registers have it (docs/lab/amx-tiles.md#decision-35) |
//! | `dequant_bf16.rs` | quantized weights × prefill rows, dequantized to bf16 (docs/decisions/0024): slower than VNNI for one or two rows, so decode rows do not use it |
//! | `attention.rs` | the bf16 KV cache |

mod attention;
mod bf16;
mod bf16_dict12;
mod blocked;
mod dequant_bf16;
mod f16_tiles;
mod tile;

pub(crate) use attention::{AmxBf16, head_dim_fits};
pub(crate) use bf16::gemm as gemm_bf16;
pub(crate) use bf16_dict12::gemm as gemm_bf16_dict12;
pub(crate) use dequant_bf16::gemm as gemm_dequant_bf16;
pub(crate) use f16_tiles::gemm as gemm_f16_tiles;
pub(crate) use tile::BLOCKED_MIN_M;
