//! Classes of urgency.

use serde::Deserialize;

/// The urgency of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Fills idle time.
    Batch,
    /// Ordinary.
    #[default]
    Standard,
    /// Has reserved capacity.
    Premium,
    /// Before all others.
    Urgent,
}

impl Class {
    /// The name, as the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Batch => "batch",
            Class::Standard => "standard",
            Class::Premium => "premium",
            Class::Urgent => "urgent",
        }
    }
}
