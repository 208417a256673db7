//! Random sequences of calls against a model in memory: the transitions of crate `jobs` on a map. After each call, every
//! object in the store is what the model says, so nothing is lost, nothing is counted twice, and no call does more than it
//! should.

use crate::common::{MINUTE, NOW, USAGE, batch, body_of, claim_of, file, job, lines, put_file};
use job_store::{
    BatchFilter, CancelOutcome, Finish, Finished, JobFilter, NewJob, Renewal, Renewed, SqliteStore, Store,
    StoreError, StoreLimits,
};
use jobs::batch::Batch;
use jobs::{BatchKind, Change, Class, Job, JobError, JobStatus, Millis, Progress, Refused, Success};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: [&str; 3] = ["ann", "bob", "cleo"];

struct Model {
    store: Arc<dyn Store>,
    random: ChaCha8Rng,
    sequence: u64,
    made: u64,
    now: Millis,
    jobs: BTreeMap<String, Job>,
    batches: BTreeMap<String, Batch>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn error() -> JobError {
    JobError { code: "engine".to_owned(), message: "a fault".to_owned(), param: None }
}

impl Model {
    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}_{}_{}", self.sequence, self.made)
    }

    fn pick(&mut self, holds: impl Fn(&Job) -> bool) -> Option<Job> {
        let found: Vec<&Job> = self.jobs.values().filter(|job| holds(job)).collect();
        if found.is_empty() {
            return None;
        }
        let at = self.random.random_range(0..found.len());
        Some(found[at].clone())
    }

    /// Notes what became of a job, and counts a line that has ended by it.
    fn put(&mut self, before: JobStatus, job: Job) {
        if let (Some(id), Some(outcome), false) = (&job.batch, job.outcome(), before.is_terminal()) {
            let batch = self.batches.get_mut(id).unwrap();
            batch.line_ended(outcome, job.usage, job.cost_micros).unwrap();
        }
        self.jobs.insert(job.id.clone(), job);
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..25 => self.accept().await,
            25..45 => self.claim().await,
            45..60 => self.finish().await,
            60..66 => self.renew().await,
            66..72 => self.cancel().await,
            72..77 => self.retry().await,
            77..80 => self.delete().await,
            80..86 => self.sweep().await,
            86..89 => self.make_batch().await,
            89..91 => self.cancel_batch().await,
            91..93 => self.expire_batch().await,
            93..95 => self.end_batches().await,
            _ => self.pass_time(),
        }
    }

    fn pass_time(&mut self) {
        self.now += match self.random.random_range(0..6) {
            0 => -self.random.random_range(0..MINUTE),
            1 => 5 * MINUTE,
            2 => MINUTE + 1,
            _ => self.random.random_range(0..20_000),
        };
    }

    async fn accept(&mut self) {
        let id = self.name("job");
        let mut job = job(&id, KEYS[self.random.random_range(0..3)]);
        job.class = [Class::Interactive, Class::Default, Class::Batch][self.random.random_range(0..3)];
        job.created_at = self.now;
        job.run_at = self.now + self.random.random_range(-5_000..5_000);
        job.retain = 10 * MINUTE;
        job.max_attempts = self.random.random_range(1..5);
        job.deadline =
            self.random.random_bool(0.3).then(|| self.now + self.random.random_range(1..4 * MINUTE));
        let new = NewJob { body: body_of(&id), job: job.clone() };
        self.store.accept(new.clone(), None, self.now).await.unwrap();
        let again = self.store.accept(new, None, self.now).await;
        assert!(matches!(again, Err(StoreError::Conflict(_))), "the id is taken: {again:?}");
        job.sequence = 1;
        self.jobs.insert(id, job);
    }

    fn claimable(&self) -> usize {
        let runs = |job: &&Job| match &job.batch {
            Some(id) => self.batches[id].status == jobs::BatchStatus::InProgress,
            None => true,
        };
        let now = self.now;
        let due = |job: &&Job| {
            job.status == JobStatus::Queued && job.run_at <= now && job.deadline.is_none_or(|end| end > now)
        };
        self.jobs.values().filter(due).filter(runs).filter(|job| !job.runs_alone()).count()
    }

    async fn claim(&mut self) {
        let most = self.random.random_range(1..8);
        let mut wish = claim_of("w", most, self.now);
        wish.idle = self.random.random_bool(0.3);
        let claimable = self.claimable();
        let idle = wish.idle;
        let held = self.store.claim(wish, self.now).await.unwrap();
        let alone = held.iter().any(|one| one.job.runs_alone());
        if alone {
            assert!(idle && held.len() == 1);
        } else {
            assert_eq!(held.len(), claimable.min(most));
        }
        for one in held {
            let mut job = self.jobs[&one.job.id].clone();
            job.claim("w", self.now + MINUTE, self.now).unwrap();
            assert_eq!(one.job, job);
            assert_eq!(one.body, body_of(&job.id));
            self.put(JobStatus::Queued, job);
        }
    }

    async fn finish(&mut self) {
        let Some(mut job) = self.pick(|job| job.epoch > 0) else { return };
        let stale = self.random.random_bool(0.2);
        let epoch = if stale { job.epoch - 1 } else { job.epoch };
        let (before, now) = (job.status, self.now);
        let result = format!("result of {} {epoch}", job.id).into_bytes();
        let (sha256, bytes) = (hash(&result), result.len() as u64);
        let (finish, wanted) = match self.random.random_range(0..6) {
            0..3 => {
                let success = Success {
                    status_code: 200,
                    result_sha256: sha256,
                    result_bytes: bytes,
                    usage: USAGE,
                    cost_micros: Some(7),
                };
                (crate::common::success(&result), job.succeed(epoch, success, now))
            }
            3 => {
                let wanted = job.fail(epoch, 400, error(), now);
                if wanted == Ok(Change::Failed) {
                    (job.result_sha256, job.result_bytes) = (Some(sha256), Some(bytes));
                }
                (Finish::Failed { status_code: 400, result: result.clone(), error: error() }, wanted)
            }
            4 => (
                Finish::Retry { error: error(), status_code: Some(503), random: 0.5 },
                job.retry_later(epoch, error(), Some(503), 0.5, now),
            ),
            _ => (Finish::Released { checkpoint: None }, job.release(epoch, now)),
        };
        let done = self.store.finish(&job.id, epoch, finish, now).await.unwrap();
        match wanted {
            Ok(change) => {
                assert_eq!(done, Finished::Done(Box::new(job.clone())));
                let kept = matches!(change, Change::Succeeded) || job.result_bytes.is_some();
                let there = self.store.result(&job.id).await.unwrap();
                assert_eq!(there, if kept { result } else { Vec::new() });
                self.put(before, job);
            }
            Err(Refused::Fenced) => assert_eq!(done, Finished::Fenced),
            Err(refused) => panic!("{refused}"),
        }
    }

    async fn renew(&mut self) {
        let Some(mut job) = self.pick(|job| job.epoch > 0) else { return };
        let progress = Progress { phase: "decode".to_owned(), output_tokens: 9, ..Progress::default() };
        let lease_until = self.now + MINUTE;
        let renewal = Renewal {
            id: job.id.clone(),
            epoch: job.epoch,
            lease_until,
            progress: progress.clone(),
            checkpoint: None,
        };
        let before = job.status;
        let wanted = match job.renew(job.epoch, lease_until, progress) {
            Ok(_) => Renewed::Kept,
            Err(Refused::Cancelling) => Renewed::Cancel,
            Err(_) => Renewed::Lost,
        };
        assert_eq!(self.store.renew(vec![renewal], self.now).await.unwrap(), [wanted]);
        if wanted == Renewed::Kept {
            self.put(before, job);
        }
    }

    async fn cancel(&mut self) {
        let Some(mut job) = self.pick(|_| true) else { return };
        let before = job.status;
        let _ = job.cancel(self.now);
        assert_eq!(self.store.cancel(&job.id, None, self.now).await.unwrap(), job);
        self.put(before, job);
    }

    async fn retry(&mut self) {
        let Some(mut job) = self.pick(|job| job.status.is_terminal()) else { return };
        let before = job.status;
        let deadline = Some(self.now + self.random.random_range(-10..MINUTE));
        let wanted = job.queue_again(deadline, self.now);
        let done = self.store.retry(&job.id, None, deadline, self.now).await;
        match wanted {
            Ok(_) => {
                assert_eq!(done.unwrap(), job);
                self.put(before, job);
            }
            Err(_) => assert!(matches!(done, Err(StoreError::Conflict(_))), "{done:?}"),
        }
    }

    async fn delete(&mut self) {
        let Some(job) = self.pick(|_| true) else { return };
        let done = self.store.delete(&job.id, None, self.now).await;
        if job.status.is_terminal() && job.batch.is_none() {
            done.unwrap();
            self.jobs.remove(&job.id);
        } else {
            assert!(matches!(done, Err(StoreError::Conflict(_))), "{done:?}");
        }
    }

    async fn sweep(&mut self) {
        let now = self.now;
        let swept = self.store.sweep(now).await.unwrap();
        let (mut lost, mut expired, mut deleted) = (0, 0, 0);
        for mut job in self.jobs.values().cloned().collect::<Vec<_>>() {
            let before = job.status;
            if job.lose_lease(now).is_ok() {
                lost += 1;
            }
            if job.batch.is_none() && job.expire(now).is_ok() {
                expired += 1;
            }
            let over = job.finished_at.is_some_and(|end| end + job.retain <= now);
            if job.status.is_terminal() && job.batch.is_none() && over {
                deleted += 1;
                self.jobs.remove(&job.id);
            } else {
                self.put(before, job);
            }
        }
        assert_eq!((swept.leases_lost, swept.expired, swept.deleted), (lost, expired, deleted));
    }

    async fn make_batch(&mut self) {
        let id = self.name("batch");
        let count = self.random.random_range(1..12);
        let key = KEYS[self.random.random_range(0..3)];
        let mut one = batch(&id, key, BatchKind::OpenAi);
        one.created_at = self.now;
        one.expires_at = self.now + self.random.random_range(1..10 * MINUTE);
        put_file(&*self.store, file(&one.input_file, key, 3), b"abc").await;
        self.store.create_batch(one.clone(), None, self.now).await.unwrap();
        let mut lines = lines(&id, key, 0, count);
        for line in &mut lines {
            line.job.run_at = self.now;
            line.job.created_at = self.now;
        }
        self.store.add_lines(&id, 0, lines.clone(), self.now).await.unwrap();
        one.add_lines(0, count).unwrap();
        for line in lines {
            let mut job = line.job;
            (job.sequence, job.deadline) = (1, Some(one.expires_at));
            self.jobs.insert(job.id.clone(), job);
        }
        if self.random.random_bool(0.8) {
            let begun = self.store.begin_batch(&id, Vec::new(), self.now).await.unwrap();
            one.begin(self.now).unwrap();
            assert_eq!(begun, one);
        }
        self.batches.insert(id, one);
    }

    fn pick_batch(&mut self) -> Option<Batch> {
        let count = self.batches.len();
        let at = if count == 0 { 0 } else { self.random.random_range(0..count) };
        self.batches.values().nth(at).cloned()
    }

    fn open_lines(&self, batch: &str) -> Vec<Job> {
        let open = |job: &&Job| {
            job.batch.as_deref() == Some(batch)
                && matches!(job.status, JobStatus::Queued | JobStatus::Running)
        };
        self.jobs.values().filter(open).cloned().collect()
    }

    async fn cancel_batch(&mut self) {
        let Some(mut one) = self.pick_batch() else { return };
        let outcome = self.store.cancel_batch(&one.id, None, self.now).await.unwrap();
        let asked = one.cancel(self.now).is_ok();
        self.batches.insert(one.id.clone(), one.clone());
        if asked {
            for mut line in self.open_lines(&one.id) {
                let before = line.status;
                line.cancel(self.now).unwrap();
                self.put(before, line);
            }
        }
        let now = Box::new(self.batches[&one.id].clone());
        let stopped = matches!(now.status, jobs::BatchStatus::Cancelling | jobs::BatchStatus::Cancelled);
        let wanted = if stopped { CancelOutcome::Cancelling(now) } else { CancelOutcome::Ended(now) };
        assert_eq!(outcome, wanted);
    }

    async fn expire_batch(&mut self) {
        let Some(mut one) = self.pick_batch() else { return };
        let done = self.store.expire_batch(&one.id, self.now).await;
        match one.expire(self.now) {
            Ok(_) => {
                self.batches.insert(one.id.clone(), one.clone());
                for mut line in self.open_lines(&one.id) {
                    let before = line.status;
                    line.expire(self.now).unwrap();
                    self.put(before, line);
                }
                assert_eq!(done.unwrap(), self.batches[&one.id]);
            }
            Err(jobs::BatchRefused::Expiring) => assert_eq!(done.unwrap(), one),
            Err(_) => assert!(matches!(done, Err(StoreError::Conflict(_))), "{done:?}"),
        }
    }

    /// Ends the batches that are due and have no open lines, as a server does.
    async fn end_batches(&mut self) {
        for due in self.store.batches_due(self.now).await.unwrap() {
            let mut one = self.batches[&due.id].clone();
            assert_eq!(due, one);
            if !one.is_settled() || one.status.is_terminal() {
                continue;
            }
            let output = Some(format!("file-out-{}", one.id));
            self.store.finalize_batch(&one.id, output.clone(), None, self.now).await.unwrap();
            let ended = self.store.end_batch(&one.id, self.now).await.unwrap();
            one.finalize(output, None, self.now).unwrap();
            one.end(self.now).unwrap();
            assert_eq!(ended, one);
            self.batches.insert(one.id.clone(), one);
        }
    }

    /// Everything is as the model says, and nothing else is there.
    async fn compare(&self) {
        let filter = JobFilter { lines: true, limit: 10_000, ..JobFilter::default() };
        let mut there = self.store.jobs(filter).await.unwrap().rows;
        there.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(there, self.jobs.values().cloned().collect::<Vec<_>>(), "at {}", self.now);
        let filter = BatchFilter { key: None, kind: None, after: None, before: None, limit: 10_000 };
        let mut there = self.store.batches(filter).await.unwrap().rows;
        there.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(there, self.batches.values().cloned().collect::<Vec<_>>());
    }

    /// Ends and deletes everything.
    async fn clear(&mut self) {
        for id in self.batches.keys().cloned().collect::<Vec<_>>() {
            self.store.cancel_batch(&id, None, self.now).await.unwrap();
        }
        for id in self.jobs.keys() {
            self.store.cancel(id, None, self.now).await.unwrap();
        }
        self.now += 20 * MINUTE;
        self.store.sweep(self.now).await.unwrap();
        self.store.sweep(self.now + 20 * MINUTE).await.unwrap();
        for (id, batch) in std::mem::take(&mut self.batches) {
            let status = self.store.batch(&id, None).await.unwrap().status;
            if !status.is_terminal() {
                self.store.finalize_batch(&id, None, None, self.now).await.unwrap();
                self.store.end_batch(&id, self.now).await.unwrap();
            }
            self.store.delete_batch(&id, None, self.now).await.unwrap();
            self.store.delete_file(&batch.input_file, None, self.now).await.unwrap();
        }
        self.jobs.clear();
        let stats = self.store.stats(self.now).await.unwrap();
        assert_eq!((stats.rows, stats.dead, stats.batches, stats.blob_bytes), (vec![], 0, vec![], 0));
    }
}

/// Runs sequences of random calls.
pub(crate) async fn run(store: Arc<dyn Store>, sequences: std::ops::Range<u64>, steps: usize) {
    for sequence in sequences {
        let mut model = Model {
            store: store.clone(),
            random: ChaCha8Rng::seed_from_u64(sequence),
            sequence,
            made: 0,
            now: NOW,
            jobs: BTreeMap::new(),
            batches: BTreeMap::new(),
        };
        for step in 0..steps {
            model.step().await;
            if step % 8 == 7 || step + 1 == steps {
                model.compare().await;
            }
        }
        model.clear().await;
    }
}

/// In memory, because what is asked is not whether the disk is synchronized.
async fn run_in_memory(sequences: std::ops::Range<u64>) {
    let folder = std::path::Path::new("/dev/shm");
    let folder = if folder.is_dir() { tempfile::tempdir_in(folder) } else { tempfile::tempdir() }.unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), StoreLimits::default()).unwrap());
    run(store, sequences, 40).await;
    let report = SqliteStore::check(folder.path()).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences() {
    run_in_memory(0..100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or two"]
async fn a_thousand_random_sequences() {
    run_in_memory(1_000..2_000).await;
}
