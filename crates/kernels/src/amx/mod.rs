//! Products in tiles, on the tier that has them: AMX. A tile multiplies bfloat16 pairs many times as fast as registers do, but
//! sums in an order of its own: what goes this way goes this way for any number of rows, so that batched equals alone.
//!
//! Quantized weights go this way where tiles and registers have half precision (docs/decisions/0035): made halves, with scale and
//! minimum in each, they are multiplied as fast as memory gives them. Where there is bfloat16 only, rows of prompts alone may go
//! this way (docs/decisions/0024): widening takes longer there than a row or two of products in registers.

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
