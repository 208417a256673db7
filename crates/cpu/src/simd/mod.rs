//! SIMD tiers as capability tokens: an [`avx512::Avx512`] exists only if this CPU has the instructions.
//!
//! A kernel is written once, generic over [`Simd`], as a [`Job`]; [`Simd::call`] compiles it with the tier's
//! instructions enabled. Everything a job calls with a token must be `#[inline(always)]` and no closure, not even one
//! given to `map`: it would be compiled without them, each intrinsic a call with its registers in memory (`cargo xtask
//! counts` finds such calls). [`scalar::Scalar`] is the reference that the others are tested against.
//!
//! `available.rs` says which tiers this CPU has and which is best ([`Tier::best`](crate::Tier::best)); callers pass the
//! tier to [`dispatch()`], once a task of the pool. Deliberately absent: tuning (`kernels::tune`) and weight formats.

#[cfg(target_arch = "x86_64")]
pub mod amx;
mod available;
#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
mod dispatch;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod scalar;
#[cfg(test)]
mod tests;
mod traits;

pub use dispatch::{
    dispatch, dispatch_in_unit, dispatch_zen4_bf16_in_unit, has_bf16_dot, has_f16_tiles, has_tiles,
    has_zen4_bf16, int8_instructions, lanes,
};
pub use traits::{DotKind, Job, Simd, i16_quads};
