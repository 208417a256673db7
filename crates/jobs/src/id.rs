//! Identifiers: a prefix that tells the kind, and a ULID, so that ids sort by the time at which they were made.
//!
//! Format: <https://github.com/ulid/spec>: 48 bits of Unix milliseconds and 80 random bits in Crockford's base 32.

use crate::time::Millis;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A new id, such as `job_01ARZ3NDEKTSV4RRFFQ69G5FAV`. Of `random`, the low 80 bits are used.
pub fn new_id(prefix: &str, now: Millis, random: u128) -> String {
    let time = u128::from(now.max(0).unsigned_abs() & ((1 << 48) - 1));
    let bits = (time << 80) | (random & ((1 << 80) - 1));
    let mut id = String::with_capacity(prefix.len() + 26);
    id.push_str(prefix);
    for digit in (0..26).rev() {
        id.push(char::from(DIGITS[((bits >> (5 * digit)) & 31) as usize]));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        assert_eq!(new_id("job_", 0, 0), "job_00000000000000000000000000");
        assert_eq!(new_id("", 1_469_918_176_385, 0), "01ARYZ6S410000000000000000");
        assert!(new_id("job_", 1, 0) > new_id("job_", 0, u128::MAX));
    }
}
