//! What steps cost, by their rows: what a planner needs of a server that runs.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Rows up to which a step belongs to a class, ascending; the last class has no end.
const UP_TO: [(usize, &str); 19] = [
    (1, "1"),
    (2, "2"),
    (3, "3"),
    (4, "4"),
    (6, "6"),
    (8, "8"),
    (12, "12"),
    (16, "16"),
    (24, "24"),
    (32, "32"),
    (48, "48"),
    (64, "64"),
    (96, "96"),
    (128, "128"),
    (192, "192"),
    (256, "256"),
    (384, "384"),
    (512, "512"),
    (usize::MAX, "+Inf"),
];

/// Totals of each class.
pub(crate) struct StepMetrics {
    classes: [Class; UP_TO.len()],
}

struct Class {
    steps: Counter,
    rows: Counter,
    seconds: Counter<f64, AtomicU64>,
}

impl StepMetrics {
    pub(crate) fn new(r: &mut Registry) -> StepMetrics {
        type Labels = [(&'static str, &'static str); 1];
        let steps = Family::<Labels, Counter>::default();
        let rows = Family::<Labels, Counter>::default();
        let seconds = Family::<Labels, Counter<f64, AtomicU64>>::default();
        r.register("gristmill_steps", "Steps, by their rows up to a number", steps.clone());
        r.register("gristmill_steps_rows", "Rows of those steps", rows.clone());
        r.register("gristmill_steps_seconds", "Seconds of those steps", seconds.clone());
        let class = |(_, up_to)| {
            let labels = [("rows_up_to", up_to)];
            Class {
                steps: steps.get_or_create_owned(&labels),
                rows: rows.get_or_create_owned(&labels),
                seconds: seconds.get_or_create_owned(&labels),
            }
        };
        StepMetrics { classes: UP_TO.map(class) }
    }

    pub(crate) fn record(&self, rows: usize, took: Duration) {
        let at = UP_TO.partition_point(|(up_to, _)| *up_to < rows);
        let class = &self.classes[at.min(UP_TO.len() - 1)];
        class.steps.inc();
        class.rows.inc_by(rows as u64);
        class.seconds.inc_by(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_in_the_class_that_ends_at_or_after_its_rows() {
        let metrics = StepMetrics::new(&mut Registry::default());
        for rows in [1, 5, 6, 7, 512, 513, 100_000] {
            metrics.record(rows, Duration::from_millis(250));
        }
        let found = |at: usize| {
            let class = &metrics.classes[at];
            (class.steps.get(), class.rows.get(), class.seconds.get())
        };
        assert_eq!((found(0), found(4), found(5)), ((1, 1, 0.25), (2, 11, 0.5), (1, 7, 0.25)));
        assert_eq!((found(17), found(18)), ((1, 512, 0.25), (2, 100_513, 0.5)));
    }
}
