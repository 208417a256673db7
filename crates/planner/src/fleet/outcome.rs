//! Results of a simulation.

use serde::Serialize;

use super::machine::RunningRequest;
use super::quantile;

/// The results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Number of machines.
    pub machines: usize,
    /// Finished requests, without those of the warm-up.
    pub requests: usize,
    /// Requests refused because a queue was full.
    pub refused: usize,
    /// Share of the time in which machines computed, 0 to 1.
    pub utilization: f64,
    /// Time to first token, ms.
    pub ttft_ms: Spread,
    /// Mean time per output token after the first, ms, of requests with more than one.
    pub tpot_ms: Spread,
    /// Time to the last token, ms.
    pub latency_ms: Spread,
    /// Time until the first step with a row of the request, ms.
    pub wait_ms: Spread,
    /// Waiting and running requests of a machine, averaged over time.
    pub in_machine: f64,
    /// Waiting requests of all machines at each arrival.
    pub queued: Spread,
    /// Tokens generated a second, all machines.
    pub tokens_per_s: f64,
}

/// Mean and percentiles of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |share| quantile(&values, share).unwrap_or(0.0);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Spread { mean, p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

/// Times of the counted requests in milliseconds, and queue lengths at arrivals.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) ttft: Vec<f64>,
    pub(super) tpot: Vec<f64>,
    pub(super) latency: Vec<f64>,
    pub(super) wait: Vec<f64>,
    pub(super) queued: Vec<f64>,
}

impl Samples {
    pub(super) fn add(&mut self, done: &RunningRequest, now: f64) {
        let came = done.request.arrival.at_s;
        self.ttft.push((done.first_s - came) * 1e3);
        self.latency.push((now - came) * 1e3);
        self.wait.push((done.began_s - came) * 1e3);
        if done.generated > 1 {
            self.tpot.push((now - done.first_s) * 1e3 / f64::from(done.generated - 1));
        }
    }
}
