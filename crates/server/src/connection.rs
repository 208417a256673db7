//! Sockets: how many, how long, and how they end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use events::Event;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Fault;

use crate::patience::Patient;
use crate::state::State;

/// Past the drain's own deadline, for the last bytes to leave.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// After `accept` failed: the process is out of files, most likely, and some will be closed.
const AFTER_ERROR: Duration = Duration::from_millis(50);

pub(crate) async fn serve(
    state: Arc<State>,
    router: Router,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    drain: Duration,
) -> usize {
    let limit = state.options.connections;
    let places = Arc::new(Semaphore::new(limit));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => match places.clone().try_acquire_owned() {
                Ok(place) => open(&state, &router, &graceful, stream, place),
                Err(_) => refuse(&state, &stream, limit),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    drop(listener);
    let served = state.drain();
    // The engine finishes or cancels what it has; then the last answers are written and the connections close.
    let engine = tokio::task::spawn_blocking(move || served.map(|served| served.engine.drain(drain)));
    let cut = tokio::time::timeout(drain + LAST_BYTES, graceful.shutdown()).await.is_err();
    if let Err(error) = engine.await {
        tracing::error!(%error, "the engine did not drain");
    }
    if cut { limit - places.available_permits() } else { 0 }
}

fn open(
    state: &Arc<State>,
    router: &Router,
    graceful: &GracefulShutdown,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
) {
    // An event is one small write: it must not wait for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let options = &state.options;
    let io = TokioIo::new(Patient::new(stream, options.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes)
        .serve_connection(io, TowerToHyperService::new(router.clone()));
    let connection = graceful.watch(connection);
    let guard = Open::new(state.clone(), place);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(guard);
    });
}

/// Counts a connection for as long as it lives, also when its task panics.
struct Open {
    state: Arc<State>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    fn new(state: Arc<State>, place: OwnedSemaphorePermit) -> Open {
        state.metrics.record(Event::Connected);
        Open { state, _place: place }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.state.metrics.record(Event::Disconnected);
    }
}

/// One write that does not wait, and goodbye.
fn refuse(state: &State, stream: &TcpStream, limit: usize) {
    state.metrics.record(Event::ConnectionRefused);
    let fault =
        Fault::unavailable("too_many_connections", format!("{limit} connections are open, the limit"), 1);
    let body = fault.json();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.try_write(answer.as_bytes()) {
        tracing::debug!(%error, "a refused connection was gone already");
    }
}
