//! Words of settings, as the configuration writes them.

use crate::config::{Kind, Tier};

/// Whose the machine is.
pub(crate) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Own => "own",
        Tier::Rented => "rented",
        Tier::Metered => "metered",
    }
}

/// The API that an upstream speaks.
pub(crate) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gristmill => "gristmill",
        Kind::OpenAi => "openai",
        Kind::Anthropic => "anthropic",
        Kind::Gemini => "gemini",
        Kind::Azure => "azure",
    }
}
