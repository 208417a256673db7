//! Metrics of the machine: connections, HTTP, and requests that were turned away.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::event::{Event, Rejection};
use crate::family::SortedFamily;
use crate::{buckets, text};

pub(crate) struct MachineMetrics {
    ready: Gauge,
    load_seconds: Gauge<f64, AtomicU64>,
    connections: Gauge,
    connections_refused: Counter,
    connections_timed_out: Counter,
    http: SortedFamily<3, Counter>,
    http_seconds: SortedFamily<2, Histogram>,
    http_seconds_fine: Histogram,
    /// As [`Rejection::ALL`].
    rejected: [Counter; Rejection::ALL.len()],
}

/// Registers a metric and hands it back; the registry's copy shares its numbers.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl MachineMetrics {
    /// All at zero; `version` is the program's.
    pub(crate) fn new(r: &mut Registry, version: &str) -> MachineMetrics {
        let build =
            prometheus_client::metrics::family::Family::<Vec<(&'static str, String)>, Gauge>::default();
        build.get_or_create(&vec![("version", text::escape(version).into_owned())]).set(1);
        r.register("gristmill_build_info", "The program's version, as a label", build);
        MachineMetrics {
            ready: add(
                r,
                "gristmill_ready",
                "1 when the model is loaded and requests are taken",
                Gauge::default(),
            ),
            load_seconds: add(
                r,
                "gristmill_load_seconds",
                "Seconds from the start of the process to ready",
                Gauge::default(),
            ),
            connections: add(r, "gristmill_connections", "Open connections", Gauge::default()),
            connections_refused: add(
                r,
                "gristmill_connections_refused",
                "Connections turned away because as many were open as are allowed",
                Counter::default(),
            ),
            connections_timed_out: add(
                r,
                "gristmill_connections_timed_out",
                "Connections closed because the client took too little of its answer in the time for it",
                Counter::default(),
            ),
            http: add(
                r,
                "http_requests",
                "HTTP requests by status, method and handler",
                SortedFamily::new(Counter::default),
            ),
            http_seconds: add(
                r,
                "http_request_duration_seconds",
                "Duration of HTTP requests by handler",
                SortedFamily::new(|| Histogram::new(buckets::HTTP_S)),
            ),
            http_seconds_fine: add(
                r,
                "http_request_duration_highr_seconds",
                "Duration of HTTP requests, finer",
                Histogram::new(buckets::HTTP_FINE_S),
            ),
            rejected: rejections(r),
        }
    }

    pub(crate) fn record(&self, event: Event) {
        match event {
            Event::Ready { after } => {
                self.ready.set(1);
                self.load_seconds.set(after.as_secs_f64());
            }
            Event::Draining => _ = self.ready.set(0),
            Event::HttpAnswered { handler, method, status, took } => {
                let status = status_class(status);
                self.http.get([("handler", handler), ("status", status), ("method", method)]).inc();
                self.http_seconds.get([("handler", handler), ("method", method)]).observe(took.as_secs_f64());
                self.http_seconds_fine.observe(took.as_secs_f64());
            }
            Event::Connected => _ = self.connections.inc(),
            Event::Disconnected => _ = self.connections.dec(),
            Event::ConnectionRefused => _ = self.connections_refused.inc(),
            Event::ConnectionTimedOut => _ = self.connections_timed_out.inc(),
            Event::Rejected(reason) => self.rejected(reason),
        }
    }

    pub(crate) fn rejected(&self, reason: Rejection) {
        let counters = Rejection::ALL.into_iter().zip(&self.rejected);
        counters.filter(|(of, _)| *of == reason).for_each(|(_, counter)| _ = counter.inc());
    }
}

fn rejections(r: &mut Registry) -> [Counter; Rejection::ALL.len()] {
    let family = SortedFamily::new(Counter::default);
    r.register("gristmill_requests_rejected", "Requests turned away, by reason", family.clone());
    Rejection::ALL.map(|reason| family.get([("reason", reason.name())]))
}

/// As prometheus-fastapi-instrumentator groups them, which is what vLLM's dashboards expect.
fn status_class(status: u16) -> &'static str {
    match status {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
