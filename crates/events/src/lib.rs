//! What happened, as typed events; and the only place where metric names are spelled.
//!
//! Logic reports an [`Event`] of the machine to [`Metrics`], a [`ModelEvent`] or a [`LoadEvent`] to the
//! [`ModelMetrics`] of its model; they turn them into counters, gauges and histograms. Names, labels and buckets are
//! vLLM's (`vllm:…`) for everything that exists here, so that dashboards, autoscalers and inference gateways made for
//! it work unchanged; what only Gristmill has is `gristmill_…`. [`text`] writes them down for Prometheus.
//!
//! Deliberately absent: the clock (durations come with the events), HTTP, and any other crate of the project.

mod buckets;
mod budget;
mod cost;
mod encoder;
mod engine;
mod event;
mod family;
mod gateway;
mod histogram;
mod inference;
mod jobs;
mod llamacpp;
mod load;
mod machine;
mod metrics;
mod model;
mod named;
mod process;
mod requests;
mod shared;
mod steps;
pub mod text;

pub use budget::ModelBudget;
pub use cost::{HourlyPrice, MachineTime};
pub use event::{
    Ending, Event, Gauges, LoadEvent, ModelEvent, ModelMemory, ModelState, Rejection, UnloadReason,
};
pub use gateway::{GatewayAttempt, GatewayBudget, GatewayMetrics, GatewayRequest, GatewayUpstream};
pub use inference::{CountedTime, InferenceCounts, InferenceSample};
pub use jobs::{JobCount, JobEnd, JobMetrics, JobsNow};
pub use metrics::Metrics;
pub use model::{EngineShape, ModelMetrics};
pub use process::Process;
pub use text::Format;
