//! Cost model of a step, fitted while serving, and how many prompt rows fit beside decode rows.
//!
//! A step's seconds are modelled as `f(rows) + k · Σ positions that its prompt rows attend to`. `f` is measured by
//! number of rows (see [`StepCosts`]), without assumptions about its growth; `k` is fitted to prefill steps. Both are
//! moving averages, which follow changes of the machine's speed: noisy neighbours, quotas, lower clocks.

use std::time::Duration;

use crate::costs::StepCosts;

/// Prefill rows of a step with decode rows before anything is measured, and the minimum at any time: with fewer, a
/// prefill might never end.
const MIN_PROMPT_ROWS: usize = 4;
/// Prompt rows may add so much of a decode step's own time, even past the longest stall: with less, a large model
/// would read all of its weights again for a handful of rows.
const MIN_PROMPT_SHARE: f32 = 1.0;

/// Weights by which a step's time is charged to its rows, in seconds; only their ratio matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowWeights {
    /// Weight of each row.
    pub(crate) row: f32,
    /// Weight of each position that a prompt row attends to.
    pub(crate) attended_position: f32,
}

/// The cost model of an engine's steps.
#[derive(Debug)]
pub(crate) struct Pace {
    steps: StepCosts,
    /// Seconds for each position that a prompt row attends to.
    attention: Slope,
    /// Longest time between two tokens of a running answer, in seconds.
    max_stall: f32,
}

/// Work of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StepWork {
    pub(crate) rows: usize,
    /// Prefill rows among `rows`.
    pub(crate) prompt_rows: usize,
    /// Positions that prompt rows attend to, summed over the rows.
    pub(crate) attended_positions: u64,
}

impl Pace {
    pub(crate) fn new(max_rows: usize, max_stall: Duration) -> Pace {
        Pace {
            steps: StepCosts::by_classes(max_rows),
            attention: Slope::default(),
            max_stall: max_stall.as_secs_f32(),
        }
    }

    /// Learns from a step.
    pub(crate) fn observe(&mut self, work: StepWork, took: Duration) {
        let took = took.as_secs_f32();
        if work.prompt_rows > 0 && work.prompt_rows == work.rows {
            let rows = work.rows as f32;
            self.attention.observe(work.attended_positions as f32 / rows, took / rows, work.rows);
        }
        let attention = self.attention.slope * work.attended_positions as f32;
        // At least a tenth is charged to the rows themselves, whatever the slope says.
        self.steps.observe(work.rows, (took - attention).max(took / 10.0));
    }

    /// Seconds of a step of `rows` rows whose prompt rows attend to `attended_positions` positions in all. None before
    /// the first.
    fn seconds(&self, rows: usize, attended_positions: f32) -> Option<f32> {
        let largest = self.steps.largest();
        let known = self.steps.estimate(rows.min(largest.max(1)))?;
        let rows_s = if rows > largest { known * rows as f32 / largest as f32 } else { known };
        Some(rows_s + self.attention.slope * attended_positions)
    }

    /// Measured seconds of a step of `rows` rows; none beyond the steps that were measured.
    pub(crate) fn measured(&self, rows: usize) -> Option<f32> {
        let measured = self.steps.smallest()..=self.steps.largest_row();
        self.seconds(rows, 0.0).filter(|_| measured.contains(&rows))
    }

    /// Rows a second of the largest steps that were measured, if those have at least so many rows.
    pub(crate) fn prefill_rate(&self, least: usize) -> Option<f32> {
        let largest = self.steps.largest();
        let seconds = self.steps.estimate(largest).filter(|_| largest >= least)?;
        Some(largest as f32 / seconds)
    }

    /// Weights of the rows of a step of `rows` rows.
    pub(crate) fn weights(&self, rows: usize) -> RowWeights {
        match self.seconds(rows, 0.0) {
            Some(seconds) => {
                RowWeights { row: seconds / rows.max(1) as f32, attended_position: self.attention.slope }
            }
            None => RowWeights { row: 1.0, attended_position: 0.0 },
        }
    }

    /// Most prompt rows for a step that also decodes `decoding` rows, so that streams do not wait longer than they may:
    /// its own ones and, if another engine decodes on the same device, that one's, which may wait `foreign_stall`.
    /// `depth` is the position of the first of the prompt rows. Estimates of larger steps decay, see
    /// [`StepCosts::decay_untried`].
    pub(crate) fn prompt_rows(
        &mut self,
        decoding: usize,
        depth: usize,
        foreign_stall: Option<Duration>,
    ) -> usize {
        // Steps of hundreds of rows do not tell what one row costs.
        let least = decoding.max(1);
        let known = decoding > 0 || self.steps.smallest() <= MIN_PROMPT_ROWS;
        let Some(alone) = self.seconds(least, 0.0).filter(|_| known) else { return MIN_PROMPT_ROWS };
        let own = if decoding > 0 { self.max_stall } else { f32::MAX };
        let target = foreign_stall.map_or(own, |foreign| own.min(foreign.as_secs_f32()));
        let target = target.max(alone * (1.0 + MIN_PROMPT_SHARE));
        let attended = |rows: usize| rows as f32 * (depth as f32 + rows as f32 / 2.0);
        let fits = |total: usize| {
            let rows = total - decoding;
            self.seconds(total, attended(rows)).is_some_and(|seconds| seconds <= target)
        };
        let classes = self.steps.classes().iter().copied();
        let most = classes.skip_while(|total| *total <= decoding).take_while(|total| fits(*total)).last();
        self.steps.decay_untried(most.unwrap_or(decoding));
        most.map_or(MIN_PROMPT_ROWS, |total| (total - decoding).max(MIN_PROMPT_ROWS))
    }

    /// Seconds that `tokens` tokens of prompts take in steps of `chunk` rows. None before the first step.
    pub(crate) fn prefill_seconds(&self, tokens: usize, chunk: usize) -> Option<f32> {
        let chunk = chunk.min(tokens).max(1);
        Some(self.seconds(chunk, 0.0)? * tokens as f32 / chunk as f32)
    }
}

/// Slope of a line fitted to points whose weight decays with age.
#[derive(Debug, Clone, Copy, Default)]
struct Slope {
    weight: f32,
    x: f32,
    y: f32,
    xx: f32,
    xy: f32,
    /// y per x; never below 0.
    slope: f32,
    /// Points are comparable only among steps of as many rows.
    rows: usize,
}

impl Slope {
    /// Decay of a point's weight with each further point.
    const KEEP: f32 = 0.95;

    fn observe(&mut self, x: f32, y: f32, rows: usize) {
        if rows != self.rows {
            *self = Slope { rows, slope: self.slope, ..Slope::default() };
        }
        let sums = [&mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy];
        for (sum, term) in sums.into_iter().zip([1.0, x, y, x * x, x * y]) {
            *sum = *sum * Slope::KEEP + term;
        }
        let spread = self.weight * self.xx - self.x * self.x;
        // Points less than some hundred positions apart are lost in the noise.
        if spread > (256.0 * self.weight).powi(2) {
            self.slope = ((self.weight * self.xy - self.x * self.y) / spread).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine: 20 ms for the weights, 2 ms a row past the first eight, 1 us a row and position.
    fn machine(work: StepWork) -> Duration {
        let rows = work.rows.saturating_sub(8) as f64;
        Duration::from_secs_f64(0.020 + 0.002 * rows + 1e-6 * work.attended_positions as f64)
    }

    fn work(decoding: usize, prompt: usize, depth: usize) -> StepWork {
        let attended_positions = (prompt * depth + prompt * prompt / 2) as u64;
        StepWork { rows: decoding + prompt, prompt_rows: prompt, attended_positions }
    }

    #[test]
    fn prompt_rows_fill_what_a_stream_may_wait() {
        let mut pace = Pace::new(300, Duration::from_millis(100));
        assert_eq!(pace.prompt_rows(4, 0, None), MIN_PROMPT_ROWS, "nothing is known");
        for _ in 0..200 {
            for (decoding, prompt, depth) in [(0, 256, 0), (0, 256, 1024), (0, 256, 4096), (4, 0, 0)] {
                pace.observe(work(decoding, prompt, depth), machine(work(decoding, prompt, depth)));
            }
            for depth in [0, 4096] {
                let step = work(4, pace.prompt_rows(4, depth, None), depth);
                pace.observe(step, machine(step));
            }
        }
        for depth in [0, 1024, 4096] {
            let took = machine(work(4, pace.prompt_rows(4, depth, None), depth));
            assert!(
                (0.080..=0.110).contains(&took.as_secs_f64()),
                "at {depth}: {took:?} for {} rows",
                pace.prompt_rows(4, depth, None)
            );
        }
        let whole = pace.prefill_seconds(2560, 256).unwrap();
        assert!((4.0..6.5).contains(&whole), "{whole}");
    }

    /// Found on a machine whose neighbours slowed a step now and then: prompts beside streams went from 22 rows a step
    /// to 10, and stayed there.
    #[test]
    fn a_slow_step_does_not_shut_out_more_rows_for_good() {
        let mut pace = Pace::new(300, Duration::from_millis(100));
        let mut rows = |steps: usize, slow: fn(usize) -> bool| -> Vec<usize> {
            let step = |at: usize| {
                let step = work(4, pace.prompt_rows(4, 0, None), 0);
                pace.observe(step, machine(step).mul_f64(if slow(at) { 3.0 } else { 1.0 }));
                step.prompt_rows
            };
            (0..steps).map(step).collect()
        };
        let mean = |rows: &[usize]| rows.iter().sum::<usize>() as f64 / rows.len() as f64;
        let quiet = mean(&rows(400, |_| false)[200..]);
        // 46 rows in all take 96 ms; 51, the next class, would take 106.
        assert_eq!(quiet, 42.0);
        let slowed = rows(50, |_| true);
        assert_eq!(slowed[49], 10, "{slowed:?}");
        let after = mean(&rows(600, |_| false)[400..]);
        assert!(after > 0.95 * quiet, "{after} after {quiet}");
        let odd = mean(&rows(2000, |at| at % 50 == 0));
        assert!(odd > 0.85 * quiet, "{odd} where every fiftieth step is slow, {quiet} where none is");
    }

    /// An engine without streams of its own beside another one with streams, which may wait 60 ms.
    #[test]
    fn prompt_rows_fill_what_a_stream_of_another_engine_may_wait() {
        let foreign = Some(Duration::from_millis(60));
        let mut pace = Pace::new(300, Duration::from_millis(500));
        pace.observe(work(0, 256, 0), machine(work(0, 256, 0)));
        assert_eq!(pace.prompt_rows(0, 0, foreign), MIN_PROMPT_ROWS, "only large steps are known");
        for _ in 0..200 {
            let step = work(0, pace.prompt_rows(0, 0, foreign), 0);
            pace.observe(step, machine(step));
        }
        let rows = pace.prompt_rows(0, 0, foreign);
        let took = machine(work(0, rows, 0)).as_secs_f64();
        assert!((0.045..=0.061).contains(&took), "{took} s for {rows} rows");
        // With streams of its own the shorter of both times holds.
        (0..200).for_each(|_| pace.observe(work(4, 0, 0), machine(work(4, 0, 0))));
        assert!(pace.prompt_rows(4, 0, foreign) < pace.prompt_rows(4, 0, None));
    }

    #[test]
    fn a_machine_too_slow_for_the_stall_still_reads_prompts() {
        let mut pace = Pace::new(300, Duration::from_millis(1));
        (0..50).for_each(|_| pace.observe(work(4, 0, 0), Duration::from_secs(1)));
        assert!(pace.prompt_rows(4, 0, None) >= MIN_PROMPT_ROWS);
    }
}
