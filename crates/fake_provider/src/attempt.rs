//! One request on the provider's books, from its number to its bill.

use crate::dialect::Question;
use crate::repeat::Repeated;
use crate::{Dialect, Outcome, Record, Script, Totals, Usage};
use bytes::Bytes;
use hyper::HeaderMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The records, oldest first with ascending numbers, and the sums.
#[derive(Default)]
struct Books {
    totals: Totals,
    records: VecDeque<Record>,
}

/// What the provider's connections share.
pub(crate) struct Shared {
    started: Instant,
    script: Mutex<Arc<Script>>,
    books: Mutex<Books>,
    repeated: Mutex<Option<Arc<Repeated>>>,
}

/// The lock's content. What a panic left is used on: sums of a test's provider are not worth a second panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            started: Instant::now(),
            script: Mutex::new(Arc::new(script)),
            books: Mutex::new(Books::default()),
            repeated: Mutex::new(None),
        }
    }

    pub(crate) fn script(&self) -> Arc<Script> {
        Arc::clone(&lock(&self.script))
    }

    pub(crate) fn set_script(&self, script: Script) {
        *lock(&self.script) = Arc::new(script);
        self.keep(None);
    }

    /// The last answer, if the request is equal to the last one.
    pub(crate) fn repeated(&self, path: &str, body: &Bytes) -> Option<Arc<Repeated>> {
        lock(&self.repeated).clone().filter(|last| last.is_of(path, body))
    }

    pub(crate) fn keep(&self, answer: Option<Repeated>) {
        *lock(&self.repeated) = answer.map(Arc::new);
    }

    /// Counts a request that was answered by the last answer.
    pub(crate) fn count_repeated(&self, script: &Script, usage: Usage) {
        let billed = script.price.of(usage);
        let totals = &mut lock(&self.books).totals;
        totals.attempts += 1;
        totals.completed += 1;
        totals.usage += usage;
        totals.billed += billed;
    }

    pub(crate) fn totals(&self) -> Totals {
        lock(&self.books).totals
    }

    pub(crate) fn log(&self) -> Vec<Record> {
        lock(&self.books).records.iter().cloned().collect()
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What is known of a request when its number is drawn.
pub(crate) struct Arrival<'a> {
    pub(crate) path: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) question: Option<&'a Question>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

impl Arrival<'_> {
    fn record(&self, script: &Script, number: u64, arrived_us: u64) -> Record {
        let headers = self.headers.iter().filter_map(|(name, value)| {
            value.to_str().ok().map(|value| (name.as_str().to_owned(), value.to_owned()))
        });
        let body = &self.body[..self.body.len().min(script.log_body_bytes)];
        Record {
            number,
            path: self.path.to_owned(),
            dialect: self.dialect,
            model: self.question.map(|question| question.model.clone()).unwrap_or_default(),
            stream: self.question.is_some_and(|question| question.stream),
            status: 0,
            fault: None,
            outcome: Outcome::Running,
            usage: Usage::default(),
            billed: 0,
            headers: headers.collect(),
            body: String::from_utf8_lossy(body).into_owned(),
            arrived_us,
            ended_us: 0,
        }
    }
}

/// A request being answered. When it is dropped without an outcome, its client has left.
pub(crate) struct Attempt {
    shared: Arc<Shared>,
    script: Arc<Script>,
    pub(crate) number: u64,
    /// Requests answered at once when it began, itself included.
    pub(crate) running: u64,
    pub(crate) status: u16,
    pub(crate) fault: Option<&'static str>,
    /// Whether the whole answer is billed whatever the client gets.
    pub(crate) billed_whole: bool,
    /// The tokens of the whole answer.
    pub(crate) planned: Usage,
    /// The tokens so far; those of the prompt from when it was computed.
    pub(crate) usage: Usage,
    outcome: Outcome,
}

impl Attempt {
    pub(crate) fn begin(shared: &Arc<Shared>, script: &Arc<Script>, arrival: &Arrival<'_>) -> Self {
        let arrived_us = shared.elapsed_us();
        let mut record = (script.log_records > 0).then(|| arrival.record(script, 0, arrived_us));
        let mut books = lock(&shared.books);
        let totals = &mut books.totals;
        totals.attempts += 1;
        totals.running += 1;
        totals.most_running = totals.most_running.max(totals.running);
        let (number, running) = (totals.attempts, totals.running);
        if let Some(record) = &mut record {
            record.number = number;
        }
        books.records.extend(record);
        while books.records.len() > script.log_records {
            books.records.pop_front();
            books.totals.forgotten += 1;
        }
        drop(books);
        Self {
            shared: Arc::clone(shared),
            script: Arc::clone(script),
            number,
            running,
            status: 0,
            fault: None,
            billed_whole: false,
            planned: Usage::default(),
            usage: Usage::default(),
            outcome: Outcome::Cancelled,
        }
    }

    /// The prompt has been computed, and so many tokens of the answer.
    pub(crate) fn generated(&mut self, tokens: usize) {
        self.usage = Usage { output: tokens as u64, ..self.planned };
    }

    /// Ends the request.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let whole = self.billed_whole
            || match self.outcome {
                Outcome::Completed => true,
                Outcome::Cancelled => self.script.bill_to_the_end,
                Outcome::Failed | Outcome::Running => false,
            };
        let usage = if whole { self.planned } else { self.usage };
        let billed = self.script.price.of(usage);
        let ended_us = self.shared.elapsed_us();
        let mut books = lock(&self.shared.books);
        let totals = &mut books.totals;
        totals.running -= 1;
        match self.outcome {
            Outcome::Completed => totals.completed += 1,
            Outcome::Failed => totals.failed += 1,
            Outcome::Cancelled | Outcome::Running => totals.cancelled += 1,
        }
        totals.usage += usage;
        totals.billed += billed;
        let first = books.records.front().map_or(u64::MAX, |record| record.number);
        let index = self.number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(record) = index.and_then(|index| books.records.get_mut(index)) {
            record.status = self.status;
            record.fault = self.fault;
            record.outcome = self.outcome;
            record.usage = usage;
            record.billed = billed;
            record.ended_us = ended_us;
        }
    }
}
