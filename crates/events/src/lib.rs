//! What happened, as typed events; and the only place where metric names are spelled.
//!
//! Logic reports an [`Event`]; [`Metrics`] turns it into counters, gauges and histograms. Names, labels and buckets are
//! vLLM's (`vllm:…`) for everything that exists here, so that dashboards, autoscalers and inference gateways made for
//! it work unchanged; what only Gristmill has is `gristmill_…`. [`text`] writes them down for Prometheus.
//!
//! Deliberately absent: the clock (durations come with the events), HTTP, and any other room of the project.

mod buckets;
mod cost;
mod event;
mod llamacpp;
mod metrics;
mod process;
mod steps;
pub mod text;

pub use cost::{HourlyPrice, MachineTime};
pub use event::{Ending, Event, Gauges, Rejection};
pub use metrics::Metrics;
pub use process::Process;
pub use text::Format;
