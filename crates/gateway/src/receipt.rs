//! What is kept of a request: its attempts while it is under way, and its receipt at the end.

use std::time::Duration;

use ledger::audit::{Entry, Tried};
use ledger::{Amount, AttemptRecord, Receipt};
use translation::TokenUsage;

use crate::asked::Asked;

/// The attempts of a request.
#[derive(Default)]
pub(crate) struct Attempts {
    receipt: Option<Box<Receipt>>,
    count: u32,
    results: Vec<&'static str>,
    usage: TokenUsage,
}

/// Attempts whose results are kept.
const MOST_RESULTS: usize = 8;

impl Attempts {
    /// How many there were.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds one, with its result, usage, and time at a machine of ours.
    pub(crate) fn add(
        &mut self,
        attempt: AttemptRecord,
        result: &'static str,
        usage: &TokenUsage,
        own: Duration,
    ) {
        self.count = self.count.saturating_add(1);
        if self.results.len() < MOST_RESULTS {
            self.results.push(result);
        }
        self.usage.input = self.usage.input.saturating_add(usage.input);
        self.usage.cached = self.usage.cached.saturating_add(usage.cached);
        self.usage.output = self.usage.output.saturating_add(usage.output);
        let receipt = self.receipt.get_or_insert_default();
        receipt.add_attempt(attempt);
        receipt.own_ms = receipt.own_ms.saturating_add(u64::try_from(own.as_millis()).unwrap_or(u64::MAX));
    }

    /// Notes what a kept answer has saved.
    pub(crate) fn save(&mut self, price: Amount) {
        self.receipt.get_or_insert_default().saved += price;
    }

    /// What is on invoices so far.
    pub(crate) fn invoice(&self) -> Amount {
        self.receipt.as_ref().map_or(Amount::ZERO, |receipt| receipt.invoice)
    }

    /// The upstreams that were asked with what came of it, for the audit log.
    pub(crate) fn told(&self) -> impl Iterator<Item = (&AttemptRecord, &'static str)> {
        let attempts = self.receipt.iter().flat_map(|receipt| &receipt.attempts);
        attempts.zip(self.results.iter().copied())
    }
}

/// A request that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) model: &'a str,
    pub(crate) outcome: &'static str,
    pub(crate) attempts: &'a Attempts,
}

impl Ended<'_> {
    /// Its line in the audit log.
    pub(crate) fn entry(&self) -> Entry {
        let tried = |(attempt, result): (&AttemptRecord, &'static str)| Tried {
            upstream: attempt.upstream.clone(),
            reason: format!("{}: {result}", attempt.reason),
        };
        let found = match self.asked.found.is_empty() {
            true => String::new(),
            false => format!("; found {}", self.asked.found.join(", ")),
        };
        // Upstreams that are not cleared for the label got placeholders for what was found.
        let redacted = match &self.asked.redacted {
            None => String::new(),
            Some(redacted) => format!("; without it {}", redacted.label),
        };
        let receipt = self.receipt(crate::clock::now());
        Entry {
            time: receipt.time,
            request: receipt.request,
            key: receipt.key,
            label: receipt.label,
            decision: format!("{}{found}{redacted}", self.outcome),
            upstreams: self.attempts.told().map(tried).collect(),
            input_tokens: receipt.input_tokens,
            output_tokens: receipt.output_tokens,
            cost: receipt.invoice.plus(receipt.possibly),
        }
    }

    /// Its receipt at a time in Unix seconds.
    pub(crate) fn receipt(&self, at: i64) -> Receipt {
        let mut receipt = self.attempts.receipt.as_deref().cloned().unwrap_or_default();
        let key = self.asked.key.as_deref();
        receipt.time = at;
        receipt.request.clone_from(&self.asked.request_id);
        receipt.key = key.map(|key| key.name.clone()).unwrap_or_default();
        receipt.team = key.and_then(|key| key.team.clone()).unwrap_or_default();
        receipt.model = self.model.to_owned();
        receipt.upstream = receipt.attempts.last().map(|last| last.upstream.clone()).unwrap_or_default();
        receipt.label = self.asked.label.name().to_owned();
        receipt.input_tokens = self.attempts.usage.input;
        receipt.output_tokens = self.attempts.usage.output;
        receipt
    }
}
