//! Connections to one upstream: HTTP/1.1 with keep-alive, opened when needed, given back when an answer has ended.
//!
//! Our own for two reasons. What follows a failure depends on whether the request was written: one of which no byte was
//! may go anywhere else. And what an idle stream holds is counted in sockets here; a library's connection has a task and
//! buffers of 36 KiB.

mod body;
mod connection;
mod head;
mod outgoing;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use connection::{Broken, Connection};
use head::Head;
pub(crate) use outgoing::Outgoing;

/// A connection idle for longer is not used again: most servers close theirs after a minute or more.
const IDLE: Duration = Duration::from_secs(20);
/// Idle connections kept to one upstream.
const MAX_IDLE: usize = 512;

/// The connections to one upstream.
pub(crate) struct Client {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// No connection: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection was gone before the request was written.
    #[error("the connection closed before the request was written")]
    NotWritten,
    /// The connection broke after the request was written, at least in part.
    #[error("the connection broke before an answer came: {0}")]
    Reset(String),
    /// No head of an answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// An answer whose body is still to be read.
pub(crate) struct Answer {
    /// Status.
    pub(crate) status: StatusCode,
    /// Headers.
    pub(crate) headers: HeaderMap,
    /// Given back to the client when the body has ended.
    connection: Option<Connection>,
    client: Arc<Client>,
}

impl Client {
    /// A client without connections. `tls` is used where the address asks for it.
    ///
    /// # Errors
    /// A host that TLS cannot check.
    pub(crate) fn new(address: Address, tls: &Arc<rustls::ClientConfig>) -> Result<Arc<Client>, String> {
        let tls = if address.tls {
            let name = ServerName::try_from(address.host.clone())
                .map_err(|_| format!("{:?} is no name that a certificate can have", address.host))?;
            Some((TlsConnector::from(tls.clone()), name))
        } else {
            None
        };
        Ok(Arc::new(Client { address, tls, idle: Mutex::default() }))
    }

    /// Where it connects to.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and waits for the head of its answer: `connect` for a connection, `first` for the head.
    ///
    /// # Errors
    /// No connection, a connection that broke, or no head in time.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Outgoing,
        connect: Duration,
        first: Duration,
    ) -> Result<Answer, SendError> {
        let deadline = tokio::time::Instant::now() + first;
        let timed_out = |_| SendError::Timeout(first);
        let mut request = request;
        // A server may close an idle connection at the moment at which it is used again: what was not written is
        // written on another one.
        if let Some(mut connection) = self.take_idle() {
            let asked = tokio::time::timeout_at(deadline, connection.ask(request)).await;
            match asked.map_err(timed_out)? {
                Ok(head) => return Ok(self.answer(head, connection)),
                Err(broken) => match connection.take_unsent() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Reset(broken.why)),
                },
            }
        }
        let mut connection = tokio::time::timeout(connect, self.open())
            .await
            .map_err(|_| SendError::Connect(format!("no connection within {connect:?}")))??;
        let asked = tokio::time::timeout_at(deadline, connection.ask(request)).await;
        match asked.map_err(timed_out)? {
            Ok(head) => Ok(self.answer(head, connection)),
            Err(Broken { begun: false, .. }) => Err(SendError::NotWritten),
            Err(Broken { why, .. }) => Err(SendError::Reset(why)),
        }
    }

    fn answer(self: &Arc<Self>, head: Head, connection: Connection) -> Answer {
        let Head { status, headers, .. } = head;
        Answer { status, headers, connection: Some(connection), client: self.clone() }
    }

    /// The connection that was given back last, if the server has not left it.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            let mut connection = idle.connection;
            if idle.since.elapsed() <= IDLE && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    async fn open(&self) -> Result<Connection, SendError> {
        let failed = |error: &dyn std::fmt::Display| SendError::Connect(error.to_string());
        let Address { host, ip, port, .. } = &self.address;
        let stream = match ip {
            Some(ip) => TcpStream::connect((*ip, *port)).await,
            None => TcpStream::connect((host.as_str(), *port)).await,
        };
        let stream = stream.map_err(|error| failed(&error))?;
        // A request is one or two small writes.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => Ok(Connection::new(stream)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| failed(&error))?;
                Ok(Connection::new(stream))
            }
        }
    }

    fn give_back(&self, mut connection: Connection) {
        if !connection.is_ready() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { connection, since: Instant::now() });
    }

    /// Drops the connections that nobody used for long, and those that the server has left. Called now and then, so that
    /// none is kept for ever.
    pub(crate) fn drop_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain_mut(|idle| idle.since.elapsed() <= IDLE && idle.connection.is_ready());
    }
}

impl Answer {
    /// The next bytes of the body; none at its end.
    ///
    /// # Errors
    /// A body that ends before its length, or whose connection breaks.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let data = connection.chunk().await?;
        if data.is_none()
            && let Some(connection) = self.connection.take()
        {
            self.client.give_back(connection);
        }
        Ok(data)
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`Answer::chunk`], more bytes than `limit`, or silence for longer than `idle`.
    pub(crate) async fn whole(&mut self, limit: usize, idle: Duration) -> Result<Bytes, String> {
        let mut all: Option<Bytes> = None;
        let mut more: Vec<u8> = Vec::new();
        loop {
            let chunk = tokio::time::timeout(idle, self.chunk())
                .await
                .map_err(|_| format!("nothing came for {idle:?}"))??;
            let Some(chunk) = chunk else { break };
            let total = all.as_ref().map_or(0, Bytes::len) + more.len() + chunk.len();
            if total > limit {
                return Err(format!("the answer has more than {limit} bytes, the limit"));
            }
            match &all {
                None => all = Some(chunk),
                Some(_) => more.extend_from_slice(&chunk),
            }
        }
        let first = all.unwrap_or_default();
        if more.is_empty() {
            return Ok(first);
        }
        let mut whole = Vec::with_capacity(first.len() + more.len());
        whole.extend_from_slice(&first);
        whole.append(&mut more);
        Ok(Bytes::from(whole))
    }
}
