//! The HTTP client: redirects, tokens, retries and timeouts.
//!
//! Redirects are followed here and not in the library for three reasons: the hub sends a file's hash in the headers of
//! the redirecting response, a token must go to its own host only, and redirects from https to http are refused.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use ureq::http::{HeaderMap, Uri, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::source::shown;
use super::{Error, Event, FetchConfig, Limits, Progress, pause};

const MAX_REDIRECTS: usize = 8;
/// Progress that resets the count of failures, in bytes.
const FORGIVING_BYTES: u64 = 1 << 20;
/// Longest pause that is taken from a server's Retry-After.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A bearer token and the server that it is for.
#[derive(Clone)]
pub(crate) struct Token {
    /// The server that may receive the token: `scheme://host:port`.
    pub(crate) endpoint: String,
    /// The bearer token.
    pub(crate) secret: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token for {}", self.endpoint)
    }
}

/// An HTTP client with the timeouts and retries of [`Limits`].
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    pub(crate) limits: Limits,
    token: Option<Token>,
}

/// A response whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The final address after redirects, without its query.
    pub(crate) url: String,
    /// The SHA-256 that the hub sent with a redirect, if any.
    pub(crate) linked_sha256: Option<String>,
    pub(crate) body: ureq::Body,
}

/// A failed request.
pub(crate) struct RequestFailure {
    pub(crate) error: Error,
    /// Whether a retry is pointless because the host cannot be found or reached.
    pub(crate) unreachable: bool,
}

impl From<Error> for RequestFailure {
    fn from(error: Error) -> Self {
        RequestFailure { error, unreachable: true }
    }
}

impl Client {
    pub(crate) fn new(config: &FetchConfig, token: Option<Token>) -> Result<Client, Error> {
        let limits = config.limits;
        let roots = config.trust.as_deref().map(trust).transpose()?.unwrap_or(RootCerts::WebPki);
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.stall))
            .timeout_per_read(Some(limits.stall))
            .timeout_per_write(Some(limits.stall))
            // A compressed response has no length to check and no range to resume.
            .accept_encoding("identity")
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client { agent: config.into(), limits, token })
    }

    fn token_for(&self, uri: &Uri) -> Option<&str> {
        let token = self.token.as_ref()?;
        let same = origin(uri)? == token.endpoint;
        let private = uri.scheme_str() == Some("https") || is_loopback(uri);
        (same && private).then_some(token.secret.as_str())
    }

    /// Sends a GET request and follows its redirects.
    pub(crate) fn get(
        &self,
        url: &str,
        extra: &[(header::HeaderName, String)],
    ) -> Result<Answer, RequestFailure> {
        let fail = |url: &str, reason: String| Error::Http { url: shown(url), reason };
        let mut uri: Uri = url.parse().map_err(|error| fail(url, format!("not an address: {error}")))?;
        let mut linked_sha256 = None;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(&uri);
            for (name, value) in extra {
                request = request.header(name, value);
            }
            if let Some(secret) = self.token_for(&uri) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {secret}"));
            }
            let answer = request.call().map_err(|error| RequestFailure {
                unreachable: is_unreachable(&error),
                error: fail(&uri.to_string(), reason(&error, &uri, self.limits)),
            })?;
            let status = answer.status().as_u16();
            let (head, body) = answer.into_parts();
            let linked = head.headers.get("x-linked-etag").and_then(|value| value.to_str().ok());
            let linked = linked.map(|text| text.trim_matches('"').to_owned());
            linked_sha256 = linked_sha256.or(linked.filter(|text| super::is_sha256(text)));
            let location = head.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            match (status, location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => uri = redirect_target(&uri, location)?,
                _ => {
                    let url = shown(&uri.to_string());
                    return Ok(Answer { status, headers: head.headers, url, linked_sha256, body });
                }
            }
        }
        Err(fail(url, format!("more than {MAX_REDIRECTS} redirects")).into())
    }

    /// Downloads a small text, such as a listing, with the same retries as a file.
    pub(crate) fn text(
        &self,
        url: &str,
        cap: u64,
        progress: &mut dyn Progress,
    ) -> Result<(u16, String), Error> {
        let mut retries = RetryState::new(self.limits);
        loop {
            let failure = match self.get(url, &[]) {
                Err(RequestFailure { error, unreachable: true }) => return Err(error),
                Err(RequestFailure { error, .. }) => (error, None),
                Ok(answer) if is_transient(answer.status) => {
                    (status_error(&answer), retry_after(&answer.headers))
                }
                Ok(answer) => {
                    let mut text = String::new();
                    let status = answer.status;
                    match answer.body.into_reader().take(cap + 1).read_to_string(&mut text) {
                        Ok(length) if length as u64 > cap => {
                            return Err(Error::TooLarge { what: shown(url), limit: cap });
                        }
                        Ok(_) => return Ok((status, text)),
                        Err(error) => (Error::Http { url: shown(url), reason: io_reason(&error) }, None),
                    }
                }
            };
            retries.pause_or_fail(failure.0, failure.1, &shown(url), progress)?;
        }
    }
}

/// The certificate authorities of a PEM file, such as that of a company's TLS-intercepting proxy.
fn trust(path: &Path) -> Result<RootCerts, Error> {
    const MAX_PEM_BYTES: u64 = 16 << 20;
    let mut pem = Vec::new();
    let file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    file.take(MAX_PEM_BYTES).read_to_end(&mut pem).map_err(Error::io("read", path))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let Ok(PemItem::Certificate(certificate)) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        let nothing = std::io::Error::new(std::io::ErrorKind::InvalidData, "it holds no certificate");
        return Err(Error::io("use", path)(nothing));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// Counts consecutive failures, and pauses between attempts.
pub(crate) struct RetryState {
    limits: Limits,
    failed: u32,
    gained: u64,
}

impl RetryState {
    pub(crate) fn new(limits: Limits) -> RetryState {
        RetryState { limits, failed: 0, gained: 0 }
    }

    pub(crate) fn gain(&mut self, bytes: u64) {
        self.gained = self.gained.saturating_add(bytes);
        if self.gained >= FORGIVING_BYTES {
            (self.failed, self.gained) = (0, 0);
        }
    }

    /// Pauses before the next attempt, or returns the error if no attempt is left.
    pub(crate) fn pause_or_fail(
        &mut self,
        error: Error,
        retry_after: Option<Duration>,
        file: &str,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        if self.failed >= self.limits.retries {
            return Err(error);
        }
        let doubled = self.limits.backoff.saturating_mul(1 << self.failed.min(4));
        let length = retry_after.unwrap_or(doubled).min(MAX_PAUSE);
        self.failed += 1;
        let reason = error.to_string();
        let pause_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        progress.event(Event::Retry { file, reason: &reason, pause_ms });
        pause(length, progress)
    }
}

/// `scheme://host:port`, lower case, port written out.
pub(crate) fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("{scheme}://{}:{port}", uri.host()?.to_ascii_lowercase()))
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The address of a redirect's `Location`; an error if it leads from https to http.
fn redirect_target(from: &Uri, location: &str) -> Result<Uri, Error> {
    let fail = |reason: &str| Error::Http { url: shown(&from.to_string()), reason: reason.to_owned() };
    let (scheme, host) = (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |a| a.as_str()));
    let text = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{host}{folder}/{location}")
    };
    let to: Uri = text.parse().map_err(|_| fail("redirected to what is no address"))?;
    match to.scheme_str() {
        Some("https") => Ok(to),
        Some("http") if scheme == "http" => Ok(to),
        Some("http") => Err(fail("redirected from https to http, which is refused")),
        _ => Err(fail("redirected to what is neither http nor https")),
    }
}

/// Whether a status is temporary, so that a retry may succeed.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// The error for an unexpected status, with advice.
pub(crate) fn status_error(answer: &Answer) -> Error {
    let hint = match answer.status {
        401 | 403 => ": the model may be gated or private; accept its terms on the hub and set HF_TOKEN",
        404 | 410 => ": no such file there",
        429 => ": too many requests, try again later",
        _ => "",
    };
    Error::Status { url: answer.url.clone(), status: answer.status, hint: hint.to_owned() }
}

pub(crate) fn number(headers: &HeaderMap, name: header::HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    number(headers, header::RETRY_AFTER).map(Duration::from_secs)
}

/// Whether a retry is pointless: no such host, connection refused, or an invalid certificate.
fn is_unreachable(error: &ureq::Error) -> bool {
    use std::io::ErrorKind as Kind;
    match error {
        ureq::Error::Timeout(what) => matches!(what, ureq::Timeout::Resolve | ureq::Timeout::Connect),
        ureq::Error::Io(error) => {
            !matches!(error.kind(), Kind::ConnectionReset | Kind::ConnectionAborted | Kind::UnexpectedEof)
        }
        ureq::Error::Protocol(_) => false,
        _ => true,
    }
}

fn reason(error: &ureq::Error, uri: &Uri, limits: Limits) -> String {
    let host = uri.host().unwrap_or("the host");
    match error {
        ureq::Error::HostNotFound => format!("cannot find {host}; is there a network?"),
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            format!("cannot reach {host} within {} s", limits.connect.as_secs_f32())
        }
        ureq::Error::Timeout(_) => format!("{host} was silent for {} s", limits.stall.as_secs_f32()),
        ureq::Error::Io(error) => format!("cannot reach {host}: {error}"),
        other => other.to_string(),
    }
}

/// Why reading a body failed.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    let late = matches!(inner, Some(ureq::Error::Timeout(_)));
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => "silence for too long".to_owned(),
        _ if late => "silence for too long".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    fn config(trust: Option<std::path::PathBuf>) -> FetchConfig {
        let (hub, pythons) = (super::super::Hub::default(), super::super::PythonInterpreters::new([]));
        FetchConfig { hub, pythons, limits: Limits::default(), trust }
    }

    #[test]
    fn a_file_of_authorities_must_hold_some() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").unwrap();
        assert!(Client::new(&config(Some(path.clone())), None).is_ok());
        std::fs::write(&path, "nothing").unwrap();
        let error = Client::new(&config(Some(path)), None).unwrap_err();
        assert!(error.to_string().contains("holds no certificate"), "{error}");
        assert!(Client::new(&config(Some(dir.path().join("none"))), None).is_err());
    }

    #[test]
    fn redirects_lead_where_they_say_and_never_down() {
        let from = uri("https://a.example/x/y?q=1");
        for (location, to) in [
            ("https://b.example/z", "https://b.example/z"),
            ("//b.example/z", "https://b.example/z"),
            ("/z", "https://a.example/z"),
            ("z?k=v", "https://a.example/x/z?k=v"),
        ] {
            assert_eq!(redirect_target(&from, location).unwrap(), uri(to), "{location}");
        }
        for location in ["http://a.example/x/y", "file:///etc/passwd", "ftp://a/b", "", "https://"] {
            // An empty reference would be the same address again; the caller's limit ends that.
            assert!(
                redirect_target(&from, location).is_err() || location.is_empty(),
                "{location} was followed"
            );
        }
    }

    #[test]
    fn the_token_goes_to_its_own_place_only() {
        let token = |endpoint: &str| {
            let token = Token { endpoint: endpoint.to_owned(), secret: "s".to_owned() };
            Client::new(&config(None), Some(token)).unwrap()
        };
        let hub = token("https://hub.example:443");
        assert!(hub.token_for(&uri("https://HUB.example/a")).is_some());
        for other in ["https://cdn.example/a", "http://hub.example/a", "https://hub.example:8443/a"] {
            assert!(hub.token_for(&uri(other)).is_none(), "{other}");
        }
        assert!(
            token("http://hub.example:80").token_for(&uri("http://hub.example/a")).is_none(),
            "in the clear"
        );
        assert!(token("http://127.0.0.1:9").token_for(&uri("http://127.0.0.1:9/a")).is_some());
        assert!(!format!("{hub:?}").contains("\"s\""));
    }
}
