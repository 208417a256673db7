//! The gateway's configuration: one TOML file, checked as a whole before any of it is used.
//!
//! Unknown settings are errors, and so is what could have no effect: a target that names no upstream, a budget of a team
//! that nobody belongs to, a cap on money over a target without a price.

mod cascade;
mod check;
mod class;
mod operations;
mod quantity;

use std::collections::BTreeMap;
use std::path::PathBuf;

use privacy::Label;
use serde::Deserialize;

pub use cascade::{Cascade, CascadeWhen, Hold};
pub use check::Problem;
pub(crate) use check::REGISTERED;
pub use class::Class;
pub use operations::{Admission, AuditLog, Cache, Hedge, Overflow, Privacy, Retry, Store};
pub use quantity::{Nanos, Time};

/// A configuration as it stands in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Settings of the gateway itself.
    #[serde(default)]
    pub gateway: General,
    /// Where requests can go.
    #[serde(default, rename = "upstream")]
    pub upstreams: Vec<Upstream>,
    /// What clients can ask for.
    #[serde(default, rename = "model")]
    pub models: Vec<Model>,
    /// Who may ask. Without keys everybody on this machine may.
    #[serde(default, rename = "key")]
    pub keys: Vec<Key>,
    /// Teams that keys belong to.
    #[serde(default, rename = "team")]
    pub teams: Vec<Team>,
    /// Caps on everything together.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
    /// Where budgets and receipts are kept.
    pub store: Option<Store>,
    /// The audit log.
    pub audit: Option<AuditLog>,
    /// When a failed attempt is followed by another.
    #[serde(default)]
    pub retry: Retry,
    /// A second attempt beside a slow one.
    #[serde(default)]
    pub hedge: Hedge,
    /// When requests leave own capacity.
    #[serde(default)]
    pub overflow: Overflow,
    /// How many requests wait, and for how long.
    #[serde(default)]
    pub admission: Admission,
    /// What is looked for in requests.
    pub privacy: Option<Privacy>,
    /// Answers that are kept.
    #[serde(default)]
    pub cache: Cache,
}

/// `[gateway]`: settings of the gateway itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct General {
    /// Address to listen on.
    pub listen: String,
    /// Name of the currency of prices and budgets.
    pub currency: String,
    /// The key file by which nodes register themselves; without it none can.
    pub nodes_key_file: Option<PathBuf>,
    /// Most bytes of a request's body.
    pub body_bytes: usize,
    /// Most open connections of clients.
    pub connections: usize,
    /// Most bytes of a whole answer, and of one line of a stream.
    pub answer_bytes: usize,
    /// File of further certificate authorities (PEM) for upstreams.
    pub ca_file: Option<PathBuf>,
}

impl Default for General {
    fn default() -> General {
        General {
            listen: "127.0.0.1:8090".to_owned(),
            currency: "USD".to_owned(),
            nodes_key_file: None,
            body_bytes: wire::limits::BODY_BYTES,
            connections: 4_096,
            answer_bytes: 32 << 20,
            ca_file: None,
        }
    }
}

/// The API that an upstream speaks, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A node of ours: chat, completions, responses, messages, embeddings, rerank.
    Gristmill,
    /// Any server with OpenAI's API.
    OpenAi,
    /// Anthropic's API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// Azure OpenAI: deployments in the path, `api-key`.
    Azure,
}

/// Whose the machine is, and how it is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Own machines, paid for anyway.
    Own,
    /// Rented machines, such as GPU servers.
    Rented,
    /// A commercial API, paid by token.
    Metered,
}

/// How the addresses of an upstream are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discover {
    /// Each address of the host is a target of its own.
    Dns,
}

/// `[[upstream]]`: where requests can go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Name, unique.
    pub name: String,
    /// Base URL as its SDK takes it: `https://api.openai.com/v1`, `http://10.0.0.5:8080`.
    pub url: String,
    /// The API that it speaks.
    pub kind: Kind,
    /// Own unless said otherwise for `gristmill`, else metered.
    pub tier: Option<Tier>,
    /// Highest label of requests that it may get: `secret` for own machines unless said otherwise, else `public`.
    pub clearance: Option<Label>,
    /// Environment variable with its key.
    pub key_env: Option<String>,
    /// File with its key.
    pub key_file: Option<PathBuf>,
    /// Version of the API in the query (Azure).
    pub api_version: Option<String>,
    /// Whether it speaks OpenAI's Responses API too (`openai`).
    #[serde(default)]
    pub responses: bool,
    /// Requests at once; further ones go elsewhere or wait.
    pub max_in_flight: Option<u32>,
    /// Whether its host stands for several machines; one unless given.
    pub discover: Option<Discover>,
    /// Limits of time.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Headers that every request gets.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Limits of time of an attempt; all are on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Until a connection is open, TLS included.
    pub connect: Time,
    /// From the request to the first content of the answer.
    pub first_byte: Time,
    /// Between bytes of an answer.
    pub idle: Time,
    /// Whole attempt.
    pub total: Time,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let seconds = |n| Time(std::time::Duration::from_secs(n));
        Timeouts { connect: seconds(2), first_byte: seconds(60), idle: seconds(20), total: seconds(600) }
    }
}

/// `[[model]]`: what clients can ask for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name that clients ask for, unique among names and aliases.
    pub name: String,
    /// Further names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Who can answer.
    pub targets: Vec<Target>,
    /// Models that answer when this one cannot, in this order.
    #[serde(default)]
    pub fallbacks: Vec<String>,
    /// How a target is chosen.
    #[serde(default)]
    pub policy: Policy,
    /// Lowest label of requests to this model.
    pub label: Option<Label>,
    /// What is promised to clients.
    #[serde(default)]
    pub slo: Slo,
    /// What happens to a stream that breaks after its first content.
    #[serde(default)]
    pub on_cut: OnCut,
    /// Caps on this model.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
    /// Whether equal deterministic requests share an answer.
    #[serde(default)]
    pub cache: bool,
    /// A small model first.
    pub cascade: Option<Cascade>,
}

/// One of a model's targets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name of the upstream. `*` stands for all nodes that register themselves with this model.
    pub upstream: String,
    /// The model's name there; the model's own name unless given.
    pub model: Option<String>,
    /// Share of requests under the policy `weighted`.
    #[serde(default = "one")]
    pub weight: u32,
    /// Price in the gateway's currency; needed wherever money is capped.
    pub price: Option<Price>,
}

fn one() -> u32 {
    1
}

/// Prices for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens.
    pub input: Nanos,
    /// Prompt tokens from the provider's cache; as `input` unless given.
    pub cached: Option<Nanos>,
    /// Prompt tokens written to the provider's cache; as `input` unless given.
    pub cache_write: Option<Nanos>,
    /// Generated tokens.
    pub output: Nanos,
}

/// How a target is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Where the answer is expected soonest.
    #[default]
    ExpectedCompletion,
    /// Where the fewest requests are under way.
    LeastConnections,
    /// One after the other.
    RoundRobin,
    /// By weight.
    Weighted,
    /// By the conversation alone.
    Sticky,
}

/// What is promised to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// Time to the first token.
    pub first_token: Option<Time>,
    /// Time to the whole answer.
    pub total: Option<Time>,
}

/// What happens to a stream that breaks after its first content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnCut {
    /// Continued exactly by a node of equal weights, else ended by an error.
    #[default]
    Resume,
    /// As `resume`; elsewhere asked again, and continued if the new answer begins with what the client has seen.
    Replay,
    /// Ended by an error.
    Error,
}

/// `[[key]]`: who may ask.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Name in logs, receipts and budgets.
    pub name: String,
    /// Environment variable with the key.
    pub env: Option<String>,
    /// File with the key.
    pub file: Option<PathBuf>,
    /// Team that it belongs to.
    pub team: Option<String>,
    /// Highest class that its requests may ask for, and their class unless they say.
    #[serde(default)]
    pub class: Class,
    /// Lowest label of its requests.
    pub label: Option<Label>,
    /// Models that it may ask for; all unless given.
    pub models: Option<Vec<String>>,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u32>,
    /// Requests at once.
    pub concurrent: Option<u32>,
    /// Whether it may see and change the gateway's state.
    #[serde(default)]
    pub admin: bool,
    /// Caps on this key.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
}

/// `[[team]]`: a group of keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// Name.
    pub name: String,
    /// Caps on this team.
    #[serde(default, rename = "budget")]
    pub budgets: Vec<Budget>,
}

/// A cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Time after which it begins anew.
    pub window: Window,
    /// Money.
    pub money: Option<Nanos>,
    /// Tokens of prompts and answers.
    pub tokens: Option<u64>,
    /// Requests.
    pub requests: Option<u64>,
}

/// The window of a budget, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
    /// For ever.
    Total,
}

impl Config {
    /// The configuration of a file's text.
    ///
    /// # Errors
    /// What TOML or a setting says wrongly, with its line.
    pub fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }
}

impl Upstream {
    /// Whose it is.
    pub fn tier(&self) -> Tier {
        self.tier.unwrap_or(if self.kind == Kind::Gristmill { Tier::Own } else { Tier::Metered })
    }

    /// The highest label that it may get.
    pub fn clearance(&self) -> Label {
        let own = self.tier() == Tier::Own;
        self.clearance.unwrap_or(if own { Label::Secret } else { Label::Public })
    }
}
