//! The listening provider.

use crate::attempt::Shared;
use crate::serve::serve;
use crate::socket::{ResetFlag, Socket};
use crate::{Record, Script, Totals};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A provider that cannot listen.
#[derive(Debug, Error)]
#[error("the fake provider cannot listen on {addr}: {source}")]
pub struct ProviderError {
    addr: SocketAddr,
    source: io::Error,
}

/// A running provider. When it is dropped, it stops listening and its connections end.
pub struct Provider {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Provider {
    /// A provider on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> Result<Self, ProviderError> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script).await
    }

    /// A provider on a given address, for one that comes back after it was down.
    pub async fn start_at(addr: SocketAddr, script: Script) -> Result<Self, ProviderError> {
        let error = |source| ProviderError { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(error)?;
        let addr = listener.local_addr().map_err(error)?;
        let shared = Arc::new(Shared::new(script));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// Address of the provider.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Base URL without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Another script from now on. Requests being answered keep theirs, and the numbers go on.
    pub fn set_script(&self, script: Script) {
        self.shared.set_script(script);
    }

    /// The requests so far, oldest first.
    pub fn log(&self) -> Vec<Record> {
        self.shared.log()
    }

    /// Sums over all requests so far.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// The sums once no request is being answered, or as they are after `limit`.
    pub async fn settled(&self, limit: Duration) -> Totals {
        let settled = async {
            while self.totals().running > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // After the limit the caller sees what still runs.
        let _ = tokio::time::timeout(limit, settled).await;
        self.totals()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&shared)))),
                // Out of file descriptors: others may be free soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Without it answers in several writes wait for acknowledgements, which a test would see as latency.
    let _ = stream.set_nodelay(true);
    let reset = ResetFlag::default();
    let socket = Socket { stream, reset: reset.clone() };
    let service = service_fn(move |request| serve(Arc::clone(&shared), reset.clone(), request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).pipeline_flush(true);
    // Its errors are those of clients that leave and of faults that were asked for.
    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
}
