//! The Open Inference Protocol, version 2, over REST: `/v2` and what is below it, with Triton's extensions.

mod generate;
mod infer;
mod models;
mod reply;
mod repository;
mod settings;
mod target;

pub(crate) use infer::{Wanted, operation, shorter};
pub(crate) use models::{
    all_models, all_statistics, ask, live, look, readiness, ready, server, signature, statistics_of,
    versions_of,
};
pub(crate) use repository::{change, index, load, state_of, unload};
pub(crate) use settings::{
    LOGS, TRACES, log_settings, logging, memory, no_region, no_shared_memory, set_logging, set_memory,
    set_trace, trace, trace_settings, unchanged,
};
