//! One attempt to deliver a message.
//!
//! The host is looked up once. Every address that it has is checked, and those that were checked are dialed; the name is
//! used for TLS and the header `Host` only. So a name that means another address a moment later reaches nothing. Answers
//! that redirect are not followed, and no proxy is asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::addresses::AddressRules;
use crate::delivery::Attempt;
use crate::exchange;
pub use crate::exchange::{Answer, MOST_BODY_BYTES};
use crate::explain::{Phase, Steps};
use crate::resolve::{Resolve, SystemResolver};
use crate::target::{Host, Refused, Target};

/// The longest attempt.
pub const MOST_TIME: Duration = Duration::from_secs(20);
const LOOKUP_TIME: Duration = Duration::from_secs(5);
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// For what of the body is read; its status is known by then.
const BODY_TIME: Duration = Duration::from_secs(2);
/// Addresses that a host may have.
const MOST_ADDRESSES: usize = 32;
/// Addresses that are dialed, one after another.
const MOST_DIALED: usize = 4;

/// Sends messages.
pub struct Sender {
    rules: AddressRules,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The answer, or why there is none.
    pub result: Result<Answer, Failure>,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// Why there is no answer. The texts tell no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing may be sent there.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host has no address.
    #[error("the host cannot be looked up: {0}")]
    Resolution(String),
    /// The host has too many addresses.
    #[error("the host has {0} addresses; at most {MOST_ADDRESSES} are taken")]
    Addresses(usize),
    /// No connection.
    #[error("cannot connect: {0}")]
    Connection(String),
    /// No encrypted connection.
    #[error("TLS: {0}")]
    Tls(String),
    /// Not an answer of HTTP/1.1, or none.
    #[error("no answer: {0}")]
    Protocol(String),
    /// The time was over.
    #[error("no answer within {seconds} s (at step {step})", step = phase.name())]
    Timeout {
        /// The step at which it was over.
        phase: Phase,
        /// The time that there was.
        seconds: u64,
    },
}

impl Sender {
    /// A sender that trusts Mozilla's authorities, and those of a PEM text beside them.
    ///
    /// # Errors
    /// A text without certificates, or with one that cannot be used.
    pub fn new(rules: AddressRules, authorities: Option<&str>) -> Result<Sender, String> {
        let tls = TlsConnector::from(Arc::new(tls(authorities)?));
        Ok(Sender { rules, resolver: Arc::new(SystemResolver::default()), tls })
    }

    /// The sender with another resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Sender {
        Sender { resolver, ..self }
    }

    /// What the operator allows.
    pub fn rules(&self) -> &AddressRules {
        &self.rules
    }

    /// Makes an attempt, within `most` and 20 seconds. `headers` are those of the signature
    /// ([`crate::secret::headers`]).
    pub async fn send(&self, url: &str, headers: &[(&str, String)], body: Bytes, most: Duration) -> Sent {
        self.explain(url, headers, body, most).await.0
    }

    /// Makes an attempt as [`Sender::send`] does, and tells its steps.
    pub async fn explain(
        &self,
        url: &str,
        headers: &[(&str, String)],
        body: Bytes,
        most: Duration,
    ) -> (Sent, Steps) {
        let most = most.min(MOST_TIME);
        let begun = Instant::now();
        let deadline = tokio::time::Instant::now() + most;
        let mut steps = Steps::default();
        let opened = timeout_at(deadline, self.open(url, headers, body, &mut steps)).await;
        let result = match opened {
            Ok(Ok(opened)) => {
                let rest = deadline.saturating_duration_since(tokio::time::Instant::now());
                Ok(opened.answer(BODY_TIME.min(rest)).await)
            }
            Ok(Err(failure)) => {
                steps.fail(failure.to_string());
                Err(failure)
            }
            Err(_) => Err(Failure::Timeout { phase: steps.phase(), seconds: most.as_secs() }),
        };
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        (Sent { result, millis }, steps)
    }

    /// Everything up to the head of the answer.
    async fn open(
        &self,
        url: &str,
        headers: &[(&str, String)],
        body: Bytes,
        steps: &mut Steps,
    ) -> Result<exchange::Opened, Failure> {
        steps.begin(Phase::Url, url);
        let target = Target::parse(url, &self.rules)?;
        let request = exchange::request(&target, headers, body).map_err(Failure::Protocol)?;
        steps.pass(format!("{} at port {}", target.host, target.port));

        let addresses = self.resolve(&target, steps).await?;
        self.check(&target, &addresses, steps)?;
        let stream = connect(&addresses, target.port, steps).await?;

        if !target.tls {
            return exchange::open(stream, request, headers, steps).await.map_err(Failure::Protocol);
        }
        steps.begin(Phase::Tls, "");
        let name = server_name(&target.host)?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| Failure::Tls(error.to_string()))?;
        let version = stream.get_ref().1.protocol_version();
        steps.pass(version.and_then(|version| version.as_str()).unwrap_or("TLS"));
        exchange::open(stream, request, headers, steps).await.map_err(Failure::Protocol)
    }

    async fn resolve(&self, target: &Target, steps: &mut Steps) -> Result<Vec<IpAddr>, Failure> {
        steps.begin(Phase::Resolution, "");
        let name = match &target.host {
            Host::Address(address) => {
                steps.pass("the URL names an address");
                return Ok(vec![*address]);
            }
            // The dot keeps the system from trying the name within the server's own domains first.
            Host::Name(name) if !target.host_allowed => format!("{name}."),
            Host::Name(name) => name.clone(),
        };
        let found = timeout(LOOKUP_TIME, self.resolver.resolve(&name)).await;
        let found = found.map_err(|_| Failure::Resolution(format!("no answer within {LOOKUP_TIME:?}")))?;
        let mut addresses = Vec::new();
        for address in found.map_err(Failure::Resolution)? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
            if addresses.len() > MOST_ADDRESSES {
                return Err(Failure::Addresses(addresses.len()));
            }
        }
        if addresses.is_empty() {
            return Err(Failure::Resolution("it has no address".to_owned()));
        }
        let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        steps.pass(texts.join(", "));
        Ok(addresses)
    }

    /// One address that is refused refuses the host: which one is dialed must not be up to chance.
    fn check(&self, target: &Target, addresses: &[IpAddr], steps: &mut Steps) -> Result<(), Failure> {
        steps.begin(Phase::Rule, "");
        for address in addresses {
            if let Err(refused) = target.check_address(*address, &self.rules) {
                steps.fail(format!("{address}: {refused}"));
                return Err(Failure::Refused(refused));
            }
        }
        steps.pass("every address is allowed");
        Ok(())
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl From<&Sent> for Attempt {
    fn from(sent: &Sent) -> Attempt {
        let (result, retry_after) = match &sent.result {
            Ok(answer) => (Ok(answer.status), answer.retry_after.clone()),
            Err(failure) => (Err(failure.to_string()), None),
        };
        Attempt { result, retry_after, millis: sent.millis }
    }
}

/// Dials checked addresses, one after another.
async fn connect(addresses: &[IpAddr], port: u16, steps: &mut Steps) -> Result<TcpStream, Failure> {
    steps.begin(Phase::Connection, "");
    let mut why = String::new();
    for address in addresses.iter().take(MOST_DIALED) {
        match timeout(CONNECT_TIME, TcpStream::connect((address.to_canonical(), port))).await {
            Ok(Ok(stream)) => {
                // A message is one or two small writes.
                let _ = stream.set_nodelay(true);
                steps.pass(format!("to {address}"));
                return Ok(stream);
            }
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no connection within {CONNECT_TIME:?}"),
        }
    }
    Err(Failure::Connection(why))
}

fn server_name(host: &Host) -> Result<ServerName<'static>, Failure> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => {
            let wrong = |_| Failure::Tls(format!("{name:?} is no name that a certificate can have"));
            ServerName::try_from(name.clone()).map_err(wrong)
        }
    }
}

fn tls(authorities: Option<&str>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = authorities {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| format!("the authorities are no PEM: {error}"))?;
            roots.add(certificate).map_err(|error| format!("an authority cannot be used: {error}"))?;
        }
        if roots.len() == before {
            return Err("the authorities have no certificate".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
