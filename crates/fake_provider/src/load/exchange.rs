//! One request and its answer.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A connection that is ready for a request.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// Why a request has failed.
#[derive(Debug)]
pub(super) enum Failure {
    Connect,
    /// No head of an answer.
    Head,
    Status(StatusCode),
    /// The body broke off.
    Body,
    /// The answer does not end as it should.
    Incomplete,
    Timeout,
}

impl Failure {
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Connect => "connect".to_owned(),
            Self::Head => "no answer".to_owned(),
            Self::Status(status) => format!("status {}", status.as_u16()),
            Self::Body => "cut".to_owned(),
            Self::Incomplete => "incomplete".to_owned(),
            Self::Timeout => "timeout".to_owned(),
        }
    }
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) first_byte: Instant,
    pub(super) bytes: u64,
}

/// Where requests go, and what they are.
pub(super) struct Target {
    address: String,
    path: Uri,
    headers: HeaderMap,
    body: Bytes,
    ends_with: Option<Bytes>,
}

impl Target {
    /// The target of a URL; the error says what is wrong.
    pub(super) fn read(
        url: &str,
        given: &[(String, String)],
        body: Bytes,
        ends_with: Option<&str>,
    ) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "no URL")?;
        if uri.scheme_str() != Some("http") {
            return Err("only http:// is spoken");
        }
        let authority = uri.authority().ok_or("no host")?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse().map_err(|_| "no path")?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| "no host")?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in given {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header's name")?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|_| "a header's value")?);
        }
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        let ends_with = ends_with.map(|end| Bytes::copy_from_slice(end.as_bytes()));
        Ok(Self { address, path, headers, body, ends_with })
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(&self.address).await.map_err(|_| Failure::Connect)?;
        stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Connect)?;
        // How it ends is seen by the requests on it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn send(&self, sender: &mut Connection) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = if self.body.is_empty() { Method::GET } else { Method::POST };
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        sender.ready().await.map_err(|_| Failure::Head)?;
        let response = sender.send_request(request).await.map_err(|_| Failure::Head)?;
        Ok(response)
    }

    /// One request and its whole answer, on the connection or a new one.
    pub(super) async fn exchange(&self, connection: &mut Option<Connection>) -> Result<Answer, Failure> {
        let mut sender = match connection.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let response = self.send(&mut sender).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut first_byte = None;
        let mut bytes = 0;
        let mut last = Bytes::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::Body)?;
            first_byte.get_or_insert_with(Instant::now);
            if let Ok(data) = frame.into_data() {
                bytes += data.len() as u64;
                last = data;
            }
        }
        *connection = Some(sender);
        if status != StatusCode::OK {
            return Err(Failure::Status(status));
        }
        if self.ends_with.as_ref().is_some_and(|end| !last.ends_with(end)) {
            return Err(Failure::Incomplete);
        }
        Ok(Answer { first_byte: first_byte.unwrap_or_else(Instant::now), bytes })
    }

    /// A stream that is read until `end`. One that ends before is incomplete.
    pub(super) async fn hold(
        &self,
        end: Instant,
        timeout: Duration,
        mut seen: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let opened = async {
            let mut sender = self.connect().await?;
            let response = self.send(&mut sender).await?;
            Ok((sender, response))
        };
        let opened = tokio::time::timeout(timeout, opened).await;
        // Without its sender the connection would end.
        let (_sender, response) = opened.unwrap_or(Err(Failure::Timeout))?;
        if response.status() != StatusCode::OK {
            return Err(Failure::Status(response.status()));
        }
        let mut body = response.into_body();
        loop {
            let limit = end.min(Instant::now() + timeout);
            match tokio::time::timeout_at(limit.into(), body.frame()).await {
                Ok(Some(Ok(frame))) => seen(frame.data_ref().map_or(0, |data| data.len() as u64)),
                Ok(Some(Err(_))) => return Err(Failure::Body),
                Ok(None) => return Err(Failure::Incomplete),
                Err(_) if Instant::now() >= end => return Ok(()),
                Err(_) => return Err(Failure::Timeout),
            }
        }
    }
}
