//! What a step costs, by its number of rows, as measured.

use std::time::Duration;

/// A step slower than so many times the estimate says more of the machine than of the rows.
const MOST_SURPRISE: f32 = 2.0;
/// Weight of a new measurement.
const NEWS: f32 = 0.125;

/// Seconds a step, by rows.
#[derive(Debug)]
pub(crate) struct Costs {
    /// `[most rows + 1]`; 0 is not measured yet.
    seconds: Vec<f32>,
}

impl Costs {
    /// For steps of at most `rows` rows.
    pub(super) fn new(rows: usize) -> Costs {
        Costs { seconds: vec![0.0; rows + 1] }
    }

    /// A step of `rows` rows took so long. More rows than were announced are not noted.
    pub(super) fn observe(&mut self, rows: usize, took: Duration) {
        // A clock that stood still still means "measured".
        let took = took.as_secs_f32().max(1e-9);
        if let Some(known) = self.seconds.get_mut(rows) {
            *known = if *known == 0.0 {
                took
            } else {
                *known + NEWS * (took.min(MOST_SURPRISE * *known) - *known)
            };
        }
    }

    /// Seconds that a step of `rows` rows would take: as measured, or on the line between the nearest that were. Past
    /// the largest it is taken to cost no more, so that it is tried. None if nothing is known.
    pub(super) fn estimate(&self, rows: usize) -> Option<f32> {
        let known = |at: &usize| self.seconds[*at] > 0.0;
        let rows = rows.min(self.seconds.len() - 1);
        let below = (1..=rows).rev().find(known);
        let above = (rows..self.seconds.len()).find(known);
        match (below, above) {
            (Some(below), Some(above)) if below < above => {
                let share = (rows - below) as f32 / (above - below) as f32;
                Some(self.seconds[below] + share * (self.seconds[above] - self.seconds[below]))
            }
            (Some(at), _) | (None, Some(at)) => Some(self.seconds[at]),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_measurements_lies_a_line() {
        let mut costs = Costs::new(20);
        assert_eq!(costs.estimate(3), None);
        costs.observe(2, Duration::from_secs(1));
        assert_eq!((costs.estimate(1), costs.estimate(9)), (Some(1.0), Some(1.0)), "nothing else is known");
        costs.observe(10, Duration::from_secs(5));
        assert_eq!(costs.estimate(4), Some(2.0));
        assert_eq!(costs.estimate(900), Some(5.0));
        costs.observe(900, Duration::from_secs(5));
    }

    #[test]
    fn one_slow_step_moves_little_and_many_move_all() {
        let mut costs = Costs::new(4);
        costs.observe(1, Duration::from_secs(1));
        costs.observe(1, Duration::from_secs(100));
        assert!(costs.estimate(1).unwrap() < 1.2);
        (0..60).for_each(|_| costs.observe(1, Duration::from_secs(3)));
        assert!((costs.estimate(1).unwrap() - 3.0).abs() < 0.01);
    }
}
