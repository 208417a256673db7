//! Jobs, batches and files of the tests.

use job_store::{Accepted, Claim, Claimed, Finish, NewJob, NewLine, Store};
use jobs::batch::{Batch, BatchKind, BatchStatus};
use jobs::{Class, Counts, Face, File, Job, JobStatus, Millis, Progress, Purpose, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// 2026-11-30T03:00:00Z.
pub(crate) const NOW: Millis = 1_796_007_600_000;

/// A minute.
pub(crate) const MINUTE: Millis = 60_000;

pub(crate) const CLASSES: [Class; 3] = [Class::Interactive, Class::Default, Class::Batch];

pub(crate) const USAGE: Usage =
    Usage { input_tokens: 10, cached_tokens: 4, output_tokens: 5, reasoning_tokens: 0 };

/// A job of a key, as it is offered.
pub(crate) fn job(id: &str, key: &str) -> Job {
    Job {
        id: id.to_owned(),
        key: key.to_owned(),
        face: Face::Job,
        batch: None,
        line: None,
        custom_id: None,
        endpoint: "/v1/chat/completions".to_owned(),
        model: "small".to_owned(),
        body_sha256: String::new(),
        class: Class::Default,
        prefix_rank: 0,
        status: JobStatus::Queued,
        epoch: 0,
        worker: None,
        lease_until: None,
        attempts: 0,
        max_attempts: 3,
        lost_leases: 0,
        run_at: NOW,
        deadline: None,
        created_at: NOW,
        started_at: None,
        finished_at: None,
        retain: 7 * 24 * 60 * MINUTE,
        progress: Progress::default(),
        status_code: None,
        result_sha256: None,
        result_bytes: None,
        error: None,
        usage: None,
        cost_micros: None,
        dead: false,
        cancel_requested_at: None,
        metadata: BTreeMap::new(),
        webhook: None,
        sequence: 0,
    }
}

pub(crate) async fn offer(store: &dyn Store, job: Job, now: Millis) -> Job {
    let body = body_of(&job.id);
    match store.accept(NewJob { job, body }, None, now).await.unwrap() {
        Accepted::New(job) => job,
        Accepted::Before(job) => panic!("{} was accepted before", job.id),
    }
}

pub(crate) fn body_of(id: &str) -> Vec<u8> {
    format!(r#"{{"prompt":"{id}"}}"#).into_bytes()
}

pub(crate) fn claim_of(worker: &str, most: usize, now: Millis) -> Claim {
    Claim {
        worker: worker.to_owned(),
        most,
        idle: true,
        lease_until: now + MINUTE,
        classes: CLASSES.to_vec(),
    }
}

pub(crate) async fn claim(store: &dyn Store, worker: &str, most: usize, now: Millis) -> Vec<Claimed> {
    store.claim(claim_of(worker, most, now), now).await.unwrap()
}

pub(crate) fn success(result: &[u8]) -> Finish {
    Finish::Succeeded { status_code: 200, result: result.to_vec(), usage: USAGE, cost_micros: Some(7) }
}

pub(crate) fn file(id: &str, key: &str, bytes: u64) -> File {
    File {
        id: id.to_owned(),
        key: key.to_owned(),
        filename: "lines.jsonl".to_owned(),
        purpose: Purpose::Batch,
        bytes,
        sha256: format!("{bytes:064x}"),
        created_at: NOW,
        expires_at: None,
        hidden: false,
    }
}

pub(crate) async fn put_file(store: &dyn Store, file: File, bytes: &[u8]) {
    store.write_file(&file.id, 0, bytes.to_vec()).await.unwrap();
    store.seal_file(file, NOW).await.unwrap();
}

pub(crate) fn batch(id: &str, key: &str, kind: BatchKind) -> Batch {
    Batch {
        id: id.to_owned(),
        key: key.to_owned(),
        kind,
        endpoint: "/v1/chat/completions".to_owned(),
        model: None,
        input_file: format!("file-{id}"),
        completion_window: "24h".to_owned(),
        status: BatchStatus::Validating,
        output_file: None,
        error_file: None,
        output_seconds: None,
        errors: Vec::new(),
        counts: Counts::default(),
        usage: Usage::default(),
        cost_micros: None,
        lines_read: 0,
        metadata: BTreeMap::new(),
        created_at: NOW,
        in_progress_at: None,
        expires_at: NOW + 24 * 60 * MINUTE,
        finalizing_at: None,
        completed_at: None,
        failed_at: None,
        expired_at: None,
        cancelling_at: None,
        cancelled_at: None,
        archived_at: None,
        webhook: None,
    }
}

pub(crate) fn lines(batch: &str, key: &str, from: u64, count: u64) -> Vec<NewLine> {
    let line = |number: u64| {
        let id = format!("batch_req_{batch}_{number:06}");
        let mut line = job(&id, key);
        line.face = Face::BatchLine;
        line.class = Class::Batch;
        line.batch = Some(batch.to_owned());
        line.line = Some(number);
        line.custom_id = Some(format!("c{number}"));
        NewLine { body: body_of(&line.id), job: line }
    };
    (from..from + count).map(line).collect()
}

/// A batch whose lines run.
pub(crate) async fn running_batch(store: &dyn Store, id: &str, key: &str, count: u64) -> Batch {
    let batch = batch(id, key, BatchKind::OpenAi);
    put_file(store, file(&batch.input_file, key, 3), b"abc").await;
    store.create_batch(batch, None, NOW).await.unwrap();
    store.add_lines(id, 0, lines(id, key, 0, count), NOW).await.unwrap();
    store.begin_batch(id, Vec::new(), NOW).await.unwrap()
}

/// A store with what it lies in.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) _folder: Option<tempfile::TempDir>,
}

pub(crate) fn sqlite(limits: job_store::StoreLimits) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let store = job_store::SqliteStore::open(folder.path(), limits).unwrap();
    Opened { store: Arc::new(store), _folder: Some(folder) }
}
