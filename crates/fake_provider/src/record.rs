//! What the provider notes of each request, and what all of them would cost.

use crate::Dialect;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// All tokens of the prompt, those from the cache included.
    pub prompt: u64,
    /// Tokens of the prompt that the cache had.
    pub cached: u64,
    /// Tokens of the answer.
    pub output: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.output += other.output;
    }
}

/// Prices of tokens, in pico-US-dollars a token, which is micro-US-dollars a million tokens: 0.15 USD a million tokens is
/// 150,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Price of a prompt's token that the cache did not have.
    pub input: u64,
    /// Price of a prompt's token that the cache had.
    pub cached_input: u64,
    /// Of an answer's token.
    pub output: u64,
}

impl Price {
    /// The price of some tokens, in pico-US-dollars.
    pub fn of(&self, usage: Usage) -> u128 {
        u128::from(self.input) * u128::from(usage.prompt - usage.cached.min(usage.prompt))
            + u128::from(self.cached_input) * u128::from(usage.cached)
            + u128::from(self.output) * u128::from(usage.output)
    }
}

/// How a request ended, as the provider saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Still being answered.
    Running,
    /// The whole answer was handed to the connection.
    Completed,
    /// An error status, or a scripted fault that ends the answer.
    Failed,
    /// The client's connection ended first.
    Cancelled,
}

/// One request, as the provider saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The request's number; the first is 1. Requests for models and for the provider's own state have none.
    pub number: u64,
    /// Path with query.
    pub path: String,
    /// The API that was spoken.
    pub dialect: Dialect,
    /// The model asked for.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Status of the answer; 0 when there was none.
    pub status: u16,
    /// The fault that was played, by its name in scripts.
    pub fault: Option<&'static str>,
    /// How the request ended.
    pub outcome: Outcome,
    /// Tokens of the prompt, and of the answer as far as it was generated. Zero for refused requests.
    pub usage: Usage,
    /// What the provider bills for the request, in pico-US-dollars.
    pub billed: u128,
    /// Headers of the request, names in lower case, values that are not text left out.
    pub headers: Vec<(String, String)>,
    /// The first bytes of the request's body, [`Script::log_body_bytes`](crate::Script::log_body_bytes) at most.
    pub body: String,
    /// When the request had arrived, in microseconds since the provider's start.
    pub arrived_us: u64,
    /// When the request had ended; 0 while it runs.
    pub ended_us: u64,
}

impl Record {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Sums over all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Requests to a model.
    pub attempts: u64,
    /// Those being answered.
    pub running: u64,
    /// The most that were answered at once.
    pub most_running: u64,
    /// Those whose whole answer was handed to the connection.
    pub completed: u64,
    /// Those answered by an error or ended by a scripted fault.
    pub failed: u64,
    /// Those whose client left.
    pub cancelled: u64,
    /// Records that the log had no room for.
    pub forgotten: u64,
    /// Tokens billed.
    pub usage: Usage,
    /// The bill, in pico-US-dollars.
    pub billed: u128,
}
