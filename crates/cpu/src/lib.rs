//! What the metal can do: one look at the machine, SIMD tiers, threads and memory.
//!
//! This is the only room with `unsafe`, intrinsics and thread creation; the rooms above build on its safe surface.
//! Deliberately absent: tensors, formats and any notion of a model.

mod frozen;
pub mod lanes;
mod lines;
mod map;
pub mod measure;
mod pages;
mod pool;
pub mod probe;
mod smaps;
pub mod thread;
mod tier;
pub mod usage;

pub use frozen::Frozen;
pub use lines::Lines;
pub use map::Map;
pub use pages::{Arena, Backing, PageKind, Pages};
pub use pool::{Cut, Pool, Strided, Tile, TileOf};
pub use tier::{Tier, UnknownTier};
