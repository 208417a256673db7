//! What follows a failure, by evidence: what is known of the work that was done, who is paid for it, and what the
//! client has seen.
//!
//! * *Not written* or *refused*: no work was done, so another try is free.
//! * *Uncertain* (reset after the request was written, 500, 502, 504, no first byte in time): the work may have been
//!   done. An own node may be asked again; a paid service too if the policy says so, and then the first attempt stays
//!   in the ledger as possibly billed.
//! * *Visible*: the client has a part of the answer. Only an exact continuation may follow; else the stream ends with
//!   an error, never as if it were whole.
//!
//! [`rule`] is the table, [`table`] prints it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::failure::{Failure, Limit};
use crate::target::Tier;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The same target, on a new connection.
    SameTarget,
    /// Another target of the same model; of the fallback model if there is none.
    OtherTarget,
    /// The fallback model: no target of this one can do better.
    OtherModel,
    /// Another own node of the same weights continues the text exactly.
    Resume,
    /// The client gets the error.
    Stop,
}

/// The rule for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What follows, if attempts, time and retry budget are left.
    pub next: Next,
    /// Whether the attempt may be on the bill of the service.
    pub may_be_billed: bool,
    /// Whether the next attempt is taken from the retry budget: it may add to an overload. Connections that were not
    /// made and streams that are resumed are bounded by the attempts alone, so that a node that dies with many
    /// requests fails none of them.
    pub takes_budget: bool,
}

/// Settings of retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of a request, the first included.
    pub attempts: u32,
    /// Retries as a share of the requests.
    pub budget: f64,
    /// Whether a request to a paid service is tried again when the first attempt may have been billed.
    pub paid_uncertain: bool,
    /// Whether the fallback model may answer what a content filter refused.
    pub content_filter_falls_back: bool,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 3, budget: 0.1, paid_uncertain: true, content_filter_falls_back: false }
    }
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailedAttempt {
    /// Why it failed.
    pub failure: Failure,
    /// Who owns the target.
    pub tier: Tier,
    /// Whether a byte of the answer's text has gone to the client.
    pub visible: bool,
    /// Whether another own node of the same weights can continue the text: seed and token ids are known.
    pub resumable: bool,
    /// Attempts so far, this one included.
    pub attempts: u32,
}

/// What to do about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What follows.
    pub next: Next,
    /// Whether the attempt may be on the bill of the service.
    pub may_be_billed: bool,
    /// Why nothing follows, where the rule alone would have allowed more.
    pub limit: Option<&'static str>,
}

/// What the work of a failed attempt may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// None.
    NotWritten,
    /// None: the target refused, or could not be reached.
    Refused,
    /// Some, perhaps all.
    Uncertain,
    /// The request is at fault, on every target of the model.
    Request,
    /// The request is at fault on any model, or its time is over.
    Final,
    /// The content filter's decision.
    Filtered,
}

fn evidence(failure: Failure) -> Evidence {
    match failure {
        Failure::NotWritten => Evidence::NotWritten,
        // A key, an account or a model that one target lacks says nothing of the others.
        Failure::Connect | Failure::Refused { .. } | Failure::Status(401..=404 | 429 | 503 | 529) => {
            Evidence::Refused
        }
        Failure::Reset | Failure::MalformedStream | Failure::Cut => Evidence::Uncertain,
        Failure::Timeout(Limit::FirstByte | Limit::Idle) | Failure::Status(408 | 409 | 425 | 500..) => {
            Evidence::Uncertain
        }
        Failure::ContextLength | Failure::Status(413) => Evidence::Request,
        Failure::Timeout(Limit::Total) | Failure::Status(_) => Evidence::Final,
        Failure::ContentFilter => Evidence::Filtered,
    }
}

/// The table: failure, tier, and whether the client has seen a part of the answer.
#[must_use]
pub fn rule(failure: Failure, tier: Tier, visible: bool, policy: &RetryPolicy) -> Rule {
    let is_paid = tier == Tier::Metered;
    let evidence = evidence(failure);
    let worked = matches!(evidence, Evidence::Uncertain | Evidence::Filtered)
        || failure == Failure::Timeout(Limit::Total);
    let may_be_billed = is_paid && (visible || worked);
    let (next, takes_budget) = match (evidence, visible) {
        (Evidence::Final, _) => (Next::Stop, false),
        // Whatever the failure was, a part of the answer is out.
        (_, true) if tier == Tier::Own => (Next::Resume, false),
        (_, true) => (Next::Stop, false),
        (Evidence::NotWritten, false) => (Next::SameTarget, false),
        (Evidence::Refused, false) => (Next::OtherTarget, failure != Failure::Connect),
        (Evidence::Uncertain, false) if is_paid && !policy.paid_uncertain => (Next::Stop, false),
        (Evidence::Uncertain, false) => (Next::OtherTarget, true),
        (Evidence::Request, false) => (Next::OtherModel, false),
        (Evidence::Filtered, false) if policy.content_filter_falls_back => (Next::OtherModel, false),
        (Evidence::Filtered, false) => (Next::Stop, false),
    };
    Rule { next, may_be_billed, takes_budget }
}

/// The share of requests that may be tried again, of all requests of a gateway: a bucket that each request fills.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    share: f64,
    left: f64,
}

/// Retries that may be saved up, and that there are at the start: those of the requests that a node loses at once.
const SAVED: f64 = 100.0;

impl RetryBudget {
    /// A budget for a share of the requests, 0 to 1.
    #[must_use]
    pub fn new(share: f64) -> RetryBudget {
        RetryBudget { share: share.clamp(0.0, 1.0), left: if share > 0.0 { SAVED } else { 0.0 } }
    }

    /// A request came.
    pub fn request(&mut self) {
        self.left = (self.left + self.share).min(SAVED);
    }

    /// Takes a retry, if there is one.
    pub fn take(&mut self) -> bool {
        let has = self.left >= 1.0;
        self.left -= if has { 1.0 } else { 0.0 };
        has
    }

    /// Retries that are left.
    #[must_use]
    pub fn left(&self) -> f64 {
        self.left
    }
}

/// What to do about a failed attempt: the rule, within the limits of attempts, time and budget. `time_left` is that of
/// the request's deadline.
#[must_use]
pub fn advise(
    attempt: &FailedAttempt,
    policy: &RetryPolicy,
    budget: &mut RetryBudget,
    time_left: Duration,
) -> Advice {
    let rule = rule(attempt.failure, attempt.tier, attempt.visible, policy);
    let stop = |limit| Advice { next: Next::Stop, may_be_billed: rule.may_be_billed, limit };
    match rule.next {
        Next::Stop => stop(None),
        Next::Resume if !attempt.resumable => stop(Some("no other node can continue the text")),
        _ if attempt.attempts >= policy.attempts => stop(Some("the most attempts were made")),
        _ if time_left.is_zero() => stop(Some("the request's time is over")),
        _ if rule.takes_budget && !budget.take() => stop(Some("the retry budget is empty")),
        next => Advice { next, may_be_billed: rule.may_be_billed, limit: None },
    }
}

/// The failures of the table, with their names.
const ROWS: [(&str, Failure); 17] = [
    ("not written", Failure::NotWritten),
    ("no connection", Failure::Connect),
    ("refused (429, 529, queue full)", Failure::Refused { retry_after: None }),
    ("no first byte in time", Failure::Timeout(Limit::FirstByte)),
    ("stalled between bytes", Failure::Timeout(Limit::Idle)),
    ("deadline passed", Failure::Timeout(Limit::Total)),
    ("reset after it was written", Failure::Reset),
    ("status 400, 422", Failure::Status(400)),
    ("status 401, 402, 403, 404", Failure::Status(401)),
    ("status 408, 409, 425", Failure::Status(408)),
    ("status 413", Failure::Status(413)),
    ("status 500, 502, 504", Failure::Status(500)),
    ("status 503", Failure::Status(503)),
    ("content filter", Failure::ContentFilter),
    ("prompt too long for the model", Failure::ContextLength),
    ("answer not of its dialect", Failure::MalformedStream),
    ("answer cut short", Failure::Cut),
];

/// The table as Markdown: what follows each failure, for own nodes and metered services, before and after the client
/// has seen a part of the answer. Machines rented by the hour are as own ones before that, and as metered ones after.
#[must_use]
pub fn table(policy: &RetryPolicy) -> String {
    let mut text = String::from(
        "| failure | own, nothing sent | own, text sent | metered, nothing sent | metered, text sent |\n\
         |---|---|---|---|---|\n",
    );
    for (name, failure) in ROWS {
        let cell = |tier, visible| {
            let rule = rule(failure, tier, visible, policy);
            let next = match rule.next {
                Next::SameTarget => "same target",
                Next::OtherTarget => "other target",
                Next::OtherModel => "fallback model",
                Next::Resume => "resume",
                Next::Stop => "stop",
            };
            format!("{next}{}", if rule.may_be_billed { " (may be billed)" } else { "" })
        };
        let cells = [(Tier::Own, false), (Tier::Own, true), (Tier::Metered, false), (Tier::Metered, true)];
        let cells = cells.map(|(tier, visible)| cell(tier, visible));
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(failure: Failure, tier: Tier) -> FailedAttempt {
        FailedAttempt { failure, tier, visible: false, resumable: false, attempts: 1 }
    }

    fn advised(attempt: &FailedAttempt, policy: &RetryPolicy) -> Advice {
        advise(attempt, policy, &mut RetryBudget::new(0.1), Duration::from_secs(9))
    }

    #[test]
    fn work_that_was_not_done_is_free_and_uncertain_work_is_told() {
        let policy = RetryPolicy::default();
        let of = |failure, tier| {
            let advice = advised(&attempt(failure, tier), &policy);
            (advice.next, advice.may_be_billed)
        };
        assert_eq!(of(Failure::NotWritten, Tier::Metered), (Next::SameTarget, false));
        assert_eq!(of(Failure::Refused { retry_after: None }, Tier::Metered), (Next::OtherTarget, false));
        assert_eq!(of(Failure::Reset, Tier::Metered), (Next::OtherTarget, true));
        assert_eq!(of(Failure::Reset, Tier::Own), (Next::OtherTarget, false));
        assert_eq!(of(Failure::Status(400), Tier::Own), (Next::Stop, false));
        assert_eq!(of(Failure::ContextLength, Tier::Own), (Next::OtherModel, false));
        assert_eq!(of(Failure::ContentFilter, Tier::Metered), (Next::Stop, true));
        let careful = RetryPolicy { paid_uncertain: false, ..policy };
        assert_eq!(advised(&attempt(Failure::Status(502), Tier::Metered), &careful).next, Next::Stop);
        assert_eq!(advised(&attempt(Failure::Status(502), Tier::Own), &careful).next, Next::OtherTarget);
        let filtered = RetryPolicy { content_filter_falls_back: true, ..policy };
        assert_eq!(advised(&attempt(Failure::ContentFilter, Tier::Own), &filtered).next, Next::OtherModel);
    }

    #[test]
    fn after_a_visible_byte_only_an_exact_continuation_follows() {
        let policy = RetryPolicy::default();
        for (_, failure) in ROWS {
            for tier in [Tier::Own, Tier::Rented, Tier::Metered] {
                for resumable in [false, true] {
                    let failed = FailedAttempt { visible: true, resumable, ..attempt(failure, tier) };
                    let next = advised(&failed, &policy).next;
                    let may = resumable && tier == Tier::Own;
                    assert!(next == Next::Stop || (may && next == Next::Resume), "{failure:?} {tier:?}");
                }
            }
        }
    }

    #[test]
    fn the_same_model_never_sees_again_what_it_cannot_do() {
        for (_, failure) in ROWS {
            for policy in [true, false]
                .map(|fallback| RetryPolicy { content_filter_falls_back: fallback, ..RetryPolicy::default() })
            {
                let next = rule(failure, Tier::Own, false, &policy).next;
                if matches!(
                    failure,
                    Failure::ContentFilter | Failure::ContextLength | Failure::Status(400 | 413)
                ) {
                    assert!(matches!(next, Next::OtherModel | Next::Stop), "{failure:?}");
                }
            }
        }
    }

    #[test]
    fn attempts_time_and_budget_are_limits() {
        let policy = RetryPolicy::default();
        let failed = attempt(Failure::Reset, Tier::Own);
        let third = FailedAttempt { attempts: 3, ..failed };
        assert_eq!(advised(&third, &policy).limit, Some("the most attempts were made"));
        let late = advise(&failed, &policy, &mut RetryBudget::new(0.1), Duration::ZERO);
        assert_eq!((late.next, late.limit), (Next::Stop, Some("the request's time is over")));
        let mut budget = RetryBudget::new(0.1);
        let mut retries = 0;
        for _ in 0..10_000 {
            budget.request();
            let advice = advise(&failed, &policy, &mut budget, Duration::from_secs(1));
            retries += u32::from(advice.next == Next::OtherTarget);
        }
        // A tenth, and those saved at the start.
        assert!((1_000..=1_101).contains(&retries), "{retries}");
        assert!(!RetryBudget::new(0.0).take());
    }

    #[test]
    fn the_table_has_a_row_for_each_failure() {
        let text = table(&RetryPolicy::default());
        assert_eq!(text.lines().count(), ROWS.len() + 2);
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert_eq!(
            row("reset after"),
            "| reset after it was written | other target | resume | other target (may be billed) | stop (may be billed) |"
        );
        assert_eq!(
            row("content filter"),
            "| content filter | stop | resume | stop (may be billed) | stop (may be billed) |"
        );
    }
}
