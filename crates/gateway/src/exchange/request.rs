//! A request under way: what is known of it, and what is kept of it when it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, StatusCode};
use events::GatewayRequest;
use inference::RequestContext;
use ledger::Amount;
use routing::Failure;
use translation::TokenUsage;
use wire::Fault;

use crate::asked::Asked;
use crate::config::Cascade;
use crate::receipt::{Attempts, Ended};
use crate::route::{Flight, Route};
use crate::snapshot::Snapshot;
use crate::state::Shared;

/// How many attempts it took.
pub(super) const ATTEMPTS: HeaderName = HeaderName::from_static("x-gristmill-attempts");

/// A request under way.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) asked: Asked,
    pub(crate) context: Arc<RequestContext>,
    pub(crate) attempts: Arc<Mutex<Attempts>>,
    pub(super) began: Instant,
    /// When the first attempt was sent.
    pub(super) sent: OnceLock<Instant>,
    pub(super) first: Option<Instant>,
    pub(super) ended: Option<&'static str>,
    /// Whether it is only explained: then nothing is counted or kept of it.
    pub(super) explained: bool,
    /// Whether another model than the one that was asked for has answered.
    pub(super) substituted: AtomicBool,
    /// A small model first, where the model has a cascade.
    pub(super) cascading: OnceLock<Cascading>,
    /// Told at the end, where the answer is shared.
    pub(super) tell: Option<tokio::sync::oneshot::Sender<Summary>>,
}

/// Why a request has no answer: what its client is told.
pub(crate) enum Refusal {
    /// A fault of the gateway's own.
    Fault(Fault),
    /// An upstream's answer in the client's dialect.
    Upstream { status: StatusCode, body: Vec<u8>, retry_after: Option<Duration> },
}

/// An attempt that failed.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// What the client is told if no other attempt follows.
    pub(crate) refusal: Refusal,
}

/// What was measured of an ended answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) events: u64,
    pub(crate) first_s: f64,
    pub(crate) total_s: f64,
}

/// What an ended exchange tells whoever shares its answer.
pub(crate) struct Summary {
    pub(crate) ok: bool,
    /// Whether another model than the one that was asked for has answered.
    pub(crate) substituted: bool,
    pub(crate) price: Amount,
}

/// A cascade under way.
pub(super) struct Cascading {
    pub(super) small: Arc<Route>,
    pub(super) larger: Arc<Route>,
    pub(super) settings: Cascade,
    pub(super) step: Mutex<Step>,
    /// Whether both answer, to calibrate.
    pub(super) both: bool,
}

/// Where a cascade is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The small model is asked, and judged.
    Judge,
    /// The small model's answer goes to the client.
    Released,
    /// The larger model is asked: a rule said so, or the small one was not sure.
    Larger,
}

impl Cascading {
    /// Where it is.
    pub(super) fn step(&self) -> Step {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on.
    pub(super) fn set(&self, step: Step) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }
}

impl Exchange {
    pub(crate) fn new(
        shared: Arc<Shared>,
        snapshot: Arc<Snapshot>,
        asked: Asked,
        context: Arc<RequestContext>,
    ) -> Exchange {
        Exchange {
            shared,
            snapshot,
            asked,
            began: context.began(),
            context,
            attempts: Arc::default(),
            sent: OnceLock::new(),
            first: None,
            ended: None,
            explained: false,
            substituted: AtomicBool::new(false),
            cascading: OnceLock::new(),
            tell: None,
        }
    }

    /// Attempts so far.
    pub(crate) fn count(&self) -> u32 {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).count()
    }

    /// Notes how the request has ended; the first word counts.
    pub(crate) fn end(&mut self, outcome: &'static str) {
        self.ended.get_or_insert(outcome);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.explained {
            return;
        }
        // Whoever is dropped before an end was noted has been left by the client.
        let outcome = self.ended.unwrap_or("cancelled");
        let now = Instant::now();
        let sent = self.sent.get().copied().unwrap_or(now);
        let model = self.snapshot.route(&self.asked.model).map_or("", |route| route.name());
        self.shared.metrics.request(&GatewayRequest {
            model,
            class: self.asked.class.name(),
            label: self.asked.label.name(),
            outcome,
            seconds: now.saturating_duration_since(self.began).as_secs_f64(),
            first_s: self.first.map(|at| at.saturating_duration_since(self.began).as_secs_f64()),
            own_s: sent.saturating_duration_since(self.began).as_secs_f64(),
        });
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.record(&Ended { asked: &self.asked, model, outcome, attempts: &attempts });
        if let Some(tell) = self.tell.take() {
            let (ok, substituted) = (outcome == "ok", self.substituted.load(Ordering::Relaxed));
            // Whoever shares the answer may have left.
            let _ = tell.send(Summary { ok, substituted, price: attempts.invoice() });
        }
    }
}

impl Failed {
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self.failure {
            Failure::Refused { retry_after } => retry_after,
            _ => None,
        }
    }
}

/// A flight's prediction against what happened, for the metric.
pub(crate) fn ratio(flight: &Flight, seconds: f64) -> Option<f64> {
    flight.predicted_s().filter(|predicted| *predicted > 0.0).map(|predicted| seconds / predicted)
}
