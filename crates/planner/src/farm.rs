//! A farm of models on one machine: do they fit, how often does a request find its model unloaded, how long do requests
//! wait, and what does each model cost.
//!
//! Models that fit into the memory together stay loaded; if they do not, the simulation gives the memory out by the very
//! table that the server loads by ([`residency`]). Requests arrive at random (a Poisson process for each model). The machine
//! computes one request after another with all its threads, in the order in which their models are ready; loads run beside
//! that and take their time. So the waits are those of a machine without batching: a server that batches waits less.
//!
//! A model's cost is its share of the machine: of computing time or of memory held, whichever is larger, of the sum of
//! these over all models (its dominant resource; Ghodsi et al., Dominant Resource Fairness, 2011).

mod simulation;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::error::{Error, not_negative, positive, required};
use crate::fleet::Spread;

pub use simulation::simulate;

/// The most models of a plan, copies counted.
const MAX_MODELS: usize = 4_096;

/// `[farm]` of a plan: models that share a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FarmPlan {
    /// Memory of all models together, in MB of 10⁶ bytes (`gristmill serve --model-memory`).
    pub memory_mb: Option<f64>,
    /// Number of simulated requests (20,000 unless given).
    pub requests: usize,
    /// Seed of the random numbers (1 unless given).
    pub seed: u64,
    /// The models.
    pub model: Vec<FarmModel>,
}

impl Default for FarmPlan {
    fn default() -> FarmPlan {
        FarmPlan { memory_mb: None, requests: 20_000, seed: 1, model: Vec::new() }
    }
}

/// `[[farm.model]]`: a model, or several that are alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FarmModel {
    /// The name in the report.
    pub name: String,
    /// Models like this one (1 unless given).
    pub count: usize,
    /// Memory of each, in MB of 10⁶ bytes.
    pub memory_mb: Option<f64>,
    /// Time of a load, in ms.
    pub load_ms: Option<f64>,
    /// Time that the whole machine computes for a request, in ms.
    pub request_ms: Option<f64>,
    /// Requests an hour to each.
    pub requests_per_hour: Option<f64>,
    /// Whether they stay loaded.
    pub pinned: bool,
    /// Seconds without a request after which one is unloaded; none unless given.
    pub keep_alive_s: Option<f64>,
}

impl Default for FarmModel {
    fn default() -> FarmModel {
        FarmModel {
            name: String::new(),
            count: 1,
            memory_mb: None,
            load_ms: None,
            request_ms: None,
            requests_per_hour: None,
            pinned: false,
            keep_alive_s: None,
        }
    }
}

/// The farm's outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FarmOutcome {
    /// Models, copies counted.
    pub models: usize,
    /// Memory of all models, in MB.
    pub wanted_mb: f64,
    /// Memory that there is for them, in MB.
    pub memory_mb: f64,
    /// Whether all models fit at once.
    pub fits: bool,
    /// Simulated seconds.
    pub seconds: f64,
    /// Share of the time in which the machine computed.
    pub utilization: f64,
    /// Loads an hour, the first of each model left out.
    pub loads_per_hour: f64,
    /// Memory held on average, in MB.
    pub held_mb: f64,
    /// What came of each entry of the plan.
    pub groups: Vec<GroupOutcome>,
}

/// What came of a model, or of models that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupOutcome {
    /// The name of the plan.
    pub name: String,
    /// Models of it.
    pub count: usize,
    /// Requests, all models of it together.
    pub requests: usize,
    /// Share of requests that waited for a load, their own or another's.
    pub cold_share: f64,
    /// Share of the time that a model of it was loaded.
    pub loaded_share: f64,
    /// From arrival to answer, in ms.
    pub latency_ms: Spread,
    /// The same of requests that waited for a load.
    pub cold_latency_ms: Spread,
    /// Share of the computing time of all models.
    pub compute_share: f64,
    /// Share of the memory held by all models.
    pub memory_share: f64,
    /// Share of the machine's price.
    pub cost_share: f64,
}

/// An entry of the plan whose fields are all there, in seconds and bytes.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    count: usize,
    bytes: u64,
    load_s: f64,
    request_s: f64,
    per_s: f64,
    pinned: bool,
    keep_alive_s: Option<f64>,
}

impl FarmPlan {
    /// The plan's models and memory, checked.
    fn groups(&self) -> Result<(u64, Vec<Group>), Error> {
        let why = "the memory that models may take together";
        let memory = bytes("farm.memory_mb", required("farm.memory_mb", self.memory_mb, why)?)?;
        if !(1..=1_000_000).contains(&self.requests) {
            return Err(range("farm.requests", self.requests, "1 to 1,000,000"));
        }
        if self.model.is_empty() {
            return Err(Error::Empty { what: "farm.model".to_owned() });
        }
        let groups = self
            .model
            .iter()
            .enumerate()
            .map(|(at, model)| model.group(at))
            .collect::<Result<Vec<_>, _>>()?;
        let models = groups.iter().fold(0_usize, |sum, group| sum.saturating_add(group.count));
        if models > MAX_MODELS {
            return Err(range("farm.model", models, "1 to 4,096 models, copies counted"));
        }
        if let Some(large) = groups.iter().find(|group| group.bytes > memory) {
            return Err(Error::Impossible {
                field: format!("farm.model {}", large.name),
                asked: format!("{} MB", large.bytes / 1_000_000),
                limit: format!("models may take {} MB together", memory / 1_000_000),
            });
        }
        let pinned = groups.iter().filter(|group| group.pinned);
        let pinned: u64 = pinned.map(|group| group.bytes.saturating_mul(group.count as u64)).sum();
        let largest = groups.iter().filter(|group| !group.pinned).map(|group| group.bytes).max().unwrap_or(0);
        if pinned.saturating_add(largest) > memory {
            return Err(Error::Impossible {
                field: "farm.model: pinned".to_owned(),
                asked: format!(
                    "{} MB that stay, {} MB for the largest other",
                    pinned / 1_000_000,
                    largest / 1_000_000
                ),
                limit: format!("models may take {} MB together", memory / 1_000_000),
            });
        }
        Ok((memory, groups))
    }
}

impl FarmModel {
    fn group(&self, at: usize) -> Result<Group, Error> {
        let name = if self.name.is_empty() { format!("model {}", at + 1) } else { self.name.clone() };
        let field = |field: &str| format!("farm.model {name}: {field}");
        let number = |key: &str, value: Option<f64>, why: &str| required(&field(key), value, why);
        if !(1..=MAX_MODELS).contains(&self.count) {
            return Err(range(&field("count"), self.count, "1 to 4,096"));
        }
        let keep_alive_s = self.keep_alive_s.map(|seconds| not_negative(&field("keep_alive_s"), seconds));
        let memory = number("memory_mb", self.memory_mb, "what the model takes when it is loaded")?;
        let load = number("load_ms", self.load_ms, "what a load takes; `gristmill serve` logs it")?;
        let request = number("request_ms", self.request_ms, "what the machine computes for a request")?;
        let per_hour = number("requests_per_hour", self.requests_per_hour, "how often it is asked for")?;
        Ok(Group {
            count: self.count,
            bytes: bytes(&field("memory_mb"), memory)?,
            load_s: not_negative(&field("load_ms"), load)? / 1e3,
            request_s: not_negative(&field("request_ms"), request)? / 1e3,
            per_s: positive(&field("requests_per_hour"), per_hour)? / 3600.0,
            pinned: self.pinned,
            keep_alive_s: keep_alive_s.transpose()?,
            name,
        })
    }
}

fn bytes(field: &str, megabytes: f64) -> Result<u64, Error> {
    Ok((positive(field, megabytes)? * 1e6) as u64)
}

fn range(field: &str, value: usize, expected: &str) -> Error {
    Error::Range { field: field.to_owned(), value: value.to_string(), expected: expected.to_owned() }
}
