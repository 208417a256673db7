//! The order in which jobs are given to workers.

use crate::common::{MINUTE, NOW, claim, claim_of, job, lines, offer, put_file, success};
use crate::common::{batch, file};
use job_store::{Claim, Store};
use jobs::{BatchKind, Class};
use std::sync::Arc;

pub(crate) async fn classes_share_by_credits(store: Arc<dyn Store>) {
    for (class, name) in [(Class::Interactive, "i"), (Class::Default, "d"), (Class::Batch, "b")] {
        for n in 0..42 {
            let mut job = job(&format!("job_{name}{n:02}"), "ann");
            job.class = class;
            offer(&*store, job, NOW).await;
        }
    }
    let mut first = String::new();
    for one in claim(&*store, "w", 21, NOW).await {
        first.push_str(&one.job.id[4..5]);
    }
    let count = |letter: char| first.chars().filter(|other| *other == letter).count();
    assert_eq!((count('i'), count('d'), count('b')), (16, 4, 1), "{first}");
    let only = Claim { classes: vec![Class::Batch], ..claim_of("w", 5, NOW) };
    let batch = store.claim(only, NOW).await.unwrap();
    assert!(batch.len() == 5 && batch.iter().all(|one| one.job.class == Class::Batch));
    let none = Claim { classes: Vec::new(), ..claim_of("w", 5, NOW) };
    assert!(store.claim(none, NOW).await.unwrap().is_empty());
    // Nothing is left behind: what remains of the others comes too.
    let mut rest = 0;
    loop {
        let more = claim(&*store, "w", 20, NOW).await.len();
        rest += more;
        if more == 0 {
            break;
        }
    }
    assert_eq!(rest, 3 * 42 - 21 - 5);
}

pub(crate) async fn keys_take_turns(store: Arc<dyn Store>) {
    for n in 0..50 {
        offer(&*store, job(&format!("job_a{n:02}"), "ann"), NOW).await;
    }
    let first = claim(&*store, "w", 5, NOW).await;
    assert_eq!(first.len(), 5);
    // Ten of another key do not wait for the rest of the fifty.
    for n in 0..10 {
        offer(&*store, job(&format!("job_b{n:02}"), "bob"), NOW).await;
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.extend(claim(&*store, "w", 5, NOW).await.into_iter().map(|one| one.job.id));
    }
    let of_bob: Vec<&String> = ids.iter().filter(|id| id.starts_with("job_b")).collect();
    assert_eq!(of_bob.len(), 10, "{ids:?}");
    assert_eq!(ids[0], "job_b00");
    let in_order = ids.iter().filter(|id| id.starts_with("job_a")).collect::<Vec<_>>();
    assert!(in_order.is_sorted(), "{in_order:?}");
}

pub(crate) async fn jobs_that_run_alone(store: Arc<dyn Store>) {
    offer(&*store, job("job_0", "ann"), NOW).await;
    let mut now = NOW;
    for _ in 0..2 {
        assert_eq!(claim(&*store, "w", 1, now).await.len(), 1);
        now += MINUTE + 1;
        store.sweep(now).await.unwrap();
    }
    assert!(store.job("job_0", None).await.unwrap().runs_alone());
    for n in 1..5 {
        let mut job = job(&format!("job_{n}"), "ann");
        job.run_at = now + 1;
        offer(&*store, job, now).await;
    }
    let busy = Claim { idle: false, ..claim_of("w", 2, now + 1) };
    let given = store.claim(busy.clone(), now + 1).await.unwrap();
    assert_eq!(given.iter().map(|one| one.job.id.as_str()).collect::<Vec<_>>(), ["job_1", "job_2"]);
    let alone = claim(&*store, "w", 2, now + 1).await;
    assert_eq!(alone.iter().map(|one| one.job.id.as_str()).collect::<Vec<_>>(), ["job_0"]);
    assert_eq!(store.claim(busy, now + 1).await.unwrap().len(), 2);
    store.finish("job_0", alone[0].job.epoch, success(b"x"), now + 1).await.unwrap();
}

pub(crate) async fn not_before_their_time(store: Arc<dyn Store>) {
    for (id, run_at) in [("job_3", NOW + 30), ("job_1", NOW + 10), ("job_2", NOW + 20)] {
        let mut job = job(id, "ann");
        job.run_at = run_at;
        offer(&*store, job, NOW).await;
    }
    assert!(claim(&*store, "w", 9, NOW + 9).await.is_empty());
    let first = claim(&*store, "w", 9, NOW + 20).await;
    assert_eq!(first.iter().map(|one| one.job.id.as_str()).collect::<Vec<_>>(), ["job_1", "job_2"]);
    // Past its deadline, it is not given to anybody.
    let mut late = job("job_late", "ann");
    late.deadline = Some(NOW + 25);
    offer(&*store, late, NOW).await;
    assert!(claim(&*store, "w", 9, NOW + 25).await.is_empty());
    assert_eq!(claim(&*store, "w", 9, NOW + 30).await[0].job.id, "job_3");
}

pub(crate) async fn lines_follow_their_ranks(store: Arc<dyn Store>) {
    let one = batch("batch_1", "ann", BatchKind::OpenAi);
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    store.create_batch(one, None, NOW).await.unwrap();
    store.add_lines("batch_1", 0, lines("batch_1", "ann", 0, 40), NOW).await.unwrap();
    // Nothing is claimed before the batch begins.
    assert!(claim(&*store, "w", 40, NOW).await.is_empty());
    let ranks = (0..40).map(|line| (line, (line as i64 * 7) % 40)).collect();
    store.begin_batch("batch_1", ranks, NOW).await.unwrap();
    let given = claim(&*store, "w", 40, NOW).await;
    let ranks: Vec<i64> = given.iter().map(|one| one.job.prefix_rank).collect();
    assert_eq!(ranks, (0..40).collect::<Vec<i64>>());
    let line = given[1].job.line.unwrap();
    assert_eq!((line * 7) % 40, 1);
}
