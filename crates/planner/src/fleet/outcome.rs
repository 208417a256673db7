//! What a simulation came to.

use serde::Serialize;

use super::machine::Running;
use super::quantile;

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Machines.
    pub machines: usize,
    /// Requests that were counted.
    pub requests: usize,
    /// Requests refused because too many waited.
    pub refused: usize,
    /// Share of their time in which machines computed.
    pub utilization: f64,
    /// Time to the first token.
    pub ttft_ms: Spread,
    /// Time for each further token; of requests with more than one.
    pub tpot_ms: Spread,
    /// Time to the last token.
    pub latency_ms: Spread,
    /// Time until the first step with a row of the request.
    pub wait_ms: Spread,
    /// Requests that a machine has, waiting or running, over time.
    pub in_machine: f64,
    /// Requests waiting, all machines, when one comes.
    pub queued: Spread,
    /// Tokens generated a second, all machines.
    pub tokens_per_s: f64,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half are no greater.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |share| quantile(&values, share).unwrap_or(0.0);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Spread { mean, p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

#[derive(Default)]
pub(super) struct Samples {
    pub(super) ttft: Vec<f64>,
    pub(super) tpot: Vec<f64>,
    pub(super) latency: Vec<f64>,
    pub(super) wait: Vec<f64>,
    pub(super) queued: Vec<f64>,
}

impl Samples {
    pub(super) fn add(&mut self, done: &Running, now: f64) {
        let came = done.request.arrival.at_s;
        self.ttft.push((done.first_s - came) * 1e3);
        self.latency.push((now - came) * 1e3);
        self.wait.push((done.began_s - came) * 1e3);
        if done.generated > 1 {
            self.tpot.push((now - done.first_s) * 1e3 / f64::from(done.generated - 1));
        }
    }
}
