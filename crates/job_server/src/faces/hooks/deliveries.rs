//! What was sent to an endpoint, sending it again, and trying the endpoint.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use job_store::DocumentFilter;
use jobs::objects::List;
use serde_json::{Value, json};
use webhooks::delivery::{Attempt, Delivery};
use webhooks::event::{Event, EventType};
use webhooks::secret;
use wire::Fault;

use super::endpoints::found;
use crate::documents::{self, DELIVERY};
use crate::faces::ask::{Caller, Fields, Params, optional_body};
use crate::faces::fault::{answer, conflict, json as respond, not_found, of_store};
use crate::shared::Jobs;

/// Deliveries of a page, unless the client says, and at most.
const PAGE: u64 = 20;
const MOST_PAGE: u64 = 100;
/// The longest that a try may take.
const TRY: Duration = Duration::from_secs(20);

/// `GET /v1/webhook_endpoints/{id}/deliveries`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let limit = params.number("limit", 1..=MOST_PAGE)?.unwrap_or(PAGE);
        let caller = Caller::of(&jobs, &head.extensions);
        found(&jobs, &caller, &id).await?;
        let filter = DocumentFilter {
            kind: DELIVERY.to_owned(),
            id: None,
            key: caller.filter(),
            group: Some(id),
            after: params.text("after"),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.documents(filter).await.map_err(of_store)?;
        let read =
            page.rows.iter().map(|row| documents::read::<Delivery>(row).map(|delivery| delivery.object()));
        let objects: Vec<Value> = read.collect::<Result<_, _>>().map_err(of_store)?;
        Ok(respond(&List::new(objects, page.more, |object| object["id"].as_str().unwrap_or_default())))
    };
    answer(answered.await)
}

/// `POST /v1/webhook_endpoints/{id}/deliveries/{delivery}/replay`.
pub(crate) async fn replay(
    State(jobs): State<Arc<Jobs>>,
    Path((id, delivery)): Path<(String, String)>,
    head: Parts,
) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        found(&jobs, &caller, &id).await?;
        let document = documents::find(&jobs, DELIVERY, &delivery, caller.scope()).await.map_err(of_store)?;
        let document = document.filter(|document| document.group == id);
        let document = document.ok_or_else(|| not_found("delivery", &delivery))?;
        let mut delivery: Delivery = documents::read(&document).map_err(of_store)?;
        delivery.replay(jobs.now()).map_err(|wrong| conflict(wrong.to_string()))?;
        let due = documents::of_delivery(&delivery, None);
        jobs.store.put_document(due, jobs.now()).await.map_err(of_store)?;
        Ok(respond(&delivery.object()))
    };
    answer(answered.await)
}

/// `POST /v1/webhook_endpoints/{id}/test`: sends an event at once, and tells how that went.
pub(crate) async fn test(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&optional_body(&jobs, request).await?)?;
        let kind = match fields.text("event_type")? {
            Some(name) => name.parse().map_err(|unknown: webhooks::event::UnknownEvent| {
                Fault::field("event_type", unknown.to_string())
            })?,
            None => EventType::WebhookTest,
        };
        let (endpoint, _) = found(&jobs, &caller, &id).await?;
        let now = jobs.now();
        let event = Event::new(kind, id.clone(), now, u128::from_le_bytes(jobs.random()));
        let secrets =
            endpoint.secrets(&jobs.sealer, now).map_err(|error| Fault::internal(error.to_string()))?;
        let body = Bytes::from(event.body());
        let headers = secret::headers(&secrets, &event.id, now.div_euclid(1_000), &body);
        let sent = jobs.sender.send(&endpoint.url, &headers, body, TRY).await;
        Ok(respond(&outcome(&id, &event, &Attempt::from(&sent))))
    };
    answer(answered.await)
}

fn outcome(id: &str, event: &Event, attempt: &Attempt) -> Value {
    // As OpenAI has it: there was an answer, whatever it says.
    let success = attempt.result.is_ok();
    json!({
        "object": "webhook_endpoint.test",
        "webhook_endpoint_id": id,
        "event_id": event.id,
        "event_type": event.kind,
        "success": success,
        "status_code": attempt.result.as_ref().ok(),
        "error": attempt.result.as_ref().err(),
        "ms": attempt.millis,
    })
}
