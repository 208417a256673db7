//! Measured seconds of a step, by its number of rows.

/// Outlier bound: a measurement counts as at most this multiple of the estimate.
const MAX_OUTLIER_RATIO: f32 = 2.0;
/// Weight of a new measurement in the moving average.
const NEW_SAMPLE_WEIGHT: f32 = 0.125;

/// Decay of an untried class towards its proportional cost, each time that a smaller step is chosen.
const UNTRIED_DECAY: f32 = 1.0 / 64.0;

/// Moving averages of the seconds of a step, by its number of rows.
#[derive(Debug)]
pub(crate) struct StepCosts {
    /// The least number of rows of each class, ascending.
    rows: Vec<usize>,
    /// Seconds, one a class; 0 is not measured yet.
    seconds: Vec<f32>,
}

impl StepCosts {
    /// Costs of steps of at most `rows` rows, with a class for each number.
    pub(crate) fn new(rows: usize) -> StepCosts {
        StepCosts { rows: (1..=rows).collect(), seconds: vec![0.0; rows] }
    }

    /// Costs of steps of at most `rows` rows, with classes that grow by an eighth.
    pub(crate) fn by_classes(rows: usize) -> StepCosts {
        let next = |at: &usize| Some(at + (at / 8).max(1)).filter(|next| *next <= rows);
        let mut classes: Vec<usize> = std::iter::successors(Some(1), next).collect();
        if classes.last().is_some_and(|last| *last < rows) {
            classes.push(rows);
        }
        StepCosts { seconds: vec![0.0; classes.len()], rows: classes }
    }

    /// The least number of rows of each class, ascending.
    pub(crate) fn classes(&self) -> &[usize] {
        &self.rows
    }

    /// Records that a step of `rows` rows took `seconds`. More rows than the largest class are ignored.
    pub(crate) fn observe(&mut self, rows: usize, seconds: f32) {
        let Some(at) = self.rows.partition_point(|r| *r <= rows).checked_sub(1) else { return };
        if at + 1 == self.rows.len() && rows > self.rows[at] {
            return;
        }
        // A clock that stood still still means "measured". Larger steps of the class are scaled to its least number.
        let seconds = seconds.max(1e-9) * self.rows[at] as f32 / rows as f32;
        let known = &mut self.seconds[at];
        *known = if *known == 0.0 {
            seconds
        } else {
            *known + NEW_SAMPLE_WEIGHT * (seconds.min(MAX_OUTLIER_RATIO * *known) - *known)
        };
    }

    /// Lowers the estimates of larger steps than the chosen one of `rows` rows, at most to the same cost a row. Larger
    /// steps are not measured while they are not chosen, so one slow step would exclude them for ever. If they are as
    /// slow as estimated, the next one restores the estimate.
    pub(crate) fn decay_untried(&mut self, rows: usize) {
        let Some(a_row) = self.estimate(rows).map(|seconds| seconds / rows.max(1) as f32) else { return };
        let more = self.rows.partition_point(|r| *r <= rows);
        for (rows, seconds) in self.rows[more..].iter().zip(&mut self.seconds[more..]) {
            *seconds -= UNTRIED_DECAY * (*seconds - a_row * *rows as f32).max(0.0);
        }
    }

    /// Estimated seconds of a step of `rows` rows: as measured, or interpolated between the nearest that were. Past the
    /// largest it is taken to cost no more, so that it is tried. None if nothing is known.
    pub(crate) fn estimate(&self, rows: usize) -> Option<f32> {
        let measured = |at: &usize| self.seconds[*at] > 0.0;
        let split = self.rows.partition_point(|r| *r <= rows);
        let below = (0..split).rev().find(measured);
        let above = (split..self.rows.len()).find(measured);
        match (below, above) {
            (Some(below), Some(above)) => {
                let (low, high) = (self.rows[below], self.rows[above]);
                let share = (rows - low) as f32 / (high - low) as f32;
                Some(self.seconds[below] + share * (self.seconds[above] - self.seconds[below]))
            }
            (Some(at), None) | (None, Some(at)) => Some(self.seconds[at]),
            (None, None) => None,
        }
    }

    /// The smallest number of rows that was measured; the largest of all numbers if none was.
    pub(crate) fn smallest(&self) -> usize {
        self.seconds.iter().position(|s| *s > 0.0).map_or(usize::MAX, |at| self.rows[at])
    }

    /// The largest number of rows of the class that [`StepCosts::largest`] begins.
    pub(crate) fn largest_row(&self) -> usize {
        let next = self.rows.partition_point(|rows| *rows <= self.largest());
        self.rows.get(next).map_or(self.largest(), |next| next - 1)
    }

    /// The largest number of rows that was measured; 0 if none was.
    pub(crate) fn largest(&self) -> usize {
        self.seconds.iter().rposition(|s| *s > 0.0).map_or(0, |at| self.rows[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_measurements_lies_a_line() {
        let mut costs = StepCosts::new(20);
        assert_eq!(costs.estimate(3), None);
        costs.observe(2, 1.0);
        assert_eq!((costs.estimate(1), costs.estimate(9)), (Some(1.0), Some(1.0)), "nothing else is known");
        costs.observe(10, 5.0);
        assert_eq!(costs.estimate(4), Some(2.0));
        assert_eq!(costs.estimate(900), Some(5.0));
        costs.observe(900, 9.0);
        assert_eq!((costs.estimate(900), costs.largest()), (Some(5.0), 10));
    }

    #[test]
    fn many_rows_share_a_class() {
        let mut costs = StepCosts::by_classes(1000);
        assert!(costs.classes().starts_with(&[1, 2, 3]) && costs.classes().len() < 60);
        assert!(costs.classes().windows(2).all(|w| w[0] < w[1] && (w[1] - w[0]) * 8 <= w[0].max(8)));
        costs.observe(1, 1.0);
        let (at, next) = (costs.classes()[30], costs.classes()[31]);
        costs.observe(next - 1, 10.0 * (next - 1) as f32);
        assert!((costs.estimate(at).unwrap() / (10.0 * at as f32) - 1.0).abs() < 0.01);
        assert_eq!(costs.largest(), at);
    }

    #[test]
    fn what_is_not_tried_is_doubted_down_to_its_share() {
        let mut costs = StepCosts::new(4);
        for (rows, seconds) in [(1, 1.0), (2, 1.5), (3, 2.0), (4, 9.0)] {
            costs.observe(rows, seconds);
        }
        (0..2000).for_each(|_| costs.decay_untried(2));
        let estimates = [1, 2, 3, 4].map(|rows| costs.estimate(rows).unwrap());
        assert_eq!(estimates[..3], [1.0, 1.5, 2.0], "three cost less than three halves of two");
        assert!((estimates[3] - 3.0).abs() < 0.01, "{estimates:?}");
        let mut none = StepCosts::new(4);
        none.decay_untried(2);
        assert_eq!(none.estimate(2), None);
    }

    #[test]
    fn one_slow_step_moves_little_and_many_move_all() {
        let mut costs = StepCosts::new(4);
        costs.observe(1, 1.0);
        costs.observe(1, 100.0);
        assert!(costs.estimate(1).unwrap() < 1.2);
        (0..60).for_each(|_| costs.observe(1, 3.0));
        assert!((costs.estimate(1).unwrap() - 3.0).abs() < 0.01);
    }
}
