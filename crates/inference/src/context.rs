//! One request from its head to the last byte that it caused: who asked, what it took, how it ended.
//!
//! A [`RequestContext`] is held by the layer that began it, by the thread that prepares the request and by each of its
//! answers in the engine. When the last of them lets go, the key's place is free, its tokens are spent, and the audit log
//! gets its record: also when a client left, a handler panicked or the server was drained.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::{Client, Owner};

/// Where in a caller's trace a request began: W3C's Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// Not all zero.
    pub trace_id: [u8; 16],
    /// The caller's span; not all zero.
    pub span_id: [u8; 8],
    /// Bit 0: the caller keeps this trace. Bit 1: the trace id is random.
    pub flags: u8,
    /// `tracestate` as it was sent, its lines joined; none if it has more than 4,096 bytes or others than visible ones.
    pub state: Option<String>,
}

/// A request's place among those of its key. Dropped, the place is free.
pub trait Place: Send {
    /// Takes `tokens` from the key's minute.
    fn spend(&self, tokens: usize, now: Instant);
}

/// Takes a record of every request. Called from any thread, the engine's too: it must not wait.
pub trait Audit: Send + Sync {
    /// A request is over.
    fn note(&self, record: &Record);
}

/// Each of them, in their order.
impl Audit for Vec<Arc<dyn Audit>> {
    fn note(&self, record: &Record) {
        self.iter().for_each(|audit| audit.note(record));
    }
}

/// A request that is over. Times are in milliseconds. It never holds text of a prompt or an answer.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Record {
    /// When its head was read.
    #[serde(skip)]
    pub at: SystemTime,
    /// `x-request-id`.
    pub request_id: String,
    /// The key's name; none where no key was shown or needed.
    pub key: Option<String>,
    /// The client's address.
    pub peer: Option<String>,
    /// `GET`, `POST`, …
    pub method: &'static str,
    /// The route, without what a client put into it.
    pub path: &'static str,
    /// The model that answered; none where none did.
    pub model: Option<String>,
    /// HTTP status; 0 when the client left before there was one.
    pub status: u16,
    /// Tokens of the prompts, each prompt once.
    pub prompt_tokens: usize,
    /// Of these, tokens that the prefix cache had.
    pub cached_tokens: usize,
    /// Tokens of all answers.
    pub completion_tokens: usize,
    /// How each answer ended: `stop`, `length`, `abort` or `error`.
    pub endings: Vec<&'static str>,
    /// The longest wait of an answer for its turn.
    pub queued_ms: f64,
    /// Share of the machine's time that its answers used.
    pub machine_ms: f64,
    /// To the first token; none without one.
    pub first_token_ms: Option<f64>,
    /// To the end of the last answer.
    pub duration_ms: f64,
    /// Whose trace it is part of, if its head said so.
    #[serde(skip)]
    pub parent: Option<TraceParent>,
    /// When its answers got how far.
    #[serde(skip)]
    pub stages: Stages,
}

/// How far a request's answers got, in milliseconds since its head was read; none where none of them did. The first token
/// is [`Record::first_token_ms`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stages {
    /// The first was handed to the engine.
    pub submitted_ms: Option<f64>,
    /// The first step with a row of one began.
    pub started_ms: Option<f64>,
    /// The last has ended.
    pub ended_ms: Option<f64>,
}

impl Record {
    /// A request that began at `at`, of which nothing else is known.
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

/// One request under way; see the module.
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
    /// Tokens of its texts, before there were answers.
    prepared: usize,
    warnings: Vec<String>,
}

/// Most warnings of a request; further ones are dropped.
const WARNINGS: usize = 8;

/// What one answer took.
pub struct RequestUsage {
    /// Tokens of its prompt; 0 where another answer to the same prompt has counted them.
    pub prompt_tokens: usize,
    /// Of these, tokens that the prefix cache had.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// How it ended: `stop`, `length`, `abort` or `error`.
    pub ending: &'static str,
    /// Its wait for its turn.
    pub queued: Duration,
    /// Whether it left the queue.
    pub started: bool,
    /// Share of the machine's time that it used.
    pub machine: Duration,
}

impl RequestContext {
    /// `path` is none for what is not recorded.
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
            prepared: 0,
            warnings: Vec::new(),
        });
        Arc::new(RequestContext {
            began: Instant::now(),
            address,
            inner,
            audit: audit.filter(|_| path.is_some()),
        })
    }

    /// The client that asks.
    pub fn client(&self) -> Client {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).client
    }

    /// Whom the bounds count it for.
    pub fn owner(&self) -> Owner {
        Owner::new(self.client(), self.address)
    }

    /// When it began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Its name, for logs and for the ids of answers.
    pub fn request_id(&self) -> String {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).record.request_id.clone()
    }

    /// Tokens that were worked out of its texts: spent also when no answer comes of them.
    pub fn prepares(&self, tokens: usize) {
        self.change(|inner| inner.prepared += tokens);
    }

    /// Whose key was shown, and the key's name.
    pub fn identify(&self, client: Client, name: &str) {
        self.change(|inner| {
            inner.client = client;
            inner.record.key = Some(name.to_owned());
        });
    }

    /// The place on the key that it takes.
    pub fn holds(&self, place: Box<dyn Place>) {
        self.change(|inner| inner.place = Some(place));
    }

    /// Tells the client, in a header of the answer, that something of its request is left out or approximated.
    pub fn warn(&self, warning: String) {
        self.change(|inner| {
            if inner.warnings.len() < WARNINGS && !inner.warnings.contains(&warning) {
                inner.warnings.push(warning);
            }
        });
    }

    /// The warnings so far; each is given out once.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.change(|inner| std::mem::swap(&mut warnings, &mut inner.warnings));
        warnings
    }

    /// The HTTP status of its answer.
    pub fn answered(&self, status: u16) {
        self.change(|inner| inner.record.status = status);
    }

    /// Its answers are about to be handed to this model's engine.
    pub fn submits(&self, model: &str) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.model = Some(model.to_owned());
            inner.record.stages.submitted_ms.get_or_insert(after);
        });
    }

    /// Its first token has come.
    pub fn first_token(&self) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.first_token_ms.get_or_insert(after);
        });
    }

    /// One of its answers has ended.
    pub fn ended(&self, usage: &RequestUsage) {
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
            // The prompts that the engine counted are among the texts that were prepared.
            let read = record.prompt_tokens.max(inner.prepared);
            place.spend(read + record.completion_tokens, Instant::now());
        }
        if let Some(audit) = &self.audit {
            audit.note(record);
        }
    }
}

/// Microseconds are as fine as a log needs.
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
        context.answered(200);
        drop(context);
        assert!(kept.0.lock().unwrap().is_empty(), "an answer is under way");
        answer.submits("tiny");
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
            answer.ended(&usage);
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
