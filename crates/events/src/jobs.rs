//! Metrics of durable jobs: what waits, how it ended, and what went wrong on the way.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::Format;
use crate::histogram::Histogram;
use crate::named::{NamedFamily, add, written};

/// Seconds that jobs wait or run: from a tenth of a second to a day.
const SECONDS: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];
/// Seconds of a commit or a delivery.
const SHORT: [f64; 11] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0];

type Seconds = Gauge<f64, AtomicU64>;

/// A job that ended.
#[derive(Debug, Clone, Copy)]
pub struct JobEnd<'a> {
    /// `succeeded`, `failed`, `cancelled`, `expired` or `dead`.
    pub outcome: &'a str,
    /// Whether the job is a line of a batch.
    pub line: bool,
    /// Seconds from the time at which it could run to its first claim; none if it was never claimed.
    pub waited_s: Option<f64>,
    /// Seconds from its first claim to its end; none if it was never claimed.
    pub ran_s: Option<f64>,
}

/// Jobs of one status and class, now.
#[derive(Debug, Clone, Copy)]
pub struct JobCount<'a> {
    /// `queued`, `running`, …
    pub state: &'a str,
    /// `interactive`, `default` or `batch`.
    pub class: &'a str,
    /// How many.
    pub jobs: u64,
    /// Of queued ones: the age of the oldest, in seconds.
    pub oldest_s: Option<f64>,
}

/// What a store of jobs holds, now.
#[derive(Debug, Clone, Default)]
pub struct JobsNow<'a> {
    /// Jobs by status and class.
    pub counts: Vec<JobCount<'a>>,
    /// Batches by state.
    pub batches: Vec<(&'a str, u64)>,
    /// Dead letters.
    pub dead: u64,
    /// Seconds of this node's work that wait; none while no job has ended.
    pub backlog_s: Option<f64>,
    /// Bytes of tables and of files.
    pub bytes: [u64; 2],
}

/// All metrics of jobs.
pub struct JobMetrics {
    registry: Mutex<Registry>,
    now: NowMetrics,
    ends: NamedFamily<1, Counter>,
    lines: NamedFamily<1, Counter>,
    retries: NamedFamily<1, Counter>,
    waited: Histogram,
    ran: Histogram,
    leases_lost: Counter,
    fenced: Counter,
    deliveries: NamedFamily<1, Counter>,
    delivery_s: Histogram,
}

/// What is set when somebody asks.
struct NowMetrics {
    jobs: NamedFamily<2, Gauge>,
    oldest: NamedFamily<1, Seconds>,
    batches: NamedFamily<1, Gauge>,
    dead: Gauge,
    backlog: Seconds,
    bytes: NamedFamily<1, Gauge>,
}

impl NowMetrics {
    fn new(r: &mut Registry) -> NowMetrics {
        NowMetrics {
            jobs: add(
                r,
                "gristmill_jobs",
                "Jobs in the store, lines of batches among them",
                NamedFamily::new(["state", "class"], Gauge::default),
            ),
            oldest: add(
                r,
                "gristmill_jobs_oldest_queued_seconds",
                "Age of the oldest job that could run and waits",
                NamedFamily::new(["class"], Seconds::default),
            ),
            batches: add(
                r,
                "gristmill_batches",
                "Batches in the store",
                NamedFamily::new(["state"], Gauge::default),
            ),
            dead: add(r, "gristmill_jobs_dead", "Dead letters in the store", Gauge::default()),
            backlog: add(
                r,
                "gristmill_jobs_backlog_seconds",
                "Queued jobs, in seconds of this node's work at the mean time of recent jobs",
                Seconds::default(),
            ),
            bytes: add(
                r,
                "gristmill_jobs_store_bytes",
                "Bytes of the store of jobs",
                NamedFamily::new(["kind"], Gauge::default),
            ),
        }
    }
}

impl Default for JobMetrics {
    fn default() -> JobMetrics {
        JobMetrics::new()
    }
}

impl JobMetrics {
    /// All at zero.
    pub fn new() -> JobMetrics {
        let mut registry = Registry::default();
        let r = &mut registry;
        let counts = |label| NamedFamily::new([label], Counter::default);
        JobMetrics {
            now: NowMetrics::new(r),
            ends: add(r, "gristmill_job_ends", "Jobs that ended here", counts("outcome")),
            lines: add(r, "gristmill_batch_lines", "Lines of batches that ended here", counts("outcome")),
            retries: add(r, "gristmill_job_retries", "Attempts that are made again", counts("reason")),
            waited: add(
                r,
                "gristmill_job_wait_seconds",
                "Seconds that a job waited for its first attempt",
                Histogram::new(&SECONDS),
            ),
            ran: add(
                r,
                "gristmill_job_run_seconds",
                "Seconds from a job's first attempt to its end",
                Histogram::new(&SECONDS),
            ),
            leases_lost: add(
                r,
                "gristmill_job_leases_lost",
                "Leases that ended before their job did",
                Counter::default(),
            ),
            fenced: add(
                r,
                "gristmill_job_fenced_writes",
                "Late writes of workers that had lost their job, refused",
                Counter::default(),
            ),
            deliveries: add(
                r,
                "gristmill_webhook_attempts",
                "Attempts to deliver an event",
                counts("outcome"),
            ),
            delivery_s: add(
                r,
                "gristmill_webhook_seconds",
                "Seconds of an attempt to deliver an event",
                Histogram::new(&SHORT),
            ),
            registry: Mutex::new(registry),
        }
    }

    /// Counts a job that ended.
    pub fn ended(&self, end: &JobEnd<'_>) {
        let family = if end.line { &self.lines } else { &self.ends };
        family.get([end.outcome]).inc();
        if let Some(seconds) = end.waited_s {
            self.waited.observe(seconds);
        }
        if let Some(seconds) = end.ran_s {
            self.ran.observe(seconds);
        }
    }

    /// Counts an attempt that is made again, by the code of its error.
    pub fn retried(&self, reason: &str) {
        self.retries.get([reason]).inc();
    }

    /// Counts leases that ended before their jobs did.
    pub fn leases_lost(&self, leases: u64) {
        self.leases_lost.inc_by(leases);
    }

    /// Counts a late write that was refused.
    pub fn fenced(&self) {
        self.fenced.inc();
    }

    /// Counts an attempt to deliver an event: `delivered`, `failed` or `refused`.
    pub fn delivery(&self, outcome: &str, seconds: f64) {
        self.deliveries.get([outcome]).inc();
        self.delivery_s.observe(seconds);
    }

    /// Everything as text, with the figures of now.
    pub fn write(&self, now: &JobsNow<'_>, format: Format) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for count in &now.counts {
            self.now.jobs.get([count.state, count.class]).set(whole(count.jobs));
            if let Some(oldest) = count.oldest_s {
                self.now.oldest.get([count.class]).set(oldest);
            }
        }
        for (state, batches) in &now.batches {
            self.now.batches.get([state]).set(whole(*batches));
        }
        self.now.dead.set(whole(now.dead));
        self.now.backlog.set(now.backlog_s.unwrap_or_default());
        for (kind, bytes) in ["tables", "files"].into_iter().zip(now.bytes) {
            self.now.bytes.get([kind]).set(whole(bytes));
        }
        written(&registry, format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_gauges() {
        let metrics = JobMetrics::new();
        let end = JobEnd { outcome: "succeeded", line: false, waited_s: Some(2.0), ran_s: Some(0.4) };
        metrics.ended(&end);
        metrics.ended(&JobEnd { line: true, outcome: "failed", ..end });
        metrics.retried("http_500");
        metrics.leases_lost(2);
        metrics.fenced();
        metrics.delivery("delivered", 0.01);
        let count = JobCount { state: "queued", class: "batch", jobs: 7, oldest_s: Some(1.5) };
        let now = JobsNow { counts: vec![count], dead: 1, backlog_s: Some(30.0), ..JobsNow::default() };
        let text = metrics.write(&now, Format::Prometheus);
        for line in [
            "gristmill_jobs{state=\"queued\",class=\"batch\"} 7",
            "gristmill_jobs_oldest_queued_seconds{class=\"batch\"} 1.5",
            "gristmill_jobs_dead 1",
            "gristmill_jobs_backlog_seconds 30.0",
            "gristmill_job_ends_total{outcome=\"succeeded\"} 1",
            "gristmill_batch_lines_total{outcome=\"failed\"} 1",
            "gristmill_job_retries_total{reason=\"http_500\"} 1",
            "gristmill_job_leases_lost_total 2",
            "gristmill_job_fenced_writes_total 1",
            "gristmill_webhook_attempts_total{outcome=\"delivered\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
