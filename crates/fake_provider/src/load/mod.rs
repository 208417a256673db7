//! Requests at full speed, at a fixed rate, or as streams that are held open, and what became of them.
//!
//! At a fixed rate a latency begins when the request was due, not when a connection was free to send it: what waits
//! behind a slow answer counts with its wait ("coordinated omission" corrected).

mod exchange;
mod pacer;

use crate::Histogram;
use bytes::Bytes;
use exchange::{Connection, Failure, Target};
use pacer::Pacer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::task::JoinSet;

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadMode {
    /// Each connection sends its next request when it has the answer to the last one.
    Closed,
    /// Requests a second on all connections together, at even distances.
    Open {
        /// Requests a second.
        rate: f64,
    },
    /// One stream a connection, all held open to the end.
    Streams,
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// `http://HOST:PORT/PATH`.
    pub url: String,
    /// The body of each request.
    pub body: Bytes,
    /// Headers beside the content type and length.
    pub headers: Vec<(String, String)>,
    /// Connections.
    pub connections: usize,
    /// How requests are sent.
    pub mode: LoadMode,
    /// Time before the measurement, which is not counted.
    pub warmup: Duration,
    /// Time of the measurement.
    pub time: Duration,
    /// The longest wait for an answer, or for the next bytes of a stream that is held. What is still due so long after
    /// the end of the measurement is not sent, and counted as that.
    pub timeout: Duration,
    /// What a whole answer ends with; others are counted as incomplete.
    pub ends_with: Option<String>,
}

/// A load that cannot be run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The URL is not one.
    #[error("load: {url}: {reason}")]
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// No timer of the system.
    #[error("load: no timer: {0}")]
    Timer(#[from] io::Error),
    /// No connection was asked for, or a rate that is not positive.
    #[error("load: connections and rate must be above zero")]
    Nothing,
}

/// Durations of a load, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean_ms: f64,
    /// Half are not longer.
    pub p50_ms: f64,
    /// 90 % are not longer.
    pub p90_ms: f64,
    /// 99 % are not longer.
    pub p99_ms: f64,
    /// 99.9 % are not longer.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        let ms = |microseconds: u64| microseconds as f64 / 1_000.0;
        let at = |quantile| ms(histogram.quantile(quantile));
        Self {
            mean_ms: ms(histogram.mean()),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: ms(histogram.max()),
        }
    }
}

/// What became of a load.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadReport {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Answers with status 200 that were whole. Of streams that are held: those that were open at the end.
    pub answered: u64,
    /// Answers a second.
    pub per_second: f64,
    /// Requests that failed, by kind.
    pub errors: BTreeMap<String, u64>,
    /// From when the request was due to the last byte.
    pub latency: Latency,
    /// From when the request was due to the first byte of the body.
    pub first_byte: Latency,
    /// Bytes of bodies.
    pub bytes: u64,
}

/// Counts of one connection.
#[derive(Default)]
struct Tally {
    latency: Histogram,
    first_byte: Histogram,
    errors: BTreeMap<String, u64>,
    answered: u64,
    bytes: u64,
}

impl Tally {
    fn fail(&mut self, failure: &Failure) {
        *self.errors.entry(failure.kind()).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        other.errors.into_iter().for_each(|(kind, count)| *self.errors.entry(kind).or_default() += count);
        self.answered += other.answered;
        self.bytes += other.bytes;
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What the connections of a load share.
struct Plan {
    target: Target,
    load: Load,
    begin: Instant,
    measured_from: Instant,
    end: Instant,
    /// Requests of the open loop that have been taken.
    taken: AtomicU64,
}

impl Load {
    /// Runs the load. Failed requests are in the report; errors are for loads that cannot begin.
    pub async fn run(self) -> Result<LoadReport, LoadError> {
        let rate_is_wrong = matches!(self.mode, LoadMode::Open { rate } if rate.is_nan() || rate <= 0.0);
        if self.connections == 0 || rate_is_wrong {
            return Err(LoadError::Nothing);
        }
        let target = Target::read(&self.url, &self.headers, self.body.clone(), self.ends_with.as_deref());
        let target =
            target.map_err(|reason| LoadError::Url { url: self.url.clone(), reason: reason.to_owned() })?;
        let begin = Instant::now();
        let measured_from = begin + self.warmup;
        let end = measured_from + self.time;
        let plan = Arc::new(Plan { target, begin, measured_from, end, taken: AtomicU64::new(0), load: self });
        let mut workers = JoinSet::new();
        for index in 0..plan.load.connections {
            let (plan, pacer) = (Arc::clone(&plan), Pacer::new()?);
            workers.spawn(async move {
                match plan.load.mode {
                    LoadMode::Streams => plan.hold(index).await,
                    _ => plan.work(pacer).await,
                }
            });
        }
        let mut tally = Tally::default();
        while let Some(done) = workers.join_next().await {
            match done {
                Ok(part) => tally.merge(part),
                Err(_) => *tally.errors.entry("worker".to_owned()).or_default() += 1,
            }
        }
        let seconds = plan.load.time.as_secs_f64();
        Ok(LoadReport {
            seconds,
            answered: tally.answered,
            per_second: tally.answered as f64 / seconds.max(f64::MIN_POSITIVE),
            errors: tally.errors,
            latency: Latency::of(&tally.latency),
            first_byte: Latency::of(&tally.first_byte),
            bytes: tally.bytes,
        })
    }
}

impl Plan {
    /// When the next request is due.
    fn due(&self) -> Instant {
        match self.load.mode {
            LoadMode::Open { rate } => {
                let index = self.taken.fetch_add(1, Ordering::Relaxed);
                self.begin + Duration::from_secs_f64(index as f64 / rate)
            }
            LoadMode::Closed | LoadMode::Streams => Instant::now(),
        }
    }

    /// Requests one after the other on one connection.
    async fn work(&self, mut pacer: Pacer) -> Tally {
        let mut tally = Tally::default();
        let mut connection: Option<Connection> = None;
        let is_closed_loop = self.load.mode == LoadMode::Closed;
        loop {
            let due = self.due();
            if due >= self.end {
                return tally;
            }
            pacer.until(due).await;
            if Instant::now() > self.end + self.load.timeout {
                *tally.errors.entry("not sent".to_owned()).or_default() += 1;
                continue;
            }
            let exchange = self.target.exchange(&mut connection);
            let result = match tokio::time::timeout(self.load.timeout, exchange).await {
                Ok(result) => result,
                Err(_) => Err(Failure::Timeout),
            };
            let now = Instant::now();
            if result.is_err() {
                connection = None;
            }
            // The closed loop counts what ends in the measured time, so that its rate is not too high by what is under
            // way at the end.
            if due < self.measured_from || (is_closed_loop && now > self.end) {
                continue;
            }
            match result {
                Ok(answer) => {
                    tally.answered += 1;
                    tally.bytes += answer.bytes;
                    tally.latency.add(microseconds(now.saturating_duration_since(due)));
                    tally.first_byte.add(microseconds(answer.first_byte.saturating_duration_since(due)));
                }
                Err(failure) => {
                    tally.fail(&failure);
                    // A server that is down is not asked in a busy loop.
                    if is_closed_loop {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        }
    }

    /// One stream, read to the end of the measurement.
    async fn hold(&self, index: usize) -> Tally {
        let mut tally = Tally::default();
        // Connections are opened over the warm-up, for no queue of a listener takes a thousand at once.
        let share = index as f64 / self.load.connections as f64;
        tokio::time::sleep_until((self.begin + self.load.warmup.mul_f64(share * 0.9)).into()).await;
        let begun = Instant::now();
        let mut first_byte = None;
        let seen = |bytes: u64| {
            first_byte.get_or_insert_with(Instant::now);
            tally.bytes += bytes;
        };
        let held = self.target.hold(self.end, self.load.timeout, seen).await;
        if let Some(first) = first_byte {
            tally.first_byte.add(microseconds(first.saturating_duration_since(begun)));
        }
        match held {
            Ok(()) => tally.answered += 1,
            Err(failure) => tally.fail(&failure),
        }
        tally
    }
}
