//! Products in tiles, on the tier that has them: AMX. A tile multiplies bfloat16 pairs many times as fast as registers do, but
//! sums in an order of its own: what goes this way goes this way for any number of rows, so that batched equals alone.
//!
//! Quantized weights go this way where tiles and registers have half precision (docs/decisions/0035): made halves, with scale and
//! minimum in each, they are multiplied as fast as memory gives them. Where there is bfloat16 only, rows of prompts alone may go
//! this way (docs/decisions/0024): widening takes longer there than a row or two of products in registers.

mod attention;
mod blocked;
mod brains;
mod halved;
mod twelve;
mod widened;

pub(crate) use attention::{Tiled, fits};
pub(crate) use blocked::WIDTH;
pub(crate) use brains::{MANY, brains};
pub(crate) use halved::halved;
pub(crate) use twelve::twelves;
pub(crate) use widened::widened;
