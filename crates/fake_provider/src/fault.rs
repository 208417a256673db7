//! Faults, and the requests that they hit.

use crate::words::mix;
use serde::Deserialize;

/// A way in which a provider fails. Counts of tokens are those of the answer that come before the fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Status 429, with a `Retry-After` header as given (seconds, or an HTTP date).
    RateLimited {
        /// The header's value; none without.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// An error status (402, 500, 503, 529, …) with the dialect's error body.
    Status {
        /// The status.
        status: u16,
    },
    /// An error status with a page in HTML, as load balancers write it.
    HtmlError {
        /// The status.
        status: u16,
    },
    /// Status 400: the prompt is longer than the model's context.
    ContextLength,
    /// Status 400: the prompt was refused by a content filter.
    ContentFilter,
    /// The TCP connection is reset before any byte of the answer.
    Reset,
    /// No byte of an answer, on a connection that stays open.
    NoResponse,
    /// The first token comes late.
    SlowFirstToken {
        /// Delay added to the script's.
        delay_ms: u64,
    },
    /// The connection ends in the middle of the answer.
    Cut {
        /// Tokens before.
        after_tokens: usize,
        /// By a reset instead of an orderly end.
        #[serde(default)]
        reset: bool,
    },
    /// Nothing comes any more, on a connection that stays open.
    Stall {
        /// Tokens before.
        after_tokens: usize,
    },
    /// One event of the stream, or the whole answer, is JSON that does not parse. The stream goes on after it.
    MalformedEvent {
        /// Tokens before.
        after_tokens: usize,
    },
    /// The stream ends in order, but without its last events (`[DONE]`, `message_stop`, …). Whole answers have no fault.
    NoDone,
    /// An error event in the stream, which then ends. Whole answers become status 500.
    ErrorEvent {
        /// Tokens before.
        after_tokens: usize,
    },
    /// The answer stops with the reason "content filter".
    Filtered {
        /// Tokens before.
        after_tokens: usize,
    },
    /// A line that does not end.
    EndlessLine {
        /// Length after which the connection is closed after all.
        bytes: u64,
    },
    /// The right answer with `Content-Type: text/html`.
    WrongContentType,
    /// The answer comes byte by byte.
    SlowBytes {
        /// Wait before each byte.
        gap_ms: u64,
    },
    /// A right answer without its usage.
    NoUsage,
    /// Status 200 with an empty body.
    EmptyBody,
}

impl Fault {
    /// Status 429 with `Retry-After: {retry_after}`.
    pub fn rate_limited(retry_after: &str) -> Self {
        Self::RateLimited { retry_after: Some(retry_after.to_owned()) }
    }

    /// An error status with the dialect's error body.
    pub fn status(status: u16) -> Self {
        Self::Status { status }
    }

    /// The fault's name in scripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate_limited",
            Self::Status { .. } => "status",
            Self::HtmlError { .. } => "html_error",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
            Self::Reset => "reset",
            Self::NoResponse => "no_response",
            Self::SlowFirstToken { .. } => "slow_first_token",
            Self::Cut { .. } => "cut",
            Self::Stall { .. } => "stall",
            Self::MalformedEvent { .. } => "malformed_event",
            Self::NoDone => "no_done",
            Self::ErrorEvent { .. } => "error_event",
            Self::Filtered { .. } => "filtered",
            Self::EndlessLine { .. } => "endless_line",
            Self::WrongContentType => "wrong_content_type",
            Self::SlowBytes { .. } => "slow_bytes",
            Self::NoUsage => "no_usage",
            Self::EmptyBody => "empty_body",
        }
    }
}

/// The requests that a fault hits: those for which every condition given here holds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Numbers of requests; the first is 1.
    pub requests: Option<Vec<u64>>,
    /// From this number on.
    pub from: Option<u64>,
    /// Up to this number.
    pub to: Option<u64>,
    /// This share of the requests, drawn from the script's seed and the request's number.
    pub probability: Option<f64>,
    /// The model asked for.
    pub model: Option<String>,
    /// Streams only, or whole answers only.
    pub stream: Option<bool>,
    /// Requests whose body has this text.
    pub body_has: Option<String>,
}

impl When {
    /// Every request.
    pub fn always() -> Self {
        Self::default()
    }

    /// Requests with these numbers; the first is 1.
    pub fn requests(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self { requests: Some(numbers.into_iter().collect()), ..Self::default() }
    }

    /// Requests with these numbers, both included.
    pub fn between(from: u64, to: u64) -> Self {
        Self { from: Some(from), to: Some(to), ..Self::default() }
    }

    /// A share of the requests.
    pub fn probability(share: f64) -> Self {
        Self { probability: Some(share), ..Self::default() }
    }

    /// Requests for a model.
    pub fn model(name: &str) -> Self {
        Self { model: Some(name.to_owned()), ..Self::default() }
    }
}

/// What a fault is drawn by.
pub(crate) struct Draw<'a> {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) model: &'a str,
    pub(crate) stream: bool,
    pub(crate) body: &'a str,
}

/// A fault with the requests that it hits. In a script's TOML the conditions are the table `when`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FaultRule {
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
    /// The requests that it hits.
    #[serde(default)]
    pub when: When,
    /// Whether the provider bills the whole answer although its client gets none of it: for faults after which a client
    /// cannot know.
    #[serde(default)]
    pub billed: bool,
}

impl FaultRule {
    /// Whether the fault hits a request. `index` is the rule's place in the script, so that two rules draw apart.
    pub(crate) fn hits(&self, index: usize, draw: &Draw<'_>) -> bool {
        let when = &self.when;
        let drawn = |share: f64| {
            let random = mix(mix(draw.seed ^ mix(index as u64 + 1)).wrapping_add(draw.number));
            ((random >> 11) as f64) < share * (1u64 << 53) as f64
        };
        when.requests.as_ref().is_none_or(|numbers| numbers.contains(&draw.number))
            && when.from.is_none_or(|from| draw.number >= from)
            && when.to.is_none_or(|to| draw.number <= to)
            && when.model.as_ref().is_none_or(|model| model == draw.model)
            && when.stream.is_none_or(|stream| stream == draw.stream)
            && when.body_has.as_ref().is_none_or(|text| draw.body.contains(text.as_str()))
            && when.probability.is_none_or(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_drawn_from_seed_and_number() {
        let rule = |share| FaultRule { fault: Fault::Reset, when: When::probability(share), billed: false };
        let draw = |seed, number| Draw { seed, number, model: "m", stream: false, body: "" };
        let hits = |share, seed| (1..=10_000).filter(|&n| rule(share).hits(0, &draw(seed, n))).count();
        assert!((900..1_100).contains(&hits(0.1, 1)), "{}", hits(0.1, 1));
        assert_eq!(hits(0.0, 1), 0);
        assert_eq!(hits(1.0, 1), 10_000);
        let of = |seed| (1..100).map(|n| rule(0.5).hits(0, &draw(seed, n))).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
