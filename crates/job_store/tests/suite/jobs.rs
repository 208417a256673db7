//! Jobs and their owners.

use crate::common::{MINUTE, NOW, body_of, claim, job, offer, success};
use job_store::{
    Accepted, Document, DocumentFilter, Finish, Finished, IdempotencyKey, JobFilter, NewJob, Store,
    StoreError,
};
use jobs::{Face, JobError, JobStatus};
use std::sync::Arc;

pub(crate) async fn a_job_from_offer_to_result(store: Arc<dyn Store>) {
    let offered = offer(&*store, job("job_1", "ann"), NOW).await;
    assert_eq!((offered.status, offered.sequence), (JobStatus::Queued, 1));
    assert_eq!(store.job("job_1", Some("ann")).await.unwrap(), offered);
    assert_eq!(store.body("job_1").await.unwrap(), body_of("job_1"));
    assert_eq!(store.result("job_1").await.unwrap(), b"");
    let claimed = claim(&*store, "w", 4, NOW + 1).await;
    assert_eq!(claimed.len(), 1);
    let held = &claimed[0];
    assert_eq!((held.job.status, held.job.epoch, held.job.attempts), (JobStatus::Running, 1, 1));
    assert_eq!(held.job.started_at, Some(NOW + 1));
    assert_eq!((held.body.clone(), held.checkpoint.clone()), (body_of("job_1"), None));
    assert!(claim(&*store, "w", 4, NOW + 2).await.is_empty());
    let done = store.finish("job_1", 1, success(b"answer"), NOW + 3).await.unwrap();
    let Finished::Done(done) = done else { panic!("{done:?}") };
    assert_eq!((done.status, done.finished_at), (JobStatus::Succeeded, Some(NOW + 3)));
    assert_eq!((done.status_code, done.result_bytes, done.cost_micros), (Some(200), Some(6), Some(7)));
    // printf answer | sha256sum
    let hash = "0db52f4076c082518412afd3dd3576e2cb0c63703fd7fed5e23ade60efef31d9";
    assert_eq!(done.result_sha256.as_deref(), Some(hash));
    assert_eq!(store.result("job_1").await.unwrap(), b"answer");
    assert_eq!(store.job("job_1", None).await.unwrap(), *done);
    let names: Vec<String> =
        store.events("job_1", 0).await.unwrap().into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["job.queued", "job.running", "job.succeeded"]);
    let last = store.events("job_1", 2).await.unwrap();
    assert_eq!((last.len(), last[0].sequence, last[0].at), (1, 3, NOW + 3));
    let told: jobs::Job = serde_json::from_str(&last[0].data).unwrap();
    assert_eq!(told, *done);
}

pub(crate) async fn large_bodies_and_results(store: Arc<dyn Store>) {
    for (at, size) in [16 << 10, (16 << 10) + 1, (1 << 20) + 1, 5 << 20].into_iter().enumerate() {
        let id = format!("job_{at}");
        let body: Vec<u8> = (0..size).map(|n| (n * 31 + at) as u8).collect();
        let new = NewJob { job: job(&id, "ann"), body: body.clone() };
        store.accept(new, None, NOW).await.unwrap();
        assert_eq!(store.body(&id).await.unwrap(), body);
        let held = claim(&*store, "w", 1, NOW).await.remove(0);
        assert!(held.body == body);
        store.finish(&id, 1, success(&body), NOW).await.unwrap();
        assert!(store.result(&id).await.unwrap() == body);
    }
    // Bodies of the same content are kept once, and stay until the last is gone.
    for id in ["job_same_1", "job_same_2"] {
        store.accept(NewJob { job: job(id, "ann"), body: vec![7; 40_000] }, None, NOW).await.unwrap();
        store.cancel(id, None, NOW).await.unwrap();
    }
    store.delete("job_same_1", None, NOW).await.unwrap();
    store.sweep(NOW).await.unwrap();
    assert_eq!(store.body("job_same_2").await.unwrap(), vec![7; 40_000]);
    let before = store.stats(NOW).await.unwrap().blob_bytes;
    store.delete("job_same_2", None, NOW).await.unwrap();
    assert!(store.stats(NOW).await.unwrap().blob_bytes <= before);
    assert_eq!(store.body("job_same_2").await.unwrap_err(), StoreError::NotFound("job"));
}

pub(crate) async fn other_keys_see_nothing(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    let missing = StoreError::NotFound("job");
    assert_eq!(store.job("job_1", Some("bob")).await.unwrap_err(), missing);
    assert_eq!(store.cancel("job_1", Some("bob"), NOW).await.unwrap_err(), missing);
    assert_eq!(store.retry("job_1", Some("bob"), None, NOW).await.unwrap_err(), missing);
    assert_eq!(store.delete("job_1", Some("bob"), NOW).await.unwrap_err(), missing);
    assert_eq!(store.job("job_2", None).await.unwrap_err(), missing);
    let filter = JobFilter { key: Some("bob".to_owned()), limit: 10, ..JobFilter::default() };
    assert!(store.jobs(filter).await.unwrap().rows.is_empty());
}

fn key(value: &str, fingerprint: &str) -> IdempotencyKey {
    IdempotencyKey {
        key: "ann".to_owned(),
        route: "POST /v1/jobs".to_owned(),
        value: value.to_owned(),
        fingerprint: fingerprint.to_owned(),
        expires_at: NOW + 24 * 60 * MINUTE,
    }
}

pub(crate) async fn idempotency(store: Arc<dyn Store>) {
    let offer = |id: &str, key: IdempotencyKey, now| {
        store.accept(NewJob { job: job(id, "ann"), body: b"{}".to_vec() }, Some(key), now)
    };
    let Accepted::New(first) = offer("job_1", key("a", "x"), NOW).await.unwrap() else { panic!() };
    assert_eq!(offer("job_2", key("a", "x"), NOW).await.unwrap(), Accepted::Before(first));
    assert_eq!(offer("job_3", key("a", "y"), NOW).await.unwrap_err(), StoreError::OtherRequest);
    assert_eq!(store.job("job_2", None).await.unwrap_err(), StoreError::NotFound("job"));
    let other = IdempotencyKey { route: "POST /v1/responses".to_owned(), ..key("a", "y") };
    assert!(matches!(offer("job_4", other, NOW).await.unwrap(), Accepted::New(_)));
    // The job as it is now.
    store.cancel("job_1", None, NOW).await.unwrap();
    let again = offer("job_5", key("a", "x"), NOW).await.unwrap();
    assert!(matches!(again, Accepted::Before(job) if job.status == JobStatus::Cancelled));
    // Forgotten after its time, or when the job was deleted.
    let later = IdempotencyKey { expires_at: NOW + 48 * 60 * MINUTE, ..key("a", "z") };
    let day = NOW + 24 * 60 * MINUTE;
    assert!(matches!(offer("job_6", later.clone(), day).await.unwrap(), Accepted::New(_)));
    store.cancel("job_6", None, day).await.unwrap();
    store.delete("job_6", None, day).await.unwrap();
    assert!(matches!(offer("job_7", later, day).await.unwrap(), Accepted::New(_)));
    // Of many at once, one is new.
    let all: Vec<_> = (0..8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let new = NewJob { job: job(&format!("job_at_once_{n}"), "ann"), body: b"{}".to_vec() };
                store.accept(new, Some(key("once", "x")), NOW).await.unwrap()
            })
        })
        .collect();
    let mut new = 0;
    for one in all {
        new += usize::from(matches!(one.await.unwrap(), Accepted::New(_)));
    }
    assert_eq!(new, 1);
}

pub(crate) async fn limits(store: Arc<dyn Store>) {
    for n in 0..200 {
        offer(&*store, job(&format!("job_{n:03}"), "ann"), NOW).await;
    }
    let full = |what, most| StoreError::Limit { what, most };
    let new = |id: &str, key: &str| NewJob { job: job(id, key), body: b"{}".to_vec() };
    let refused = store.accept(new("job_x", "ann"), None, NOW).await.unwrap_err();
    assert_eq!(refused, full("open jobs of this key", 200));
    for n in 0..100 {
        offer(&*store, job(&format!("job_b{n}"), "bob"), NOW).await;
    }
    let refused = store.accept(new("job_x", "cleo"), None, NOW).await.unwrap_err();
    assert_eq!(refused, full("open jobs", 300));
    // A refused request may come again with its idempotency key.
    let refused = store.accept(new("job_x", "ann"), Some(key("k", "x")), NOW).await;
    assert!(refused.is_err());
    store.cancel("job_000", None, NOW).await.unwrap();
    let accepted = store.accept(new("job_x", "ann"), Some(key("k", "x")), NOW).await.unwrap();
    assert!(matches!(accepted, Accepted::New(_)));
    store.cancel("job_001", None, NOW).await.unwrap();
    let huge = NewJob { job: job("job_huge", "ann"), body: vec![0; (64 << 20) + 1] };
    assert_eq!(store.accept(huge, None, NOW).await.unwrap_err(), full("bytes of the store", 64 << 20));
    assert!(store.write_file("file-1", 64 << 20, vec![0]).await.is_err());
}

pub(crate) async fn cancelled_jobs(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    let cancelled = store.cancel("job_1", Some("ann"), NOW + 1).await.unwrap();
    assert_eq!((cancelled.status, cancelled.finished_at), (JobStatus::Cancelled, Some(NOW + 1)));
    assert_eq!(store.cancel("job_1", Some("ann"), NOW + 2).await.unwrap(), cancelled);
    assert!(claim(&*store, "w", 1, NOW + 3).await.is_empty());
}

pub(crate) async fn retried_and_deleted_jobs(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    assert!(matches!(store.retry("job_1", None, None, NOW).await, Err(StoreError::Conflict(_))));
    assert!(matches!(store.delete("job_1", None, NOW).await, Err(StoreError::Conflict(_))));
    claim(&*store, "w", 1, NOW).await;
    let error =
        JobError { code: "context_length_exceeded".to_owned(), message: "too long".to_owned(), param: None };
    let failed = Finish::Failed { status_code: 400, result: b"{\"error\":1}".to_vec(), error: error.clone() };
    let Finished::Done(job) = store.finish("job_1", 1, failed, NOW).await.unwrap() else { panic!() };
    assert_eq!((job.status, job.error.clone(), job.dead), (JobStatus::Failed, Some(error), false));
    assert_eq!(store.result("job_1").await.unwrap(), b"{\"error\":1}");
    let again = store.retry("job_1", Some("ann"), Some(NOW + MINUTE), NOW + 1).await.unwrap();
    assert_eq!((again.status, again.attempts, again.epoch), (JobStatus::Queued, 0, 2));
    assert_eq!(store.result("job_1").await.unwrap(), b"");
    let held = claim(&*store, "w", 1, NOW + 1).await.remove(0);
    assert_eq!((held.job.epoch, held.body), (3, body_of("job_1")));
    store.finish("job_1", 3, success(b"x"), NOW + 2).await.unwrap();
    assert!(matches!(store.retry("job_1", None, None, NOW).await, Err(StoreError::Conflict(_))));
    store.delete("job_1", Some("ann"), NOW + 3).await.unwrap();
    assert_eq!(store.job("job_1", None).await.unwrap_err(), StoreError::NotFound("job"));
    assert!(store.events("job_1", 0).await.unwrap().is_empty());
}

pub(crate) async fn lists_are_newest_first(store: Arc<dyn Store>) {
    for n in 0..7 {
        let mut job = job(&format!("job_{n}"), if n % 2 == 0 { "ann" } else { "bob" });
        job.created_at = NOW + n;
        job.model = if n < 3 { "small" } else { "large" }.to_owned();
        offer(&*store, job, NOW + n).await;
    }
    store.cancel("job_4", None, NOW).await.unwrap();
    let ids = |filter: JobFilter| {
        let store = store.clone();
        async move {
            let page = store.jobs(filter).await.unwrap();
            let ids: Vec<String> = page.rows.into_iter().map(|job| job.id).collect();
            (ids.join(" "), page.more)
        }
    };
    let all = JobFilter { limit: 100, ..JobFilter::default() };
    assert_eq!(ids(all.clone()).await.0, "job_6 job_5 job_4 job_3 job_2 job_1 job_0");
    let two = JobFilter { limit: 2, ..JobFilter::default() };
    assert_eq!(ids(two.clone()).await, ("job_6 job_5".to_owned(), true));
    let next = JobFilter { after: Some("job_5".to_owned()), ..two.clone() };
    assert_eq!(ids(next).await, ("job_4 job_3".to_owned(), true));
    let last = JobFilter { after: Some("job_2".to_owned()), ..two };
    assert_eq!(ids(last).await, ("job_1 job_0".to_owned(), false));
    let ann = JobFilter { key: Some("ann".to_owned()), ..all.clone() };
    assert_eq!(ids(ann.clone()).await.0, "job_6 job_4 job_2 job_0");
    let queued = JobFilter { status: Some(JobStatus::Queued), model: Some("large".to_owned()), ..ann };
    assert_eq!(ids(queued).await.0, "job_6");
    assert_eq!(ids(JobFilter { dead: true, ..all }).await.0, "");
}

pub(crate) async fn events_are_bounded(store: Arc<dyn Store>) {
    offer(&*store, job("job_1", "ann"), NOW).await;
    for n in 0..100 {
        let held = claim(&*store, "w", 1, NOW + n).await.remove(0);
        let released = Finish::Released { checkpoint: None };
        store.finish("job_1", held.job.epoch, released, NOW + n).await.unwrap();
    }
    let events = store.events("job_1", 0).await.unwrap();
    assert_eq!(events.len(), 64);
    assert_eq!((events[0].sequence, events[63].sequence), (138, 201));
}

pub(crate) async fn responses_tell_webhooks(store: Arc<dyn Store>) {
    let events = || async {
        let filter = DocumentFilter {
            kind: "webhook_event".to_owned(),
            id: None,
            key: None,
            group: None,
            after: None,
            limit: 100,
        };
        store.documents(filter).await.unwrap().rows
    };
    offer(&*store, job("job_quiet", "ann"), NOW).await;
    store.cancel("job_quiet", None, NOW).await.unwrap();
    assert!(events().await.is_empty());
    let mut response = job("resp_1", "ann");
    response.face = Face::Response;
    response.webhook = Some("https://example.com/hook".to_owned());
    offer(&*store, response, NOW).await;
    claim(&*store, "w", 1, NOW).await;
    store.finish("resp_1", 1, success(b"x"), NOW + 5).await.unwrap();
    let found = events().await;
    assert_eq!(found.len(), 1);
    let event = &found[0];
    assert!(event.id.starts_with("evt_") && event.id.len() == 30, "{event:?}");
    assert_eq!((event.key.as_str(), event.group.as_str(), event.due), ("ann", "resp_1", Some(NOW + 5)));
    let json: serde_json::Value = serde_json::from_str(event.json.as_ref().unwrap()).unwrap();
    let wanted = serde_json::json!({
        "type": "response.completed", "id": "resp_1", "webhook": "https://example.com/hook"
    });
    assert_eq!(json, wanted);
    // A key with an endpoint is told of all its jobs; others are not.
    let endpoint = Document {
        kind: "webhook_endpoint".to_owned(),
        id: "we_1".to_owned(),
        key: "bob".to_owned(),
        group: String::new(),
        due: None,
        expires_at: None,
        created_at: NOW,
        json: Some("{}".to_owned()),
    };
    store.put_document(endpoint, NOW).await.unwrap();
    for (id, key) in [("job_b", "bob"), ("job_a", "ann")] {
        offer(&*store, job(id, key), NOW + 10).await;
        store.cancel(id, None, NOW + 10).await.unwrap();
    }
    let found = events().await;
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].group.as_str(), found[0].created_at), ("job_b", NOW + 10));
    assert!(found[0].json.as_ref().unwrap().contains("job.cancelled"));
}
