//! One request's way through the gateway: label → budget → policy → attempt, again until there is an answer or a reason.
//!
//! Nothing is sent but by an [`attempt`], which needs a [`privacy::Permit`] for its upstream: a retry, a hedge, a fallback,
//! a cascade and a continued stream each ask for their own.

mod attempt;
mod bill;
mod cached;
mod cascade;
mod explain;
mod fault;
mod hedge;
#[cfg(test)]
mod label_tests;
mod pump;
mod relay;
mod request;
mod select;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use routing::Failure;
use routing::retry::{self, Next};
use wire::Fault;

use crate::route::{Route, Target};
use attempt::{Started, StartedBody};
pub(crate) use explain::{Considered, Explained};
pub(crate) use fault::respond;
pub(crate) use request::Exchange;
use request::{ATTEMPTS, Failed, Refusal};

/// The upstream that answered.
const UPSTREAM: HeaderName = HeaderName::from_static("x-gristmill-upstream");
/// The label that the request had.
const LABEL: HeaderName = HeaderName::from_static("x-gristmill-label");
/// Models that are asked one after the other, the first included.
const MAX_MODELS: usize = 8;
/// Between attempts where the upstream does not say how long to wait: doubled each time, with jitter.
const BACKOFF: Duration = Duration::from_millis(250);

/// What follows a failed attempt.
enum After {
    /// The same target, after a pause.
    Again(Duration),
    /// Another target of the same model.
    Other,
    /// The next model of the chain.
    NextModel,
    /// Nothing.
    Stop,
}

/// What follows when a model's targets have failed.
enum Left {
    /// The next model of the chain.
    NextModel(Refusal),
    /// Nothing.
    Stop(Refusal),
}

impl Exchange {
    /// The answer of whoever gives one.
    pub(crate) async fn answer(self: Box<Self>) -> Response<Body> {
        let limit = self.asked.limit;
        let outcome = {
            let run = std::pin::pin!(self.run());
            match limit {
                None => run.await,
                Some(limit) => tokio::time::timeout(limit, run).await.unwrap_or_else(|_| {
                    let message = format!("the request's limit of {limit:?} has passed");
                    Err(Refusal::Fault(Fault::expired(message)))
                }),
            }
        };
        match outcome {
            Ok(started) => self.respond(started),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Asks the model's targets, then those of its fallbacks.
    async fn run(&self) -> Result<Started, Refusal> {
        let mut last: Option<Refusal> = None;
        let mut models = self.models();
        self.plan_cascade(&mut models);
        for (place, route) in models.into_iter().enumerate() {
            if place > 0 && !self.may_use(&route) {
                continue;
            }
            match self.ask_route(&route, place).await {
                Ok(started) => {
                    let substituted = place > 0 && !self.is_larger(&route);
                    self.substituted.store(substituted, Ordering::Relaxed);
                    return Ok(started);
                }
                Err(Left::Stop(refusal)) => return Err(refusal),
                // The first model's own reason is what the client should hear, unless there was none to ask.
                Err(Left::NextModel(refusal)) => {
                    last.get_or_insert(refusal);
                }
            }
        }
        Err(last.unwrap_or_else(|| Refusal::Fault(Fault::internal("the model has no targets"))))
    }

    /// The model that was asked for and its fallbacks, in order, each once.
    fn models(&self) -> Vec<Arc<Route>> {
        let mut models: Vec<Arc<Route>> =
            self.snapshot.route(&self.asked.model).into_iter().cloned().collect();
        let mut at = 0;
        while let Some(route) = models.get(at).cloned() {
            for name in route.fallbacks() {
                let next = self.snapshot.route(name);
                let is_new = |next: &&Arc<Route>| models.iter().all(|route| route.name() != next.name());
                if let Some(next) = next.filter(is_new)
                    && models.len() < MAX_MODELS
                {
                    models.push(next.clone());
                }
            }
            at += 1;
        }
        models
    }

    /// Whether the key may use a fallback: a model that it may not ask for does not answer in another's place.
    fn may_use(&self, route: &Route) -> bool {
        self.asked.key.as_ref().is_none_or(|key| key.may_ask(route.names()))
    }

    /// Asks one model's targets until one answers.
    async fn ask_route(&self, route: &Arc<Route>, place: usize) -> Result<Started, Left> {
        let settings = self.snapshot.config.retry;
        let mut tried: Vec<Arc<Target>> = Vec::new();
        let mut again: Option<Arc<Target>> = None;
        let mut last = None;
        for count in 0..settings.attempts {
            let why = match (place, count) {
                (_, 0) if self.is_larger(route) => cascade::WHY,
                (0, 0) => "first",
                (_, 0) => "fallback",
                _ => "retry",
            };
            if count > 0 && !self.shared.retries.take() {
                break;
            }
            let (flight, permit) = match self.pick(route, &tried, again.take().as_deref()) {
                Ok(picked) => picked,
                Err(refusal) => return Err(Left::NextModel(last.unwrap_or(refusal))),
            };
            let target = flight.target().clone();
            let failed = match self.attempt_or_hedge(route, flight, permit, why).await {
                Ok(started) => return Ok(started),
                Err(failed) => failed,
            };
            if self.is_given_up(route) {
                return Err(Left::NextModel(failed.refusal));
            }
            let others = self.has_others(route, &tried, &target);
            match self.after(&failed, &target, count, others) {
                After::Stop => return Err(Left::Stop(failed.refusal)),
                After::NextModel => return Err(Left::NextModel(failed.refusal)),
                After::Other => tried.push(target),
                After::Again(pause) => {
                    if !pause.is_zero() {
                        tokio::time::sleep(self.shared.jittered(pause)).await;
                    }
                    again = Some(target);
                }
            }
            last = Some(failed.refusal);
        }
        Err(Left::NextModel(last.unwrap_or_else(|| {
            Refusal::Fault(Fault::busy("too many requests are being retried: the retry budget is used up", 1))
        })))
    }

    /// What follows a failed attempt among a model's targets.
    fn after(&self, failed: &Failed, target: &Target, count: u32, others: bool) -> After {
        let settings = self.snapshot.config.retry;
        let rule = retry::rule(failed.failure, target.tier(), false, &self.snapshot.retry_policy());
        let is_last = count + 1 >= settings.attempts;
        match rule.next {
            Next::Stop | Next::Resume => After::Stop,
            Next::OtherModel => After::NextModel,
            _ if is_last => After::NextModel,
            Next::SameTarget => After::Again(Duration::ZERO),
            Next::OtherTarget if others => After::Other,
            Next::OtherTarget => {
                // The only target is asked again where that can help: what refused says when, a silent one is not asked.
                let pause = failed.retry_after().unwrap_or(BACKOFF * 2_u32.pow(count.min(4)));
                let helps = match failed.failure {
                    Failure::Refused { .. } => pause <= settings.wait.0,
                    // What it cannot do, it cannot do a second time.
                    Failure::Status(501) => false,
                    Failure::Reset | Failure::Cut | Failure::MalformedStream | Failure::Status(500..) => {
                        count == 0
                    }
                    _ => false,
                };
                if helps { After::Again(pause) } else { After::NextModel }
            }
        }
    }

    /// The answer as a response.
    fn respond(mut self: Box<Self>, started: Started) -> Response<Body> {
        self.first = started.first_content;
        let upstream = started.target.upstream.name.clone();
        // The one that answers is not settled yet.
        let (attempts, label) = (self.count() + 1, self.asked.label.name());
        let mut response = match started.body {
            StartedBody::Whole { body, bill, ending } => {
                let mut response = Response::new(Body::from(body));
                let kind = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                bill.settle(&self, &ending);
                self.end("ok");
                response
            }
            StartedBody::Stream(stream) => {
                let mut response = Response::new(pump::body(self, stream));
                let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
        };
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&upstream) {
            headers.insert(UPSTREAM, value);
        }
        headers.insert(ATTEMPTS, HeaderValue::from(attempts));
        headers.insert(LABEL, HeaderValue::from_static(label));
        response
    }

    fn refuse(mut self: Box<Self>, refusal: Refusal) -> Response<Body> {
        let dialect = self.asked.api.dialect;
        let response = match refusal {
            Refusal::Fault(fault) => respond(dialect, &fault),
            Refusal::Upstream { status, body, retry_after } => {
                let mut response = Response::new(Body::from(body));
                *response.status_mut() = status;
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if let Some(after) = retry_after {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
                }
                response
            }
        };
        let refused = response.status() == StatusCode::TOO_MANY_REQUESTS;
        self.end(if refused { "refused" } else { "error" });
        let mut response = response;
        response.headers_mut().insert(ATTEMPTS, HeaderValue::from(self.count()));
        response
    }
}
