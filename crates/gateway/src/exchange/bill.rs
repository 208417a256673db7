//! What an attempt costs: reserved before it is sent, settled however it ends.
//!
//! A bill belongs to the attempt, not to the client's connection: a client that leaves does not make an answer free.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use events::GatewayAttempt;
use ledger::{Amount, AttemptRecord, Billing, Bounds, Cost, Reservation};
use routing::{Answer, Failure, Outcome};
use translation::TokenUsage;

use super::request::Exchange;
use super::request::{Failed, Measured, Refusal, ratio};
use crate::config::{Price, Tier};
use crate::receipt::Attempts;
use crate::route::{Flight, Route, Target, word};
use crate::state::Shared;

/// An attempt's side of the ledger, the router and the metrics.
pub(crate) struct Bill {
    /// None once it has ended.
    flight: Option<Flight>,
    target: Arc<Target>,
    model: String,
    shared: Arc<Shared>,
    attempts: Arc<Mutex<Attempts>>,
    reservation: Option<Reservation>,
    why: &'static str,
    began: Instant,
    status: u16,
    /// What it costs at most.
    bound: Amount,
}

impl Exchange {
    /// Reserves what an attempt may cost at most.
    ///
    /// # Errors
    /// A budget that has no room for it.
    pub(crate) async fn reserve(
        &self,
        route: &Arc<Route>,
        flight: Flight,
        why: &'static str,
    ) -> Result<Bill, Failed> {
        let began = Instant::now();
        let price = flight.target().price;
        let is_paid = flight.target().upstream.tier != Tier::Own;
        let asked = &self.asked;
        let usage = TokenUsage {
            // A token has a byte at least, but for a few control tokens of templates.
            input: asked.head.prompt_bytes() as u64 + 64,
            output: asked.max_tokens,
            ..TokenUsage::default()
        };
        let bound = match price {
            Some(price) => Some(cost(&price, &usage)),
            None if is_paid => None,
            None => Some(Amount::ZERO),
        };
        let bounds = Bounds {
            money: bound,
            tokens: asked.prompt_tokens.saturating_add(asked.max_tokens),
            requests: u32::from(self.count() == 0),
        };
        let reserved = self.shared.budgets.reserve(asked, route.name(), &bounds).await;
        match reserved {
            Ok(reservation) => {
                let bound = bound.unwrap_or(Amount::ZERO);
                Ok(Bill {
                    target: flight.target().clone(),
                    flight: Some(flight),
                    model: route.name().to_owned(),
                    shared: self.shared.clone(),
                    attempts: self.attempts.clone(),
                    reservation,
                    why,
                    began,
                    status: 0,
                    bound,
                })
            }
            Err(fault) => Err(Failed { failure: Failure::Status(402), refusal: Refusal::Fault(fault) }),
        }
    }
}

impl Bill {
    /// When the attempt began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The request at its target.
    pub(crate) fn flight(&self) -> Option<&Flight> {
        self.flight.as_ref()
    }

    /// Notes the status of the answer.
    pub(crate) fn answered(&mut self, status: u16) {
        self.status = status;
    }

    /// Settles a whole answer.
    pub(crate) fn settle(mut self, exchange: &Exchange, measured: &Measured) {
        let usage = measured.usage.unwrap_or_else(|| guess(exchange, measured));
        let amount = self.amount(&usage);
        let outcome = Outcome::Answered(Answer {
            first_token_s: measured.first_s,
            total_s: measured.total_s,
            prompt_tokens: usage.input,
            cached_tokens: measured.usage.map(|usage| usage.cached),
            output_tokens: usage.output,
        });
        if let Some(ratio) = self.flight.as_ref().and_then(|flight| ratio(flight, measured.total_s)) {
            self.shared.metrics.prediction(&self.target.upstream.name, ratio);
        }
        self.end(&outcome, "ok", &usage, amount, Billing::Billed);
    }

    /// Settles an attempt that failed before any content.
    pub(crate) fn failed(mut self, exchange: &Exchange, failure: Failure, status: u16) {
        let policy = exchange.snapshot.retry_policy();
        let maybe = routing::retry::rule(failure, self.target.tier(), false, &policy).may_be_billed;
        let (billing, amount) = match maybe {
            true => (Billing::PossiblyBilled, self.bound),
            false => (Billing::Free, Amount::ZERO),
        };
        self.status = status;
        self.end(&Outcome::Failed(failure), word(failure), &TokenUsage::default(), amount, billing);
    }

    /// Settles a stream that broke after content.
    pub(crate) fn broke(self, exchange: &Exchange, failure: Failure, known: &Measured) {
        self.partly(exchange, &Outcome::Failed(failure), word(failure), known);
    }

    /// Settles a stream whose client has left.
    pub(crate) fn left(self, exchange: &Exchange, known: &Measured) {
        self.partly(exchange, &Outcome::Cancelled, "cancelled", known);
    }

    /// Settles an answer that was given up because it wavers: the upstream did nothing wrong.
    pub(crate) fn unsure(self, exchange: &Exchange, known: &Measured) {
        self.partly(exchange, &Outcome::Cancelled, "unsure", known);
    }

    /// What came is paid for; what the provider computed beyond that is not known, so that the bound stays possible.
    fn partly(mut self, exchange: &Exchange, outcome: &Outcome, result: &'static str, known: &Measured) {
        let usage = known.usage.unwrap_or_else(|| guess(exchange, known));
        if known.usage.is_some() || self.target.upstream.tier == Tier::Own {
            let amount = self.amount(&usage);
            self.end(outcome, result, &usage, amount, Billing::Billed);
        } else {
            let bound = self.bound;
            self.end(outcome, result, &usage, bound, Billing::PossiblyBilled);
        }
    }

    fn amount(&self, usage: &TokenUsage) -> Amount {
        self.target.price.map_or(Amount::ZERO, |price| cost(&price, usage))
    }

    fn end(
        &mut self,
        outcome: &Outcome,
        result: &'static str,
        usage: &TokenUsage,
        amount: Amount,
        billing: Billing,
    ) {
        let Some(flight) = self.flight.take() else { return };
        let upstream = &self.target.upstream.name;
        self.shared.metrics.attempt(&GatewayAttempt {
            upstream,
            model: &self.model,
            why: self.why,
            result,
            tokens: [usage.input, usage.cached, usage.output],
            nanos: u64::try_from(amount.nano()).unwrap_or(0),
        });
        if let Some(reservation) = self.reservation.take() {
            match billing {
                Billing::Free => reservation.release(),
                Billing::PossiblyBilled => reservation.settle_unknown(),
                Billing::Billed => {
                    let requests = reservation.bounds().requests;
                    let tokens = usage.input.saturating_add(usage.output);
                    reservation.settle(Cost { money: amount, tokens, requests });
                }
            }
        }
        let billing = if self.target.price.is_none() { Billing::Free } else { billing };
        let record = AttemptRecord {
            upstream: upstream.clone(),
            reason: self.why.to_owned(),
            status: self.status,
            billing,
            amount,
        };
        let own = match self.target.upstream.tier {
            Tier::Own => self.began.elapsed(),
            Tier::Rented | Tier::Metered => Duration::ZERO,
        };
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).add(record, result, usage, own);
        flight.finish(outcome);
    }
}

impl Drop for Bill {
    /// An attempt that is given up before it has ended: its client has left, or another was first.
    fn drop(&mut self) {
        let (billing, amount) = match self.target.upstream.tier {
            Tier::Own => (Billing::Free, Amount::ZERO),
            Tier::Rented | Tier::Metered => (Billing::PossiblyBilled, self.bound),
        };
        self.end(&Outcome::Cancelled, "cancelled", &TokenUsage::default(), amount, billing);
    }
}

/// The usage of an answer that reports none: what was asked, and an event for each token.
fn guess(exchange: &Exchange, measured: &Measured) -> TokenUsage {
    TokenUsage { input: exchange.asked.prompt_tokens, output: measured.events, ..TokenUsage::default() }
}

/// What tokens cost, rounded up to a nano unit for each kind.
pub(crate) fn cost(price: &Price, usage: &TokenUsage) -> Amount {
    let amount = |nanos: crate::config::Nanos| Amount::from_nano(nanos.0);
    let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_write);
    let input = amount(price.input).per_million(plain);
    let cached = amount(price.cached.unwrap_or(price.input)).per_million(usage.cached);
    let written = amount(price.cache_write.unwrap_or(price.input)).per_million(usage.cache_write);
    input.plus(cached).plus(written).plus(amount(price.output).per_million(usage.output))
}
