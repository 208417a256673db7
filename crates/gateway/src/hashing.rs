//! Hashes that are the same in every process, and random bytes.

/// A 64-bit hash that is the same in every process (FNV-1a, finished with a mix).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state ^= state >> 33;
    state = state.wrapping_mul(0xff51_afd7_ed55_8ccd);
    state ^ (state >> 33)
}

/// Random bytes of the operating system's, by the keys of the standard library's hash tables.
pub(crate) fn random() -> [u8; 32] {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut bytes = [0; 32];
    for (at, part) in bytes.chunks_mut(8).enumerate() {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_usize(at);
        part.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    bytes
}
