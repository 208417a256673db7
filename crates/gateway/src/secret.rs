//! Secrets that the configuration names, and who reads them.

use std::path::Path;

/// A secret that the configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret<'a> {
    /// An environment variable.
    Environment(&'a str),
    /// A file.
    File(&'a Path),
}

/// Reads a key or a file that the configuration names.
pub type Secrets = Box<dyn Fn(&Secret<'_>) -> Result<String, String> + Send + Sync>;
