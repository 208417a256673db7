//! A stream on its way to the client: read from the upstream, passed on, continued elsewhere where it breaks.
//!
//! A task of its own holds the upstream's side, so that what was spent is settled however the client's side ends.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use routing::{Failure, Limit};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use translation::Ending;
use wire::Fault;

use super::attempt::{Opened, Stream, Wanted};
use super::relay::{Broken, Relay};
use super::request::{Exchange, Measured, Refusal};
use crate::config::OnCut;
use crate::route::Route;

/// Pieces of an answer that wait for the client; each is what the upstream sent at once.
const WAITING: usize = 8;
/// Times that one stream is continued elsewhere.
const MOST_CONTINUED: usize = 3;

/// The body of a streamed answer.
pub(crate) fn body(exchange: Box<Exchange>, stream: Box<Stream>) -> Body {
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    tokio::spawn(run(exchange, stream, sender));
    let frames = ReceiverStream::new(receiver).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    Body::new(http_body_util::StreamBody::new(frames))
}

/// How a stream has ended on the upstream's side.
enum Over {
    Complete,
    /// The client has left.
    Left,
    Broken(Failure, String),
}

async fn run(mut exchange: Box<Exchange>, stream: Box<Stream>, sender: mpsc::Sender<Bytes>) {
    let Stream { mut opened, mut relay, ready, route } = *stream;
    let first_s = opened.bill.began().elapsed().as_secs_f64();
    if !ready.is_empty() && sender.send(Bytes::from(ready)).await.is_err() {
        exchange.left(opened, &relay);
        return;
    }
    let mut route = route;
    for continued in 0..=MOST_CONTINUED {
        match pass(&mut opened, &mut relay, &sender).await {
            Over::Complete => {
                let mut out = Vec::new();
                relay.close(&mut out);
                // Settled first: who has seen the end may ask what it cost.
                let measured = measured(&opened, &relay, first_s);
                opened.bill.settle(&exchange, &measured);
                exchange.end("ok");
                if !out.is_empty() {
                    let _ = sender.send(Bytes::from(out)).await;
                }
                return;
            }
            Over::Left => return exchange.left(opened, &relay),
            Over::Broken(failure, message) => {
                let known = measured(&opened, &relay, first_s);
                let (target, dialect) = (opened.target.clone(), opened.dialect);
                opened.bill.broke(&exchange, failure, &known);
                let next = if continued < MOST_CONTINUED {
                    // In a box of its own: few streams break, and each would carry its size.
                    Box::pin(exchange.go_on(&route, &target, dialect, &mut relay)).await
                } else {
                    None
                };
                match next {
                    Some((next, of)) => {
                        opened = next;
                        route = of;
                    }
                    None => {
                        let mut out = Vec::new();
                        relay.fail(exchange.asked.api.dialect, &message, &mut out);
                        exchange.end("error");
                        let _ = sender.send(Bytes::from(out)).await;
                        return;
                    }
                }
            }
        }
    }
}

/// Passes on what comes until the stream ends or breaks.
async fn pass(opened: &mut Opened, relay: &mut Relay, sender: &mpsc::Sender<Bytes>) -> Over {
    let idle = opened.target.upstream.times.idle;
    let name = opened.target.upstream.name.clone();
    loop {
        let until = (tokio::time::Instant::now() + idle).min(opened.deadline);
        let read = tokio::select! {
            read = tokio::time::timeout_at(until, opened.answer.chunk()) => read,
            () = sender.closed() => return Over::Left,
        };
        let mut out = Vec::new();
        let bytes = match read {
            Err(_) if tokio::time::Instant::now() >= opened.deadline => {
                let message = format!("upstream {name:?} did not finish in time");
                return Over::Broken(Failure::Timeout(Limit::Total), message);
            }
            // What follows the last event does not matter.
            Err(_) if relay.is_over() => return ended(relay, &name),
            Err(_) => {
                let message = format!("upstream {name:?} fell silent for {idle:?}");
                return Over::Broken(Failure::Timeout(Limit::Idle), message);
            }
            Ok(Err(why)) if !relay.is_over() => {
                return Over::Broken(Failure::Reset, format!("the stream of upstream {name:?} broke: {why}"));
            }
            Ok(Err(_)) => return ended(relay, &name),
            Ok(Ok(None)) => {
                let ending = relay.ending(&mut out);
                if !out.is_empty() && sender.send(Bytes::from(out)).await.is_err() {
                    return Over::Left;
                }
                return match ending {
                    Ok(Ending::Complete) => Over::Complete,
                    Ok(Ending::Error) => ended(relay, &name),
                    Ok(Ending::Cut) => {
                        let message = format!("the stream of upstream {name:?} was cut before its end");
                        Over::Broken(Failure::Cut, message)
                    }
                    Err(broken) => differs(broken, &name),
                };
            }
            Ok(Ok(Some(bytes))) => bytes,
        };
        let fed = relay.feed(&bytes, &mut out);
        if !out.is_empty() && sender.send(Bytes::from(out)).await.is_err() {
            return Over::Left;
        }
        if let Err(broken) = fed {
            return differs(broken, &name);
        }
    }
}

fn ended(relay: &Relay, name: &str) -> Over {
    match relay.error() {
        None => Over::Complete,
        Some(error) => {
            let failure = Failure::Status(error.status.unwrap_or(500));
            Over::Broken(failure, format!("upstream {name:?} failed: {}", error.message))
        }
    }
}

fn differs(broken: Broken, name: &str) -> Over {
    let message = match broken {
        Broken::TooLong => format!("upstream {name:?} sent an event that is longer than the limit"),
        Broken::Differs => {
            format!("the stream broke, and upstream {name:?}, asked again, gave another answer")
        }
    };
    Over::Broken(Failure::MalformedStream, message)
}

fn measured(opened: &Opened, relay: &Relay, first_s: f64) -> Measured {
    let total_s = opened.bill.began().elapsed().as_secs_f64();
    Measured { usage: relay.usage(), events: relay.content_events(), first_s: first_s.min(total_s), total_s }
}

impl Exchange {
    /// Settles a stream that its client has left.
    fn left(mut self: Box<Self>, opened: Box<Opened>, relay: &Relay) {
        let known = measured(&opened, relay, 0.0);
        opened.bill.left(&self, &known);
        self.end("cancelled");
    }

    /// Another upstream that goes on with a broken stream, and the route that it belongs to.
    async fn go_on(
        &self,
        route: &Arc<Route>,
        broken: &Arc<crate::route::Target>,
        dialect: translation::Dialect,
        relay: &mut Relay,
    ) -> Option<(Box<Opened>, Arc<Route>)> {
        if route.on_cut() == OnCut::Error {
            return None;
        }
        // A node that does not answer says so only when its connection is refused; others are asked first.
        if self.keeps_ids(route, broken, dialect)
            && let Some(ids) = relay.token_ids()
        {
            for _ in 0..MOST_CONTINUED {
                let Ok((flight, permit)) = self.pick_equal(route, broken) else { break };
                let wanted = Wanted { resume: Some(ids.clone()), ..Wanted::default() };
                if let Ok(opened) = self.open(route, flight, permit, "resume", &wanted).await {
                    self.continued(route, &opened, relay, true);
                    return Some((opened, route.clone()));
                }
            }
        }
        if route.on_cut() != OnCut::Replay || !relay.can_replay() {
            return None;
        }
        for (place, route) in self.models().into_iter().enumerate() {
            if place > 0 && !self.may_use(&route) {
                continue;
            }
            let tried = [broken.clone()];
            let Ok((flight, permit)) = self.pick(&route, &tried, None) else { continue };
            let opened = self.open(&route, flight, permit, "replay", &Wanted::default()).await;
            if let Ok(opened) = opened
                && opened.dialect == translation::Dialect::OpenAiChat
            {
                self.continued(&route, &opened, relay, false);
                return Some((opened, route));
            }
        }
        None
    }
}

/// The refusal of a request that no target may get.
pub(crate) fn no_target(model: &str, why: &str) -> Refusal {
    Refusal::Fault(Fault::unavailable(
        "no_upstream",
        format!("no upstream of model {model:?} can answer: {why}"),
        1,
    ))
}
