//! An upstream as the configuration describes it, ready to be asked: its connections, key, headers and paths.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use privacy::Clearance;
use translation::Dialect;

use crate::address::Address;
use crate::api::{Api, Native};
use crate::client::{Client, Outgoing};
use crate::config::{self, Discover, Kind, Tier};

/// Version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// An upstream, ready to be asked.
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) tier: Tier,
    pub(crate) clearance: Clearance,
    pub(crate) client: Arc<Client>,
    pub(crate) times: Times,
    /// How its addresses are found; none for one of its own.
    pub(crate) discover: Option<Discover>,
    responses: bool,
    api_version: Option<String>,
    /// Lines of every request's head.
    lines: Vec<u8>,
    /// Whether the configuration's own headers say what is accepted, and name requests.
    own: Own,
}

/// Headers that a request has only where the configuration has none.
#[derive(Debug, Clone, Copy)]
struct Own {
    accept: bool,
    request_id: bool,
}

/// Limits of time of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
}

impl Times {
    /// The limits of a table of the configuration.
    pub(crate) fn new(times: config::Timeouts) -> Times {
        Times {
            connect: times.connect.0,
            first_byte: times.first_byte.0,
            idle: times.idle.0,
            total: times.total.0,
        }
    }
}

impl Upstream {
    /// The upstream of a table of the configuration, with its key if it has one.
    ///
    /// # Errors
    /// A URL, a key or a header that cannot be used. The message never holds the key.
    pub(crate) fn new(
        table: &config::Upstream,
        key: Option<&str>,
        tls: &Arc<rustls::ClientConfig>,
    ) -> Result<Upstream, String> {
        let address = Address::parse(&table.url).map_err(|why| format!("url {:?} {why}", table.url))?;
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&address.authority);
        headers.insert(header::HOST, host.map_err(|_| format!("{:?} is no host", address.authority))?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("gristmill/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        if let Some(key) = key {
            let (name, text) = match table.kind {
                Kind::Gristmill | Kind::OpenAi => (header::AUTHORIZATION, format!("Bearer {key}")),
                Kind::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
                Kind::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
                Kind::Azure => (HeaderName::from_static("api-key"), key.to_owned()),
            };
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| "the key has a character that a header cannot carry".to_owned())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if table.kind == Kind::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        for (name, value) in &table.headers {
            let parsed = HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) = parsed.ok_or_else(|| format!("header {name:?} cannot be sent"))?;
            headers.insert(name, value);
        }
        let own = Own {
            accept: headers.contains_key(header::ACCEPT),
            request_id: headers.contains_key(httpd::REQUEST_ID),
        };
        Ok(Upstream {
            name: table.name.clone(),
            kind: table.kind,
            tier: table.tier(),
            clearance: Clearance(table.clearance()),
            client: Client::new(address, tls)?,
            times: Times::new(table.timeouts),
            discover: table.discover,
            responses: table.responses,
            api_version: table.api_version.clone(),
            lines: lines(&headers),
            own,
        })
    }

    /// The upstream at one of the addresses of its host.
    ///
    /// # Errors
    /// A host that TLS cannot check.
    pub(crate) fn at(&self, ip: IpAddr, tls: &Arc<rustls::ClientConfig>) -> Result<Upstream, String> {
        let address = Address { ip: Some(ip), ..self.client.address().clone() };
        Ok(Upstream {
            name: format!("{}@{ip}", self.name),
            kind: self.kind,
            tier: self.tier,
            clearance: self.clearance,
            client: Client::new(address, tls)?,
            times: self.times,
            discover: None,
            responses: self.responses,
            api_version: self.api_version.clone(),
            lines: self.lines.clone(),
            own: self.own,
        })
    }

    /// The dialect in which it is asked for what a client asks by `api`; none if it cannot answer that.
    pub(crate) fn dialect(&self, api: &Api) -> Option<Dialect> {
        let spoken = match (self.kind, api.native) {
            (Kind::Gristmill, Native::Gemini) => return Some(Dialect::OpenAiChat),
            (Kind::Gristmill, _) => true,
            (Kind::OpenAi, Native::Chat | Native::OpenAi | Native::Encoder) => true,
            (Kind::OpenAi, Native::Responses) => self.responses,
            (Kind::Azure, Native::Chat | Native::OpenAi) => true,
            (Kind::Anthropic, Native::Messages) => true,
            (Kind::Gemini, Native::Gemini) => true,
            _ => false,
        };
        if spoken {
            return Some(api.dialect);
        }
        if !api.native.is_translated() {
            return None;
        }
        Some(match self.kind {
            Kind::Gristmill | Kind::OpenAi | Kind::Azure => Dialect::OpenAiChat,
            Kind::Anthropic => Dialect::Anthropic,
            Kind::Gemini => Dialect::Gemini,
        })
    }

    /// The request of an attempt. `path` is the client's, used where the dialects match.
    pub(crate) fn request(
        &self,
        api: &Api,
        dialect: Dialect,
        model: &str,
        stream: bool,
        body: Bytes,
        request_id: &str,
    ) -> Result<Outgoing, String> {
        let path = checked(self.path(api, dialect, model, stream))?;
        let accept: &[u8] = match (self.own.accept, stream) {
            (true, _) => b"",
            (false, true) => b"accept: text/event-stream\r\n",
            (false, false) => b"accept: application/json\r\n",
        };
        let id = match self.own.request_id || HeaderValue::from_str(request_id).is_err() {
            true => String::new(),
            false => format!("{}: {request_id}\r\n", httpd::REQUEST_ID),
        };
        Ok(Outgoing::post(path.as_str(), &[&self.lines, accept, id.as_bytes()], body))
    }

    fn path(&self, api: &Api, dialect: Dialect, model: &str, stream: bool) -> String {
        let base = &self.client.address().path;
        let passes = dialect == api.dialect;
        match self.kind {
            Kind::Azure => {
                let operation = if passes { api.path.trim_start_matches("/v1/") } else { "chat/completions" };
                let version = self.api_version.as_deref().unwrap_or_default();
                format!("{base}/openai/deployments/{}/{operation}?api-version={version}", escaped(model))
            }
            _ => {
                let path = if passes && dialect != Dialect::Gemini {
                    api.path.to_owned()
                } else {
                    dialect.path(model, stream)
                };
                // The base URLs of SDKs end in the version; those of nodes do not.
                let version = base.rsplit('/').next().unwrap_or_default();
                let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(version));
                match rest {
                    Some(rest) if !version.is_empty() && rest.starts_with('/') => format!("{base}{rest}"),
                    _ => format!("{base}{path}"),
                }
            }
        }
    }

    /// The request that asks for the model's load (nodes of ours).
    pub(crate) fn get(&self, path: &str) -> Result<Outgoing, String> {
        let base = self.client.address().path.trim_end_matches("/v1");
        let path = checked(format!("{base}{path}"))?;
        Ok(Outgoing::get(path.as_str(), &[&self.lines]))
    }
}

/// A path that can be written.
fn checked(path: String) -> Result<PathAndQuery, String> {
    PathAndQuery::try_from(path.as_str()).map_err(|_| format!("{path:?} is no path"))
}

/// Header lines as they are written. What says where a body ends is the connection's to say.
fn lines(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        if [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name) {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    let kept = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if kept(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
