//! Weighted rendezvous hashing (Thaler and Ravishankar, 1998; weights by Schindelhauer and Schomaker, 2005).
//!
//! Each target has a score for a key, which follows from both hashes alone, and the highest wins. So all replicas of a
//! gateway prefer the same target without telling each other, and a target that comes or goes moves only its own share.

use crate::random::{mix, to_unit};

/// The hash of a target's name.
pub(crate) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0x51_7c_c1_b7_27_22_0a_95, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// The score of a target of `weight` for `key`: an exponential number of that rate, inverted.
pub(crate) fn score(key: u64, name: u64, weight: u32) -> f64 {
    let unit = to_unit(mix(key ^ name.rotate_left(32)).wrapping_add(mix(name)));
    f64::from(weight.max(1)) / -unit.min(1.0 - f64::EPSILON).ln()
}

/// Factor of the load bound: a target takes at most this times its share of the requests in flight, rounded up
/// (Mirrokni, Thorup and Zadimoghaddam, 2018).
pub const LOAD_BOUND: f64 = 1.25;

/// Requests that a target of `weight` may have in flight when `total` are, this one included.
pub(crate) fn bounded_load(total: f64, weight: u32, weights: u64) -> f64 {
    let share = f64::from(weight.max(1)) / (weights.max(1) as f64);
    (LOAD_BOUND * total * share).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(key: u64, targets: &[(&str, u32)]) -> usize {
        let of = |at: &usize| score(key, name_hash(targets[*at].0), targets[*at].1);
        (0..targets.len()).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or(0)
    }

    #[test]
    fn shares_are_those_of_the_weights() {
        let targets = [("a", 1), ("b", 2), ("c", 5)];
        let mut won = [0; 3];
        (0..80_000).for_each(|key| won[winner(mix(key), &targets)] += 1);
        for (share, right) in won.into_iter().zip([10_000.0, 20_000.0, 50_000.0]) {
            assert!((f64::from(share) / right - 1.0).abs() < 0.03, "{won:?}");
        }
    }

    #[test]
    fn a_target_that_goes_moves_only_its_own() {
        let all = [("a", 1), ("b", 1), ("c", 1), ("d", 1)];
        for key in 0..1000 {
            let (before, after) = (winner(mix(key), &all), winner(mix(key), &all[..3]));
            assert!(before == 3 || before == after);
        }
    }

    #[test]
    fn bounds_are_rounded_up() {
        assert_eq!(
            [bounded_load(1.0, 1, 4), bounded_load(8.0, 1, 4), bounded_load(16.0, 2, 4)],
            [1.0, 3.0, 10.0]
        );
    }
}
