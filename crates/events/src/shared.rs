//! What the machine and its models count into together.

use std::sync::OnceLock;

use prometheus_client::registry::Registry;

use crate::llamacpp::LlamaCpp;
use crate::machine::MachineMetrics;

/// Metrics that exist from some moment on, with the registry that writes them.
pub(crate) type Later<M> = OnceLock<(M, Registry)>;

/// Metrics that have no model's label, although models count into them.
pub(crate) struct Shared {
    pub(crate) machine: MachineMetrics,
    pub(crate) llamacpp: Later<LlamaCpp>,
    pub(crate) price: OnceLock<Price>,
}

/// What the machine's time costs.
pub(crate) struct Price {
    pub(crate) per_second: f64,
    /// The currency's code, escaped.
    pub(crate) currency: String,
}
