//! What the hardware can do: the probe, SIMD tiers, threads and memory.
//!
//! The only crate with `unsafe`, intrinsics and thread creation; the crates above use its safe interface. Deliberately
//! absent: tensors, formats, tuning and any notion of a model.

mod aligned;
mod map;
pub mod measure;
mod pages;
mod pool;
pub mod probe;
mod readonly_bytes;
pub mod simd;
mod smaps;
pub mod thread;
mod tier;
pub mod usage;

pub use aligned::AlignedVec;
pub use map::Map;
pub use pages::{Arena, Backing, PageKind, Pages};
pub use pool::stripes::Stripes;
pub use pool::{MatrixTiles, Pool, Strided, Tile, TileOf};
pub use probe::Uarch;
pub use readonly_bytes::ReadonlyBytes;
pub use tier::{Tier, UnknownTier};
