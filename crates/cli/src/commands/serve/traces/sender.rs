//! Batches to the collector, and what became of them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::super::reread::{self, Reading};
use super::settings::Settings;
use crate::Failure;

/// Between two complaints.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a collector's answer that are read: it says "taken", or how many spans were not.
const ANSWER_BYTES: u64 = 64 << 10;

/// What waits and what was lost.
#[derive(Debug)]
pub(super) struct Counts {
    url: String,
    room: usize,
    /// Spans that were made and not yet taken by the thread that sends.
    waiting: AtomicUsize,
    /// Spans that are being sent.
    sending: AtomicUsize,
    /// Requests whose spans found no room, and spans that could not be sent, since the last complaint.
    untraced: AtomicU64,
    unsent: AtomicU64,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Why the last try failed.
    reason: String,
    complained: Option<Instant>,
}

impl Counts {
    pub(super) fn new(url: String, room: usize) -> Counts {
        Counts {
            url,
            room,
            waiting: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
            untraced: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Takes places for so many spans of a request, or counts it. The library's queue has as many places, so that it
    /// never drops some spans of a request and keeps others.
    pub(super) fn has_room(&self, spans: usize) -> bool {
        if self.waiting.fetch_add(spans, Ordering::AcqRel) + spans <= self.room {
            return true;
        }
        self.left(spans);
        self.untraced.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Gives places back.
    pub(super) fn left(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Ordering::AcqRel);
    }

    fn because(&self, reason: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).reason = reason;
    }

    /// Says what was lost, at most once a minute.
    fn complain(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.complained.is_some_and(|at| at.elapsed() < PATIENCE) {
            return;
        }
        let unsent = self.unsent.swap(0, Ordering::Relaxed);
        let untraced = self.untraced.swap(0, Ordering::Relaxed);
        if unsent > 0 || untraced > 0 {
            trouble.complained = Some(Instant::now());
            let (url, reason) = (&self.url, &trouble.reason);
            tracing::warn!(%url, unsent, untraced, %reason, "traces are lost: spans not sent, requests not traced");
        }
    }

    /// Says what was lost since, with what is not sent in time.
    pub(super) fn complain_finally(&self) {
        let left = self.waiting.load(Ordering::Acquire) + self.sending.load(Ordering::Acquire);
        self.unsent.fetch_add(left as u64, Ordering::Relaxed);
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).complained = None;
        self.complain();
    }
}

/// The library's exporter, counted.
#[derive(Debug)]
pub(super) struct Sender {
    exporter: opentelemetry_otlp::SpanExporter,
    counts: Arc<Counts>,
}

impl Sender {
    pub(super) fn new(settings: &Settings, counts: Arc<Counts>) -> Result<Sender, Failure> {
        let client = Client::new(settings, counts.clone())?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(&settings.url)
            .with_timeout(settings.timeout)
            .with_http_client(client)
            .build()
            .map_err(|error| Failure::usage(format!("traces to {}: {error}", settings.url)))?;
        Ok(Sender { exporter, counts })
    }
}

impl SpanExporter for Sender {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counts.sending.store(spans, Ordering::Release);
        self.counts.left(spans);
        let sent = self.exporter.export(batch).await;
        self.counts.sending.store(0, Ordering::Release);
        if sent.is_err() {
            self.counts.unsent.fetch_add(spans as u64, Ordering::Relaxed);
        }
        self.counts.complain();
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The store's HTTP client, for the library. It blocks: the thread that sends is its only user.
#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
    counts: Arc<Counts>,
}

impl Client {
    fn new(settings: &Settings, counts: Arc<Counts>) -> Result<Client, Failure> {
        let roots = settings.trust.as_deref().map(roots).transpose()?.unwrap_or(RootCerts::WebPki);
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            // A header that is a secret goes to the address that was named and to no other.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(settings.timeout))
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client { agent: config.into(), counts })
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let answer = self.agent.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.post(request);
        match &answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => self.counts.because(format!("the collector said {}", answer.status())),
            Err(error) => self.counts.because(error.to_string()),
        }
        Ok(answer?)
    }
}

fn roots(path: &Path) -> Result<RootCerts, Failure> {
    let at = path.display();
    let cannot = |why: String| Failure::new(format!("cannot trust the certificates of {at}: {why}"));
    let pem = reread::read("OTEL_EXPORTER_OTLP_CERTIFICATE", path, Reading::First)?.bytes;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| cannot(error.to_string()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(cannot("there is none".to_owned())) } else { Ok(RootCerts::from(found)) }
}
