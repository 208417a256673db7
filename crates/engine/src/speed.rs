//! The measured speed of an engine, as anyone may read it at any time: its cost model at a few numbers of rows.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::pace::Pace;

/// Numbers of rows at which step times are told.
const ROWS: [usize; 8] = [1, 2, 4, 8, 16, 64, 256, 1024];
/// Prefill is measured by steps of at least so many rows: one of fewer says little about long prompts.
const PREFILL_ROWS: usize = 16;

/// The measured speed of an engine; empty before its first steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speed {
    /// Rows of a step, ascending, and the time that it takes. At most eight, none beyond the steps that were measured.
    pub steps: Vec<(usize, Duration)>,
    /// Tokens of prompts computed a second, in steps of the size that prompts are computed in.
    pub prompt_tokens_per_s: Option<f32>,
}

/// The live form of [`Speed`].
#[derive(Debug, Default)]
pub(crate) struct SpeedGauges {
    /// Seconds of a step of [`ROWS`], as bits; 0 is not known.
    steps: [AtomicU32; ROWS.len()],
    prompt_tokens_per_s: AtomicU32,
}

impl SpeedGauges {
    /// Takes what the cost model says; prompts are computed in steps of at most `chunk` rows.
    pub(crate) fn store(&self, pace: &Pace, chunk: usize) {
        let bits = |value: Option<f32>| value.unwrap_or_default().to_bits();
        for (rows, seconds) in ROWS.iter().zip(&self.steps) {
            seconds.store(bits(pace.measured(*rows)), Relaxed);
        }
        let rate = pace.prefill_rate(PREFILL_ROWS.min(chunk));
        self.prompt_tokens_per_s.store(bits(rate), Relaxed);
    }

    pub(crate) fn read(&self) -> Speed {
        let known =
            |gauge: &AtomicU32| Some(f32::from_bits(gauge.load(Relaxed))).filter(|value| *value > 0.0);
        let times = ROWS.iter().zip(&self.steps);
        let steps =
            times.filter_map(|(rows, gauge)| Some((*rows, Duration::try_from_secs_f32(known(gauge)?).ok()?)));
        Speed { steps: steps.collect(), prompt_tokens_per_s: known(&self.prompt_tokens_per_s) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::StepWork;

    #[test]
    fn only_what_was_measured_is_told() {
        let (mut pace, gauges) = (Pace::new(300, Duration::from_millis(100)), SpeedGauges::default());
        gauges.store(&pace, 256);
        assert_eq!(gauges.read(), Speed::default());
        let work = |rows: usize, prompt_rows| StepWork { rows, prompt_rows, attended_positions: 0 };
        // 10 ms a step, and 1 ms a row.
        let took = |rows: u32| Duration::from_millis(10) + Duration::from_millis(1) * rows;
        for rows in [1, 2, 4] {
            (0..40).for_each(|_| pace.observe(work(rows, 0), took(rows as u32)));
        }
        gauges.store(&pace, 256);
        let speed = gauges.read();
        assert_eq!(speed.steps.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(speed.prompt_tokens_per_s, None, "no prompt was computed");
        let close = |is: Duration, wanted: Duration| is.abs_diff(wanted) < Duration::from_micros(10);
        assert!(speed.steps.iter().all(|(rows, time)| close(*time, took(*rows as u32))), "{speed:?}");
        (0..40).for_each(|_| pace.observe(work(256, 256), took(256)));
        gauges.store(&pace, 256);
        let rate = gauges.read().prompt_tokens_per_s.unwrap();
        assert!((rate / (256.0 / 0.266) - 1.0).abs() < 0.02, "{rate}");
        assert_eq!(gauges.read().steps.len(), 7);
    }
}
