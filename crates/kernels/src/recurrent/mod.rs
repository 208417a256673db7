//! Layers with a state of one size instead of keys and values: causal convolution and linear attention.
//!
//! Both go row by row, for prompts as for answers: a row's result has the same bits however the rows of its sequence
//! are cut into steps, so a state can be saved at any row and continued later. The chunked form of linear attention
//! would sum in another order at each cut. It would save little: a row costs two multiply-adds for each value of the
//! state, 1 to 3 % of a layer's matrices, and the state's columns stay in L1 for all rows of a step
//! (docs/decisions/0075-recurrent-state.md).
//!
//! Work is split by channels and heads, each for all sequences: a head's states, and its columns of the output, are
//! stripes of two matrices that no other task touches.

mod conv;
mod gated_norm;
mod linear;

pub use conv::{CausalConv, causal_conv};
pub use gated_norm::gated_norm_groups;
pub use linear::{LinearAttention, LinearRows, StateRule, linear_attention};
