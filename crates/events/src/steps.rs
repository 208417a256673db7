//! Steps of a model's engine: what they cost by their rows, which is what a planner needs of a server that runs, the
//! weights that they read, and the tokens that they verified.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::buckets;
use crate::family::ModelFamilies;
use crate::histogram::Histogram;

type Share = Gauge<f64, AtomicU64>;
type Seconds = Counter<f64, AtomicU64>;

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

/// Places in a proposal, as labels.
const POSITIONS: [&str; 16] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

pub(crate) struct StepMetrics {
    iteration_tokens: Histogram,
    step: Histogram,
    stall: Histogram,
    classes: Classes,
    weights: WeightReads,
    drafts: Drafts,
    turn_wait: Histogram,
    compute: Seconds,
}

/// Totals of each class, as [`UP_TO`].
struct Classes {
    steps: [Counter; UP_TO.len()],
    rows: [Counter; UP_TO.len()],
    seconds: [Seconds; UP_TO.len()],
}

struct WeightReads {
    bytes: Counter,
    bandwidth: Share,
    bytes_per_token: Share,
}

struct Drafts {
    drafts: Counter,
    proposed: Counter,
    accepted: Counter,
    /// The counter of each position, the first one first.
    accepted_at: [Counter; POSITIONS.len()],
}

impl StepMetrics {
    pub(crate) fn new(f: &mut ModelFamilies) -> StepMetrics {
        let histogram =
            |f: &mut ModelFamilies, name, help, buckets: &[f64]| f.add(name, help, Histogram::new(buckets));
        StepMetrics {
            iteration_tokens: histogram(
                f,
                "vllm:iteration_tokens_total",
                "Tokens computed in a step",
                &buckets::ITERATION_TOKENS,
            ),
            step: histogram(f, "gristmill_step_seconds", "Seconds a step took", &buckets::STEP_S),
            stall: histogram(
                f,
                "gristmill_stall_seconds",
                "Seconds of steps in which answers waited for prompts beside them",
                &buckets::STEP_S,
            ),
            classes: Classes::new(f),
            weights: WeightReads::new(f),
            drafts: Drafts::new(f),
            turn_wait: histogram(
                f,
                "gristmill_device_turn_wait_seconds",
                "Seconds that the engine waited for a turn on the device; its count is that of turns",
                &buckets::STEP_S,
            ),
            compute: f.add(
                "gristmill_device_compute_seconds",
                "Seconds that the engine had the device",
                Seconds::default(),
            ),
        }
    }

    /// A step of so many rows, `decoded` tokens of answers among them, that read `weight_bytes` (0 if unknown);
    /// `mixed` if answers waited in it for prompts.
    pub(crate) fn step(&self, rows: usize, decoded: usize, weight_bytes: u64, mixed: bool, took: Duration) {
        if mixed {
            self.stall.observe(took.as_secs_f64());
        }
        self.iteration_tokens.observe(rows as f64);
        self.step.observe(took.as_secs_f64());
        self.classes.record(rows, took);
        self.weights.record(weight_bytes, decoded, took);
    }

    pub(crate) fn verified(&self, proposed: usize, accepted: usize) {
        self.drafts.drafts.inc();
        self.drafts.proposed.inc_by(proposed as u64);
        self.drafts.accepted.inc_by(accepted as u64);
        self.drafts.accepted_at.iter().take(accepted).for_each(|counter| _ = counter.inc());
    }

    pub(crate) fn turn(&self, waited: Duration, computed: Duration) {
        self.turn_wait.observe(waited.as_secs_f64());
        self.compute.inc_by(computed.as_secs_f64());
    }
}

impl Classes {
    fn new(f: &mut ModelFamilies) -> Classes {
        let label = "rows_up_to";
        let classes = UP_TO.map(|(_, up_to)| up_to);
        Classes {
            steps: f.add_by("gristmill_steps", "Steps, by their rows up to a number", label, classes),
            rows: f.add_by("gristmill_steps_rows", "Rows of those steps", label, classes),
            seconds: f.add_by("gristmill_steps_seconds", "Seconds of those steps", label, classes),
        }
    }

    fn record(&self, rows: usize, took: Duration) {
        let at = UP_TO.partition_point(|(up_to, _)| *up_to < rows).min(UP_TO.len() - 1);
        self.steps[at].inc();
        self.rows[at].inc_by(rows as u64);
        self.seconds[at].inc_by(took.as_secs_f64());
    }
}

impl WeightReads {
    fn new(f: &mut ModelFamilies) -> WeightReads {
        WeightReads {
            bytes: f.add(
                "gristmill_weight_read_bytes",
                "Bytes of weights that steps read: each weight once a step, of experts as many as its rows use",
                Counter::default(),
            ),
            bandwidth: f.add(
                "gristmill_weight_read_bytes_per_second",
                "Bytes of weights that the last step read, over its time",
                Share::default(),
            ),
            bytes_per_token: f.add(
                "gristmill_weight_read_bytes_per_token",
                "Bytes of weights that the last step with answer tokens read, over these",
                Share::default(),
            ),
        }
    }

    fn record(&self, bytes: u64, decoded: usize, took: Duration) {
        if bytes == 0 {
            return;
        }
        self.bytes.inc_by(bytes);
        if !took.is_zero() {
            self.bandwidth.set(bytes as f64 / took.as_secs_f64());
        }
        if decoded > 0 {
            self.bytes_per_token.set(bytes as f64 / decoded as f64);
        }
    }
}

impl Drafts {
    fn new(f: &mut ModelFamilies) -> Drafts {
        let count = |f: &mut ModelFamilies, name, help| f.add(name, help, Counter::default());
        Drafts {
            drafts: count(
                f,
                "vllm:spec_decode_num_drafts",
                "Times that tokens were proposed ahead of the model",
            ),
            proposed: count(f, "vllm:spec_decode_num_draft_tokens", "Tokens proposed ahead of the model"),
            accepted: count(
                f,
                "vllm:spec_decode_num_accepted_tokens",
                "Proposed tokens that were what the model said",
            ),
            accepted_at: f.add_by(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens by their place in the proposal",
                "position",
                POSITIONS,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_in_the_class_that_ends_at_or_after_its_rows() {
        let classes = Classes::new(&mut ModelFamilies::default());
        for rows in [1, 5, 6, 7, 512, 513, 100_000] {
            classes.record(rows, Duration::from_millis(250));
        }
        let found = |at: usize| (classes.steps[at].get(), classes.rows[at].get(), classes.seconds[at].get());
        assert_eq!((found(0), found(4), found(5)), ((1, 1, 0.25), (2, 11, 0.5), (1, 7, 0.25)));
        assert_eq!((found(17), found(18)), ((1, 512, 0.25), (2, 100_513, 0.5)));
    }
}
