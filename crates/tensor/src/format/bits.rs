//! The few ways in which formats pack small integers, each with its inverse.

use half::f16;

/// The f16 at byte `at`, as raw bits.
pub(super) fn half_bits(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The f16 at byte `at`.
pub(super) fn half(block: &[u8], at: usize) -> f32 {
    f16::from_bits(half_bits(block, at)).to_f32()
}

/// Writes `value` as f16 at byte `at` (the largest finite f16 if it is larger) and returns what was written.
pub(super) fn put_half(block: &mut [u8], at: usize, value: f32) -> f32 {
    let h = f16::from_f32(value.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()));
    block[at..at + 2].copy_from_slice(&h.to_le_bytes());
    h.to_f32()
}

/// 4-bit codes: each run of `half` bytes holds `half` codes in its low nibbles, then `half` more in its high ones.
pub(super) fn nibbles(packed: &[u8], half: usize, q: &mut [u8]) {
    for (bytes, q) in packed.chunks_exact(half).zip(q.chunks_exact_mut(2 * half)) {
        let (low, high) = q.split_at_mut(half);
        for i in 0..half {
            low[i] = bytes[i] & 15;
            high[i] = bytes[i] >> 4;
        }
    }
}

/// Inverse of [`nibbles`]; only the low four bits of each code are taken.
pub(crate) fn put_nibbles(q: &[u8], half: usize, packed: &mut [u8]) {
    for (bytes, q) in packed.chunks_exact_mut(half).zip(q.chunks_exact(2 * half)) {
        for i in 0..half {
            bytes[i] = (q[i] & 15) | (q[half + i] << 4);
        }
    }
}

/// 2-bit codes: each run of 32 bytes holds 128 codes, 32 in each pair of bits. They are or-ed into `q` at bit `shift`.
pub(super) fn or_pairs(packed: &[u8], shift: u32, q: &mut [u8]) {
    for (bytes, q) in packed.chunks_exact(32).zip(q.chunks_exact_mut(128)) {
        for (pair, q) in q.chunks_exact_mut(32).enumerate() {
            for i in 0..32 {
                q[i] |= (bytes[i] >> (2 * pair) & 3) << shift;
            }
        }
    }
}

/// Inverse of [`or_pairs`]: takes two bits of each code from bit `shift`.
pub(super) fn put_pairs(q: &[u8], shift: u32, packed: &mut [u8]) {
    for (bytes, q) in packed.chunks_exact_mut(32).zip(q.chunks_exact(128)) {
        for i in 0..32 {
            bytes[i] = (0..4).fold(0, |byte, pair| byte | (q[32 * pair + i] >> shift & 3) << (2 * pair));
        }
    }
}

/// One bit a code in 32 bytes: bit `b` of byte `i` belongs to code `32 b + i`. Or-ed into `q` at bit `shift`.
pub(super) fn or_planes(packed: &[u8], shift: u32, q: &mut [u8]) {
    for (plane, q) in q.chunks_exact_mut(32).enumerate() {
        for i in 0..32 {
            q[i] |= (packed[i] >> plane & 1) << shift;
        }
    }
}

/// Inverse of [`or_planes`]: takes bit `shift` of each code.
pub(super) fn put_planes(q: &[u8], shift: u32, packed: &mut [u8]) {
    for i in 0..32 {
        packed[i] = (0..8).fold(0, |byte, plane| byte | (q[32 * plane + i] >> shift & 1) << plane);
    }
}

/// One bit a code in four bytes, in order, as the fifth bit of 32 codes.
pub(super) fn or_fifth_bits(packed: &[u8], q: &mut [u8]) {
    for (i, q) in q.iter_mut().enumerate() {
        *q |= (packed[i / 8] >> (i % 8) & 1) << 4;
    }
}

/// Inverse of [`or_fifth_bits`].
pub(crate) fn put_fifth_bits(q: &[u8], packed: &mut [u8]) {
    packed.fill(0);
    for (i, q) in q.iter().enumerate() {
        packed[i / 8] |= (q >> 4 & 1) << (i % 8);
    }
}
