//! Addresses of Bitcoin and Ethereum, by their checksums.

use crate::kind::Kind;
use crate::sink::{SHAPE, SURE, Sink};
use sha2::{Digest, Sha256};

/// Offers what a word of letters and digits may be.
pub(crate) fn word(sink: &mut Sink, start: usize, end: usize) {
    let word = &sink.text[start..end];
    match word {
        [b'1' | b'3', ..] if (26..=35).contains(&word.len()) && base58check(word) => {
            sink.offer(Kind::BitcoinAddress, start, end, SURE);
        }
        [b'b' | b'B', b'c' | b'C', b'1', ..] if (14..=74).contains(&word.len()) && bech32(word) => {
            sink.offer(Kind::BitcoinAddress, start, end, SURE);
        }
        [b'0', b'x', hex @ ..] if hex.len() == 40 && hex.iter().all(u8::is_ascii_hexdigit) => {
            let mixed = hex.iter().any(u8::is_ascii_lowercase) && hex.iter().any(u8::is_ascii_uppercase);
            if !mixed || eip55(hex) {
                sink.offer(Kind::EthereumAddress, start, end, if mixed { SURE } else { SHAPE + 10 });
            }
        }
        _ => {}
    }
}

/// Base58 with 25 bytes, of which the last four begin the double SHA-256 of the others (Bitcoin, `base58.cpp`).
fn base58check(word: &[u8]) -> bool {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut bytes = [0_u8; 25];
    for letter in word {
        let Some(digit) = ALPHABET.iter().position(|known| known == letter) else { return false };
        let mut carry = digit as u32;
        for byte in bytes.iter_mut().rev() {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xFF) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return false;
        }
    }
    let (body, check) = bytes.split_at(21);
    let twice = Sha256::digest(Sha256::digest(body));
    matches!(body[0], 0 | 5) && twice[..4] == *check
}

/// BIP 173 and BIP 350: the checksum's residue is 1 for version 0 and 0x2bc830a3 for later ones.
fn bech32(word: &[u8]) -> bool {
    const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const STEPS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let upper = word.iter().any(u8::is_ascii_uppercase);
    if upper && word.iter().any(u8::is_ascii_lowercase) {
        return false;
    }
    let mut residue: u32 = 1;
    let mut step = |value: u8| {
        let top = residue >> 25;
        residue = (residue & 0x1ff_ffff) << 5 ^ u32::from(value);
        for (at, add) in STEPS.iter().enumerate() {
            if top >> at & 1 == 1 {
                residue ^= add;
            }
        }
    };
    for byte in *b"bc" {
        step(byte >> 5);
    }
    step(0);
    for byte in *b"bc" {
        step(byte & 31);
    }
    let mut version = None;
    for letter in &word[3..] {
        let Some(value) = ALPHABET.iter().position(|known| *known == letter.to_ascii_lowercase()) else {
            return false;
        };
        version.get_or_insert(value);
        step(value as u8);
    }
    residue == if version == Some(0) { 1 } else { 0x2bc8_30a3 }
}

/// EIP-55: a letter is a capital where the Keccak-256 hash of the small address has a nibble of 8 or more.
fn eip55(hex: &[u8]) -> bool {
    let hash = keccak_256(&hex.to_ascii_lowercase());
    hex.iter().enumerate().all(|(at, byte)| {
        let nibble = if at % 2 == 0 { hash[at / 2] >> 4 } else { hash[at / 2] & 15 };
        !byte.is_ascii_alphabetic() || byte.is_ascii_uppercase() == (nibble >= 8)
    })
}

/// Keccak-256 of fewer than 136 bytes, as Ethereum uses it: padding 0x01, before FIPS 202 changed it.
fn keccak_256(bytes: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 136];
    block[..bytes.len()].copy_from_slice(bytes);
    block[bytes.len()] ^= 1;
    block[135] ^= 0x80;
    let mut lanes = [0_u64; 25];
    for (lane, eight) in lanes.iter_mut().zip(block.chunks_exact(8)) {
        *lane = eight.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    // FIPS 202, 3.2.5: round constants by a register of eight bits.
    let mut register: u8 = 1;
    for _ in 0..24 {
        round(&mut lanes);
        for power in 0..7 {
            if register & 1 == 1 {
                lanes[0] ^= 1 << ((1_u64 << power) - 1);
            }
            register = register << 1 ^ if register & 0x80 != 0 { 0x71 } else { 0 };
        }
    }
    let mut out = [0; 32];
    for (eight, lane) in out.chunks_exact_mut(8).zip(lanes) {
        eight.copy_from_slice(&lane.to_le_bytes());
    }
    out
}

/// Theta, rho, pi and chi of FIPS 202, 3.2; lane (x, y) is at `x + 5 * y`.
fn round(lanes: &mut [u64; 25]) {
    let mut columns = [0; 5];
    for (x, column) in columns.iter_mut().enumerate() {
        *column = (0..5).fold(0, |sum, y| sum ^ lanes[x + 5 * y]);
    }
    for at in 0..25 {
        lanes[at] ^= columns[(at + 4) % 5] ^ columns[(at % 5 + 1) % 5].rotate_left(1);
    }
    let (mut x, mut y, mut kept) = (1, 0, lanes[1]);
    for t in 0..24_u32 {
        (x, y) = (y, (2 * x + 3 * y) % 5);
        kept = std::mem::replace(&mut lanes[x + 5 * y], kept.rotate_left((t + 1) * (t + 2) / 2 % 64));
    }
    for row in lanes.chunks_exact_mut(5) {
        let before = [row[0], row[1], row[2], row[3], row[4]];
        for (x, lane) in row.iter_mut().enumerate() {
            *lane = before[x] ^ (!before[(x + 1) % 5] & before[(x + 2) % 5]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_addresses_pass_and_changed_ones_fail() {
        // Bitcoin's first block, BIP 173, BIP 350, EIP-55.
        assert!(base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"));
        assert!(!base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"));
        assert!(base58check(b"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"));
        assert!(bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"));
        assert!(bech32(b"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4"));
        assert!(!bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"));
        assert!(bech32(b"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"));
        assert!(eip55(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"));
        assert!(!eip55(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"));
    }
}
