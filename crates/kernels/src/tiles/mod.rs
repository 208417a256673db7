//! Products in tiles, on the tier that has them: AMX. A tile multiplies bfloat16 pairs many times as fast as registers do, but
//! sums in an order of its own: what goes this way goes this way for any number of rows, so that batched equals alone.
//!
//! Quantized weights go this way for rows of prompts only, widened to bfloat16 (docs/decisions/0024): widening takes longer than a
//! row or two of products in registers.

mod attention;
mod blocked;
mod brains;
mod twelve;
mod widened;

pub(crate) use attention::{Tiled, fits};
pub(crate) use blocked::WIDTH;
pub(crate) use brains::{MANY, brains};
pub(crate) use twelve::twelves;
pub(crate) use widened::widened;
