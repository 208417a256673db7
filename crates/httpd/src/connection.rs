//! Sockets: how many, how long, and how they end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use events::Event;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;
use wire::Fault;

use crate::edge::Edge;
use crate::line::{self, Line};
use crate::request::Peer;
use crate::write_timeout::WriteTimeout;

/// Past the drain's own deadline, for the last bytes to leave.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// After `accept` failed: the process is out of files, most likely, and some will be closed.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// What the HTTP library needs beside a head: the least that it works with.
const LIBRARY_BYTES: usize = 8 << 10;
/// Requests at once on a connection of HTTP/2; further ones wait at the client.
const HTTP2_STREAMS: u32 = 64;
/// Bytes of a request's body that HTTP/2 takes before they are read, of one request and of all of a connection.
const HTTP2_STREAM_WINDOW: u32 = 256 << 10;
const HTTP2_WINDOW: u32 = 1 << 20;
/// Bytes of an answer that HTTP/2 holds.
const HTTP2_SEND_BYTES: usize = 64 << 10;
/// Between pings on a silent connection of HTTP/2, and for the answer to one.
const HTTP2_PING: Duration = Duration::from_secs(30);
const HTTP2_PONG: Duration = Duration::from_secs(20);

type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What is served over the connections.
pub trait Application: Send + Sync + 'static {
    /// The end is near: from now on it is not ready, though requests are served.
    fn leave(&self);

    /// Takes no more requests, finishes what it has within the deadline, cancels what is left. It may block for as long.
    fn drain(&self, deadline: Duration);
}

/// Serves `listener` until `stop` is done, then drains: takes no more connections or requests, lets running ones finish
/// for at most `drain`, cancels what is left. Gives back how many connections had to be cut.
pub async fn serve(
    edge: Arc<Edge>,
    router: Router,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    drain: Duration,
    application: Arc<dyn Application>,
) -> usize {
    let limit = edge.options.connections;
    let places = Arc::new(Semaphore::new(limit));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    let notice = tokio::time::sleep(Duration::MAX);
    let mut notice = std::pin::pin!(notice);
    let mut leaving = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop, if !leaving => {
                // Whoever asks for readiness hears first; requests that still come are served until then.
                leaving = true;
                application.leave();
                notice.as_mut().reset(tokio::time::Instant::now() + edge.options.drain_notice);
                continue;
            }
            () = &mut notice, if leaving => break,
        };
        match accepted {
            Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                Ok(place) => open(&edge, &router, &graceful, stream, Peer(peer.ip()), place),
                Err(_) => refuse(&edge, &stream, limit),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    drop(listener);
    // The application finishes or cancels what it has; then the last answers are written and the connections close.
    let draining = tokio::task::spawn_blocking(move || application.drain(drain));
    let cut = tokio::time::timeout(drain + LAST_BYTES, graceful.shutdown()).await.is_err();
    if let Err(error) = draining.await {
        tracing::error!(%error, "the application did not drain");
    }
    if cut { limit - places.available_permits() } else { 0 }
}

fn open(
    edge: &Arc<Edge>,
    router: &Router,
    graceful: &GracefulShutdown,
    stream: TcpStream,
    peer: Peer,
    place: OwnedSemaphorePermit,
) {
    // An event is one small write: it must not wait for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let router = router.clone();
    let watcher = graceful.watcher();
    let guard = Open::new(edge.clone(), place);
    let tls = edge.tls();
    let edge = edge.clone();
    tokio::spawn(async move {
        let spoken = match tls {
            None => speak(&edge, router, watcher, stream, peer).await.map_err(|error| error.to_string()),
            // In a box of its own: a connection without TLS would carry its size.
            Some(tls) => {
                Box::pin(async {
                    let stream = tls.accept(stream, edge.options.head_timeout).await;
                    let stream = stream.map_err(|error| format!("no TLS: {error}"))?;
                    speak(&edge, router, watcher, stream, peer).await.map_err(|error| error.to_string())
                })
                .await
            }
        };
        if let Err(error) = spoken {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(guard);
    });
}

/// HTTP until the connection ends. What comes back holds the connection and nothing else: there are many.
fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    edge: &Edge,
    router: Router,
    watcher: Watcher,
    stream: S,
    peer: Peer,
) -> impl Future<Output = Result<(), Broken>> + use<S> {
    let options = &edge.options;
    let shared = line::Shared::new(options.write_timeout);
    let stream = WriteTimeout::new(stream, options.write_timeout).counted(edge.metrics.clone());
    let line = Line::new(stream, shared.clone(), options.head_bytes, options.headers, options.head_timeout);
    let most_headers = options.headers;
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answering = shared.answering();
        request.extensions_mut().insert(peer);
        if let Some(refused) = shared.take_refusal().or_else(|| line::unreadable(&request, most_headers)) {
            request.extensions_mut().insert(refused);
        }
        let answer = router.clone().oneshot(request);
        async move { answer.await.map(|response| line::watched(response, answering)) }
    });
    // Heads are bounded and checked before; the library's own bounds only have to leave room for them.
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes + LIBRARY_BYTES)
        .max_headers(options.headers + 1);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(HTTP2_STREAMS)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .max_send_buf_size(HTTP2_SEND_BYTES)
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(HTTP2_PONG);
    let connection = builder.serve_connection(TokioIo::new(line), service).into_owned();
    watcher.watch(connection)
}

/// Counts a connection for as long as it lives, also when its task panics.
struct Open {
    edge: Arc<Edge>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    fn new(edge: Arc<Edge>, place: OwnedSemaphorePermit) -> Open {
        edge.metrics.record(Event::Connected);
        Open { edge, _place: place }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.edge.metrics.record(Event::Disconnected);
    }
}

/// One write that does not wait, and goodbye.
fn refuse(edge: &Edge, stream: &TcpStream, limit: usize) {
    edge.metrics.record(Event::ConnectionRefused);
    if edge.tls().is_some() {
        // Shaking hands first would cost what there is none of.
        return;
    }
    let fault =
        Fault::unavailable("too_many_connections", format!("{limit} connections are open, the limit"), 1);
    let body = fault.json();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.try_write(answer.as_bytes()) {
        tracing::debug!(%error, "a refused connection was gone already");
    }
}
