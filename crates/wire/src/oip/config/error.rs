//! What is wrong with a configuration.

/// What is wrong with a configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in words.
    pub message: String,
}

impl ConfigError {
    /// An error in a line.
    pub(super) fn at(line: usize, message: impl Into<String>) -> ConfigError {
        ConfigError { line, message: message.into() }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}
