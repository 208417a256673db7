//! One receipt for each request, and the reports that are summed from them.

use crate::amount::Amount;
use crate::bucket::{Bucket, MAX_NAME_BYTES};
use crate::calendar::Window;
use serde::{Deserialize, Serialize};

/// The most attempts that a receipt keeps.
pub const MAX_ATTEMPTS: usize = 4;

/// Whether an attempt was paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Billing {
    /// It is on the invoice: its usage is known.
    Billed,
    /// It may be on the invoice: the answer was lost, and the amount is its upper bound.
    PossiblyBilled,
    /// It cost nothing: nothing was sent, it was refused, or a machine of our own answered.
    Free,
}

/// One try at one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The upstream's name in the configuration.
    pub upstream: String,
    /// Why it was tried: `first`, `retry`, `hedge`, …
    pub reason: String,
    /// The HTTP status; 0 if there was no answer.
    pub status: u16,
    /// Whether it was paid for.
    pub billing: Billing,
    /// What it cost, or may have cost at most.
    pub amount: Amount,
}

/// What a request cost, without a word of what was asked or answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// When the request ended, in Unix seconds.
    pub time: i64,
    /// The request's id.
    pub request: String,
    /// The API key's name, never the key.
    pub key: String,
    /// The key's team; empty if it has none.
    pub team: String,
    /// The model as the client named it.
    pub model: String,
    /// The upstream that answered; empty if none did.
    pub upstream: String,
    /// The data label: `public`, `internal`, `secret`.
    pub label: String,
    /// Every attempt, at most [`MAX_ATTEMPTS`]; see [`Receipt::add_attempt`].
    pub attempts: Vec<AttemptRecord>,
    /// Attempts beyond those that are kept; their amounts are in the sums.
    pub more_attempts: u32,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Time of our own machines, in milliseconds.
    pub own_ms: u64,
    /// What the invoices of upstreams have for it.
    pub invoice: Amount,
    /// What they may have beyond that: the bounds of attempts whose answer was lost.
    pub possibly: Amount,
    /// What caches saved.
    pub saved: Amount,
}

impl Receipt {
    /// Adds an attempt and its amount. The first [`MAX_ATTEMPTS`] − 1 and the last are kept.
    pub fn add_attempt(&mut self, attempt: AttemptRecord) {
        match attempt.billing {
            Billing::Billed => self.invoice += attempt.amount,
            Billing::PossiblyBilled => self.possibly += attempt.amount,
            Billing::Free => {}
        }
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.truncate(MAX_ATTEMPTS - 1);
            self.more_attempts = self.more_attempts.saturating_add(1);
        }
        self.attempts.push(attempt);
    }

    /// Cuts names and lists to their bounds, so that a queue of receipts is bounded in bytes too.
    pub(crate) fn bound(&mut self) {
        let names = [
            &mut self.request,
            &mut self.key,
            &mut self.team,
            &mut self.model,
            &mut self.upstream,
            &mut self.label,
        ];
        names.into_iter().for_each(cut);
        self.attempts.truncate(MAX_ATTEMPTS);
        for attempt in &mut self.attempts {
            cut(&mut attempt.upstream);
            cut(&mut attempt.reason);
        }
    }
}

/// Cuts a name to [`MAX_NAME_BYTES`] at a character's end, and drops NUL, which PostgreSQL refuses.
fn cut(name: &mut String) {
    if name.len() > MAX_NAME_BYTES {
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        name.shrink_to_fit();
    }
    if name.contains('\0') {
        name.retain(|c| c != '\0');
    }
}

/// What the rows of a report are by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// The day, in UTC.
    Day,
    /// The API key.
    Key,
    /// The team.
    Team,
    /// The model.
    Model,
    /// The upstream that answered.
    Upstream,
    /// The data label.
    Label,
}

/// The sums of a group of receipts. Money is in nano units; sums of many amounts may exceed an [`Amount`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRow {
    /// The group's values, in the order of the question; a day as `2026-11-29`.
    pub group: Vec<String>,
    /// Receipts.
    pub requests: u64,
    /// Tokens of prompts.
    pub input_tokens: i128,
    /// Tokens of answers.
    pub output_tokens: i128,
    /// Time of our own machines, in milliseconds.
    pub own_ms: i128,
    /// Invoices.
    pub invoice: i128,
    /// What invoices may have beyond that.
    pub possibly: i128,
    /// What caches saved.
    pub saved: i128,
}

/// The most rows of a report; a question that has more is refused.
pub const MAX_REPORT_ROWS: usize = 100_000;

/// The state of a bucket's present period over all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketTotal {
    /// The bucket.
    pub bucket: Bucket,
    /// The period: see [`Window::end_of`].
    pub period: i64,
    /// The cap that the last exchange named.
    pub limit: i64,
    /// Settled spending.
    pub spent: i64,
    /// The part of it that is only possibly billed.
    pub uncertain: i64,
    /// What replicas have leased and not reported as spent.
    pub leased: i64,
    /// The part of `leased` whose lease has expired: a replica died with it, and it counts as spent until reclaimed.
    pub lost: i64,
}

impl BucketTotal {
    /// When the period ends, in Unix seconds; `None` for a total.
    pub fn resets_at(&self) -> Option<i64> {
        let window: Window = self.bucket.window;
        window.end_of(self.period)
    }
}
