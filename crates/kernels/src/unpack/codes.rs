//! How the codes of 32 weights lie in a panel.
//!
//! A *quad* is four consecutive `k` of one row. A byte vector has, for each lane, the four bytes of one quad; quads
//! are numbered 0 to 7 within a sub-block. `put` places one lane's codes, `get` reads all lanes.

use super::SUB;
use cpu::lanes::Simd;

/// A code layout.
pub(crate) trait Codes {
    /// Bytes for 32 codes of one row.
    const BYTES: usize;
    /// Bits that a code uses once it is read; with eight, products need [`Simd::dot_wide`].
    const BITS: u32;
    /// Whether that is so.
    const WIDE: bool = Self::BITS == 8;
    /// Whether the stored bits index a table.
    const LOOKS_UP: bool = false;
    /// Writes the codes of `lane`.
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]);
    /// Reads the eight quads of all lanes.
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8];
}

/// Writes each quad's `bits(quad, codes)`, the four codes as little-endian bytes of a word, into `lane` of one of the `V`
/// vectors; quads that share a vector have bits of their own.
#[inline(always)]
fn scatter<const V: usize>(
    q: &[u8; SUB],
    lane: usize,
    out: &mut [u8],
    bits: impl Fn(usize, u32) -> (usize, u32),
) {
    let width = out.len() / V;
    let mut words = [0u32; V];
    for (quad, four) in q.as_chunks::<4>().0.iter().enumerate() {
        let (vector, bits) = bits(quad, u32::from_le_bytes(*four));
        words[vector] |= bits;
    }
    for (vector, word) in words.into_iter().enumerate() {
        out[vector * width + 4 * lane..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// `byte` in each byte of a word.
const fn each(byte: u8) -> u32 {
    u32::from_le_bytes([byte; 4])
}

// Loops and not `map` or `from_fn` below: a closure would be compiled without the tier's instructions.

#[inline(always)]
fn and_all<S: Simd>(s: S, mut quads: [S::I; 8], mask: S::I) -> [S::I; 8] {
    for quad in &mut quads {
        *quad = s.and(*quad, mask);
    }
    quads
}

#[inline(always)]
fn or_all<S: Simd>(s: S, mut low: [S::I; 8], high: [S::I; 8]) -> [S::I; 8] {
    for (low, high) in low.iter_mut().zip(high) {
        *low = s.or(*low, high);
    }
    low
}

/// Four bits: the low nibbles of vector `j` are quad `j`, the high nibbles quad `j + 4`.
pub(crate) struct Nibble;

impl Codes for Nibble {
    const BYTES: usize = 16;
    const BITS: u32 = 4;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        scatter::<4>(q, lane, out, |quad, codes| (quad % 4, (codes & each(15)) << (4 * (quad / 4))));
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let low = s.splat_b(15);
        let mut quads = [low; 8];
        for j in 0..4 {
            let v = s.load_bytes(&codes[4 * S::LANES * j..]);
            (quads[j], quads[j + 4]) = (s.and(v, low), s.and(s.shr::<4>(v), low));
        }
        quads
    }
}

/// One bit: bit `j` of the single vector belongs to quad `j`; read as the value 2^`TO`.
struct Bit;

impl Bit {
    const BYTES: usize = 4;
    fn put(q: &[u8; SUB], from: u32, lane: usize, out: &mut [u8]) {
        scatter::<1>(q, lane, out, |quad, codes| (0, ((codes >> from) & each(1)) << quad));
    }
    /// The eight quads, each bit moved to position `TO` (2 or 4).
    #[inline(always)]
    fn get<S: Simd, const TO: i32>(s: S, codes: &[u8]) -> [S::I; 8] {
        let v = s.load_bytes(codes);
        let mask = s.splat_b(1 << TO);
        // Shifts by a constant each; the mask drops what crosses byte borders.
        let shifted = if TO == 4 {
            [
                s.shl::<4>(v),
                s.shl::<3>(v),
                s.shl::<2>(v),
                s.shl::<1>(v),
                v,
                s.shr::<1>(v),
                s.shr::<2>(v),
                s.shr::<3>(v),
            ]
        } else {
            [
                s.shl::<2>(v),
                s.shl::<1>(v),
                v,
                s.shr::<1>(v),
                s.shr::<2>(v),
                s.shr::<3>(v),
                s.shr::<4>(v),
                s.shr::<5>(v),
            ]
        };
        and_all(s, shifted, mask)
    }
}

/// Two bits: bits 2·(j mod 4) of vector `j / 4` belong to quad `j`.
pub(crate) struct Two;

impl Codes for Two {
    const BYTES: usize = 8;
    const BITS: u32 = 2;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        scatter::<2>(q, lane, out, |quad, codes| (quad / 4, (codes & each(3)) << (2 * (quad % 4))));
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let (v, w) = (s.load_bytes(codes), s.load_bytes(&codes[4 * S::LANES..]));
        let shifted =
            [v, s.shr::<2>(v), s.shr::<4>(v), s.shr::<6>(v), w, s.shr::<2>(w), s.shr::<4>(w), s.shr::<6>(w)];
        and_all(s, shifted, s.splat_b(3))
    }
}

/// Three bits: two low ones, then one high one.
pub(crate) struct TwoAndBit;

impl Codes for TwoAndBit {
    const BYTES: usize = Two::BYTES + Bit::BYTES;
    const BITS: u32 = 3;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        let (low, high) = out.split_at_mut(out.len() * Two::BYTES / Self::BYTES);
        Two::put(q, lane, low);
        Bit::put(q, 2, lane, high);
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let low = Two::get(s, codes);
        let high = Bit::get::<S, 2>(s, &codes[Two::BYTES * S::LANES..]);
        or_all(s, low, high)
    }
}

/// Five bits: a nibble, then one high bit.
pub(crate) struct NibbleAndBit;

impl Codes for NibbleAndBit {
    const BYTES: usize = Nibble::BYTES + Bit::BYTES;
    const BITS: u32 = 5;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        let (low, high) = out.split_at_mut(out.len() * Nibble::BYTES / Self::BYTES);
        Nibble::put(q, lane, low);
        Bit::put(q, 4, lane, high);
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let low = Nibble::get(s, codes);
        let high = Bit::get::<S, 4>(s, &codes[Nibble::BYTES * S::LANES..]);
        or_all(s, low, high)
    }
}

/// Six bits: of four quads the first three have a vector each, and the fourth two bits in each of theirs, from bit 6 on.
pub(crate) struct Six;

impl Codes for Six {
    const BYTES: usize = 24;
    const BITS: u32 = 6;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        let width = out.len() / 6;
        for (four, out) in q.as_chunks::<16>().0.iter().zip(out.chunks_exact_mut(3 * width)) {
            let quads = four.as_chunks::<4>().0;
            let last = u32::from_le_bytes(quads[3]);
            for (i, (quad, out)) in quads.iter().zip(out.chunks_exact_mut(width)).enumerate() {
                let quad = u32::from_le_bytes(*quad);
                let bits = (quad & each(63)) | (((last >> (2 * i)) & each(3)) << 6);
                out[4 * lane..][..4].copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let (six, two) = (s.splat_b(63), s.splat_b(3));
        let mut quads = [six; 8];
        for g in 0..2 {
            let mut v = [six; 3];
            for i in 0..3 {
                v[i] = s.load_bytes(&codes[4 * S::LANES * (3 * g + i)..]);
                quads[4 * g + i] = s.and(v[i], six);
            }
            let low = s.or(s.and(s.shr::<6>(v[0]), two), s.and(s.shr::<4>(v[1]), s.splat_b(3 << 2)));
            quads[4 * g + 3] = s.or(low, s.and(s.shr::<2>(v[2]), s.splat_b(3 << 4)));
        }
        quads
    }
}

/// Eight bits: vector `j` is quad `j`.
pub(crate) struct Byte;

impl Codes for Byte {
    const BYTES: usize = 32;
    const BITS: u32 = 8;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        scatter::<8>(q, lane, out, |quad, codes| (quad, codes));
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let mut quads = [s.splat_i(0); 8];
        for (j, quad) in quads.iter_mut().enumerate() {
            *quad = s.load_bytes(&codes[4 * S::LANES * j..]);
        }
        quads
    }
}

/// Sixteen values that a nibble chooses from, each plus 128.
pub(crate) trait Table {
    /// The values.
    const VALUES: [u8; 16];
}

/// Four bits that index a [`Table`].
pub(crate) struct Lookup<T>(std::marker::PhantomData<T>);

impl<T: Table> Codes for Lookup<T> {
    const BYTES: usize = Nibble::BYTES;
    const BITS: u32 = 8;
    const LOOKS_UP: bool = true;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        Nibble::put(q, lane, out);
    }
    #[inline(always)]
    fn get<S: Simd>(s: S, codes: &[u8]) -> [S::I; 8] {
        let mut quads = Nibble::get(s, codes);
        for quad in &mut quads {
            *quad = s.lookup(&T::VALUES, *quad);
        }
        quads
    }
}

/// Adds 128 to each of sixteen signed values.
pub(crate) const fn biased(values: &[i8; 16]) -> [u8; 16] {
    let mut out = [0; 16];
    let mut i = 0;
    while i < 16 {
        out[i] = values[i].cast_unsigned() ^ 0x80;
        i += 1;
    }
    out
}
