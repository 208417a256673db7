//! Tables of the configuration for whoever runs the gateway: the store, logs, retries, limits, what is looked for.

use std::path::PathBuf;

use privacy::Label;
use serde::Deserialize;

use super::class::Class;
use super::quantity::Time;
/// `[store]`: where budgets and receipts are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// A file of SQLite: one replica.
    pub sqlite: Option<PathBuf>,
    /// A connection string of PostgreSQL: several replicas.
    pub postgres: Option<String>,
    /// This replica's name; needed with PostgreSQL.
    pub replica: Option<String>,
    /// Days that receipts are kept.
    #[serde(default = "ninety")]
    pub receipt_days: u32,
}

fn ninety() -> u32 {
    90
}

/// `[audit]`: the audit log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditLog {
    /// Directory of its files.
    pub directory: PathBuf,
    /// A file, best elsewhere, that always has the last line's number and hash.
    pub head_file: Option<PathBuf>,
    /// Bytes after which a new file is begun.
    #[serde(default = "file_bytes")]
    pub file_bytes: u64,
}

fn file_bytes() -> u64 {
    64 << 20
}

/// `[retry]`: when a failed attempt is followed by another.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Most attempts of a request.
    pub attempts: u32,
    /// Most retries as a share of requests.
    pub budget: f64,
    /// Whether a metered attempt that may have been billed is followed by another.
    pub maybe_billed: bool,
    /// Whether an answer that a content filter refused is asked of another model.
    pub content_filter: bool,
    /// Longest `Retry-After` that is waited for where there is no other target.
    pub wait: Time,
}

impl Default for Retry {
    fn default() -> Retry {
        let wait = Time(std::time::Duration::from_secs(5));
        Retry { attempts: 3, budget: 0.1, maybe_billed: true, content_filter: false, wait }
    }
}

/// `[hedge]`: a second attempt beside a slow one, among own nodes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hedge {
    /// Whether there are any.
    pub enabled: bool,
    /// Most of them as a share of requests.
    pub share: f64,
}

impl Default for Hedge {
    fn default() -> Hedge {
        Hedge { enabled: false, share: 0.05 }
    }
}

/// `[overflow]`: when requests leave own capacity.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overflow {
    /// Whether they do.
    pub enabled: bool,
    /// Lowest class that may leave.
    pub class: Class,
}

impl Default for Overflow {
    fn default() -> Overflow {
        Overflow { enabled: true, class: Class::Standard }
    }
}

/// `[admission]`: how many requests wait, and for how long.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admission {
    /// Requests under way at once.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Longest wait.
    pub wait: Time,
    /// Share of `running` that is kept for the classes `premium` and `urgent`.
    pub reserved: f64,
}

impl Default for Admission {
    fn default() -> Admission {
        let wait = Time(std::time::Duration::from_secs(30));
        Admission { running: 2_048, waiting: 1_024, wait, reserved: 0.1 }
    }
}

/// `[privacy]`: what is looked for in requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Privacy {
    /// Label of requests with parts that rules cannot read: images, sound, files.
    pub opaque: Label,
    /// Whether findings are replaced by placeholders, restored in the answer, so that the request keeps its label.
    pub redact: bool,
    /// What is looked for, and the label of each kind.
    pub rules: privacy::Settings,
}

impl Default for Privacy {
    fn default() -> Privacy {
        Privacy { opaque: Label::Secret, redact: false, rules: privacy::Settings::default() }
    }
}

/// `[cache]`: answers to deterministic requests.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Bytes of all answers.
    pub bytes: usize,
    /// Time that an answer is kept.
    pub keep: Time,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { bytes: 64 << 20, keep: Time(std::time::Duration::from_secs(3600)) }
    }
}
