//! A request's way past the cache: kept answers are given again, equal requests under way are joined, and what is new is
//! answered once for all who ask.

use std::convert::Infallible;
use std::sync::PoisonError;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Frame;
use ledger::Amount;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use wire::Fault;

use super::request::{ATTEMPTS, Exchange, Refusal, Summary};
use crate::asked::Asked;
use crate::cache::{KeptAnswer, Key};
use crate::coalesced::{Ending, Found, Lead, Reader};

/// Whether the answer was kept (`hit`), made for this request (`miss`) or for an equal one at the same time (`shared`).
const CACHE: HeaderName = HeaderName::from_static("x-gristmill-cache");
/// Pieces of an answer that wait for the client.
const WAITING: usize = 8;

/// Fields of a request that do not change its answer's text: how it is sent, and for whom.
const LEFT_OUT: [&str; 5] = ["model", "stream", "stream_options", "user", "metadata"];

/// The key of a request to a model under one configuration; nothing if its answer may not be the same again.
fn key(asked: &Asked, model: &str, generation: u64) -> Option<Key> {
    let head = &asked.head;
    let is_sure = head.temperature == Some(0.0) || head.seed.is_some();
    let fits = head.n <= 1 && !head.stateful && !head.tool_turn && (is_sure || !asked.api.generates);
    if !fits {
        return None;
    }
    let mut names: Vec<&str> = head.field_names().filter(|name| !LEFT_OUT.contains(name)).collect();
    names.sort_unstable();
    let generation = generation.to_le_bytes();
    let framing = [u8::from(asked.stream), u8::from(asked.stream && head.include_usage)];
    let who = asked.key.as_ref().map_or("", |key| key.name.as_str());
    let about = [who, asked.label.name(), model, asked.api.path].map(str::as_bytes);
    let fields = names
        .iter()
        .flat_map(|name| [name.as_bytes(), head.raw_field(&asked.body, name).unwrap_or_default()]);
    Some(Key::new(asked.tenant, [&generation[..], &framing].into_iter().chain(about).chain(fields)))
}

impl Exchange {
    /// The answer, from the cache where the model has one and the request is deterministic.
    pub(crate) async fn answer_cached(self: Box<Self>) -> Response<Body> {
        let route = self.snapshot.route(&self.asked.model).filter(|route| route.model().cache);
        let Some(route) = route else { return self.answer().await };
        let Some(key) = key(&self.asked, route.name(), self.snapshot.generation) else {
            self.shared.metrics.cache("unfit");
            return self.answer().await;
        };
        match self.shared.cache.find(&key, self.shared.cache.now()) {
            Found::Hit(answer) => self.replay(&answer),
            Found::Shared(reader) => {
                let limit = self.asked.limit;
                self.shared.metrics.cache("shared");
                match expire(limit, read(&reader)).await {
                    Ok((head, first)) => given(head, first, reader, "shared", Some(self)),
                    Err(fault) => self.refuse(Refusal::Fault(fault)),
                }
            }
            Found::Miss(lead, reader) => self.lead(lead, reader).await,
            Found::Busy => {
                self.shared.metrics.cache("unfit");
                self.answer().await
            }
        }
    }

    /// A kept answer, which costs nothing.
    fn replay(mut self: Box<Self>, answer: &KeptAnswer) -> Response<Body> {
        self.shared.metrics.cache("hit");
        self.save(answer.price);
        self.first = Some(std::time::Instant::now());
        self.end("ok");
        let mut response = Response::new(Body::from(answer.body.clone()));
        *response.headers_mut() = answer.headers.clone();
        response.headers_mut().insert(ATTEMPTS, HeaderValue::from(0));
        response.headers_mut().insert(CACHE, HeaderValue::from_static("hit"));
        response
    }

    /// Answers in a task of its own, which outlives this client while others read, and reads what comes.
    async fn lead(mut self: Box<Self>, lead: Lead, reader: Reader) -> Response<Body> {
        self.shared.metrics.cache("miss");
        let dialect = self.asked.api.dialect;
        // The limit is this client's, not the work's.
        let limit = self.asked.limit.take();
        tokio::spawn(run(self, lead));
        match expire(limit, read(&reader)).await {
            Ok((head, first)) => given(head, first, reader, "miss", None),
            Err(fault) => super::respond(dialect, &fault),
        }
    }
}

type Head = (StatusCode, HeaderMap);

/// Head and first bytes of an answer under way; all bytes of one that is no stream.
async fn read(reader: &Reader) -> Result<(Head, Result<Bytes, Ending>), Fault> {
    let lost = || Fault::unavailable("upstream_failed", "the equal request that was under way has ended", 1);
    let head = reader.head().await.ok_or_else(lost)?;
    if is_stream(&head.1) {
        return Ok((head, reader.next().await));
    }
    let mut all = Vec::new();
    let ending = loop {
        match reader.next().await {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(ending) => break ending,
        }
    };
    if head.0 == StatusCode::OK && !ending.whole {
        return Err(lost());
    }
    Ok((head, Ok(Bytes::from(all))))
}

async fn expire<T>(
    limit: Option<std::time::Duration>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match limit {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(Fault::expired(format!("the request's limit of {limit:?} has passed")))),
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// The response of a reader. `exchange` is that of a client that joined; the first one's is with the work.
fn given(
    (status, headers): Head,
    first: Result<Bytes, Ending>,
    reader: Reader,
    word: &'static str,
    exchange: Option<Box<Exchange>>,
) -> Response<Body> {
    let body = if is_stream(&headers) {
        let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
        tokio::spawn(pass(first, reader, sender, exchange));
        let frames = ReceiverStream::new(receiver).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        Body::new(http_body_util::StreamBody::new(frames))
    } else {
        if let Some(mut exchange) = exchange {
            exchange.joined(status == StatusCode::OK, &reader);
        }
        Body::from(first.unwrap_or_default())
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(CACHE, HeaderValue::from_static(word));
    response
}

impl Exchange {
    fn save(&self, price: Amount) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).save(price);
    }

    /// Notes how a joined answer has ended.
    fn joined(&mut self, ok: bool, reader: &Reader) {
        if ok && let Some(ending) = reader.ending() {
            self.save(ending.price);
        }
        self.end(if ok { "ok" } else { "error" });
    }
}

/// Passes a stream on to a client.
async fn pass(
    first: Result<Bytes, Ending>,
    reader: Reader,
    sender: mpsc::Sender<Bytes>,
    mut exchange: Option<Box<Exchange>>,
) {
    let mut next = first;
    loop {
        match next {
            Ok(bytes) => {
                if let Some(exchange) = &mut exchange {
                    exchange.first.get_or_insert_with(std::time::Instant::now);
                }
                if sender.send(bytes).await.is_err() {
                    return;
                }
            }
            Err(ending) => {
                if let Some(exchange) = &mut exchange {
                    exchange.joined(ending.whole, &reader);
                }
                return;
            }
        }
        next = tokio::select! {
            next = reader.next() => next,
            () = sender.closed() => return,
        };
    }
}

/// Answers a request for all who read.
async fn run(mut exchange: Box<Exchange>, lead: Lead) {
    let shared = exchange.shared.clone();
    let (tell, told) = oneshot::channel();
    exchange.tell = Some(tell);
    let work = async {
        let (parts, mut body) = exchange.answer().await.into_parts();
        lead.begin(parts.status, parts.headers);
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(bytes) = frame.into_data()
                && let Err(why) = lead.push(bytes).await
            {
                tracing::debug!(why, "a shared answer was given up");
                return None;
            }
        }
        told.await.ok()
    };
    let summary = tokio::select! {
        summary = work => summary,
        () = lead.abandoned() => None,
    };
    if let Some(Summary { ok, substituted, price }) = summary {
        lead.finish(Ending { whole: ok, price }, !substituted, shared.cache.now());
    }
}
