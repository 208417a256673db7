//! Layouts of the codes of 32 weights in a panel.
//!
//! A *quad* is four consecutive `k` of one row. A byte vector has, for each lane, the four bytes of one quad; quads
//! are numbered 0 to 7 within a sub-block. `put` writes one lane's codes, `quad` reads those of all lanes.

use super::grid::Grid;
use super::raw::SUB;
use cpu::simd::Simd;

/// A code layout.
pub(crate) trait Codes: 'static {
    /// Bytes for 32 codes of one row.
    const BYTES: usize;
    /// Bits of an unpacked code; codes of eight bits are multiplied by [`Simd::dot_u8`].
    const BITS: u32;
    /// Whether codes have eight bits.
    const EIGHT_BIT: bool = Self::BITS == 8;
    /// Whether quads `j` and `j + 4` share a register (as nibbles).
    const SHARES_REGISTER: bool = false;
    /// Whether the stored bits index a table.
    const TABLE_LOOKUP: bool = false;
    /// Writes the codes of `lane`.
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]);
    /// Reads quad `j` of all lanes.
    fn quad<S: Simd>(s: S, grid: &Grid, codes: &[u8], j: usize) -> S::I;
    /// Reads the eight quads of all lanes.
    #[inline(always)]
    fn get<S: Simd>(s: S, grid: &Grid, codes: &[u8]) -> [S::I; 8] {
        [
            Self::quad(s, grid, codes, 0),
            Self::quad(s, grid, codes, 1),
            Self::quad(s, grid, codes, 2),
            Self::quad(s, grid, codes, 3),
            Self::quad(s, grid, codes, 4),
            Self::quad(s, grid, codes, 5),
            Self::quad(s, grid, codes, 6),
            Self::quad(s, grid, codes, 7),
        ]
    }
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

/// The register `v` of `codes`.
#[inline(always)]
fn vector<S: Simd>(s: S, codes: &[u8], v: usize) -> S::I {
    s.load_bytes(&codes[4 * S::LANES * v..])
}

/// Four bits: the low nibbles of vector `j` are quad `j`, the high nibbles quad `j + 4`.
pub(crate) struct Nibble;

impl Codes for Nibble {
    const BYTES: usize = 16;
    const BITS: u32 = 4;
    const SHARES_REGISTER: bool = true;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        scatter::<4>(q, lane, out, |quad, codes| (quad % 4, (codes & each(15)) << (4 * (quad / 4))));
    }
    #[inline(always)]
    fn quad<S: Simd>(s: S, _: &Grid, codes: &[u8], j: usize) -> S::I {
        let v = vector(s, codes, j % 4);
        s.and(if j < 4 { v } else { s.shr::<4>(v) }, s.splat_b(15))
    }
}

/// One bit: bit `j` of the single vector belongs to quad `j`; read as the value 2^`TO`.
struct Bit;

impl Bit {
    const BYTES: usize = 4;
    fn put(q: &[u8; SUB], offset: u32, lane: usize, out: &mut [u8]) {
        scatter::<1>(q, lane, out, |quad, codes| (0, ((codes >> offset) & each(1)) << quad));
    }
    /// Quad `j`, each bit moved to position `TO` (2 or 4).
    #[inline(always)]
    fn quad<S: Simd, const TO: i32>(s: S, codes: &[u8], j: usize) -> S::I {
        let v = vector(s, codes, 0);
        // Shifts by a constant each; the mask drops what crosses byte borders.
        let moved = match TO - j as i32 {
            4 => s.shl::<4>(v),
            3 => s.shl::<3>(v),
            2 => s.shl::<2>(v),
            1 => s.shl::<1>(v),
            0 => v,
            -1 => s.shr::<1>(v),
            -2 => s.shr::<2>(v),
            -3 => s.shr::<3>(v),
            -4 => s.shr::<4>(v),
            _ => s.shr::<5>(v),
        };
        s.and(moved, s.splat_b(1 << TO))
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
    fn quad<S: Simd>(s: S, _: &Grid, codes: &[u8], j: usize) -> S::I {
        let v = vector(s, codes, j / 4);
        let moved = match j % 4 {
            0 => v,
            1 => s.shr::<2>(v),
            2 => s.shr::<4>(v),
            _ => s.shr::<6>(v),
        };
        s.and(moved, s.splat_b(3))
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
    fn quad<S: Simd>(s: S, grid: &Grid, codes: &[u8], j: usize) -> S::I {
        s.or(Two::quad(s, grid, codes, j), Bit::quad::<S, 2>(s, &codes[Two::BYTES * S::LANES..], j))
    }
}

/// Five bits: a nibble, then one high bit.
pub(crate) struct NibbleAndBit;

impl Codes for NibbleAndBit {
    const BYTES: usize = Nibble::BYTES + Bit::BYTES;
    const BITS: u32 = 5;
    const SHARES_REGISTER: bool = true;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        let (low, high) = out.split_at_mut(out.len() * Nibble::BYTES / Self::BYTES);
        Nibble::put(q, lane, low);
        Bit::put(q, 4, lane, high);
    }
    #[inline(always)]
    fn quad<S: Simd>(s: S, grid: &Grid, codes: &[u8], j: usize) -> S::I {
        s.or(Nibble::quad(s, grid, codes, j), Bit::quad::<S, 4>(s, &codes[Nibble::BYTES * S::LANES..], j))
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
    fn quad<S: Simd>(s: S, _: &Grid, codes: &[u8], j: usize) -> S::I {
        let first = j / 4 * 3;
        if j % 4 < 3 {
            return s.and(vector(s, codes, first + j % 4), s.splat_b(63));
        }
        let low = s.and(s.shr::<6>(vector(s, codes, first)), s.splat_b(3));
        let low = s.or(low, s.and(s.shr::<4>(vector(s, codes, first + 1)), s.splat_b(3 << 2)));
        s.or(low, s.and(s.shr::<2>(vector(s, codes, first + 2)), s.splat_b(3 << 4)))
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
    fn quad<S: Simd>(s: S, _: &Grid, codes: &[u8], j: usize) -> S::I {
        vector(s, codes, j)
    }
}

/// Four bits that index the values of a [`Grid`].
pub(crate) struct Lookup;

impl Codes for Lookup {
    const BYTES: usize = Nibble::BYTES;
    const BITS: u32 = 8;
    const TABLE_LOOKUP: bool = true;
    const SHARES_REGISTER: bool = true;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        Nibble::put(q, lane, out);
    }
    #[inline(always)]
    fn quad<S: Simd>(s: S, grid: &Grid, codes: &[u8], j: usize) -> S::I {
        s.lookup(&grid.values, Nibble::quad(s, grid, codes, j))
    }
}

/// Three bits that index the first eight values of a [`Grid`].
pub(crate) struct Lookup3;

impl Codes for Lookup3 {
    const BYTES: usize = TwoAndBit::BYTES;
    const BITS: u32 = 8;
    const TABLE_LOOKUP: bool = true;
    fn put(q: &[u8; SUB], lane: usize, out: &mut [u8]) {
        TwoAndBit::put(q, lane, out);
    }
    #[inline(always)]
    fn quad<S: Simd>(s: S, grid: &Grid, codes: &[u8], j: usize) -> S::I {
        s.lookup(&grid.values, TwoAndBit::quad(s, grid, codes, j))
    }
}
