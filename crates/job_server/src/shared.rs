//! What the faces, the runner and the sweeper share: the store, the executor, bounds, the clock and random numbers.

use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use events::{JobEnd, JobMetrics};
use httpd::Edge;
use job_store::Store;
use jobs::{Face, Job, JobStatus, Millis};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};
use webhooks::addresses::AddressRules;
use webhooks::sealed::SecretBox;
use webhooks::sender::Sender;

use crate::executor::Executor;
use crate::live::Live;
use crate::underway::Underway;
use crate::watchers::{Watched, Watchers};

const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// For how long a count of queued jobs is good enough.
const COUNT_KEPT: Millis = 5_000;

/// How long things are kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Jobs, from their end.
    pub jobs: Millis,
    /// Responses made in the background, from their end.
    pub responses: Millis,
    /// Files, from when they were put in, unless their client says otherwise.
    pub files: Millis,
    /// Anthropic's message batches, from when they were made.
    pub messages: Millis,
    /// Idempotency keys.
    pub idempotency: Millis,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { jobs: 7 * DAY, responses: DAY, files: 30 * DAY, messages: 29 * DAY, idempotency: DAY }
    }
}

/// Bounds and rules of the faces.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a file.
    pub max_file_bytes: u64,
    /// Lines of a batch.
    pub max_batch_lines: u64,
    /// Bytes of a line of a batch.
    pub max_line_bytes: usize,
    /// Requests of a message batch.
    pub max_message_requests: u64,
    /// Bytes of the body of a message batch.
    pub max_message_bytes: u64,
    /// Results up to this many bytes are part of a job's object.
    pub inline_result_bytes: u64,
    /// Requests that wait for a change or follow events, together.
    pub max_waiting: usize,
    /// Files and message batches that are being put in at once.
    pub max_uploads: usize,
    /// For any next byte of what is being put in.
    pub upload_idle: Duration,
    /// For the whole of what is being put in.
    pub upload_time: Duration,
    /// Between two comments of an event stream.
    pub ping: Duration,
    /// Between two looks while something is waited for.
    pub look: Duration,
    /// How long a job may take if its client does not say.
    pub deadline: Millis,
    /// The longest time that a client may give a job.
    pub max_deadline: Millis,
    /// How long things are kept.
    pub retention: Retention,
    /// The longest time that a client may have its job or file kept.
    pub max_retention: Millis,
    /// Attempts of a job if its client does not say.
    pub attempts: u32,
    /// Names of the API keys whose holders see the jobs of all.
    pub operators: Vec<String>,
    /// Whether a job is accepted with an `Idempotency-Key` only.
    pub require_idempotency: bool,
    /// Where this process runs, for people: the host's name and the process.
    pub place: String,
    /// Where webhooks may go.
    pub webhook_rules: AddressRules,
    /// Under which secrets of webhooks are kept; none keeps them as they are.
    pub webhook_secret: Option<Vec<u8>>,
    /// What URLs in objects begin with, such as `https://host`; empty leaves them relative.
    pub base_url: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_file_bytes: 200 << 20,
            max_batch_lines: 50_000,
            max_line_bytes: 4 << 20,
            max_message_requests: 100_000,
            max_message_bytes: 256 << 20,
            inline_result_bytes: 1 << 20,
            max_waiting: 1_024,
            max_uploads: 8,
            upload_idle: Duration::from_secs(30),
            upload_time: Duration::from_secs(3_600),
            ping: Duration::from_secs(15),
            look: Duration::from_secs(1),
            deadline: DAY,
            max_deadline: 30 * DAY,
            retention: Retention::default(),
            max_retention: 90 * DAY,
            attempts: 3,
            operators: Vec::new(),
            require_idempotency: false,
            place: String::new(),
            webhook_rules: AddressRules::default(),
            webhook_secret: None,
            base_url: String::new(),
        }
    }
}

/// What the parts of the crate share.
pub struct Jobs {
    /// Where jobs are kept.
    pub store: Arc<dyn Store>,
    /// Who runs them.
    pub executor: Arc<dyn Executor>,
    /// The HTTP side of the server, which bounds bodies.
    pub edge: Arc<Edge>,
    /// Bounds and rules.
    pub options: Options,
    /// Jobs that this process runs now.
    pub live: Live,
    /// Counts of what happened.
    pub metrics: JobMetrics,
    pub(crate) uploads: Semaphore,
    pub(crate) underway: Underway,
    /// Sends webhooks.
    pub(crate) sender: Sender,
    /// Seals their secrets.
    pub(crate) sealer: SecretBox,
    latest: AtomicI64,
    /// Queued jobs as they were counted last, and when.
    queued: Mutex<Option<(Millis, u64)>>,
    /// Ids made by this process.
    ids: AtomicU16,
    watchers: Watchers,
    closing: watch::Sender<bool>,
}

impl Jobs {
    /// The parts together.
    pub fn new(
        store: Arc<dyn Store>,
        executor: Arc<dyn Executor>,
        edge: Arc<Edge>,
        options: Options,
    ) -> Jobs {
        Jobs {
            store,
            executor,
            edge,
            live: Live::default(),
            metrics: JobMetrics::new(),
            uploads: Semaphore::new(options.max_uploads),
            underway: Underway::default(),
            sender: Sender::new(options.webhook_rules.clone(), None)
                .expect("without authorities of its own, a sender has nothing that could be wrong"),
            sealer: sealer(options.webhook_secret.as_deref()),
            latest: AtomicI64::new(0),
            queued: Mutex::default(),
            ids: AtomicU16::default(),
            watchers: Watchers::new(options.max_waiting),
            closing: watch::Sender::new(false),
            options,
        }
    }

    /// The time in Unix milliseconds. A clock that is set back stands still here until it has caught up.
    pub fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let read = Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX);
        self.latest.fetch_max(read, Ordering::Relaxed).max(read)
    }

    /// Random bytes of the operating system.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        SystemRandom::new()
            .fill(&mut bytes)
            .expect("the operating system gives random bytes once it has booted");
        bytes
    }

    /// A random number from 0 to less than 1.
    pub fn fraction(&self) -> f64 {
        // As many bits as the fraction of an f64 holds.
        (u64::from_le_bytes(self.random()) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A new id with this prefix. Those of this process sort in the order in which they were made, also within a
    /// millisecond, but for one pair in 65,536.
    pub fn id(&self, prefix: &str) -> String {
        let count = u128::from(self.ids.fetch_add(1, Ordering::Relaxed));
        let random = u128::from(u64::from_le_bytes(self.random()));
        jobs::id::new_id(prefix, self.now(), (count << 64) | random)
    }

    /// How many jobs wait, counted a few seconds ago at most.
    pub(crate) async fn queued(&self) -> u64 {
        let now = self.now();
        let known = *self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, queued)) = known
            && now - at < COUNT_KEPT
        {
            return queued;
        }
        // What cannot be counted now is no reason to refuse a job.
        let Ok(stats) = self.store.stats(now).await else { return known.map_or(0, |(_, queued)| queued) };
        let waits = stats.rows.iter().filter(|row| row.status == JobStatus::Queued);
        let queued = waits.map(|row| row.jobs).sum();
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, queued));
        queued
    }

    /// Whose things a key's holder sees, as [`Store`] asks for it: none is everybody's.
    pub fn scope<'a>(&self, key: &'a str) -> Option<&'a str> {
        (!self.is_operator(key)).then_some(key)
    }

    /// Whether a key's holder sees the things of all.
    pub fn is_operator(&self, key: &str) -> bool {
        self.options.operators.iter().any(|operator| operator == key)
    }

    /// Says that a job or batch was changed, so that requests that wait for it look again.
    pub fn tell(&self, id: &str) {
        self.watchers.tell(id);
    }

    /// A place to wait for changes; none if all are taken.
    pub(crate) fn watch(&self, id: &str) -> Option<Watched> {
        self.watchers.watch(id)
    }

    /// Ends the requests that wait: the server stops.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Ready when the server stops.
    pub async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // The sender lives as long as this does.
        let _ = closing.wait_for(|closing| *closing).await;
    }

    /// Counts an attempt whose end was written, and tells those who wait for the job.
    pub(crate) fn attempted(&self, job: &Job) {
        match job.status {
            JobStatus::Queued => {
                let reason = job.error.as_ref().map_or("released", |error| error.code.as_str());
                self.metrics.retried(reason);
            }
            status if status.is_terminal() => self.count_end(job),
            _ => {}
        }
        self.tell(&job.id);
        if let Some(batch) = &job.batch {
            self.tell(batch);
        }
    }

    fn count_end(&self, job: &Job) {
        let outcome = match job.status {
            _ if job.dead => "dead",
            JobStatus::Succeeded => "succeeded",
            JobStatus::Cancelled => "cancelled",
            JobStatus::Expired => "expired",
            _ => "failed",
        };
        let seconds = |from: Millis, to: Millis| (to - from).max(0) as f64 / 1e3;
        self.metrics.ended(&JobEnd {
            outcome,
            line: matches!(job.face, Face::BatchLine | Face::MessageLine),
            waited_s: job.started_at.map(|started| seconds(job.created_at, started)),
            ran_s: job.started_at.zip(job.finished_at).map(|(started, ended)| seconds(started, ended)),
        });
    }
}

/// What seals secrets under the key that is made of a file's bytes, however many these are.
fn sealer(file: Option<&[u8]>) -> SecretBox {
    let key = file.map(|file| Sha256::digest(file.trim_ascii()));
    key.map_or_else(SecretBox::plain, |key| {
        SecretBox::new(&key).expect("a SHA-256 has the 32 bytes of a key")
    })
}
