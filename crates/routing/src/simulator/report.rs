//! What a simulation found.

/// What a node did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    /// Name.
    pub name: String,
    /// Requests that it answered.
    pub answered: u64,
    /// Attempts that failed there.
    pub failed: u64,
    /// Tokens that it computed: uncached prompt tokens and generated ones.
    pub tokens: u64,
    /// Share of the time in which it computed.
    pub utilization: f64,
    /// Largest share of all requests in flight that it had, over its share of the nodes, when many were in flight.
    pub crowding: f64,
}

/// The requests that came in a period of the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeriodReport {
    /// Requests that were answered whole.
    pub answered: u64,
    /// Requests answered by rented or metered targets.
    pub left: u64,
    /// Their price, in nano units.
    pub cost: u64,
    /// Seconds to the first token of those that stayed, ascending.
    pub own_first_token_s: Vec<f32>,
}

/// What a simulation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests that came.
    pub requests: u64,
    /// Requests that were answered whole.
    pub answered: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Answers that went on at another node.
    pub resumed: u64,
    /// Second attempts beside slow ones.
    pub hedges: u64,
    /// Requests in flight after the end, of all routers.
    pub in_flight: u64,
    /// Prompt tokens of answered requests.
    pub prompt_tokens: u64,
    /// Of them, those that a cache held.
    pub cached_tokens: u64,
    /// Cached tokens that the router predicted.
    pub predicted_cached: u64,
    /// Requests answered by rented or metered targets.
    pub left: u64,
    /// Their price, in nano units.
    pub cost: u64,
    /// Seconds to the first token of requests that stayed, ascending.
    pub own_first_token_s: Vec<f32>,
    /// Seconds to the first token of all requests, ascending.
    pub first_token_s: Vec<f32>,
    /// Seconds to the end of all requests, ascending.
    pub total_s: Vec<f32>,
    /// Seconds simulated.
    pub seconds: f64,
    /// Requests by the period of the load in which they came, of all its rounds. Chats have one period.
    pub periods: Vec<PeriodReport>,
    /// The nodes.
    pub nodes: Vec<NodeReport>,
}

impl Report {
    /// Cached tokens as a share of the prompt tokens.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64
    }

    /// The largest number of tokens of a node, over the mean of all.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        let most = self.nodes.iter().map(|node| node.tokens).max().unwrap_or(0) as f64;
        let all: u64 = self.nodes.iter().map(|node| node.tokens).sum();
        most * self.nodes.len() as f64 / all.max(1) as f64
    }
}

/// The quantile `of` (0 to 1) of sorted values, by nearest rank; 0 without values.
#[must_use]
pub fn quantile(sorted: &[f32], of: f64) -> f64 {
    let rank = (of * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied().map_or(0.0, f64::from)
}
