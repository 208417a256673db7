//! What ends or is deleted by itself, and numbers.

use crate::common::{MINUTE, NOW, batch, claim, file, job, lines, offer, put_file, running_batch, success};
use job_store::{Finished, Store, StoreError};
use jobs::{BatchKind, BatchStatus, Class, JobStatus};
use std::sync::Arc;
use std::time::Duration;

const DAY: i64 = 24 * 60 * MINUTE;

pub(crate) async fn deadlines(store: Arc<dyn Store>) {
    for (id, end) in [("job_1", NOW + 10), ("job_2", NOW + 20), ("job_3", NOW + 10)] {
        let mut job = job(id, "ann");
        job.deadline = Some(end);
        offer(&*store, job, NOW).await;
    }
    let held = claim(&*store, "w", 1, NOW).await.remove(0);
    assert_eq!(held.job.id, "job_1");
    assert_eq!(store.sweep(NOW + 9).await.unwrap().expired, 0);
    let swept = store.sweep(NOW + 10).await.unwrap();
    let mut ended = swept.ended.clone();
    ended.sort();
    assert_eq!((swept.expired, ended), (2, vec!["job_1".to_owned(), "job_3".to_owned()]));
    let job = store.job("job_3", None).await.unwrap();
    assert_eq!((job.status, job.error.unwrap().code), (JobStatus::Expired, "job_expired".to_owned()));
    assert_eq!(store.finish("job_1", 1, success(b"x"), NOW + 10).await.unwrap(), Finished::Fenced);
}

pub(crate) async fn retention_and_tombstones(store: Arc<dyn Store>) {
    for n in 0..600 {
        let mut job = job(&format!("job_{n:03}"), &format!("key{}", n % 5));
        job.retain = 1_000;
        // The bound of open jobs is smaller than their number.
        offer(&*store, job, NOW).await;
        store.cancel(&format!("job_{n:03}"), None, NOW).await.unwrap();
    }
    assert_eq!(store.sweep(NOW + 999).await.unwrap().deleted, 0);
    assert_eq!(store.sweep(NOW + 1_000).await.unwrap().deleted, 600);
    assert_eq!(store.job("job_001", Some("key1")).await.unwrap_err(), StoreError::Gone("job"));
    assert_eq!(store.job("job_001", None).await.unwrap_err(), StoreError::Gone("job"));
    assert_eq!(store.job("job_001", Some("key2")).await.unwrap_err(), StoreError::NotFound("job"));
    assert_eq!(store.cancel("job_001", Some("key1"), NOW).await.unwrap_err(), StoreError::Gone("job"));
    assert_eq!(store.body("job_001").await.unwrap_err(), StoreError::Gone("job"));
    store.sweep(NOW + 1_000 + 7 * DAY).await.unwrap();
    assert_eq!(store.job("job_001", Some("key1")).await.unwrap_err(), StoreError::NotFound("job"));
}

pub(crate) async fn files_expire(store: Arc<dyn Store>) {
    for n in 0..3 {
        let mut one = file(&format!("file-{n}"), "ann", 3);
        one.expires_at = (n < 2).then_some(NOW + 10 * (n + 1));
        put_file(&*store, one, b"abc").await;
    }
    assert_eq!(store.sweep(NOW + 10).await.unwrap().deleted, 1);
    assert_eq!(store.file("file-0", None).await.unwrap_err(), StoreError::Gone("file"));
    assert_eq!(store.read_file("file-0", 0, 9).await.unwrap_err(), StoreError::Gone("file"));
    assert_eq!(store.sweep(NOW + 20).await.unwrap().deleted, 1);
    assert_eq!(store.read_file("file-2", 0, 9).await.unwrap(), b"abc");
}

pub(crate) async fn ended_batches_are_forgotten(store: Arc<dyn Store>) {
    let mut one = batch("msgbatch_1", "ann", BatchKind::Anthropic);
    one.expires_at = NOW + DAY;
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    store.create_batch(one, None, NOW).await.unwrap();
    store.add_lines("msgbatch_1", 0, lines("msgbatch_1", "ann", 0, 2), NOW).await.unwrap();
    running_batch(&*store, "batch_2", "ann", 2).await;
    for id in ["msgbatch_1", "batch_2"] {
        store.cancel_batch(id, None, NOW).await.unwrap();
        store.finalize_batch(id, None, None, NOW).await.unwrap();
        store.end_batch(id, NOW).await.unwrap();
    }
    store.sweep(NOW + 6 * DAY).await.unwrap();
    assert_eq!(store.lines("batch_2", 0, 9, true).await.unwrap().len(), 2);
    store.sweep(NOW + 7 * DAY).await.unwrap();
    assert!(store.lines("batch_2", 0, 9, true).await.unwrap().is_empty());
    assert_eq!(store.batch("batch_2", None).await.unwrap().status, BatchStatus::Cancelled);
    assert_eq!(store.lines("msgbatch_1", 0, 9, true).await.unwrap().len(), 2);
    store.sweep(NOW + 29 * DAY).await.unwrap();
    let archived = store.batch("msgbatch_1", None).await.unwrap();
    assert_eq!(archived.archived_at, Some(NOW + 29 * DAY));
    assert!(store.lines("msgbatch_1", 0, 9, true).await.unwrap().is_empty());
    store.sweep(NOW + 30 * DAY).await.unwrap();
    assert_eq!(store.batch("batch_2", Some("ann")).await.unwrap_err(), StoreError::Gone("batch"));
    store.sweep(NOW + 59 * DAY).await.unwrap();
    assert_eq!(store.batch("msgbatch_1", Some("ann")).await.unwrap_err(), StoreError::Gone("batch"));
}

pub(crate) async fn numbers(store: Arc<dyn Store>) {
    for n in 0..3 {
        let mut job = job(&format!("job_{n}"), "ann");
        job.run_at = NOW + n;
        offer(&*store, job, NOW).await;
    }
    running_batch(&*store, "batch_1", "ann", 4).await;
    claim(&*store, "w", 1, NOW).await;
    let stats = store.stats(NOW).await.unwrap();
    let row = |status, class| stats.rows.iter().find(|row| (row.status, row.class) == (status, class));
    let queued = row(JobStatus::Queued, Class::Default).unwrap();
    assert_eq!((queued.jobs, queued.oldest), (2, Some(NOW + 1)));
    let running = row(JobStatus::Running, Class::Default).unwrap();
    assert_eq!((running.jobs, running.oldest), (1, None));
    assert_eq!(row(JobStatus::Queued, Class::Batch).unwrap().jobs, 4);
    assert_eq!(stats.batches, [(BatchStatus::InProgress, 1)]);
    assert!(stats.table_bytes > 0);
    assert_eq!((stats.dead, stats.blob_bytes), (0, 3));
}

/// A clock that jumps back delays, but nothing is lost, run twice or expired by it.
pub(crate) async fn a_clock_that_jumps_back(store: Arc<dyn Store>) {
    let hour = 60 * MINUTE;
    offer(&*store, job("job_1", "ann"), NOW + hour).await;
    let held = claim(&*store, "w", 1, NOW + hour).await.remove(0);
    let swept = store.sweep(NOW).await.unwrap();
    assert_eq!((swept.leases_lost, swept.expired, swept.deleted), (0, 0, 0));
    let renewal = job_store::Renewal {
        id: "job_1".to_owned(),
        epoch: held.job.epoch,
        lease_until: NOW + MINUTE,
        progress: jobs::Progress::default(),
        checkpoint: None,
    };
    assert_eq!(store.renew(vec![renewal], NOW).await.unwrap(), [job_store::Renewed::Kept]);
    // A lease is never shortened.
    assert_eq!(store.job("job_1", None).await.unwrap().lease_until, Some(NOW + hour + MINUTE));
    let done = store.finish("job_1", held.job.epoch, success(b"x"), NOW).await.unwrap();
    assert!(matches!(done, Finished::Done(_)));
    let mut later = job("job_2", "ann");
    later.run_at = NOW + hour;
    offer(&*store, later, NOW + hour).await;
    assert!(claim(&*store, "w", 1, NOW).await.is_empty());
    assert_eq!(claim(&*store, "w", 1, NOW + hour).await.len(), 1);
}

pub(crate) async fn waiting_for_work(store: Arc<dyn Store>) {
    // Nothing comes: it ends by itself.
    store.wait_for_work(Duration::from_millis(5)).await;
    let waiting = store.clone();
    let woken = tokio::spawn(async move {
        loop {
            waiting.wait_for_work(Duration::from_millis(200)).await;
            let held = claim(&*waiting, "w", 1, NOW).await;
            if !held.is_empty() {
                return held.len();
            }
        }
    });
    offer(&*store, job("job_1", "ann"), NOW).await;
    assert_eq!(woken.await.unwrap(), 1);
}
