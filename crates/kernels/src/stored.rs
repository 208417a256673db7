//! Floats as they lie in memory.

use cpu::lanes::Simd;

/// A stored float type.
pub(crate) trait Stored {
    /// Bytes of a value.
    const BYTES: usize;
    /// Reads a register of values.
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F;
}

/// IEEE binary32.
pub(crate) struct Single;

impl Stored for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f32_bytes(bytes)
    }
}

/// IEEE binary16.
pub(crate) struct Half;

impl Stored for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    fn load<S: Simd>(s: S, bytes: &[u8]) -> S::F {
        s.load_f16_bytes(bytes)
    }
}
