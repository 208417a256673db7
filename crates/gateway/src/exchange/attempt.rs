//! One attempt: a request to one upstream, up to the first content of its answer.
//!
//! Until then nothing has reached the client, so that a failed attempt can be followed by another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use privacy::Permit;
use routing::{Failure, Limit};
use serde_json::Value;
use translation::{Dialect, Edit, Ending, Framing, Scanner, ScannerOptions};
use wire::Fault;

use super::bill::Bill;
use super::relay::{self, Relay};
use super::request::{Exchange, Failed, Measured, Refusal};
use crate::api::Native;
use crate::client::{Answer, SendError};
use crate::config::{Kind, OnCut};
use crate::redaction::Redacted;
use crate::route::{Flight, Route, Target};
use crate::translate;

/// Most bytes of an answer that says why there is none.
const ERROR_BYTES: usize = 256 << 10;

/// What an attempt is to do beyond the request.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Token ids of the answer so far, to be continued.
    pub(crate) resume: Option<Vec<u32>>,
    /// Log-probabilities in a stream, whether or not the client asked for them, where the dialect has them.
    pub(crate) judge: bool,
}

/// An answer that has begun.
pub(crate) struct Started {
    pub(crate) target: Arc<Target>,
    pub(crate) first_content: Option<Instant>,
    pub(crate) body: StartedBody,
}

/// The answer's body.
pub(crate) enum StartedBody {
    /// All of it, in the client's dialect.
    Whole { body: Bytes, bill: Box<Bill>, ending: Measured },
    /// A stream.
    Stream(Box<Stream>),
}

/// A stream that has begun.
pub(crate) struct Stream {
    pub(crate) opened: Box<Opened>,
    pub(crate) relay: Box<Relay>,
    /// What the client gets first.
    pub(crate) ready: Vec<u8>,
    pub(crate) route: Arc<Route>,
}

/// An upstream that has begun to answer.
pub(crate) struct Opened {
    pub(crate) target: Arc<Target>,
    pub(crate) answer: Answer,
    pub(crate) dialect: Dialect,
    pub(crate) bill: Bill,
    /// The request that was sent, where it is the one without findings: its values are put back.
    pub(crate) redacted: Option<Arc<Redacted>>,
    /// When the attempt has to end.
    pub(crate) deadline: tokio::time::Instant,
}

impl Opened {
    /// A whole answer in the client's dialect with the values that the request went without.
    pub(crate) fn restored(&self, body: Bytes) -> Bytes {
        self.redacted.as_ref().map_or_else(|| body.clone(), |redacted| redacted.restore(&body))
    }
}

impl Exchange {
    /// Asks one target, up to the first content of its answer.
    pub(crate) async fn attempt(
        &self,
        route: &Arc<Route>,
        flight: Flight,
        permit: Permit,
        why: &'static str,
    ) -> Result<Started, Failed> {
        if self.judges(route) {
            // In a box of its own: few models have a cascade, and every attempt would carry its size.
            return Box::pin(self.judged(route, flight, permit, why)).await;
        }
        let opened = self.open(route, flight, permit, why, &Wanted::default()).await?;
        let is_stream = self.asked.stream && framing(&opened.answer.headers) == Framing::Events;
        if is_stream { self.first_content(route, opened).await } else { self.whole(opened).await }
    }

    /// Sends the request and checks the status of the answer.
    pub(crate) async fn open(
        &self,
        route: &Arc<Route>,
        flight: Flight,
        permit: Permit,
        why: &'static str,
        wanted: &Wanted,
    ) -> Result<Box<Opened>, Failed> {
        let target = flight.target().clone();
        let upstream = target.upstream.clone();
        // The proof that this request may go there: made for this upstream's clearance, and of the label of the body
        // that is sent.
        let redacted = self.asked.redacted.clone().filter(|_| permit.label() != self.asked.label);
        let label = redacted.as_ref().map_or(self.asked.label, |redacted| redacted.label);
        assert_eq!((permit.label(), permit.clearance()), (label, upstream.clearance));
        let api = self.asked.api;
        // Another target may speak the client's dialect, or say what this one cannot.
        let unable = |fault| Failed { failure: Failure::Status(501), refusal: Refusal::Fault(fault) };
        let dialect = self.dialect_for(route, &upstream).ok_or_else(|| {
            let message = format!("upstream {:?} does not speak {}", upstream.name, api.path);
            unable(Fault::unavailable("no_upstream", message, 1))
        })?;
        let body = self.body_for(route, &target, dialect, wanted, redacted.as_deref()).map_err(unable)?;
        let mut bill = self.reserve(route, flight, why).await?;
        let stream = self.asked.stream || wanted.judge && dialect == Dialect::OpenAiChat;
        let request = upstream
            .request(api, dialect, &target.model, stream, body, &self.asked.request_id)
            .map_err(|why| Failed {
                failure: Failure::NotWritten,
                refusal: Refusal::Fault(Fault::internal(format!("upstream {:?}: {why}", upstream.name))),
            });
        let request = match request {
            Ok(request) => request,
            Err(failed) => return Err(self.failed(bill, failed, 0)),
        };
        let _ = self.sent.set(Instant::now());
        let times = upstream.times;
        let deadline = tokio::time::Instant::now() + times.total;
        let sent = upstream.client.send(request, times.connect, times.first_byte).await;
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                let failed = not_answered(&upstream.name, &error);
                return Err(self.failed(bill, failed, 0));
            }
        };
        if let Some(flight) = bill.flight() {
            crate::nodes::note_load(flight, &answer.headers);
        }
        if answer.status.is_success() {
            bill.answered(answer.status.as_u16());
            return Ok(Box::new(Opened { target, answer, dialect, bill, redacted, deadline }));
        }
        let failed = self.refusal_of(&upstream.name, dialect, &mut answer, times.idle).await;
        Err(self.failed(bill, failed, answer.status.as_u16()))
    }

    /// What an answer says that is none.
    async fn refusal_of(&self, name: &str, dialect: Dialect, answer: &mut Answer, idle: Duration) -> Failed {
        let retry_after = retry_after(&answer.headers);
        let said = answer.whole(ERROR_BYTES, idle).await.unwrap_or_default();
        self.refused(name, dialect, answer.status, retry_after, &said)
    }

    /// The body in the upstream's dialect.
    fn body_for(
        &self,
        route: &Route,
        target: &Target,
        dialect: Dialect,
        wanted: &Wanted,
        redacted: Option<&Redacted>,
    ) -> Result<Bytes, Fault> {
        let asked = &self.asked;
        let (head, body) = match redacted {
            Some(redacted) => (&redacted.head, &redacted.body),
            None => (&asked.head, &asked.body),
        };
        let is_node = target.upstream.kind == Kind::Gristmill;
        let mut extra: Vec<(&str, Value)> = Vec::new();
        if self.keeps_ids(route, target, dialect) {
            extra.push(("return_token_ids", Value::from(true)));
            if asked.head.seed.is_none() {
                extra.push(("seed", Value::from(self.seed())));
            }
        }
        if let Some(ids) = &wanted.resume {
            extra.push(("resume", serde_json::json!({"token_ids": ids})));
        }
        let judge = wanted.judge && dialect == Dialect::OpenAiChat;
        if judge {
            extra.extend([("logprobs", Value::from(true)), ("top_logprobs", Value::from(2))]);
        }
        let stream = asked.stream || judge;
        if stream != asked.head.stream && asked.api.native.streams_in_body(dialect) {
            extra.push(("stream", Value::from(stream)));
            if !stream {
                extra.push(("stream_options", Value::Null));
            }
        }
        // A node keeps a prefix cache for each of its keys, and the gateway has one: tenants are told apart by salt.
        let salt = (is_node && asked.tenant != 0 && asked.head.cache_salt.is_none() && asked.api.generates)
            .then(|| format!("{:016x}", asked.tenant));
        let edit = Edit {
            model: Some(&target.model),
            include_usage: stream && asked.api.native == Native::Chat || self.is_completion_stream(),
            cache_salt: salt.as_deref(),
            extra: &extra,
        };
        if dialect == asked.api.dialect {
            return Ok(Bytes::from(head.rewrite(body, &edit)));
        }
        let (body, warnings) = translate::request(asked.api.dialect, dialect, body, &target.model, stream)?;
        for warning in warnings {
            self.context.warn(warning);
        }
        let edit = Edit { include_usage: stream && dialect == Dialect::OpenAiChat, ..edit };
        if extra.is_empty() && salt.is_none() && !edit.include_usage {
            return Ok(Bytes::from(body));
        }
        let head = translation::Head::read(dialect, &body)?;
        Ok(Bytes::from(head.rewrite(&body, &edit)))
    }

    fn is_completion_stream(&self) -> bool {
        self.asked.stream && self.asked.api.path == "/v1/completions"
    }

    /// Whether token ids are asked for and kept, so that another node can continue the answer.
    pub(crate) fn keeps_ids(&self, route: &Route, target: &Target, dialect: Dialect) -> bool {
        self.asked.stream
            && route.on_cut() != OnCut::Error
            && target.upstream.kind == Kind::Gristmill
            && dialect == Dialect::OpenAiChat
            && self.asked.api.generates
            && self.asked.head.n <= 1
    }

    /// A seed for a request without one, the same in every attempt: it makes an answer one that another node continues.
    fn seed(&self) -> u64 {
        crate::hashing::hash(self.asked.request_id.as_bytes()) >> 11
    }

    pub(super) fn relay_options(&self, route: &Route, opened: &Opened) -> relay::Options {
        let asked = &self.asked;
        let keeps_ids = self.keeps_ids(route, &opened.target, opened.dialect);
        let asked_ids =
            asked.head.raw_field(&asked.body, "return_token_ids").is_some_and(|raw| raw == b"true");
        relay::Options {
            upstream: opened.dialect,
            client: asked.api.dialect,
            max_event_bytes: self.snapshot.config.gateway.answer_bytes.min(1 << 20),
            // A translated stream has its usage where the client's dialect has it.
            strip_usage: opened.dialect == asked.api.dialect && !asked.head.include_usage,
            strip_ids: keeps_ids && !asked_ids,
            strip_logprobs: false,
            keep: keeps_ids || (route.on_cut() == OnCut::Replay && opened.dialect == Dialect::OpenAiChat),
            asker: self.asker(),
            redaction: opened.redacted.as_ref().map(|redacted| redacted.redaction.clone()),
        }
    }

    /// What the translation of an answer needs to know of the request.
    pub(super) fn asker(&self) -> translate::Asker {
        let asked = &self.asked;
        let repeats = asked.api.dialect == Dialect::OpenAiResponses;
        translate::Asker {
            id: asked.request_id.clone(),
            include_usage: asked.head.include_usage,
            request: repeats.then(|| serde_json::from_slice(&asked.body).ok()).flatten(),
        }
    }

    /// How another upstream's stream goes on in the relay of one that broke.
    pub(crate) fn continued(&self, route: &Route, opened: &Opened, relay: &mut Relay, resumes: bool) {
        let options = self.relay_options(route, opened);
        if resumes { relay.resume(&options) } else { relay.replay(&options) }
    }

    /// Reads a stream up to its first content.
    pub(super) async fn first_content(
        &self,
        route: &Arc<Route>,
        mut opened: Box<Opened>,
    ) -> Result<Started, Failed> {
        let mut relay = Box::new(Relay::new(&self.relay_options(route, &opened)));
        let times = opened.target.upstream.times;
        let until = opened.bill.began() + times.first_byte;
        let mut ready = Vec::new();
        let name = opened.target.upstream.name.clone();
        let failure = loop {
            match tokio::time::timeout_at(until.into(), opened.answer.chunk()).await {
                Err(_) => break Failure::Timeout(Limit::FirstByte),
                Ok(Err(_)) => break Failure::Reset,
                Ok(Ok(None)) => match relay.ending(&mut ready) {
                    // An answer without content: the model said nothing.
                    Ok(Ending::Complete) => {
                        let stream = Stream { opened, relay, ready, route: route.clone() };
                        return Ok(started(stream, None));
                    }
                    Ok(Ending::Error) => break self.stream_failure(&relay),
                    Ok(Ending::Cut) | Err(_) => break Failure::Cut,
                },
                Ok(Ok(Some(bytes))) => {
                    if relay.feed(&bytes, &mut ready).is_err() {
                        break Failure::MalformedStream;
                    }
                }
            }
            if relay.error().is_some() {
                break self.stream_failure(&relay);
            }
            if relay.has_content() || relay.is_over() {
                let stream = Stream { opened, relay, ready, route: route.clone() };
                return Ok(started(stream, Some(Instant::now())));
            }
        };
        let message = match (failure, relay.error()) {
            (_, Some(error)) => format!("upstream {name:?} failed: {}", error.message),
            (Failure::Timeout(_), None) => {
                format!("upstream {name:?} sent no content within {:?}", times.first_byte)
            }
            _ => format!("upstream {name:?} ended its answer before any content"),
        };
        let refusal = Refusal::Fault(Fault::unavailable("upstream_failed", message, 1));
        let status = opened.answer.status.as_u16();
        Err(self.failed(opened.bill, Failed { failure, refusal }, status))
    }

    /// The failure that an error inside a stream is.
    pub(super) fn stream_failure(&self, relay: &Relay) -> Failure {
        let Some(error) = relay.error() else { return Failure::Status(500) };
        translate::failure(translation::classify_stream(error), error.status.unwrap_or(500), None)
    }

    /// Reads a whole answer.
    pub(super) async fn whole(&self, mut opened: Box<Opened>) -> Result<Started, Failed> {
        let times = opened.target.upstream.times;
        let limit = self.snapshot.config.gateway.answer_bytes;
        let name = opened.target.upstream.name.clone();
        let read = opened.answer.whole(limit, times.first_byte.max(times.idle));
        let body = match tokio::time::timeout_at(opened.deadline, read).await {
            Ok(Ok(body)) => body,
            Ok(Err(why)) => {
                let refusal = Refusal::Fault(Fault::unavailable(
                    "upstream_failed",
                    format!("upstream {name:?}: {why}"),
                    1,
                ));
                return Err(self.failed(opened.bill, Failed { failure: Failure::Cut, refusal }, 200));
            }
            Err(_) => {
                let message = format!("upstream {name:?} did not finish within {:?}", times.total);
                let refusal = Refusal::Fault(Fault::unavailable("upstream_timeout", message, 1));
                let failure = Failure::Timeout(Limit::Total);
                return Err(self.failed(opened.bill, Failed { failure, refusal }, 200));
            }
        };
        let mut scanner = Scanner::new(opened.dialect, Framing::Json, ScannerOptions::default());
        let _ = scanner.feed(&body);
        let ending = scanner.end();
        let state = scanner.state();
        if ending != Ending::Complete {
            let why = state.error.as_ref().map_or("the answer is not whole", |error| error.message.as_str());
            let refusal =
                Refusal::Fault(Fault::unavailable("upstream_failed", format!("upstream {name:?}: {why}"), 1));
            return Err(self.failed(opened.bill, Failed { failure: Failure::MalformedStream, refusal }, 200));
        }
        let usage = state.usage;
        let client = self.asked.api.dialect;
        let body = if opened.dialect == client {
            body
        } else {
            match translate::answer(opened.dialect, client, &body, &self.asker()) {
                Ok(body) => Bytes::from(body),
                Err(fault) => {
                    let failed = Failed { failure: Failure::MalformedStream, refusal: Refusal::Fault(fault) };
                    return Err(self.failed(opened.bill, failed, 200));
                }
            }
        };
        let body = opened.restored(body);
        let took = opened.bill.began().elapsed().as_secs_f64();
        let ending = Measured { usage, events: 0, first_s: took, total_s: took };
        let bill = Box::new(opened.bill);
        let body = StartedBody::Whole { body, bill, ending };
        Ok(Started { target: opened.target, first_content: Some(Instant::now()), body })
    }

    /// An upstream's refusal: what it means, and what the client is told.
    fn refused(
        &self,
        name: &str,
        dialect: Dialect,
        status: StatusCode,
        retry_after: Option<Duration>,
        said: &[u8],
    ) -> Failed {
        let code = status.as_u16();
        let failure = translate::failure(translation::classify(code, said), code, retry_after);
        // A key or an account that an upstream does not take is the operator's fault, not the client's.
        if matches!(code, 401..=403) {
            let message = format!("upstream {name:?} refused the gateway's own key or account (HTTP {code})");
            return Failed {
                failure,
                refusal: Refusal::Fault(Fault::unavailable("upstream_refused", message, 5)),
            };
        }
        let client = self.asked.api.dialect;
        // An error of the client's own dialect keeps its bytes, if it is one.
        let is_json = said.first() == Some(&b'{');
        let (status, body) = if dialect == client && is_json {
            (code, said.to_vec())
        } else {
            translation::error(client, code, said)
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        Failed { failure, refusal: Refusal::Upstream { status, body, retry_after } }
    }

    /// Notes a failed attempt in the ledger, the router and the metrics.
    pub(crate) fn failed(&self, bill: Bill, failed: Failed, status: u16) -> Failed {
        bill.failed(self, failed.failure, status);
        failed
    }
}

pub(super) fn started(mut stream: Stream, first_content: Option<Instant>) -> Started {
    // They have been read, and a stream may last for hours.
    stream.opened.answer.headers = HeaderMap::new();
    Started {
        target: stream.opened.target.clone(),
        first_content,
        body: StartedBody::Stream(Box::new(stream)),
    }
}

pub(super) fn framing(headers: &HeaderMap) -> Framing {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Framing::of(kind.unwrap_or_default())
}

fn not_answered(name: &str, error: &SendError) -> Failed {
    let failure = match error {
        SendError::Connect(_) => Failure::Connect,
        SendError::NotWritten => Failure::NotWritten,
        SendError::Reset(_) => Failure::Reset,
        SendError::Timeout(_) => Failure::Timeout(Limit::FirstByte),
    };
    let code = if matches!(error, SendError::Timeout(_)) { "upstream_timeout" } else { "upstream_failed" };
    let refusal = Refusal::Fault(Fault::unavailable(code, format!("upstream {name:?}: {error}"), 1));
    Failed { failure, refusal }
}

/// `Retry-After` in seconds; a date is not taken, which no provider sends.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = headers.get("retry-after-ms").and_then(|value| value.to_str().ok());
    if let Some(ms) = milliseconds.and_then(|text| text.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64((ms / 1e3).min(86_400.0)).ok();
    }
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds.min(86_400.0)).ok()
}
