//! Records that nodes push to a gateway: what a node serves, how busy it is, and how fast it computes.
//!
//! `GET /v1/node` answers with a [`NodeRecord`]; `gristmill serve --gateway` sends a [`NodePush`] with one to
//! [`PUSH_PATH`] of the gateway; answers of inference carry [`NodeLoad`] in the header [`LOAD_HEADER`]. Unknown fields
//! are ignored, so that nodes and gateways of different versions understand each other. Every list, text and number
//! is bounded.

use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::fields::shown_name;
use crate::{json, limits};

/// Path of a node's own record.
pub const NODE_PATH: &str = "/v1/node";
/// Path of a gateway that takes the pushes of nodes; a `DELETE` of the path with `/{id}` takes the node out.
pub const PUSH_PATH: &str = "/gateway/nodes";
/// Header of every answer to an inference request: the node's load when the answer began.
pub const LOAD_HEADER: &str = "x-gristmill-load";
/// Header of the same answers: [`NodeRecord::id`], which changes when the process is started again.
pub const NODE_HEADER: &str = "x-gristmill-node";

/// Bytes of a pushed record.
pub const PUSH_BYTES: usize = 1 << 20;
/// Models in a record.
pub const MODELS: usize = 1_024;
/// Names and operations of a model.
pub const NAMES: usize = 64;
/// Points of a table of step times.
pub const STEP_TIMES: usize = 8;
/// Bytes of an advertised URL.
pub const URL_BYTES: usize = 2_048;
/// The largest count in a record.
const COUNT: u64 = 1 << 53;
/// The largest rate or time in a record.
const NUMBER: f64 = 1e15;

/// What a node sends to its gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePush {
    /// URL at which the gateway reaches the node: `http://10.0.0.7:8080`.
    pub advertise: String,
    /// The node's record.
    pub record: NodeRecord,
}

/// A node: what it serves, and its load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Identity of the process: 32 hexadecimal digits, other ones after each start.
    pub id: String,
    /// Number of the record, ascending while the process lives: a smaller one is older.
    pub sequence: u64,
    /// Version of Gristmill.
    pub version: String,
    /// Instruction tier that the kernels use: `scalar`, `avx2`, `avx512`, `amx`, …
    #[serde(default)]
    pub tier: String,
    /// Seconds since the start of the process.
    pub uptime_s: u64,
    /// State of the node.
    pub state: NodeState,
    /// Load of all models together.
    #[serde(default)]
    pub load: NodeLoad,
    /// The models.
    #[serde(default)]
    pub models: Vec<ModelRecord>,
}

/// State of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Loading; requests are refused.
    #[default]
    Starting,
    /// Requests are taken.
    Ready,
    /// About to shut down: running answers are finished, and no new requests should come.
    Draining,
}

/// Counts of work in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Requests that are computed.
    pub running: u64,
    /// Requests in queues.
    pub waiting: u64,
    /// Backlog: tokens of prompts that are not computed yet, of waiting and of running requests.
    pub backlog_tokens: u64,
}

/// A model of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Names of the model; answers carry the first.
    pub names: Vec<String>,
    /// Loading state: `registered` (loaded on first use), `loading`, `ready`, `draining` or `failed`.
    pub state: String,
    /// Names of the operations that the model supports: `generate`, `embed`, …
    #[serde(default)]
    pub operations: Vec<String>,
    /// Everything that text depends on: weights, tier, storage of the KV cache, numerics. Nodes with equal fingerprints
    /// continue each other's answers exactly; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Most tokens of prompt and answer together, or of an encoder's input; none while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Load of the model.
    #[serde(default)]
    pub load: NodeLoad,
    /// Tokens that may still be generated for requests with `max_tokens`, running and waiting.
    #[serde(default)]
    pub output_tokens: u64,
    /// Requests, running and waiting, whose answers are bounded by the context only.
    #[serde(default)]
    pub unbounded: u64,
    /// Slots: most requests computed at once.
    #[serde(default)]
    pub slots: u64,
    /// Tokens of prompts computed a second, as measured; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_per_s: Option<f64>,
    /// Measured times of a step by its rows, ascending, at most [`STEP_TIMES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_times: Vec<StepTime>,
    /// The prefix cache; none for encoders and while the model is not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_cache: Option<PrefixCacheRecord>,
}

/// The time of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Rows of the step: one for each answer that decodes, one for each prompt token.
    pub rows: u64,
    /// Milliseconds.
    pub ms: f64,
}

/// The prefix cache of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixCacheRecord {
    /// Bytes of KV blocks that no request holds and that are kept.
    pub bytes: u64,
    /// Bytes of all KV blocks.
    pub capacity_bytes: u64,
    /// Tokens of prompts that were looked up, since the model was loaded.
    pub queried_tokens: u64,
    /// Those of them that were found.
    pub hit_tokens: u64,
}

impl NodePush {
    /// Parses the body of a push. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, a missing field, a list, text or number beyond its bound, or an address that is no URL.
    pub fn parse(body: &[u8]) -> Result<NodePush, Fault> {
        let push: NodePush = read(body)?;
        push.check()?;
        Ok(push)
    }

    fn check(&self) -> Result<(), Fault> {
        let url = &self.advertise;
        bounded("advertise", "bytes", url.len(), 1, URL_BYTES)?;
        let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let is_plain =
            |host: &str| !host.is_empty() && !host.starts_with('/') && !host.contains(['@', '?', '#', '\\']);
        if !host.is_some_and(is_plain) || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "advertise is no URL of a node, such as http://10.0.0.7:8080";
            return Err(Fault::field("advertise", message));
        }
        self.record.check("record")
    }
}

impl NodeRecord {
    /// Parses the answer to `GET /v1/node`. Never panics.
    ///
    /// # Errors
    /// As [`NodePush::parse`].
    pub fn parse(body: &[u8]) -> Result<NodeRecord, Fault> {
        let record: NodeRecord = read(body)?;
        record.check("record")?;
        Ok(record)
    }

    fn check(&self, at: &str) -> Result<(), Fault> {
        if self.id.len() != 32 || !self.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::field(format!("{at}.id"), format!("{at}.id must be 32 hexadecimal digits")));
        }
        text(&format!("{at}.version"), &self.version, 0)?;
        text(&format!("{at}.tier"), &self.tier, 0)?;
        count(&format!("{at}.sequence"), self.sequence)?;
        count(&format!("{at}.uptime_s"), self.uptime_s)?;
        self.load.check(&format!("{at}.load"))?;
        bounded(&format!("{at}.models"), "entries", self.models.len(), 0, MODELS)?;
        let mut models = self.models.iter().enumerate();
        models.try_for_each(|(i, model)| model.check(&format!("{at}.models[{i}]")))
    }
}

impl ModelRecord {
    fn check(&self, at: &str) -> Result<(), Fault> {
        bounded(&format!("{at}.names"), "entries", self.names.len(), 1, NAMES)?;
        self.names.iter().try_for_each(|name| text(&format!("{at}.names"), name, 1))?;
        text(&format!("{at}.state"), &self.state, 1)?;
        bounded(&format!("{at}.operations"), "entries", self.operations.len(), 0, NAMES)?;
        self.operations.iter().try_for_each(|name| text(&format!("{at}.operations"), name, 1))?;
        text(&format!("{at}.fingerprint"), self.fingerprint.as_deref().unwrap_or("-"), 1)?;
        self.load.check(&format!("{at}.load"))?;
        for (name, value) in [
            ("context", self.context.unwrap_or_default()),
            ("output_tokens", self.output_tokens),
            ("unbounded", self.unbounded),
            ("slots", self.slots),
        ] {
            count(&format!("{at}.{name}"), value)?;
        }
        let rate = self.prompt_tokens_per_s.unwrap_or_default();
        number(&format!("{at}.prompt_tokens_per_s"), rate)?;
        self.check_steps(&format!("{at}.step_times"))?;
        self.prefix_cache.map_or(Ok(()), |cache| cache.check(&format!("{at}.prefix_cache")))
    }

    fn check_steps(&self, at: &str) -> Result<(), Fault> {
        bounded(at, "entries", self.step_times.len(), 0, STEP_TIMES)?;
        for step in &self.step_times {
            count(at, step.rows)?;
            number(at, step.ms)?;
        }
        if !self.step_times.windows(2).all(|pair| pair[0].rows < pair[1].rows) {
            return Err(Fault::field(at, format!("{at} must be in ascending order of rows")));
        }
        Ok(())
    }
}

impl NodeLoad {
    fn check(self, at: &str) -> Result<(), Fault> {
        count(&format!("{at}.running"), self.running)?;
        count(&format!("{at}.waiting"), self.waiting)?;
        count(&format!("{at}.backlog_tokens"), self.backlog_tokens)
    }

    /// The sum of two loads.
    #[must_use]
    pub fn plus(self, other: NodeLoad) -> NodeLoad {
        NodeLoad {
            running: self.running.saturating_add(other.running),
            waiting: self.waiting.saturating_add(other.waiting),
            backlog_tokens: self.backlog_tokens.saturating_add(other.backlog_tokens),
        }
    }

    /// The value of [`LOAD_HEADER`]: `running=3, waiting=0, backlog=1520`.
    pub fn header(self) -> String {
        format!("running={}, waiting={}, backlog={}", self.running, self.waiting, self.backlog_tokens)
    }

    /// Reads the value of [`LOAD_HEADER`]; none if it is no such value. Unknown names are ignored, missing ones are 0.
    pub fn read_header(value: &str) -> Option<NodeLoad> {
        if value.len() > limits::NAME_BYTES {
            return None;
        }
        let mut load = NodeLoad::default();
        for entry in value.split(',') {
            let (name, number) = entry.trim().split_once('=')?;
            let number = number.parse::<u64>().ok().filter(|number| *number <= COUNT);
            match name {
                "running" => load.running = number?,
                "waiting" => load.waiting = number?,
                "backlog" => load.backlog_tokens = number?,
                _ => {}
            }
        }
        Some(load)
    }
}

impl PrefixCacheRecord {
    fn check(self, at: &str) -> Result<(), Fault> {
        for (name, value) in [
            ("bytes", self.bytes),
            ("capacity_bytes", self.capacity_bytes),
            ("queried_tokens", self.queried_tokens),
            ("hit_tokens", self.hit_tokens),
        ] {
            count(&format!("{at}.{name}"), value)?;
        }
        Ok(())
    }
}

fn read<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, Fault> {
    if body.len() > PUSH_BYTES {
        let message = format!("the record has {} bytes; at most {PUSH_BYTES} are allowed", body.len());
        return Err(Fault::body(message));
    }
    let value = json::read(body)?;
    serde_json::from_value(value)
        .map_err(|error| Fault::body(format!("the record is not one: {}", shown_name(&error.to_string()))))
}

fn text(param: &str, text: &str, least: usize) -> Result<(), Fault> {
    bounded(param, "bytes", text.len(), least, limits::NAME_BYTES)?;
    if text.chars().any(char::is_control) {
        return Err(Fault::field(param, format!("{param} has control characters")));
    }
    Ok(())
}

fn bounded(param: &str, unit: &str, found: usize, least: usize, most: usize) -> Result<(), Fault> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Fault::field(param, format!("{param} has {found} {unit}; {least} to {most} are allowed")))
}

fn count(param: &str, found: u64) -> Result<(), Fault> {
    if found <= COUNT {
        return Ok(());
    }
    Err(Fault::field(param, format!("{param} is {found}; it must be at most {COUNT}")))
}

fn number(param: &str, found: f64) -> Result<(), Fault> {
    if (0.0..=NUMBER).contains(&found) {
        return Ok(());
    }
    Err(Fault::field(param, format!("{param} is {found}; it must be between 0 and {NUMBER}")))
}
