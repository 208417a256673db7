//! When a job is run again, and which class of jobs is asked for work next.

use crate::time::{MINUTE, Millis, SECOND};

/// The pause after the first failed attempt.
const FIRST_PAUSE: Millis = 5 * SECOND;
/// The longest pause.
const LONGEST_PAUSE: Millis = 5 * MINUTE;
/// Each pause is so many times the one before it.
const GROWTH: i64 = 4;
/// A pause is longer or shorter by at most this share.
const SPREAD: f64 = 0.2;

/// The pause after the `attempt`-th failed attempt, counted from 1: 5 s, 20 s, 80 s and then 5 minutes, spread by up to 20 %
/// so that jobs that failed together do not come back together. `random` is a fraction in 0..1.
pub fn backoff(attempt: u32, random: f64) -> Millis {
    let steps = attempt.saturating_sub(1);
    let pause = GROWTH
        .checked_pow(steps)
        .map_or(LONGEST_PAUSE, |times| FIRST_PAUSE.saturating_mul(times).min(LONGEST_PAUSE));
    let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 };
    let factor = 1.0 - SPREAD + 2.0 * SPREAD * random;
    // At most 6 minutes: exact as a float and as an integer.
    (pause as f64 * factor).round() as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_minutes() {
        let middle: Vec<Millis> = (0..7).map(|attempt| backoff(attempt, 0.5)).collect();
        assert_eq!(middle, [5_000, 5_000, 20_000, 80_000, 300_000, 300_000, 300_000]);
        assert_eq!(backoff(u32::MAX, 0.5), 300_000);
    }

    #[test]
    fn pauses_are_spread_by_a_fifth() {
        assert_eq!(backoff(1, 0.0), 4_000);
        assert_eq!(backoff(1, 1.0), 6_000);
        assert_eq!(backoff(4, 1.0), 360_000);
        // Arguments that are no fractions do no harm.
        assert_eq!(backoff(1, f64::NAN), 5_000);
        assert_eq!(backoff(1, -7.0), 4_000);
        assert_eq!(backoff(1, 7.0), 6_000);
    }
}
