//! HTTP to a server: for `bench serve`, and to ask a running server for something.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
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

/// Bytes of an answer that is not streamed.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;
/// Bytes of an error's body that are read for its message.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Characters of a message that are kept.
const MAX_MESSAGE_CHARS: usize = 400;

/// Connections are kept and reused, as clients do it.
pub(crate) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    headers: HeaderMap,
    timeout: Duration,
}

/// How to reach the server.
pub(crate) struct Reach<'a> {
    pub(crate) base_url: &'a str,
    pub(crate) api_key: Option<&'a str>,
    /// `NAME=VALUE` each.
    pub(crate) headers: &'a [String],
    pub(crate) ca_file: Option<&'a Path>,
    /// For one whole answer.
    pub(crate) timeout: Duration,
}

impl Client {
    /// # Errors
    /// An address, header, key or certificate file that is none.
    pub(crate) fn new(reach: &Reach<'_>) -> Result<Client, Failure> {
        let base = reach.base_url.trim_end_matches('/').to_owned();
        let uri: Uri = base
            .parse()
            .map_err(|e| Failure::usage(format!("the server's address {base} is no address: {e}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(Failure::usage(format!(
                "the server's address {base} must begin with http:// or https://"
            )));
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
    pub(crate) async fn json(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = async {
            let response = self.send(path, body.map(|body| Bytes::from(body.to_string()))).await?;
            read_json(accepted(response).await?).await
        };
        self.in_time(answer).await
    }

    pub(crate) async fn send(&self, path: &str, body: Option<Bytes>) -> Result<Response<Incoming>, String> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        self.call(method, path, body).await
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, String> {
        self.request(method, path, body.unwrap_or_default(), None).await
    }

    /// Posts a body of another media type than JSON.
    pub(crate) async fn send_as(
        &self,
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        self.request(Method::POST, path, body, Some(media)).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        media: Option<&str>,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base)
            .parse()
            .map_err(|error| format!("{}{path} is no address: {error}", self.base))?;
        *request.headers_mut() = self.headers.clone();
        if let Some(media) = media {
            let media = HeaderValue::from_str(media).map_err(|error| format!("{media}: {error}"))?;
            request.headers_mut().insert(header::CONTENT_TYPE, media);
        }
        self.pool
            .request(request)
            .await
            .map_err(|error| format!("no answer from {}: {}", self.base, chain(&error)))
    }

    pub(crate) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let late = || Err(format!("no full answer after {} s", self.timeout.as_secs_f64()));
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| late())
    }
}

/// The JSON of an answer.
pub(crate) async fn read_json(response: Response<Incoming>) -> Result<Value, String> {
    let bytes = read_bytes(response).await?;
    serde_json::from_slice(&bytes).map_err(|error| format!("an answer that is no JSON: {error}"))
}

/// The bytes of an answer.
pub(crate) async fn read_bytes(response: Response<Incoming>) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    Ok(body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes())
}

/// The message of an error in OpenAI's shape, or all of it.
pub(crate) fn message(error: &Value) -> String {
    let error = error.get("error").unwrap_or(error);
    let text = error.get("message").and_then(Value::as_str).or_else(|| error.as_str());
    text.map_or_else(|| error.to_string(), str::to_owned)
}

/// The response, or the server's reason against it.
pub(crate) async fn accepted(response: Response<Incoming>) -> Result<Response<Incoming>, String> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let text = match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => message(&value),
        Err(_) => String::from_utf8_lossy(&bytes).trim().to_owned(),
    };
    let text: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    Err(if text.is_empty() { status.to_string() } else { format!("{}: {text}", status.as_u16()) })
}

fn headers(reach: &Reach<'_>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("gristmill"));
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
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
