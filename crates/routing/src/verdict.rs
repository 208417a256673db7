//! What targets looked like to a request: for explanations, and for the error when none can take it.

use std::fmt;
use std::time::Duration;

use crate::candidate::Reason;
use crate::target::TargetId;

/// What a target looks like to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Chosen.
    Chosen(Reason),
    /// Could have been chosen.
    Slower,
    /// The caller does not allow it: label, budget, or tried before.
    NotAllowed,
    /// It failed: its circuit breaker is open until then.
    Open(Duration),
    /// It refused requests until then.
    Throttled(Duration),
    /// As many requests are in flight as it may have.
    Full,
    /// It is rented or metered, and the request may not leave.
    MayNotLeave,
    /// It is metered and has no price.
    NoPrice,
    /// It is rented or metered, and own targets keep the service level.
    NotNeeded,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Chosen(reason) => match reason {
                Reason::OnlyOne => "chosen: the only one that can be used",
                Reason::CachedPrefix => "chosen: holds the most of the prompt for its load",
                Reason::Affinity => "chosen: near the least time, and the conversation's own",
                Reason::LeastTime => "chosen: least expected time",
                Reason::Policy => "chosen: its turn",
                Reason::Probe => "chosen: one request tries it after failures",
                Reason::Overflow => "chosen: own targets would miss the service level",
                Reason::NoOwn => "chosen: no own target can be used",
                Reason::Hedge => "chosen: second attempt beside a slow one",
            },
            Verdict::Slower => "not chosen",
            Verdict::NotAllowed => "not allowed for this request",
            Verdict::Open(_) => "circuit breaker open after failures",
            Verdict::Throttled(_) => "refuses requests for now (429)",
            Verdict::Full => "as many requests in flight as it may have",
            Verdict::MayNotLeave => "outside, and the request may not leave",
            Verdict::NoPrice => "no price known",
            Verdict::NotNeeded => "outside, and own targets keep the service level",
        })
    }
}

/// A target as it looked to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// The target.
    pub target: TargetId,
    /// Its name.
    pub name: String,
    /// Expected seconds before the prompt is begun.
    pub wait_s: f64,
    /// Expected seconds of the prompt that is not cached.
    pub prefill_s: f64,
    /// Expected seconds of the answer after its first token.
    pub decode_s: f64,
    /// Prompt tokens that its cache is expected to hold.
    pub cached: u64,
    /// Expected price in nano units, if the target has one.
    pub price: Option<u64>,
    /// What was decided.
    pub verdict: Verdict,
}

/// The error of a request that no target can take, with how many targets could not for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The caller did not allow them.
    pub not_allowed: u32,
    /// Circuit breakers that are open.
    pub open: u32,
    /// Those that refuse requests for now.
    pub throttled: u32,
    /// Those with as many requests as they may have.
    pub full: u32,
    /// Those that the request may not leave for.
    pub outside: u32,
    /// Those without a price.
    pub no_price: u32,
    /// Time after which one of them may be usable; none if time does not help.
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// Counts a target.
    pub(crate) fn count(&mut self, now: Duration, verdict: Verdict) {
        let (counter, again) = match verdict {
            Verdict::Open(until) => (&mut self.open, Some(until.saturating_sub(now))),
            Verdict::Throttled(until) => (&mut self.throttled, Some(until.saturating_sub(now))),
            Verdict::Full => (&mut self.full, Some(Duration::from_secs(1))),
            Verdict::MayNotLeave => (&mut self.outside, None),
            Verdict::NoPrice => (&mut self.no_price, None),
            Verdict::NotAllowed | Verdict::Chosen(_) | Verdict::Slower | Verdict::NotNeeded => {
                (&mut self.not_allowed, None)
            }
        };
        *counter += 1;
        self.retry_after = match (self.retry_after, again) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no target can take the request: ")?;
        let mut first = true;
        for (count, what) in [
            (self.not_allowed, "not allowed or tried before"),
            (self.open, "failing"),
            (self.throttled, "refusing for now"),
            (self.full, "full"),
            (self.outside, "outside, where it may not go"),
            (self.no_price, "without a known price"),
        ] {
            if count > 0 {
                write!(f, "{}{count} {what}", if first { "" } else { ", " })?;
                first = false;
            }
        }
        if first { f.write_str("the route has none") } else { Ok(()) }
    }
}

impl std::error::Error for Refused {}
