//! Events on their way to those who want to know of them: each becomes a delivery to each receiver, and each delivery is
//! attempted until its receiver took it or the schedule is used up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use job_store::{Document, StoreError};
use jobs::{JobStatus, Millis, sha256_hex};
use serde::Deserialize;
use tokio::task::JoinSet;
use webhooks::delivery::{Attempt, Consequence, Delivery, Receiver};
use webhooks::endpoint::{Endpoint, Status};
use webhooks::event::{Event, EventType};
use webhooks::secret::{self, Secret};

use crate::documents::{self, DELIVERY, ENDPOINT, EVENT};
use crate::shared::Jobs;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Events that are spread at once.
const EVENTS: usize = 100;
/// Deliveries that are attempted at once.
const DELIVERIES: usize = 8;
/// Nobody else takes what is being done for so long.
const LEASE: Millis = 60_000;
/// The longest attempt.
const MOST: Duration = Duration::from_secs(20);
/// Pause of a delivery to a receiver that fails while another one is tried, or whose secret cannot be opened.
const PAUSE: Millis = 5_000;
const LONG_PAUSE: Millis = 300_000;

/// Sends what is due until it is dropped.
pub(crate) async fn run(jobs: Arc<Jobs>) {
    loop {
        match deliver_due(&jobs).await {
            // More may be due than was taken at once.
            Ok(done) if done >= DELIVERIES => continue,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "webhooks cannot be looked at"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Spreads events that are due, and attempts deliveries that are. Returns how many were attempted.
///
/// # Errors
/// A store out of reach. What was begun is taken up again when its lease is over.
pub(crate) async fn deliver_due(jobs: &Arc<Jobs>) -> Result<usize, StoreError> {
    let now = jobs.now();
    for event in jobs.store.take_due(EVENT, EVENTS, now + LEASE, now).await? {
        spread(jobs, event).await?;
    }
    let now = jobs.now();
    let due = jobs.store.take_due(DELIVERY, DELIVERIES, now + LEASE, now).await?;
    let mut failing: Vec<String> = Vec::new();
    let mut attempts = JoinSet::new();
    for document in due {
        match ready(jobs, &document, &mut failing).await {
            Ok(Some(ready)) => {
                attempts.spawn(attempt(jobs.clone(), ready));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(delivery = document.id, %error, "a webhook is not sent yet"),
        }
    }
    let attempted = attempts.len();
    while let Some(done) = attempts.join_next().await {
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "the end of a webhook's attempt was not written; it is sent again");
        }
    }
    Ok(attempted)
}

/// What the store says of an event.
#[derive(Deserialize)]
struct Told {
    r#type: String,
    id: String,
    webhook: Option<String>,
}

/// Makes a delivery of an event to each receiver. Done again after a crash, it makes the same ones.
async fn spread(jobs: &Jobs, document: Document) -> Result<(), StoreError> {
    let told: Told = documents::read(&document)?;
    if let Ok(kind) = told.r#type.parse::<EventType>() {
        let kind = precise(jobs, kind, &told.id).await?;
        let endpoints = documents::endpoints(jobs, &document.key).await?;
        for (receiver, kind) in receivers(kind, told.webhook.as_deref(), &endpoints) {
            let event = Event {
                id: document.id.clone(),
                kind,
                created_at: document.created_at,
                subject: told.id.clone(),
            };
            keep(jobs, &document, receiver, event).await?;
        }
    }
    jobs.store.put_document(documents::deleted(document), jobs.now()).await
}

/// What happened in particular: a dead letter, an answer that ended at a limit.
async fn precise(jobs: &Jobs, kind: EventType, id: &str) -> Result<EventType, StoreError> {
    match kind {
        EventType::JobFailed => match jobs.store.job(id, None).await {
            Ok(job) if job.dead && job.status == JobStatus::Failed => Ok(EventType::JobDead),
            Ok(_) | Err(StoreError::NotFound(_) | StoreError::Gone(_)) => Ok(kind),
            Err(error) => Err(error),
        },
        EventType::ResponseCompleted => {
            #[derive(Deserialize)]
            struct Ended {
                status: String,
            }
            let body = match jobs.store.result(id).await {
                Ok(body) => body,
                Err(StoreError::NotFound(_) | StoreError::Gone(_)) => return Ok(kind),
                Err(error) => return Err(error),
            };
            let incomplete =
                serde_json::from_slice::<Ended>(&body).is_ok_and(|ended| ended.status == "incomplete");
            Ok(if incomplete { EventType::ResponseIncomplete } else { kind })
        }
        _ => Ok(kind),
    }
}

/// Who is told, and of which event: a dead letter is told as a failed job to those who ask for these only.
fn receivers(kind: EventType, webhook: Option<&str>, endpoints: &[Endpoint]) -> Vec<(Receiver, EventType)> {
    let general = if kind == EventType::JobDead { EventType::JobFailed } else { kind };
    let mut told: Vec<(Receiver, EventType)> = Vec::new();
    for endpoint in endpoints {
        let named = webhook == Some(endpoint.id.as_str()) && endpoint.status == Status::Enabled;
        let wanted = [kind, general].into_iter().find(|kind| endpoint.wants(*kind));
        if let Some(kind) = wanted.or(named.then_some(kind)) {
            told.push((Receiver::Endpoint(endpoint.id.clone()), kind));
        }
    }
    if let Some(url) = webhook.filter(|webhook| webhook.contains("://")) {
        told.push((Receiver::Url(url.to_owned()), kind));
    }
    told
}

/// Keeps a delivery, unless it was kept before.
async fn keep(jobs: &Jobs, document: &Document, receiver: Receiver, event: Event) -> Result<(), StoreError> {
    let hash = sha256_hex(format!("{} {receiver:?}", document.id).as_bytes());
    let random = hash.get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let mut delivery = Delivery::new(document.key.clone(), receiver, event, document.created_at, random);
    if documents::find(jobs, DELIVERY, &delivery.id, None).await?.is_some() {
        return Ok(());
    }
    let now = jobs.now();
    delivery.next_at = Some(now);
    jobs.store.put_document(documents::of_delivery(&delivery, None), now).await
}

/// A delivery whose attempt was noted, and all that it needs.
struct Ready {
    delivery: Delivery,
    endpoint: Option<Endpoint>,
    url: String,
    secrets: Vec<Secret>,
}

/// Notes that an attempt begins, unless the receiver is gone, busy or failing.
async fn ready(
    jobs: &Jobs,
    document: &Document,
    failing: &mut Vec<String>,
) -> Result<Option<Ready>, StoreError> {
    let mut delivery: Delivery = documents::read(document)?;
    let now = jobs.now();
    let receiver = receiver(jobs, &delivery).await?;
    let (endpoint, url) = match (receiver, &delivery.receiver) {
        (Some(endpoint), Receiver::Endpoint(_)) => (Some(endpoint.clone()), endpoint.url),
        (signer, Receiver::Url(url)) => (signer, url.clone()),
        (None, Receiver::Endpoint(_)) => return discard(jobs, delivery, "its endpoint was deleted").await,
    };
    let of_endpoint = endpoint.as_ref().filter(|_| matches!(delivery.receiver, Receiver::Endpoint(_)));
    if let Some(endpoint) = of_endpoint {
        if endpoint.status == Status::Disabled {
            return discard(jobs, delivery, "its endpoint is switched off").await;
        }
        if let Some(until) = endpoint.busy(now) {
            return postpone(jobs, delivery, until).await;
        }
        if endpoint.failing_since.is_some() {
            if failing.contains(&endpoint.id) {
                return postpone(jobs, delivery, now + PAUSE).await;
            }
            failing.push(endpoint.id.clone());
        }
    }
    let secrets = match endpoint.as_ref().map(|endpoint| endpoint.secrets(&jobs.sealer, now)) {
        Some(Ok(secrets)) => secrets,
        None => Vec::new(),
        Some(Err(error)) => {
            tracing::error!(delivery = delivery.id, %error, "a webhook cannot be signed; it is tried again later");
            return postpone(jobs, delivery, now + LONG_PAUSE).await;
        }
    };
    let begun = delivery.begin(now).is_ok();
    let lease = begun.then_some(now + LEASE);
    jobs.store.put_document(documents::of_delivery(&delivery, lease), now).await?;
    Ok(begun.then_some(Ready { delivery, endpoint, url, secrets }))
}

/// The endpoint of a delivery; of one to a URL, the endpoint that has this URL, whose secret signs.
async fn receiver(jobs: &Jobs, delivery: &Delivery) -> Result<Option<Endpoint>, StoreError> {
    match &delivery.receiver {
        Receiver::Endpoint(id) => {
            let found = documents::find(jobs, ENDPOINT, id, Some(&delivery.key)).await?;
            found.as_ref().map(documents::read).transpose()
        }
        Receiver::Url(url) => {
            let endpoints = documents::endpoints(jobs, &delivery.key).await?;
            Ok(endpoints.into_iter().find(|endpoint| endpoint.url == *url))
        }
    }
}

async fn discard(jobs: &Jobs, mut delivery: Delivery, why: &str) -> Result<Option<Ready>, StoreError> {
    let now = jobs.now();
    // One that has ended stays as it is.
    let _ = delivery.discard(why, now);
    jobs.store.put_document(documents::of_delivery(&delivery, None), now).await?;
    Ok(None)
}

async fn postpone(jobs: &Jobs, mut delivery: Delivery, until: Millis) -> Result<Option<Ready>, StoreError> {
    // One that has ended stays as it is.
    let _ = delivery.postpone(until);
    jobs.store.put_document(documents::of_delivery(&delivery, None), jobs.now()).await?;
    Ok(None)
}

/// Makes an attempt and writes how it ended.
async fn attempt(jobs: Arc<Jobs>, ready: Ready) -> Result<(), StoreError> {
    let body = Bytes::from(ready.delivery.event.body());
    let seconds = jobs.now().div_euclid(1_000);
    let headers = secret::headers(&ready.secrets, &ready.delivery.event.id, seconds, &body);
    let sent = jobs.sender.send(&ready.url, &headers, body, MOST).await;
    settle(&jobs, ready, &Attempt::from(&sent)).await
}

/// Writes how an attempt ended, and what that says of its endpoint.
async fn settle(jobs: &Jobs, ready: Ready, attempt: &Attempt) -> Result<(), StoreError> {
    let Ready { mut delivery, endpoint, .. } = ready;
    let now = jobs.now();
    let random = u64::from_le_bytes(jobs.random());
    let Ok(consequence) = delivery.settle(attempt, now, random) else { return Ok(()) };
    let outcome = match (&consequence, &attempt.result) {
        (Consequence::Healthy, _) => "delivered",
        (_, Ok(_)) => "refused",
        (_, Err(_)) => "failed",
    };
    jobs.metrics.delivery(outcome, attempt.millis as f64 / 1e3);
    // Before the delivery is over for those who look at it.
    if let (Some(endpoint), Receiver::Endpoint(_)) = (endpoint, &delivery.receiver) {
        follow(jobs, &endpoint, consequence).await?;
    }
    jobs.store.put_document(documents::of_delivery(&delivery, None), now).await
}

/// Notes what an attempt says of an endpoint, as it is by now.
async fn follow(jobs: &Jobs, endpoint: &Endpoint, consequence: Consequence) -> Result<(), StoreError> {
    let Some(document) = documents::find(jobs, ENDPOINT, &endpoint.id, None).await? else { return Ok(()) };
    let mut endpoint: Endpoint = documents::read(&document)?;
    let now = jobs.now();
    if endpoint.follow(consequence, now) {
        jobs.store.put_document(documents::of_endpoint(&endpoint), now).await?;
    }
    Ok(())
}
