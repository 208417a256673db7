//! What fetching has from outside: the hub, interpreters, patience.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// How long to wait and how often to try.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the name lookup, and again for the connection.
    pub connect: Duration,
    /// Longest silence of a server or of pip before the attempt counts as failed.
    pub stall: Duration,
    /// Attempts in a row that may fail without bringing at least 1 MiB.
    pub retries: u32,
    /// Pause after the first failed attempt; doubles each time up to 16 times this.
    pub backoff: Duration,
    /// Longest wait for another process that pulls the same model.
    pub lock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(4),
            stall: Duration::from_secs(60),
            retries: 4,
            backoff: Duration::from_millis(500),
            lock: Duration::from_secs(6 * 3600),
        }
    }
}

/// Everything outside that fetching needs; the environment is read by whoever builds it.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// The hub and its token.
    pub hub: Hub,
    /// Interpreters whose pip may be used.
    pub pythons: PythonInterpreters,
    /// Timeouts and retries.
    pub limits: Limits,
    /// PEM file of the authorities to trust, in place of those built in.
    pub trust: Option<PathBuf>,
}

/// Where the hub is, and who asks.
#[derive(Clone)]
pub struct Hub {
    pub(super) endpoint: String,
    pub(super) token: Option<String>,
    pub(super) offline: bool,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = if self.token.is_some() { "with a token" } else { "without a token" };
        write!(f, "Hub({}, {token}, offline: {})", self.endpoint, self.offline)
    }
}

impl Default for Hub {
    fn default() -> Self {
        Hub { endpoint: DEFAULT_ENDPOINT.to_owned(), token: None, offline: false }
    }
}

impl Hub {
    /// A hub at `endpoint` (scheme and host, perhaps a path) with an optional token.
    pub fn new(endpoint: &str, token: Option<String>) -> Hub {
        Hub { endpoint: endpoint.trim_end_matches('/').to_owned(), token, offline: false }
    }

    /// Reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HOME` and `HF_HUB_OFFLINE` as the hub's own client does.
    pub fn from_env(env: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Hub {
        let text =
            |name: &str| env(name).and_then(|value| value.into_string().ok()).filter(|text| !text.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let home = env("HF_HOME").map(std::path::PathBuf::from).or_else(|| {
            let cache = env("XDG_CACHE_HOME").map(std::path::PathBuf::from);
            let cache = cache.or_else(|| env("HOME").map(|home| Path::new(&home).join(".cache")));
            cache.map(|cache| cache.join("huggingface"))
        });
        let path = env("HF_TOKEN_PATH").map(std::path::PathBuf::from).or_else(|| Some(home?.join("token")));
        let token = text("HF_TOKEN").or_else(|| std::fs::read_to_string(path?).ok());
        let token = token.map(|token| token.trim().to_owned()).filter(|token| is_token(token));
        let offline = text("HF_HUB_OFFLINE")
            .is_some_and(|text| matches!(text.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        Hub { offline, ..Hub::new(&endpoint, token) }
    }
}

/// Interpreters to try, in order.
#[derive(Debug, Clone)]
pub struct PythonInterpreters(pub(super) Vec<OsString>);

impl PythonInterpreters {
    /// These, in order.
    pub fn new(names: impl IntoIterator<Item = OsString>) -> PythonInterpreters {
        PythonInterpreters(names.into_iter().collect())
    }

    /// `GRISTMILL_PYTHON` alone when it is set, else `python3`, then `python`.
    pub fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> PythonInterpreters {
        match env("GRISTMILL_PYTHON").filter(|name| !name.is_empty()) {
            Some(name) => PythonInterpreters(vec![name]),
            None => PythonInterpreters(vec!["python3".into(), "python".into()]),
        }
    }
}

/// What may stand in a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4096 && text.bytes().all(|b| b.is_ascii_graphic())
}
