//! A trace of each request, sent to an OTLP collector. `docs/tracing.md` is its manual.
//!
//! Spans are made when a request is over, from the same record that the audit log gets: nothing is traced while tokens
//! are computed. They wait in a bounded queue for the library's own thread, which sends them in batches. A request that
//! finds the queue full is not traced, and counted; what a collector does or does not do reaches no request.

mod sender;
mod settings;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider};
use server::{Audit, Record};

use crate::Failure;
use sender::{Counts, Sender};

/// Most and least time for the last spans when the server stops.
const LAST_SPANS: Duration = Duration::from_secs(3);
const LAST_SPANS_AT_LEAST: Duration = Duration::from_millis(500);

/// Where traces go.
pub(super) struct Traces {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
    scheme: &'static str,
}

impl Traces {
    /// Starts the thread that sends, if the flag or the environment names a collector. `scheme` is what the server speaks.
    ///
    /// # Errors
    /// An address, or a variable of OpenTelemetry's, that cannot be used.
    pub(super) fn start(endpoint: Option<&str>, scheme: &'static str) -> Result<Option<Traces>, Failure> {
        let Some(settings) = settings::read(endpoint, &settings::variable)? else { return Ok(None) };
        let counts = Arc::new(Counts::new(settings.url.clone(), settings.queue_spans));
        let sender = Sender::new(&settings, counts.clone())?;
        let queue = BatchConfigBuilder::default().with_max_queue_size(settings.queue_spans).build();
        let batches = BatchSpanProcessor::builder(sender).with_batch_config(queue).build();
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_span_processor(batches).build();
        Ok(Some(Traces { provider, counts, scheme }))
    }

    /// The address that spans are sent to.
    pub(super) fn endpoint(&self) -> &str {
        self.counts.url()
    }

    /// Who makes spans of records.
    pub(super) fn audit(&self) -> Arc<dyn Audit> {
        let scope = InstrumentationScope::builder("gristmill").with_version(env!("CARGO_PKG_VERSION"));
        let tracer = self.provider.tracer_with_scope(scope.build());
        Arc::new(Taker { tracer, counts: self.counts.clone(), scheme: self.scheme })
    }

    /// Sends what is left, for about `at_most`: between half a second and three.
    pub(super) fn finish(self, at_most: Duration) {
        let at_most = at_most.clamp(LAST_SPANS_AT_LEAST, LAST_SPANS);
        // What it could not send in time is counted.
        let _ = self.provider.shutdown_with_timeout(at_most);
        self.counts.complain_finally();
    }
}

/// What sent the spans: its name from the environment, or ours.
fn resource() -> Resource {
    let resource =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let found = Resource::builder().build().get(&Key::from_static_str("service.name"));
    let named = found.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if named { resource.build() } else { resource.with_service_name("gristmill").build() }
}

struct Taker {
    tracer: SdkTracer,
    counts: Arc<Counts>,
    scheme: &'static str,
}

impl Audit for Taker {
    fn note(&self, record: &Record) {
        let phases = spans::phases(record);
        let spans = 1 + phases.len();
        if self.counts.has_room(spans) && !spans::make(&self.tracer, record, &phases, self.scheme) {
            self.counts.left(spans);
        }
    }
}
