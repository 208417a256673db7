//! Products in tiles, on the tier that has them: AMX. A tile multiplies bfloat16 pairs many times as fast as registers do, but
//! sums in an order of its own: what goes this way goes this way for any number of rows, so that batched equals alone.
//!
//! Quantized weights are not here: their sums would have to leave the tiles every 32 weights to be scaled, which takes as long
//! as multiplying in registers (docs/decisions/0023).

mod attention;
mod brains;

pub(crate) use attention::{Tiled, fits};
pub(crate) use brains::brains;
