//! Connections to one upstream: HTTP/1.1 with keep-alive, opened when needed, given back when an answer has ended.
//!
//! Our own, as what follows a failure depends on whether the request was written: hyper gives back a request that it has
//! not begun to write, and such a one may go anywhere else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;

/// Bytes of an answer's head, and of what is read ahead of its body.
const READ_BYTES: usize = 64 << 10;
/// Lines of an answer's head.
const MAX_HEADERS: usize = 128;
/// A connection idle for longer is not used again: most servers close theirs after a minute or more.
const IDLE: Duration = Duration::from_secs(20);
/// Idle connections kept to one upstream.
const MAX_IDLE: usize = 512;
/// For a connection that was given back to be ready for its next request.
const READY: Duration = Duration::from_millis(5);

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one upstream.
pub(crate) struct Client {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    sender: Sender,
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
    body: Incoming,
    /// Given back to the client when the body has ended.
    sender: Option<Sender>,
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
        request: Request<Full<Bytes>>,
        connect: Duration,
        first: Duration,
    ) -> Result<Answer, SendError> {
        let deadline = tokio::time::Instant::now() + first;
        let timed_out = |_| SendError::Timeout(first);
        let mut request = request;
        // A server may close an idle connection at the moment at which it is used again: what was not written is
        // written on another one.
        if let Some(mut sender) = self.take_idle().await {
            let sent = tokio::time::timeout_at(deadline, sender.try_send_request(request)).await;
            match sent.map_err(timed_out)? {
                Ok(response) => return Ok(self.answer(response, sender)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Reset(shown(&error.into_error()))),
                },
            }
        }
        let mut sender = tokio::time::timeout(connect, self.open())
            .await
            .map_err(|_| SendError::Connect(format!("no connection within {connect:?}")))??;
        let sent = tokio::time::timeout_at(deadline, sender.try_send_request(request)).await;
        match sent.map_err(timed_out)? {
            Ok(response) => Ok(self.answer(response, sender)),
            Err(mut error) => match error.take_message() {
                Some(_) => Err(SendError::NotWritten),
                None => Err(SendError::Reset(shown(&error.into_error()))),
            },
        }
    }

    fn answer(self: &Arc<Self>, response: Response<Incoming>, sender: Sender) -> Answer {
        let (head, body) = response.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            sender: Some(sender),
            client: self.clone(),
        }
    }

    /// The connection that was given back last, if it is ready.
    async fn take_idle(&self) -> Option<Sender> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            let mut sender = idle.sender;
            if sender.is_closed() || idle.since.elapsed() > IDLE {
                continue;
            }
            if sender.is_ready() {
                return Some(sender);
            }
            if matches!(tokio::time::timeout(READY, sender.ready()).await, Ok(Ok(()))) {
                return Some(sender);
            }
        }
    }

    async fn open(&self) -> Result<Sender, SendError> {
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
            None => self.handshake(TokioIo::new(stream)).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| failed(&error))?;
                self.handshake(TokioIo::new(stream)).await
            }
        }
    }

    async fn handshake<T>(&self, io: TokioIo<T>) -> Result<Sender, SendError>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new();
        builder.max_buf_size(READ_BYTES).max_headers(MAX_HEADERS);
        let (sender, connection) =
            builder.handshake(io).await.map_err(|error| SendError::Connect(shown(&error)))?;
        // Ends when the sender is dropped or the upstream closes.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
        });
        Ok(sender)
    }

    fn give_back(&self, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { sender, since: Instant::now() });
    }

    /// Drops the connections that nobody used for long. Called now and then, so that none is kept for ever.
    pub(crate) fn drop_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() <= IDLE && !idle.sender.is_closed());
    }
}

impl Answer {
    /// The next bytes of the body; none at its end.
    ///
    /// # Errors
    /// A body that ends before its length, or whose connection breaks.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.body.frame().await {
                None => {
                    if let Some(sender) = self.sender.take() {
                        self.client.give_back(sender);
                    }
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    // Trailers say nothing here.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(shown(&error)),
            }
        }
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

/// An error with its causes, which hyper keeps apart.
fn shown(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
