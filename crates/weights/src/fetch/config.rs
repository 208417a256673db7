//! The configuration of downloads: hub, Python interpreters, timeouts and retries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Timeouts and retries of downloads.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Timeout of the name lookup, and of the connection.
    pub connect: Duration,
    /// Longest time without data from a server or pip before the attempt fails.
    pub stall: Duration,
    /// Consecutive attempts that may fail without at least 1 MiB of progress.
    pub retries: u32,
    /// Pause after the first failed attempt; it doubles with each further one, up to 16 times this.
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

/// The configuration of downloads. The caller reads the environment.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// The hub's address and token.
    pub hub: Hub,
    /// Interpreters whose pip may be used.
    pub pythons: PythonInterpreters,
    /// Timeouts and retries.
    pub limits: Limits,
    /// PEM file of trusted certificate authorities, instead of the built-in ones.
    pub trust: Option<PathBuf>,
}

/// The Hugging Face hub: its address, and the user's token.
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
    /// A hub at `endpoint` (scheme, host and optional path) with an optional token.
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

/// Python interpreters to try, in order.
#[derive(Debug, Clone)]
pub struct PythonInterpreters(pub(super) Vec<OsString>);

impl PythonInterpreters {
    /// The given interpreters, in order.
    pub fn new(names: impl IntoIterator<Item = OsString>) -> PythonInterpreters {
        PythonInterpreters(names.into_iter().collect())
    }

    /// `GRISTMILL_PYTHON` alone if it is set, else `python3`, then `python`.
    pub fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> PythonInterpreters {
        match env("GRISTMILL_PYTHON").filter(|name| !name.is_empty()) {
            Some(name) => PythonInterpreters(vec![name]),
            None => PythonInterpreters(vec!["python3".into(), "python".into()]),
        }
    }
}

/// Whether `text` is a valid token for an HTTP header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4096 && text.bytes().all(|b| b.is_ascii_graphic())
}
