//! Metrics of the gateway: requests, attempts at upstreams, money, and how good its predictions were.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::histogram::Histogram;
use crate::named::{NamedFamily, add, written};
use crate::{Format, buckets};

/// An ended request.
#[derive(Debug, Clone, Copy)]
pub struct GatewayRequest<'a> {
    /// The model that was asked for, by its first name.
    pub model: &'a str,
    /// `batch`, `standard`, `premium` or `urgent`.
    pub class: &'static str,
    /// `public`, `internal` or `secret`.
    pub label: &'static str,
    /// `ok`, `error`, `refused` or `cancelled`.
    pub outcome: &'static str,
    /// Seconds from the head to the end.
    pub seconds: f64,
    /// Seconds from the head to the first content; none without.
    pub first_s: Option<f64>,
    /// Seconds of the gateway's own before the first attempt was sent.
    pub own_s: f64,
}

/// An ended attempt.
#[derive(Debug, Clone, Copy)]
pub struct GatewayAttempt<'a> {
    /// The upstream.
    pub upstream: &'a str,
    /// The model, by its first name in the gateway.
    pub model: &'a str,
    /// Why it was made: `first`, `retry`, `fallback`, `hedge`, `resume`, `replay` or `cascade`.
    pub why: &'static str,
    /// How it ended: `ok`, `cancelled`, or the kind of failure.
    pub result: &'a str,
    /// Prompt tokens, cached prompt tokens, and generated tokens.
    pub tokens: [u64; 3],
    /// Price, in billionths of the currency's unit.
    pub nanos: u64,
}

/// What is known of an upstream now.
#[derive(Debug, Clone, Copy)]
pub struct GatewayUpstream<'a> {
    /// The upstream.
    pub name: &'a str,
    /// Requests under way.
    pub in_flight: u64,
    /// Whether its circuit breaker lets requests through.
    pub available: bool,
}

/// A budget now.
#[derive(Debug, Clone, Copy)]
pub struct GatewayBudget<'a> {
    /// Subject: `key "a"`.
    pub subject: &'a str,
    /// `day`, `month` or `total`.
    pub window: &'a str,
    /// `money`, `tokens` or `requests`.
    pub unit: &'a str,
    /// Share that is spent or reserved, 0 to 1 and above.
    pub used: f64,
}

type Share = Gauge<f64, AtomicU64>;

/// All metrics of a gateway.
pub struct GatewayMetrics {
    registry: Mutex<Registry>,
    request: RequestMetrics,
    attempts: NamedFamily<4, Counter>,
    tokens: NamedFamily<3, Counter>,
    cost: NamedFamily<2, Counter<f64, AtomicU64>>,
    error: NamedFamily<1, Histogram>,
    state: StateMetrics,
    cache: NamedFamily<1, Counter>,
    receipts_lost: Counter,
}

/// What ended requests count into.
struct RequestMetrics {
    requests: NamedFamily<4, Counter>,
    seconds: NamedFamily<1, Histogram>,
    first: NamedFamily<1, Histogram>,
    own: Histogram,
}

impl RequestMetrics {
    fn new(r: &mut Registry) -> RequestMetrics {
        RequestMetrics {
            requests: add(
                r,
                "gristmill_gateway_requests",
                "Ended requests",
                NamedFamily::new(["model", "class", "label", "outcome"], Counter::default),
            ),
            seconds: add(
                r,
                "gristmill_gateway_request_seconds",
                "Seconds from a request's head to its end",
                NamedFamily::new(["model"], || Histogram::new(&buckets::REQUEST_S)),
            ),
            first: add(
                r,
                "gristmill_gateway_first_content_seconds",
                "Seconds from a request's head to the first content of its answer",
                NamedFamily::new(["model"], || Histogram::new(&buckets::FIRST_TOKEN_S)),
            ),
            own: add(
                r,
                "gristmill_gateway_own_seconds",
                "Seconds that a request spent in the gateway before its first attempt was sent, without queueing",
                Histogram::new(&OWN_S),
            ),
        }
    }
}

/// What is set when somebody asks.
struct StateMetrics {
    in_flight: NamedFamily<1, Gauge>,
    available: NamedFamily<1, Gauge>,
    budgets: NamedFamily<3, Share>,
    waiting: Gauge,
}

impl StateMetrics {
    fn new(r: &mut Registry) -> StateMetrics {
        StateMetrics {
            in_flight: add(
                r,
                "gristmill_gateway_upstream_in_flight",
                "Requests under way at an upstream",
                NamedFamily::new(["upstream"], Gauge::default),
            ),
            available: add(
                r,
                "gristmill_gateway_upstream_available",
                "1 where an upstream's circuit breaker lets requests through",
                NamedFamily::new(["upstream"], Gauge::default),
            ),
            budgets: add(
                r,
                "gristmill_gateway_budget_used_ratio",
                "Share of a budget that is spent or reserved",
                NamedFamily::new(["subject", "window", "unit"], Share::default),
            ),
            waiting: add(
                r,
                "gristmill_gateway_requests_waiting",
                "Requests that wait for a place in the gateway",
                Gauge::default(),
            ),
        }
    }
}

/// Seconds of a gateway's own: from ten microseconds on.
const OWN_S: [f64; 12] =
    [0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.1, 1.0];

/// Ratio of the true to the predicted seconds.
const RATIOS: [f64; 11] = [0.1, 0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0, 10.0];

impl Default for GatewayMetrics {
    fn default() -> GatewayMetrics {
        GatewayMetrics::new()
    }
}

impl GatewayMetrics {
    /// All at zero.
    pub fn new() -> GatewayMetrics {
        let mut registry = Registry::default();
        let r = &mut registry;
        GatewayMetrics {
            request: RequestMetrics::new(r),
            attempts: add(
                r,
                "gristmill_gateway_attempts",
                "Ended attempts at upstreams",
                NamedFamily::new(["upstream", "model", "why", "result"], Counter::default),
            ),
            tokens: add(
                r,
                "gristmill_gateway_tokens",
                "Tokens that upstreams reported",
                NamedFamily::new(["upstream", "model", "kind"], Counter::default),
            ),
            cost: add(
                r,
                "gristmill_gateway_cost",
                "Price of ended attempts, in the currency of the configuration",
                NamedFamily::new(["upstream", "model"], Counter::default),
            ),
            state: StateMetrics::new(r),
            error: add(
                r,
                "gristmill_gateway_prediction_ratio",
                "True seconds of an answer, divided by the predicted ones",
                NamedFamily::new(["upstream"], || Histogram::new(&RATIOS)),
            ),
            cache: add(
                r,
                "gristmill_gateway_cache",
                "Requests that could be answered from the cache",
                NamedFamily::new(["result"], Counter::default),
            ),
            receipts_lost: add(
                r,
                "gristmill_gateway_records_lost",
                "Receipts and audit records that could not be kept",
                Counter::default(),
            ),
            registry: Mutex::new(registry),
        }
    }

    /// Counts an ended request.
    pub fn request(&self, ended: &GatewayRequest<'_>) {
        self.request.requests.get([ended.model, ended.class, ended.label, ended.outcome]).inc();
        self.request.seconds.get([ended.model]).observe(ended.seconds);
        if let Some(first) = ended.first_s {
            self.request.first.get([ended.model]).observe(first);
        }
        self.request.own.observe(ended.own_s);
    }

    /// Counts an ended attempt.
    pub fn attempt(&self, ended: &GatewayAttempt<'_>) {
        self.attempts.get([ended.upstream, ended.model, ended.why, ended.result]).inc();
        for (kind, tokens) in ["prompt", "cached", "generated"].into_iter().zip(ended.tokens) {
            if tokens > 0 {
                self.tokens.get([ended.upstream, ended.model, kind]).inc_by(tokens);
            }
        }
        if ended.nanos > 0 {
            self.cost.get([ended.upstream, ended.model]).inc_by(ended.nanos as f64 / 1e9);
        }
    }

    /// Counts how long an answer took against what was predicted.
    pub fn prediction(&self, upstream: &str, ratio: f64) {
        self.error.get([upstream]).observe(ratio);
    }

    /// Counts a request that could be answered from the cache: `hit`, `miss`, `shared` or `unfit`.
    pub fn cache(&self, result: &str) {
        self.cache.get([result]).inc();
    }

    /// Counts a receipt or an audit record that could not be kept.
    pub fn record_lost(&self) {
        self.receipts_lost.inc();
    }

    /// Everything as text, with the figures of now.
    pub fn write(
        &self,
        upstreams: &[GatewayUpstream<'_>],
        budgets: &[GatewayBudget<'_>],
        waiting: u64,
        format: Format,
    ) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        for upstream in upstreams {
            self.state
                .in_flight
                .get([upstream.name])
                .set(i64::try_from(upstream.in_flight).unwrap_or(i64::MAX));
            self.state.available.get([upstream.name]).set(i64::from(upstream.available));
        }
        for budget in budgets {
            self.state.budgets.get([budget.subject, budget.window, budget.unit]).set(budget.used);
        }
        self.state.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        written(&registry, format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_name() {
        let metrics = GatewayMetrics::new();
        let attempt = GatewayAttempt {
            upstream: "a\"b",
            model: "chat",
            why: "first",
            result: "ok",
            tokens: [10, 4, 0],
            nanos: 1_500_000_000,
        };
        metrics.attempt(&attempt);
        metrics.attempt(&attempt);
        let upstream = GatewayUpstream { name: "a", in_flight: 3, available: true };
        let text = metrics.write(&[upstream], &[], 2, Format::Prometheus);
        for line in [
            "gristmill_gateway_attempts_total{upstream=\"a\\\"b\",model=\"chat\",why=\"first\",result=\"ok\"} 2",
            "gristmill_gateway_tokens_total{upstream=\"a\\\"b\",model=\"chat\",kind=\"cached\"} 8",
            "gristmill_gateway_cost_total{upstream=\"a\\\"b\",model=\"chat\"} 3.0",
            "gristmill_gateway_upstream_in_flight{upstream=\"a\"} 3",
            "gristmill_gateway_requests_waiting 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("kind=\"generated\""));
    }
}
