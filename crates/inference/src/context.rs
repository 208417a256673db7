//! The context of a request, from its head to its last byte: client, resources used, and ending.
//!
//! A [`RequestContext`] is shared by the HTTP layer, by the thread that prepares the request and by each of its answers
//! in the engine. When the last reference is dropped, the key's concurrency slot is freed, its tokens are charged, and
//! the audit log gets a record: also when the client left, a handler panicked or the server was drained.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::listener::Listener;
use crate::{Client, Owner};

/// The parent span of a request, from the `traceparent` header (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace id; not all zero.
    pub trace_id: [u8; 16],
    /// Id of the caller's span; not all zero.
    pub span_id: [u8; 8],
    /// Trace flags. Bit 0: sampled. Bit 1: the trace id is random.
    pub flags: u8,
    /// The `tracestate` header, lines joined; none if it has more than 4,096 bytes or bytes that are not visible ASCII.
    pub state: Option<String>,
}

/// A concurrency slot of an API key, held by one request and freed on drop.
pub trait Place: Send {
    /// Charges `tokens` to the key's quota of tokens a minute.
    fn spend(&self, tokens: usize, now: Instant);
}

/// A sink for the records of ended requests. Called from any thread, including the engine's, so it must not block.
pub trait Audit: Send + Sync {
    /// Records an ended request.
    fn note(&self, record: &Record);
}

/// Passes each record to all sinks, in order.
impl Audit for Vec<Arc<dyn Audit>> {
    fn note(&self, record: &Record) {
        self.iter().for_each(|audit| audit.note(record));
    }
}

/// The record of an ended request. Times are in milliseconds. It never holds text of a prompt or an answer.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Record {
    /// Time when the request's head was read.
    #[serde(skip)]
    pub at: SystemTime,
    /// The `x-request-id` header, or a generated id.
    pub request_id: String,
    /// The key's name; none where no key was shown or needed.
    pub key: Option<String>,
    /// The client's address.
    pub peer: Option<String>,
    /// HTTP method: `GET`, `POST`, …
    pub method: &'static str,
    /// The route's pattern, without values from the client.
    pub path: &'static str,
    /// The model that answered; none if the request reached no model.
    pub model: Option<String>,
    /// HTTP status; 0 when the client left before there was one.
    pub status: u16,
    /// Tokens of the prompts, each prompt once.
    pub prompt_tokens: usize,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: usize,
    /// Tokens of all answers.
    pub completion_tokens: usize,
    /// How each answer ended: `stop`, `length`, `abort` or `error`.
    pub endings: Vec<&'static str>,
    /// The longest time that an answer was queued.
    pub queued_ms: f64,
    /// Time of the whole machine charged to the answers.
    pub machine_ms: f64,
    /// Time from the head to the first token; none without a token.
    pub first_token_ms: Option<f64>,
    /// Time from the head to the end of the last answer.
    pub duration_ms: f64,
    /// The caller's span, if the head had a `traceparent`.
    #[serde(skip)]
    pub parent: Option<TraceParent>,
    /// Times at which the answers reached the stages of the engine.
    #[serde(skip)]
    pub stages: Stages,
}

/// Times at which a request's answers reached each stage, in milliseconds since the head was read; none if no answer
/// reached it. The first token is [`Record::first_token_ms`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stages {
    /// The first answer was submitted to the engine.
    pub submitted_ms: Option<f64>,
    /// The first step with a row of an answer began.
    pub started_ms: Option<f64>,
    /// The last answer ended.
    pub ended_ms: Option<f64>,
}

impl Record {
    /// An empty record of a request that began at `at`.
    pub fn begun(at: SystemTime) -> Record {
        Record {
            at,
            request_id: String::new(),
            key: None,
            peer: None,
            method: "",
            path: "",
            model: None,
            status: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            completion_tokens: 0,
            endings: Vec::new(),
            queued_ms: 0.0,
            machine_ms: 0.0,
            first_token_ms: None,
            duration_ms: 0.0,
            parent: None,
            stages: Stages::default(),
        }
    }
}

/// The shared state of a request in progress; see the module.
pub struct RequestContext {
    began: Instant,
    address: Option<IpAddr>,
    inner: Mutex<Inner>,
    audit: Option<Arc<dyn Audit>>,
}

struct Inner {
    record: Record,
    client: Client,
    place: Option<Box<dyn Place>>,
    /// Tokens of the request's texts, counted during preparation.
    prepared_tokens: usize,
    /// Time that the request waited for its model to be loaded.
    model_wait: Duration,
    warnings: Vec<String>,
    listener: Option<Arc<dyn Listener>>,
}

/// Upper bound of a request's warnings; further ones are dropped.
const MAX_WARNINGS: usize = 8;

/// The resources that one answer used.
pub struct RequestUsage {
    /// Tokens of the prompt; 0 where another answer to the same prompt has counted them.
    pub prompt_tokens: usize,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// How the answer ended: `stop`, `length`, `abort` or `error`.
    pub ending: &'static str,
    /// Time in the queue.
    pub queued: Duration,
    /// Whether the answer left the queue.
    pub started: bool,
    /// Time of the whole machine charged to the answer.
    pub machine: Duration,
}

impl RequestContext {
    /// The context of a request whose head was just read. `path` is none for requests that are not recorded.
    pub fn new(
        audit: Option<Arc<dyn Audit>>,
        request_id: String,
        method: &'static str,
        path: Option<&'static str>,
        address: Option<IpAddr>,
        parent: Option<TraceParent>,
    ) -> Arc<RequestContext> {
        let path_name = path.unwrap_or_default();
        let begun = Record::begun(SystemTime::now());
        let peer = address.map(|address| address.to_string());
        let record = Record { request_id, peer, method, path: path_name, parent, ..begun };
        let inner = Mutex::new(Inner {
            record,
            client: Client::default(),
            place: None,
            prepared_tokens: 0,
            model_wait: Duration::ZERO,
            warnings: Vec::new(),
            listener: None,
        });
        Arc::new(RequestContext {
            began: Instant::now(),
            address,
            inner,
            audit: audit.filter(|_| path.is_some()),
        })
    }

    /// The client of the request.
    pub fn client(&self) -> Client {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).client
    }

    /// The name of the client's API key; none where no key was shown or needed.
    pub fn key(&self) -> Option<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).record.key.clone()
    }

    /// The owner that shared limits count the request for.
    pub fn owner(&self) -> Owner {
        Owner::new(self.client(), self.address)
    }

    /// Time when the head was read.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The request's id, for logs and for the ids of answers.
    pub fn request_id(&self) -> String {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).record.request_id.clone()
    }

    /// Adds tokens of the request's texts. They are charged to the key even if no answer is computed.
    pub fn add_prepared(&self, tokens: usize) {
        self.change(|inner| inner.prepared_tokens += tokens);
    }

    /// Adds time that the request waited for its model to be loaded.
    pub fn add_model_wait(&self, time: Duration) {
        self.change(|inner| inner.model_wait += time);
    }

    /// Time that the request waited for its model to be loaded.
    pub fn model_wait(&self) -> Duration {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).model_wait
    }

    /// Sets the client and the name of its API key.
    pub fn identify(&self, client: Client, name: &str) {
        self.change(|inner| {
            inner.client = client;
            inner.record.key = Some(name.to_owned());
        });
    }

    /// Attaches the concurrency slot that the request holds.
    pub fn attach_place(&self, place: Box<dyn Place>) {
        self.change(|inner| inner.place = Some(place));
    }

    /// Tells `listener` of the answers while they are made.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.change(|inner| inner.listener = Some(listener));
    }

    /// Who hears of the answers while they are made.
    pub fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).listener.clone()
    }

    /// Adds a warning for the client, sent in a header: a part of the request was ignored or approximated.
    pub fn warn(&self, warning: String) {
        self.change(|inner| {
            if inner.warnings.len() < MAX_WARNINGS && !inner.warnings.contains(&warning) {
                inner.warnings.push(warning);
            }
        });
    }

    /// Removes and returns the warnings so far.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.change(|inner| std::mem::swap(&mut warnings, &mut inner.warnings));
        warnings
    }

    /// Records the HTTP status of the response.
    pub fn record_status(&self, status: u16) {
        self.change(|inner| inner.record.status = status);
    }

    /// Records that the answers are being submitted to a model's engine.
    pub fn record_submission(&self, model: &str) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.model = Some(model.to_owned());
            inner.record.stages.submitted_ms.get_or_insert(after);
        });
    }

    /// Records the time of the first token.
    pub fn record_first_token(&self) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.first_token_ms.get_or_insert(after);
        });
    }

    /// Adds the usage of an ended answer.
    pub fn record_ending(&self, usage: &RequestUsage) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            let record = &mut inner.record;
            record.prompt_tokens += usage.prompt_tokens;
            record.cached_tokens += usage.cached_tokens;
            record.completion_tokens += usage.completion_tokens;
            record.endings.push(usage.ending);
            record.queued_ms = record.queued_ms.max(ms(usage.queued));
            record.machine_ms += ms(usage.machine);
            let stages = &mut record.stages;
            stages.ended_ms = Some(after);
            if let (true, Some(submitted)) = (usage.started, stages.submitted_ms) {
                let started = submitted + ms(usage.queued);
                stages.started_ms = Some(stages.started_ms.map_or(started, |first| first.min(started)));
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for RequestContext {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let record = &mut inner.record;
        record.duration_ms = ms(self.began.elapsed());
        if let Some(place) = inner.place.take() {
            // The prompts that the engine counted are among the prepared texts.
            let read = record.prompt_tokens.max(inner.prepared_tokens);
            place.spend(read + record.completion_tokens, Instant::now());
        }
        if let Some(audit) = &self.audit {
            audit.note(record);
        }
    }
}

/// Milliseconds, rounded to microseconds.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Record>>);

    impl Audit for Kept {
        fn note(&self, record: &Record) {
            self.0.lock().unwrap().push(record.clone());
        }
    }

    #[test]
    fn the_last_holder_ends_it() {
        let kept = Arc::new(Kept::default());
        let twice: Vec<Arc<dyn Audit>> = vec![kept.clone(), Arc::new(Kept::default())];
        let context =
            RequestContext::new(Some(Arc::new(twice)), "id".to_owned(), "POST", Some("/v1/x"), None, None);
        let answer = context.clone();
        context.record_status(200);
        drop(context);
        assert!(kept.0.lock().unwrap().is_empty(), "an answer is under way");
        answer.record_submission("tiny");
        for (prompt_tokens, queued_ms) in [(7, 1), (0, 3)] {
            let usage = RequestUsage {
                prompt_tokens,
                cached_tokens: 1,
                completion_tokens: 5,
                ending: "stop",
                queued: Duration::from_millis(queued_ms),
                started: true,
                machine: Duration::from_millis(4),
            };
            answer.record_ending(&usage);
        }
        drop(answer);
        let records = kept.0.lock().unwrap();
        let [record] = &records[..] else { panic!("one record, not {}", records.len()) };
        assert_eq!((record.status, record.prompt_tokens, record.completion_tokens), (200, 7, 10));
        assert_eq!((record.endings.as_slice(), record.queued_ms), (&["stop", "stop"][..], 3.0));
        assert_eq!(record.machine_ms, 8.0);
        let Stages { submitted_ms: Some(submitted), started_ms: Some(started), ended_ms: Some(ended) } =
            record.stages
        else {
            panic!("all stages, not {:?}", record.stages)
        };
        assert_eq!(started, submitted + 1.0, "the first of both answers that began");
        assert!(submitted <= ended && ended <= record.duration_ms, "{record:?}");
    }
}
