//! HTTP to the server that is measured. Everything here may wait; nothing here counts tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use crate::Failure;

use super::events::{self, Chunk, Events};
use super::metrics::Outcome;

/// Bytes of an answer that is not streamed.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Bytes of an error's body that are read for its message.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Characters of a message that are kept.
const MAX_MESSAGE_CHARS: usize = 400;
/// Streams whose answers carry no usage are counted by chunks; text beyond this many bytes is not kept.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Connections are kept and reused, as clients do it.
pub(super) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    headers: HeaderMap,
    timeout: Duration,
}

/// How to reach the server.
pub(super) struct Reach<'a> {
    pub(super) base_url: &'a str,
    pub(super) api_key: Option<&'a str>,
    /// `NAME=VALUE` each.
    pub(super) headers: &'a [String],
    pub(super) ca_file: Option<&'a Path>,
    /// For one whole answer.
    pub(super) timeout: Duration,
}

impl Client {
    /// # Errors
    /// An address, header, key or certificate file that is none.
    pub(super) fn new(reach: &Reach<'_>) -> Result<Client, Failure> {
        let base = reach.base_url.trim_end_matches('/').to_owned();
        let uri: Uri =
            base.parse().map_err(|e| Failure::usage(format!("--base-url {base} is no address: {e}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(Failure::usage(format!("--base-url {base} must begin with http:// or https://")));
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(30)));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls(reach.ca_file)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let pool =
            Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build::<_, Full<Bytes>>(https);
        Ok(Client { pool, base, headers: headers(reach)?, timeout: reach.timeout })
    }

    /// One answer in JSON; `body` makes it a POST.
    ///
    /// # Errors
    /// What went wrong, with the server's own message if it gave one.
    pub(super) async fn json(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = async {
            let response = self.send(path, body.map(|body| Bytes::from(body.to_string()))).await?;
            let response = accepted(response).await?;
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            let bytes = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
            serde_json::from_slice(&bytes).map_err(|error| format!("an answer that is no JSON: {error}"))
        };
        self.in_time(answer).await
    }

    /// Asks for a stream and times it. `run` is when the run began; the outcome's `queue` is left to the caller.
    pub(super) async fn ask(&self, path: &str, body: Bytes, prompt_tokens: usize, run: Instant) -> Outcome {
        let sent = Instant::now();
        let start = sent.duration_since(run).as_secs_f64();
        let mut outcome = Outcome { prompt_tokens, asked_tokens: prompt_tokens, start, ..Outcome::default() };
        let mut clock = Clock::new(sent);
        let streamed = self.stream(path, body, &mut clock, &mut outcome);
        if let Err(error) = self.in_time(streamed).await {
            outcome.error = Some(error);
            return outcome;
        }
        if clock.chunks == 0 {
            outcome.error = Some("the stream ended without a chunk".to_owned());
        }
        outcome.latency = clock.last.duration_since(sent).as_secs_f64();
        if outcome.output_tokens == 0 {
            outcome.output_tokens = clock.chunks;
            outcome.counted_by_chunks = true;
        }
        outcome
    }

    /// Asks for the vectors of texts and times the whole answer; `texts` is how many there are, with their tokens.
    pub(super) async fn embed(
        &self,
        path: &str,
        body: Bytes,
        (texts, prompt_tokens): (usize, usize),
        run: Instant,
    ) -> Outcome {
        let sent = Instant::now();
        let start = sent.duration_since(run).as_secs_f64();
        let mut outcome =
            Outcome { prompt_tokens, asked_tokens: prompt_tokens, texts, start, ..Outcome::default() };
        let answer = async {
            let response = accepted(self.send(path, Some(body)).await?).await?;
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| format!("the answer broke off: {error}"))
        };
        let bytes = self.in_time(answer).await;
        let latency = sent.elapsed().as_secs_f64();
        (outcome.latency, outcome.ttft, outcome.first_text) = (latency, latency, latency);
        match bytes.and_then(|bytes| embeddings(&bytes, texts)) {
            Ok(tokens) => outcome.prompt_tokens = tokens.unwrap_or(prompt_tokens),
            Err(error) => outcome.error = Some(error),
        }
        outcome
    }

    async fn stream(
        &self,
        path: &str,
        body: Bytes,
        clock: &mut Clock,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let mut response = accepted(self.send(path, Some(body)).await?).await?;
        let mut events = Events::default();
        while let Some(frame) = response.frame().await {
            let frame = frame.map_err(|error| format!("the stream broke off: {}", chain(&error)))?;
            let Ok(bytes) = frame.into_data() else { continue };
            let now = Instant::now();
            let each = |data: &[u8]| {
                if data == b"[DONE]" {
                    return Ok(());
                }
                let chunk = Chunk::parse(data)?;
                clock.tick(&chunk, now, outcome);
                note(&chunk, outcome);
                Ok(())
            };
            events.push(&bytes, each)?;
        }
        Ok(())
    }

    async fn send(&self, path: &str, body: Option<Bytes>) -> Result<Response<hyper::body::Incoming>, String> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base)
            .parse()
            .map_err(|error| format!("{}{path} is no address: {error}", self.base))?;
        *request.headers_mut() = self.headers.clone();
        self.pool
            .request(request)
            .await
            .map_err(|error| format!("no answer from {}: {}", self.base, chain(&error)))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let late = || Err(format!("no full answer after {} s", self.timeout.as_secs_f64()));
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| late())
    }
}

/// Checks that an answer has a vector for each of so many texts, and gives back the tokens that it counts.
fn embeddings(bytes: &[u8], texts: usize) -> Result<Option<usize>, String> {
    let answer: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("an answer that is no JSON: {error}"))?;
    let found = answer["data"].as_array().map_or(0, Vec::len);
    if found != texts {
        return Err(format!("{found} vectors for {texts} texts"));
    }
    Ok(answer["usage"]["prompt_tokens"].as_u64().and_then(|tokens| usize::try_from(tokens).ok()))
}

/// When chunks came.
struct Clock {
    sent: Instant,
    last: Instant,
    chunks: usize,
    spoke: bool,
}

impl Clock {
    fn new(sent: Instant) -> Clock {
        Clock { sent, last: sent, chunks: 0, spoke: false }
    }

    fn tick(&mut self, chunk: &Chunk, now: Instant, outcome: &mut Outcome) {
        if !chunk.counts() {
            return;
        }
        let since_sent = now.duration_since(self.sent).as_secs_f64();
        if self.chunks == 0 {
            outcome.ttft = since_sent;
        } else {
            outcome.itls.push(now.duration_since(self.last).as_secs_f64());
        }
        if !self.spoke && chunk.says_something() {
            self.spoke = true;
            outcome.first_text = since_sent;
        } else if !self.spoke {
            // An answer without any text has its first chunk's time, or its last empty one's.
            outcome.first_text = since_sent;
        }
        self.chunks += 1;
        self.last = now;
    }
}

/// Text and counts of a chunk.
fn note(chunk: &Chunk, outcome: &mut Outcome) {
    if outcome.text.len() < MAX_TEXT_BYTES {
        outcome.text.push_str(chunk.text());
    }
    if let Some(usage) = &chunk.usage {
        outcome.prompt_tokens = usage.prompt_tokens.unwrap_or(outcome.prompt_tokens);
        outcome.output_tokens = usage.completion_tokens.unwrap_or(outcome.output_tokens);
        outcome.cached_tokens = usage.cached_tokens();
    }
}

/// The response, or the server's reason against it.
async fn accepted(
    response: Response<hyper::body::Incoming>,
) -> Result<Response<hyper::body::Incoming>, String> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let text = match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => events::message(&value),
        Err(_) => String::from_utf8_lossy(&bytes).trim().to_owned(),
    };
    let text: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    Err(if text.is_empty() { status.to_string() } else { format!("{}: {text}", status.as_u16()) })
}

fn headers(reach: &Reach<'_>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("gristmill-bench"));
    if let Some(key) = reach.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Failure::usage("the API key has a character that a header cannot carry"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    for text in reach.headers {
        let pair = text.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let Some((name, value)) = pair else {
            return Err(Failure::usage(format!("--header {text} is not NAME=VALUE")));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Mozilla's roots, or those of a file alone.
fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let Some(file) = ca_file else {
        return Ok(builder.with_webpki_roots().with_no_client_auth());
    };
    let unusable =
        |error: &dyn std::fmt::Display| Failure::new(format!("--ca-file {}: {error}", file.display()));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unusable(&e))? {
        roots.add(certificate.map_err(|e| unusable(&e))?).map_err(|e| unusable(&e))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"no certificate in it"));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// An error with its causes: the outer one of a connection says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
