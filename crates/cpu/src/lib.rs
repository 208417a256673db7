//! What the metal can do: one look at the machine, SIMD tiers, threads and memory.
//!
//! This is the only room with `unsafe`, intrinsics and thread creation; the rooms above build on its safe surface.
//! Deliberately absent: tensors, formats and any notion of a model.

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
pub use pool::{MatrixTiles, Pool, Strided, Tile, TileOf};
pub use probe::Uarch;
pub use readonly_bytes::ReadonlyBytes;
pub use tier::{Tier, UnknownTier};
