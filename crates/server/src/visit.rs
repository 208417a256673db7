//! One request from its head to the last byte that it caused: who asked, what it took, how it ended.
//!
//! A visit is held by the layer that began it, by the thread that prepares it and by each of its answers in the engine. When the last of them lets go,
//! the key's place is free, its tokens are spent, and the audit log gets its record: also when a client left, a
//! handler panicked or the server was drained.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::allowance::Place;
use crate::traceparent::TraceParent;

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

/// See the module.
pub(crate) struct Visit {
    began: Instant,
    inner: Mutex<Inner>,
    audit: Option<Arc<dyn Audit>>,
}

struct Inner {
    record: Record,
    place: Option<Place>,
    /// Tokens of its texts, before there were answers.
    prepared: usize,
    warnings: Vec<String>,
}

/// Most warnings of a request; further ones are dropped.
const WARNINGS: usize = 8;

/// What one answer took.
pub(crate) struct Took {
    /// 0 for answers to a prompt that another one has counted.
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) ending: &'static str,
    pub(crate) queued: Duration,
    /// Whether it left the queue.
    pub(crate) started: bool,
    pub(crate) machine: Duration,
}

tokio::task_local! {
    static CURRENT: Arc<Visit>;
}

/// The visit that this task serves; none outside of one.
pub(crate) fn current() -> Option<Arc<Visit>> {
    CURRENT.try_with(Arc::clone).ok()
}

impl Visit {
    /// `path` is none for what is not recorded.
    pub(crate) fn new(
        audit: Option<Arc<dyn Audit>>,
        request_id: String,
        method: &'static str,
        path: Option<&'static str>,
        peer: Option<String>,
        parent: Option<TraceParent>,
    ) -> Arc<Visit> {
        let path_name = path.unwrap_or_default();
        let begun = Record::begun(SystemTime::now());
        let record = Record { request_id, peer, method, path: path_name, parent, ..begun };
        let inner = Mutex::new(Inner { record, place: None, prepared: 0, warnings: Vec::new() });
        Arc::new(Visit { began: Instant::now(), inner, audit: audit.filter(|_| path.is_some()) })
    }

    /// Runs `work` as this visit.
    pub(crate) async fn scope<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// As [`Visit::scope`], for work that is done by a thread at once.
    pub(crate) fn scope_sync<T>(self: Arc<Self>, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// Tokens that were worked out of its texts: spent also when no answer comes of them.
    pub(crate) fn prepares(&self, tokens: usize) {
        self.change(|inner| inner.prepared += tokens);
    }

    /// Whose key was shown.
    pub(crate) fn named(&self, name: &str) {
        self.change(|inner| inner.record.key = Some(name.to_owned()));
    }

    /// The place on the key that it takes.
    pub(crate) fn holds(&self, place: Place) {
        self.change(|inner| inner.place = Some(place));
    }

    /// Tells the client, in a header of the answer, that something of its request is left out or approximated.
    pub(crate) fn warn(&self, warning: String) {
        self.change(|inner| {
            if inner.warnings.len() < WARNINGS && !inner.warnings.contains(&warning) {
                inner.warnings.push(warning);
            }
        });
    }

    /// The warnings so far; each is given out once.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.change(|inner| std::mem::swap(&mut warnings, &mut inner.warnings));
        warnings
    }

    pub(crate) fn answered(&self, status: u16) {
        self.change(|inner| inner.record.status = status);
    }

    /// Its answers are about to be handed to this model's engine.
    pub(crate) fn submits(&self, model: &str) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.model = Some(model.to_owned());
            inner.record.stages.submitted_ms.get_or_insert(after);
        });
    }

    pub(crate) fn first_token(&self) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            inner.record.first_token_ms.get_or_insert(after);
        });
    }

    pub(crate) fn ended(&self, took: &Took) {
        let after = ms(self.began.elapsed());
        self.change(|inner| {
            let record = &mut inner.record;
            record.prompt_tokens += took.prompt_tokens;
            record.cached_tokens += took.cached_tokens;
            record.completion_tokens += took.completion_tokens;
            record.endings.push(took.ending);
            record.queued_ms = record.queued_ms.max(ms(took.queued));
            record.machine_ms += ms(took.machine);
            let stages = &mut record.stages;
            stages.ended_ms = Some(after);
            if let (true, Some(submitted)) = (took.started, stages.submitted_ms) {
                let started = submitted + ms(took.queued);
                stages.started_ms = Some(stages.started_ms.map_or(started, |first| first.min(started)));
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Visit {
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

    #[tokio::test]
    async fn the_last_holder_ends_it() {
        let kept = Arc::new(Kept::default());
        let twice: Vec<Arc<dyn Audit>> = vec![kept.clone(), Arc::new(Kept::default())];
        let visit = Visit::new(Some(Arc::new(twice)), "id".to_owned(), "POST", Some("/v1/x"), None, None);
        let answer = visit.clone().scope(async { current().unwrap() }).await;
        visit.answered(200);
        drop(visit);
        assert!(kept.0.lock().unwrap().is_empty(), "an answer is under way");
        answer.submits("tiny");
        for (prompt_tokens, queued_ms) in [(7, 1), (0, 3)] {
            let took = Took {
                prompt_tokens,
                cached_tokens: 1,
                completion_tokens: 5,
                ending: "stop",
                queued: Duration::from_millis(queued_ms),
                started: true,
                machine: Duration::from_millis(4),
            };
            answer.ended(&took);
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
        assert!(current().is_none());
    }
}
