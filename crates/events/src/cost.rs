//! The machine's time, and what it costs.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::family::SortedFamily;
use crate::text;

/// For what the time since the server's start went, up to the last step that ended. The three sum to all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// For rows of prompts.
    pub prompt: Duration,
    /// For answers.
    pub output: Duration,
    /// Nothing to do; loading the model too.
    pub idle: Duration,
}

/// What the machine costs an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HourlyPrice<'a> {
    /// Units of the currency.
    pub amount: f64,
    /// Its code, as `USD`.
    pub currency: &'a str,
}

type Total = Counter<f64, AtomicU64>;

/// Kinds of time, as labels.
const KINDS: [&str; 3] = ["prompt", "output", "idle"];

impl MachineTime {
    fn seconds(&self) -> [f64; KINDS.len()] {
        [self.prompt, self.output, self.idle].map(|time| time.as_secs_f64())
    }
}

pub(crate) struct TimeMetrics {
    seconds: [Total; KINDS.len()],
}

impl TimeMetrics {
    pub(crate) fn new(r: &mut Registry) -> TimeMetrics {
        let help = "The machine's time since the start, by what it went for";
        TimeMetrics { seconds: kinds(r, "gristmill_machine_seconds", help) }
    }

    pub(crate) fn set(&self, time: &MachineTime) {
        raise(&self.seconds, time.seconds());
    }
}

pub(crate) struct CostMetrics {
    per_second: f64,
    cost: [Total; KINDS.len()],
}

impl CostMetrics {
    pub(crate) fn new(price: HourlyPrice<'_>) -> (CostMetrics, Registry) {
        let label = (Cow::Borrowed("currency"), Cow::Owned(text::escape(price.currency).into_owned()));
        let mut registry = Registry::with_labels([label].into_iter());
        let hour = Gauge::<f64, AtomicU64>::default();
        hour.set(price.amount);
        registry.register("gristmill_cost_price_per_hour", "Configured price of the machine an hour", hour);
        let help = "What the machine's time since the start cost, by what it went for";
        let cost = kinds(&mut registry, "gristmill_cost", help);
        (CostMetrics { per_second: price.amount / 3_600.0, cost }, registry)
    }

    pub(crate) fn set(&self, time: &MachineTime) {
        raise(&self.cost, time.seconds().map(|seconds| seconds * self.per_second));
    }
}

fn kinds(r: &mut Registry, name: &str, help: &str) -> [Total; KINDS.len()] {
    let family = SortedFamily::new(Total::default);
    r.register(name, help, family.clone());
    KINDS.map(|kind| family.get([("kind", kind)]))
}

/// A counter never falls, or a scrape takes it for one that began anew: a look while the engine notes that a rest is
/// over may find the rest not yet counted.
fn raise(counters: &[Total], values: [f64; KINDS.len()]) {
    for (counter, value) in counters.iter().zip(values) {
        // Bits of numbers that are not negative are ordered like the numbers.
        counter.inner().fetch_max(value.max(0.0).to_bits(), Ordering::Relaxed);
    }
}
