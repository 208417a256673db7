//! When a job is run again, and which class of jobs is asked for work next.

use crate::job::Class;
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

/// All classes, the most urgent first.
const CLASSES: [Class; 3] = [Class::Interactive, Class::Default, Class::Batch];
/// Turns of the classes in a round.
const TURNS: [u32; 3] = [16, 4, 1];

/// Whose turn it is among the classes: of 21 jobs 16 are interactive, 4 are of the default class and one is of a batch, as
/// long as all of them wait. A class that waits gets a turn after at most 20 of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credits {
    left: [u32; 3],
}

impl Default for Credits {
    fn default() -> Credits {
        Credits { left: TURNS }
    }
}

impl Credits {
    /// The class that is asked for a job next, and takes a turn; `waiting` says which classes have jobs.
    pub fn next(&mut self, waiting: impl Fn(Class) -> bool) -> Option<Class> {
        let waiting = CLASSES.map(waiting);
        if !waiting.contains(&true) {
            return None;
        }
        let turn = |left: &[u32; 3]| (0..CLASSES.len()).find(|&class| waiting[class] && left[class] > 0);
        let class = turn(&self.left).or_else(|| {
            self.left = TURNS;
            turn(&self.left)
        })?;
        self.left[class] -= 1;
        Some(CLASSES[class])
    }
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

    fn turns(credits: &mut Credits, waiting: [bool; 3], count: usize) -> Vec<Class> {
        std::iter::from_fn(|| credits.next(|class| waiting[class as usize])).take(count).collect()
    }

    #[test]
    fn classes_have_sixteen_four_and_one_turns() {
        let mut credits = Credits::default();
        for _ in 0..3 {
            let round = turns(&mut credits, [true; 3], 21);
            let count = |class| round.iter().filter(|turn| **turn == class).count();
            assert_eq!(CLASSES.map(count), [16, 4, 1]);
            assert_eq!(round[0], Class::Interactive);
        }
    }

    #[test]
    fn a_class_alone_has_every_turn() {
        let mut credits = Credits::default();
        assert_eq!(turns(&mut credits, [false, false, true], 50), vec![Class::Batch; 50]);
        assert_eq!(credits.next(|_| false), None);
    }

    #[test]
    fn a_class_that_waits_gets_a_turn_in_twenty_one() {
        for others in [[true, true, true], [true, false, true], [false, true, true]] {
            for before in 0..40 {
                let mut credits = Credits::default();
                turns(&mut credits, [true, true, false], before);
                assert!(turns(&mut credits, others, 21).contains(&Class::Batch), "{others:?} after {before}");
            }
        }
    }
}
