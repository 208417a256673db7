//! Whether the machine was quiet while something was measured.
//!
//! Two things tell that it was not. The kernel counts how long a thread that could have run waited for a CPU: where no
//! more threads compute than there are CPUs, that is what other programs took. And runs of one candidate that are far
//! apart say that something came and went, whatever it was.

use std::time::Duration;

/// Share of the threads' time that may have been waited.
const MOST_WAITED: f64 = 0.05;
/// How far the middle run may be above the fastest, as a share.
const MOST_SPREAD: f64 = 0.10;

/// How disturbed a measurement was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Noise {
    /// Share of the threads' time in which they waited for a CPU; none where the kernel does not count it.
    pub(super) waited: Option<f64>,
    /// How far the middle run of the chosen candidate is above its fastest, as a share; none with fewer than three.
    pub(super) spread: Option<f64>,
}

impl Noise {
    /// What is wrong with it, in words; none if it was quiet.
    pub(super) fn trouble(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let waited = self.waited.filter(|&share| share > MOST_WAITED);
        let spread = self.spread.filter(|&share| share > MOST_SPREAD);
        match (waited, spread) {
            (Some(waited), _) => {
                Some(format!("threads waited {} of the time for a CPU that others had", percent(waited)))
            }
            (None, Some(spread)) => Some(format!("runs of the same thing were {} apart", percent(spread))),
            (None, None) => None,
        }
    }
}

/// Time that this process's threads have waited for a CPU, ready to run; none where the kernel does not tell.
pub(super) fn waited() -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let mut sum = 0_u64;
    for task in tasks.flatten() {
        // A thread that has ended meanwhile has no file any more.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        sum = sum.saturating_add(text.split_whitespace().nth(1)?.parse().ok()?);
    }
    Some(Duration::from_nanos(sum))
}

/// How far the middle of `runs` is above the fastest, as a share of it.
pub(super) fn spread(runs: &[Duration]) -> Option<f64> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    let (first, middle) = (sorted.first()?.as_secs_f64(), sorted.get(sorted.len() / 2)?.as_secs_f64());
    (sorted.len() > 2 && first > 0.0).then(|| middle / first - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_named_by_its_cause() {
        assert_eq!(Noise::default().trouble(), None);
        assert_eq!(Noise { waited: Some(0.01), spread: Some(0.05) }.trouble(), None);
        let busy = Noise { waited: Some(0.47), spread: Some(0.5) }.trouble().unwrap();
        assert!(busy.contains("47 %") && busy.contains("others"), "{busy}");
        let jumpy = Noise { waited: None, spread: Some(0.5) }.trouble().unwrap();
        assert!(jumpy.contains("50 % apart"), "{jumpy}");
    }

    #[test]
    fn the_spread_is_the_middle_over_the_fastest() {
        let runs =
            |times: &[u64]| spread(&times.iter().map(|&t| Duration::from_millis(t)).collect::<Vec<_>>());
        assert_eq!(runs(&[100, 100]), None);
        assert!((runs(&[150, 100, 900]).unwrap() - 0.5).abs() < 1e-9);
    }
}
