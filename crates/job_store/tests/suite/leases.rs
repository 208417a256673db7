//! Workers and the leases that they hold.

use crate::common::{MINUTE, NOW, USAGE, claim, job, offer, success};
use job_store::{Finish, Finished, JobFilter, Renewal, Renewed, Store};
use jobs::{JobError, JobStatus, Progress};
use std::sync::Arc;

fn renewal(id: &str, epoch: u64, until: i64, checkpoint: Option<&[u8]>) -> Renewal {
    let progress = Progress { phase: "decode".to_owned(), output_tokens: 3, ..Progress::default() };
    let checkpoint = checkpoint.map(<[u8]>::to_vec);
    Renewal { id: id.to_owned(), epoch, lease_until: until, progress, checkpoint }
}

pub(crate) async fn renewals(store: Arc<dyn Store>) {
    for id in ["job_1", "job_2"] {
        offer(&*store, job(id, "ann"), NOW).await;
    }
    assert_eq!(claim(&*store, "w", 2, NOW).await.len(), 2);
    store.cancel("job_2", None, NOW).await.unwrap();
    let wishes = vec![
        renewal("job_2", 1, NOW + 2 * MINUTE, None),
        renewal("job_none", 1, NOW + 2 * MINUTE, None),
        renewal("job_1", 1, NOW + 2 * MINUTE, None),
        renewal("job_1", 2, NOW + 9 * MINUTE, None),
    ];
    let answers = store.renew(wishes, NOW + 1).await.unwrap();
    assert_eq!(answers, [Renewed::Cancel, Renewed::Lost, Renewed::Kept, Renewed::Lost]);
    let job = store.job("job_1", None).await.unwrap();
    assert_eq!((job.lease_until, job.progress.output_tokens), (Some(NOW + 2 * MINUTE), 3));
    assert!(store.renew(Vec::new(), NOW).await.unwrap().is_empty());
}

pub(crate) async fn old_epochs_are_fenced(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    assert_eq!(claim(&*store, "slow", 1, NOW).await[0].job.epoch, 1);
    // Its lease ends, and another takes the job.
    let later = NOW + MINUTE + 1;
    assert_eq!(store.sweep(later).await.unwrap().leases_lost, 1);
    assert_eq!(claim(&*store, "fast", 1, later).await[0].job.epoch, 2);
    for finish in
        [success(b"late"), Finish::Released { checkpoint: None }, Finish::Cancelled { usage: USAGE }]
    {
        assert_eq!(store.finish("job_1", 1, finish, later).await.unwrap(), Finished::Fenced);
    }
    let renewed = store.renew(vec![renewal("job_1", 1, later + MINUTE, None)], later).await.unwrap();
    assert_eq!(renewed, [Renewed::Lost]);
    assert_eq!(store.result("job_1").await.unwrap(), b"");
    store.finish("job_1", 2, success(b"first"), later).await.unwrap();
    // Also the holder ends it once.
    assert_eq!(store.finish("job_1", 2, success(b"second"), later).await.unwrap(), Finished::Fenced);
    assert_eq!(store.result("job_1").await.unwrap(), b"first");
    assert_eq!(store.finish("job_none", 1, success(b""), later).await.unwrap(), Finished::Fenced);
}

pub(crate) async fn released_with_a_checkpoint(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    let held = claim(&*store, "a", 1, NOW).await.remove(0);
    let kept = renewal("job_1", held.job.epoch, NOW + MINUTE, Some(b"one"));
    store.renew(vec![kept], NOW).await.unwrap();
    let release = Finish::Released { checkpoint: None };
    store.finish("job_1", 1, release, NOW).await.unwrap();
    let held = claim(&*store, "b", 1, NOW).await.remove(0);
    assert_eq!((held.checkpoint.as_deref(), held.job.attempts), (Some(b"one".as_slice()), 1));
    let large = vec![9; 100_000];
    let release = Finish::Released { checkpoint: Some(large.clone()) };
    store.finish("job_1", 2, release, NOW).await.unwrap();
    let held = claim(&*store, "c", 1, NOW).await.remove(0);
    assert!(held.checkpoint == Some(large));
    store.finish("job_1", 3, success(b"x"), NOW).await.unwrap();
}

pub(crate) async fn retries_wait_and_die(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    let error = JobError { code: "engine".to_owned(), message: "a fault".to_owned(), param: None };
    let retry = || Finish::Retry { error: error.clone(), status_code: Some(503), random: 0.5 };
    let mut now = NOW;
    for attempt in 1..=3_u64 {
        let held = claim(&*store, "w", 1, now).await;
        assert_eq!(held.len(), 1, "attempt {attempt}");
        let Finished::Done(job) = store.finish("job_1", attempt, retry(), now).await.unwrap() else {
            panic!()
        };
        if attempt < 3 {
            assert_eq!(job.status, JobStatus::Queued);
            assert!(claim(&*store, "w", 1, job.run_at - 1).await.is_empty());
            now = job.run_at;
        } else {
            assert_eq!((job.status, job.dead, job.error), (JobStatus::Failed, true, Some(error.clone())));
        }
    }
    assert_eq!(store.stats(now).await.unwrap().dead, 1);
    let dead = JobFilter { dead: true, limit: 5, ..JobFilter::default() };
    assert_eq!(store.jobs(dead).await.unwrap().rows.len(), 1);
}

pub(crate) async fn lost_leases(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    let mut now = NOW;
    for lost in 1..=3 {
        assert_eq!(claim(&*store, "w", 1, now).await.len(), 1);
        // Not before the lease has ended.
        assert_eq!(store.sweep(now + MINUTE).await.unwrap().leases_lost, 0);
        now += MINUTE + 1;
        let swept = store.sweep(now).await.unwrap();
        assert_eq!(swept.leases_lost, 1);
        let job = store.job("job_1", None).await.unwrap();
        assert_eq!(job.lost_leases, lost);
        assert_eq!(swept.ended.len(), usize::from(lost == 3));
    }
    let job = store.job("job_1", None).await.unwrap();
    assert_eq!((job.status, job.dead), (JobStatus::Failed, true));
    assert_eq!(job.error.unwrap().code, "worker_lost");
}

pub(crate) async fn taken_back_at_the_start(store: Arc<dyn Store>) {
    for n in 0..5 {
        offer(&*store, job(&format!("job_{n}"), "ann"), NOW).await;
    }
    assert_eq!(claim(&*store, "w", 3, NOW).await.len(), 3);
    let cancelled = store.cancel("job_0", None, NOW).await.unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelling);
    let taken = store.take_back(NOW + 1).await.unwrap();
    if taken == 0 {
        // Others may hold them.
        assert_eq!(claim(&*store, "w", 9, NOW + 1).await.len(), 2);
        return;
    }
    assert_eq!(taken, 3);
    assert_eq!(store.job("job_0", None).await.unwrap().status, JobStatus::Cancelled);
    assert_eq!(claim(&*store, "w", 9, NOW + 1).await.len(), 4);
}

pub(crate) async fn a_cancel_reaches_the_worker(store: Arc<dyn Store>) {
    for id in ["job_1", "job_2", "job_3"] {
        offer(&*store, job(id, "ann"), NOW).await;
        claim(&*store, "w", 1, NOW).await;
        let asked = store.cancel(id, None, NOW).await.unwrap();
        assert_eq!((asked.status, asked.cancel_requested_at), (JobStatus::Cancelling, Some(NOW)));
        assert_eq!(store.cancel(id, None, NOW + 1).await.unwrap(), asked);
    }
    let done = store.finish("job_1", 1, Finish::Cancelled { usage: USAGE }, NOW).await.unwrap();
    let Finished::Done(done) = done else { panic!() };
    assert_eq!((done.status, done.usage), (JobStatus::Cancelled, Some(USAGE)));
    // A result that comes after the wish does not count.
    store.finish("job_2", 1, success(b"late"), NOW).await.unwrap();
    assert_eq!(store.job("job_2", None).await.unwrap().status, JobStatus::Cancelled);
    assert_eq!(store.result("job_2").await.unwrap(), b"");
    // A worker that is gone needs not confirm.
    store.sweep(NOW + MINUTE + 1).await.unwrap();
    assert_eq!(store.job("job_3", None).await.unwrap().status, JobStatus::Cancelled);
}

pub(crate) async fn concurrent_workers_share_the_work(store: Arc<dyn Store>) {
    for n in 0..120 {
        offer(&*store, job(&format!("job_{n:03}"), if n % 3 == 0 { "ann" } else { "bob" }), NOW).await;
    }
    let workers: Vec<_> = (0..6)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = Vec::new();
                loop {
                    let held = claim(&*store, &format!("w{n}"), 5, NOW).await;
                    if held.is_empty() {
                        // Of what others had locked for a moment, something may be left.
                        let open = store.stats(NOW).await.unwrap();
                        let queued =
                            open.rows.iter().any(|row| row.status == JobStatus::Queued && row.jobs > 0);
                        if !queued {
                            return done;
                        }
                        continue;
                    }
                    for one in held {
                        let ended =
                            store.finish(&one.job.id, one.job.epoch, success(b"x"), NOW).await.unwrap();
                        assert!(matches!(ended, Finished::Done(_)));
                        done.push(one.job.id);
                    }
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    all.sort();
    let wanted: Vec<String> = (0..120).map(|n| format!("job_{n:03}")).collect();
    assert_eq!(all, wanted);
}
