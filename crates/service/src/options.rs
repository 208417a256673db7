//! Bounds of the service; every default is a bound.

use std::time::Duration;

/// Bounds of what is let in, and what the machine costs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Answers in work or in the queue, all requests together.
    pub requests: usize,
    /// Answers computed at once; only for estimating waits.
    pub parallel: usize,
    /// Requests that would wait longer than this before they begin, by estimate, are refused; none lets all wait.
    pub longest_wait: Option<Duration>,
    /// Events that a stream may be behind the engine.
    pub stream_events: usize,
    /// What the machine costs, if that is known.
    pub price: Option<Price>,
    /// Bytes that models may take together.
    pub model_bytes: u64,
    /// The longest that a request waits for its model to be loaded.
    pub longest_load: Duration,
    /// Whether a request for a model of a name that is not known is answered by the default one.
    pub any_model_name: bool,
    /// The instruction tier of the kernels, for the record of this node.
    pub tier: String,
    /// Whether vectors are cut to any number of dimensions, also those of models that were not trained for it.
    pub any_dimensions: bool,
}

/// The machine's price, and who hears of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Units of the currency an hour.
    pub per_hour: f64,
    /// The currency.
    pub currency: wire::Currency,
    /// Whether every answer's `usage` says what it cost; else those do that are asked to.
    pub in_usage: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            requests: 72,
            parallel: 8,
            longest_wait: Some(Duration::from_secs(60)),
            stream_events: 1_024,
            price: None,
            model_bytes: u64::MAX,
            longest_load: Duration::from_secs(300),
            any_model_name: false,
            tier: String::new(),
            any_dimensions: false,
        }
    }
}
