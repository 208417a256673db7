//! Batches and their lines.

use crate::common::{MINUTE, NOW, USAGE, batch, claim, file, lines, put_file, running_batch, success};
use job_store::{
    BatchFilter, CancelOutcome, DocumentFilter, Finish, Finished, IdempotencyKey, Store, StoreError,
};
use jobs::batch::{BatchKind, BatchStatus, Counts, FileError};
use jobs::{JobError, JobStatus};
use std::sync::Arc;

const DAY: i64 = 24 * 60 * MINUTE;

pub(crate) async fn a_batch_from_file_to_end(store: Arc<dyn Store>) {
    let mut one = batch("batch_1", "ann", BatchKind::OpenAi);
    one.webhook = Some("https://example.com/".to_owned());
    assert_eq!(store.create_batch(one.clone(), None, NOW).await.unwrap_err(), StoreError::NotFound("file"));
    put_file(&*store, file(&one.input_file, "bob", 3), b"abc").await;
    assert_eq!(
        store.create_batch(one.clone(), None, NOW).await.unwrap_err(),
        StoreError::NotFound("file"),
        "of another key"
    );
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    assert_eq!(store.create_batch(one.clone(), None, NOW).await.unwrap(), one);
    assert_eq!(store.batches_due(NOW).await.unwrap(), [one]);
    store.add_lines("batch_1", 0, lines("batch_1", "ann", 0, 3), NOW).await.unwrap();
    let begun = store.begin_batch("batch_1", Vec::new(), NOW + 1).await.unwrap();
    assert_eq!((begun.status, begun.counts.total), (BatchStatus::InProgress, 3));
    assert!(store.batches_due(NOW + 2).await.unwrap().is_empty());
    let held = claim(&*store, "w", 9, NOW + 2).await;
    assert_eq!(held.len(), 3);
    assert!(store.lines("batch_1", 0, 10, true).await.unwrap().is_empty());
    store.finish(&held[1].job.id, 1, success(b"two"), NOW + 3).await.unwrap();
    assert!(store.lines("batch_1", 0, 10, true).await.unwrap().is_empty());
    let found = store.lines("batch_1", 0, 10, false).await.unwrap();
    assert_eq!((found.len(), found[0].job.line, found[0].result.as_slice()), (1, Some(1), b"two".as_slice()));
    let error = JobError { code: "bad".to_owned(), message: "bad".to_owned(), param: None };
    let failed = Finish::Failed { status_code: 400, result: b"{}".to_vec(), error };
    store.finish(&held[0].job.id, 1, failed, NOW + 3).await.unwrap();
    let found = store.lines("batch_1", 0, 10, true).await.unwrap();
    assert_eq!(found.iter().map(|line| line.job.line.unwrap()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(store.lines("batch_1", 1, 1, true).await.unwrap().len(), 1);
    assert!(matches!(store.finalize_batch("batch_1", None, None, NOW).await, Err(StoreError::Conflict(_))));
    store.finish(&held[2].job.id, 1, success(b"three"), NOW + 4).await.unwrap();
    let due = store.batches_due(NOW + 5).await.unwrap();
    assert_eq!(due.len(), 1);
    let counts = Counts { total: 3, succeeded: 2, errored: 1, cancelled: 0, expired: 0 };
    assert_eq!((due[0].counts, due[0].usage.input_tokens, due[0].cost_micros), (counts, 20, Some(14)));
    let (output, errors) = (Some("file-out".to_owned()), Some("file-err".to_owned()));
    let ready = store.finalize_batch("batch_1", output.clone(), errors, NOW + 5).await.unwrap();
    assert_eq!((ready.status, ready.output_file.clone()), (BatchStatus::Finalizing, output));
    // Whoever comes later finds the first ids.
    let again = store.finalize_batch("batch_1", Some("file-other".to_owned()), None, NOW + 6).await.unwrap();
    assert_eq!(again, ready);
    let ended = store.end_batch("batch_1", NOW + 7).await.unwrap();
    assert_eq!((ended.status, ended.completed_at), (BatchStatus::Completed, Some(NOW + 7)));
    assert_eq!(store.end_batch("batch_1", NOW + 8).await.unwrap(), ended);
    assert!(store.batches_due(NOW + 2 * DAY).await.unwrap().is_empty());
    let events = DocumentFilter {
        kind: "webhook_event".to_owned(),
        id: None,
        key: Some("ann".to_owned()),
        group: Some("batch_1".to_owned()),
        after: None,
        limit: 9,
    };
    let events = store.documents(events).await.unwrap().rows;
    assert_eq!(events.len(), 1);
    assert!(events[0].json.as_ref().unwrap().contains("batch.completed"));
}

pub(crate) async fn lines_are_added_once(store: Arc<dyn Store>) {
    let one = batch("batch_1", "ann", BatchKind::OpenAi);
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    store.create_batch(one, None, NOW).await.unwrap();
    assert!(matches!(store.begin_batch("batch_1", Vec::new(), NOW).await, Err(StoreError::Conflict(_))));
    let after = store.add_lines("batch_1", 0, lines("batch_1", "ann", 0, 10), NOW).await.unwrap();
    assert_eq!((after.lines_read, after.counts.total), (10, 10));
    for from in [0, 9, 11] {
        let again = store.add_lines("batch_1", from, lines("batch_1", "ann", from, 5), NOW).await;
        assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    }
    assert_eq!(store.batch("batch_1", None).await.unwrap().lines_read, 10);
    store.add_lines("batch_1", 10, lines("batch_1", "ann", 10, 5), NOW).await.unwrap();
    let many = lines("batch_1", "ann", 15, 3_000);
    let refused = store.add_lines("batch_1", 15, many, NOW).await.unwrap_err();
    assert_eq!(refused, StoreError::Limit { what: "open lines of batches", most: 3_000 });
    store.begin_batch("batch_1", Vec::new(), NOW).await.unwrap();
    let late = store.add_lines("batch_1", 15, lines("batch_1", "ann", 15, 1), NOW).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))));
    assert_eq!(
        store.add_lines("batch_2", 0, Vec::new(), NOW).await.unwrap_err(),
        StoreError::NotFound("batch")
    );
}

pub(crate) async fn a_failed_batch_forgets_its_lines(store: Arc<dyn Store>) {
    let one = batch("batch_1", "ann", BatchKind::OpenAi);
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    store.create_batch(one, None, NOW).await.unwrap();
    store.add_lines("batch_1", 0, lines("batch_1", "ann", 0, 1_200), NOW).await.unwrap();
    let error = FileError {
        code: "invalid_json_line".to_owned(),
        message: "no JSON".to_owned(),
        line: Some(3),
        param: None,
    };
    let failed = store.fail_batch("batch_1", vec![error.clone()], NOW + 1).await.unwrap();
    assert_eq!((failed.status, failed.errors), (BatchStatus::Failed, vec![error]));
    assert!(store.job("batch_req_batch_1_000000", None).await.is_err());
    assert_eq!(store.stats(NOW).await.unwrap().rows, []);
    // The lines no longer count.
    running_batch(&*store, "batch_2", "ann", 3_000).await;
}

pub(crate) async fn cancelled_batches(store: Arc<dyn Store>) {
    running_batch(&*store, "batch_1", "ann", 1_300).await;
    let held = claim(&*store, "w", 2, NOW).await;
    store.finish(&held[0].job.id, 1, success(b"x"), NOW).await.unwrap();
    let missing = store.cancel_batch("batch_1", Some("bob"), NOW).await.unwrap_err();
    assert_eq!(missing, StoreError::NotFound("batch"));
    let outcome = store.cancel_batch("batch_1", Some("ann"), NOW + 1).await.unwrap();
    let CancelOutcome::Cancelling(now) = outcome else { panic!("{outcome:?}") };
    assert_eq!((now.status, now.counts.cancelled, now.counts.open()), (BatchStatus::Cancelling, 1_298, 1));
    assert!(claim(&*store, "w", 2, NOW + 2).await.is_empty());
    assert_eq!(store.job(&held[1].job.id, None).await.unwrap().status, JobStatus::Cancelling);
    let done = store.finish(&held[1].job.id, 1, Finish::Cancelled { usage: USAGE }, NOW + 2).await.unwrap();
    assert!(matches!(done, Finished::Done(_)));
    store.finalize_batch("batch_1", Some("file-o".to_owned()), None, NOW + 3).await.unwrap();
    let ended = store.end_batch("batch_1", NOW + 4).await.unwrap();
    assert_eq!((ended.status, ended.cancelled_at), (BatchStatus::Cancelled, Some(NOW + 4)));
    let again = store.cancel_batch("batch_1", None, NOW + 5).await.unwrap();
    assert!(matches!(again, CancelOutcome::Cancelling(_)), "cancelled already");
    // Another one, while it is checked, and one that has ended.
    let two = batch("batch_2", "ann", BatchKind::OpenAi);
    put_file(&*store, file(&two.input_file, "ann", 3), b"abc").await;
    store.create_batch(two, None, NOW).await.unwrap();
    store.add_lines("batch_2", 0, lines("batch_2", "ann", 0, 10), NOW).await.unwrap();
    let CancelOutcome::Cancelling(two) = store.cancel_batch("batch_2", None, NOW).await.unwrap() else {
        panic!()
    };
    assert_eq!(two.counts.cancelled, 10);
    running_batch(&*store, "batch_3", "ann", 1).await;
    let held = claim(&*store, "w", 1, NOW).await;
    store.finish(&held[0].job.id, 1, success(b"x"), NOW).await.unwrap();
    store.finalize_batch("batch_3", None, None, NOW).await.unwrap();
    store.end_batch("batch_3", NOW).await.unwrap();
    assert!(matches!(store.cancel_batch("batch_3", None, NOW).await.unwrap(), CancelOutcome::Ended(_)));
}

pub(crate) async fn expired_batches(store: Arc<dyn Store>) {
    running_batch(&*store, "batch_1", "ann", 600).await;
    let held = claim(&*store, "w", 2, NOW).await;
    store.finish(&held[0].job.id, 1, success(b"x"), NOW).await.unwrap();
    assert!(matches!(store.expire_batch("batch_1", NOW + DAY - 1).await, Err(StoreError::Conflict(_))));
    // Lines are not expired one by one: their batch says when.
    store.sweep(NOW + DAY).await.unwrap();
    assert!(claim(&*store, "w", 2, NOW + DAY).await.is_empty());
    let due = store.batches_due(NOW + DAY).await.unwrap();
    assert_eq!(due.len(), 1);
    let now = store.expire_batch("batch_1", NOW + DAY).await.unwrap();
    assert_eq!((now.counts.expired, now.counts.succeeded, now.counts.open()), (599, 1, 0));
    assert_eq!(store.expire_batch("batch_1", NOW + DAY).await.unwrap(), now);
    assert_eq!(store.finish(&held[1].job.id, 1, success(b"x"), NOW + DAY).await.unwrap(), Finished::Fenced);
    let line = store.lines("batch_1", 5, 1, true).await.unwrap().remove(0);
    assert_eq!(line.job.error.unwrap().code, "batch_expired");
    store.finalize_batch("batch_1", Some("file-o".to_owned()), None, NOW + DAY).await.unwrap();
    let ended = store.end_batch("batch_1", NOW + DAY).await.unwrap();
    assert_eq!(ended.status, BatchStatus::Expired);
}

pub(crate) async fn many_lines_in_chunks(store: Arc<dyn Store>) {
    running_batch(&*store, "batch_1", "ann", 2_500).await;
    let mut seen = 0;
    loop {
        let held = claim(&*store, "w", 200, NOW).await;
        if held.is_empty() {
            break;
        }
        seen += held.len();
        for one in held {
            store.finish(&one.job.id, 1, success(one.job.id.as_bytes()), NOW).await.unwrap();
        }
    }
    assert_eq!(seen, 2_500);
    let mut next = 0;
    loop {
        let chunk = store.lines("batch_1", next, 700, true).await.unwrap();
        let Some(last) = chunk.last() else { break };
        for (number, line) in (next..).zip(&chunk) {
            assert_eq!(line.job.line, Some(number));
            assert_eq!(line.result, line.job.id.as_bytes());
        }
        next = last.job.line.unwrap() + 1;
    }
    assert_eq!(next, 2_500);
}

pub(crate) async fn lists_of_batches(store: Arc<dyn Store>) {
    for n in 0..6 {
        let kind = if n % 2 == 0 { BatchKind::OpenAi } else { BatchKind::Anthropic };
        let mut one = batch(&format!("batch_{n}"), if n < 3 { "ann" } else { "bob" }, kind);
        one.created_at = NOW + n;
        put_file(&*store, file(&one.input_file, &one.key, 3), b"abc").await;
        store.create_batch(one, None, NOW).await.unwrap();
    }
    let ids = |filter: BatchFilter| {
        let store = store.clone();
        async move {
            let page = store.batches(filter).await.unwrap();
            (page.rows.iter().map(|batch| batch.id[6..].to_owned()).collect::<String>(), page.more)
        }
    };
    let all = BatchFilter { key: None, kind: None, after: None, before: None, limit: 10 };
    assert_eq!(ids(all.clone()).await, ("543210".to_owned(), false));
    assert_eq!(ids(BatchFilter { limit: 2, ..all.clone() }).await, ("54".to_owned(), true));
    let after = BatchFilter { after: Some("batch_4".to_owned()), limit: 2, ..all.clone() };
    assert_eq!(ids(after).await, ("32".to_owned(), true));
    let before = BatchFilter { before: Some("batch_1".to_owned()), limit: 2, ..all.clone() };
    assert_eq!(ids(before).await, ("32".to_owned(), true));
    let kind = BatchFilter { kind: Some(BatchKind::Anthropic), key: Some("bob".to_owned()), ..all };
    assert_eq!(ids(kind).await.0, "53");
}

pub(crate) async fn batches_are_idempotent(store: Arc<dyn Store>) {
    let key = IdempotencyKey {
        key: "ann".to_owned(),
        route: "POST /v1/batches".to_owned(),
        value: "k".to_owned(),
        fingerprint: "f".to_owned(),
        expires_at: NOW + DAY,
    };
    let one = batch("batch_1", "ann", BatchKind::OpenAi);
    put_file(&*store, file(&one.input_file, "ann", 3), b"abc").await;
    let first = store.create_batch(one, Some(key.clone()), NOW).await.unwrap();
    let two = batch("batch_2", "ann", BatchKind::OpenAi);
    assert_eq!(store.create_batch(two.clone(), Some(key.clone()), NOW).await.unwrap(), first);
    let other = IdempotencyKey { fingerprint: "g".to_owned(), ..key };
    assert_eq!(store.create_batch(two, Some(other), NOW).await.unwrap_err(), StoreError::OtherRequest);
    let again = store.create_batch(first, None, NOW).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))));
}

pub(crate) async fn deleted_batches(store: Arc<dyn Store>) {
    let mut one = batch("msgbatch_1", "ann", BatchKind::Anthropic);
    one.input_file = "file-hidden".to_owned();
    let mut input = file("file-hidden", "ann", 3);
    input.hidden = true;
    put_file(&*store, input, b"abc").await;
    store.create_batch(one, None, NOW).await.unwrap();
    store.add_lines("msgbatch_1", 0, lines("msgbatch_1", "ann", 0, 700), NOW).await.unwrap();
    let open = store.delete_batch("msgbatch_1", None, NOW).await;
    assert!(matches!(open, Err(StoreError::Conflict(_))));
    store.cancel_batch("msgbatch_1", None, NOW).await.unwrap();
    store.finalize_batch("msgbatch_1", None, None, NOW).await.unwrap();
    store.end_batch("msgbatch_1", NOW).await.unwrap();
    let missing = store.delete_batch("msgbatch_1", Some("bob"), NOW).await.unwrap_err();
    assert_eq!(missing, StoreError::NotFound("batch"));
    store.delete_batch("msgbatch_1", Some("ann"), NOW).await.unwrap();
    assert_eq!(store.batch("msgbatch_1", None).await.unwrap_err(), StoreError::NotFound("batch"));
    assert!(store.lines("msgbatch_1", 0, 10, false).await.unwrap().is_empty());
    assert_eq!(store.file("file-hidden", None).await.unwrap_err(), StoreError::NotFound("file"));
    let stats = store.stats(NOW).await.unwrap();
    assert_eq!((stats.rows.len(), stats.blob_bytes), (0, 0));
}
