//! Endpoints: making, looking, changing, deleting.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use job_store::{Document, DocumentFilter};
use jobs::objects::List;
use serde_json::{Value, json};
use webhooks::endpoint::{Change, Endpoint, EndpointError, Random, Status, Wanted};
use webhooks::event::EventType;
use wire::Fault;

use crate::documents::{self, ENDPOINT, MOST_ENDPOINTS};
use crate::faces::ask::{Caller, Fields, Params, body, optional_body};
use crate::faces::fault::{answer, conflict, json as respond, not_found, of_store};
use crate::shared::Jobs;

/// Endpoints of a page, unless the client says.
const PAGE: u64 = 20;

/// An endpoint that the caller sees, with its document.
///
/// # Errors
/// An endpoint that is not there, or another key's.
pub(super) async fn found(jobs: &Jobs, caller: &Caller, id: &str) -> Result<(Endpoint, Document), Fault> {
    let document = documents::find(jobs, ENDPOINT, id, caller.scope()).await.map_err(of_store)?;
    let document = document.ok_or_else(|| not_found("webhook endpoint", id))?;
    Ok((documents::read(&document).map_err(of_store)?, document))
}

async fn save(jobs: &Jobs, endpoint: &Endpoint) -> Result<(), Fault> {
    jobs.store.put_document(documents::of_endpoint(endpoint), jobs.now()).await.map_err(of_store)
}

fn refused(error: EndpointError) -> Fault {
    match error.param() {
        Some(param) => Fault::field(param, error.to_string()),
        None => Fault::internal(error.to_string()),
    }
}

fn random(jobs: &Jobs) -> Random {
    Random { id: u128::from_le_bytes(jobs.random()), secret: jobs.random(), nonce: jobs.random() }
}

/// `POST /v1/webhook_endpoints`.
pub(crate) async fn create(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&body(&jobs, request).await?)?;
        let url = fields.required_text("url")?;
        let wanted = Wanted {
            name: fields.text("name")?.unwrap_or_else(|| "webhook".to_owned()),
            url,
            event_types: names(&fields)?.ok_or_else(|| Fault::missing("event_types"))?,
        };
        let before = documents::endpoints(&jobs, &caller.key).await.map_err(of_store)?;
        if before.len() >= MOST_ENDPOINTS {
            return Err(conflict(format!(
                "there are {MOST_ENDPOINTS} webhook endpoints, which is the limit"
            )));
        }
        let (random, rules) = (random(&jobs), &jobs.options.webhook_rules);
        let made = Endpoint::create(&wanted, &caller.key, rules, &jobs.sealer, &random, jobs.now());
        let (endpoint, secret) = made.map_err(refused)?;
        save(&jobs, &endpoint).await?;
        Ok(respond(&endpoint.object_with_secret(&secret)))
    };
    answer(answered.await)
}

fn names(fields: &Fields) -> Result<Option<Vec<String>>, Fault> {
    fields.get("event_types", "a list of names of events")
}

/// `GET /v1/webhook_endpoints`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let limit = params.number("limit", 1..=MOST_ENDPOINTS as u64)?.unwrap_or(PAGE);
        let filter = DocumentFilter {
            kind: ENDPOINT.to_owned(),
            id: None,
            key: Caller::of(&jobs, &head.extensions).filter(),
            group: None,
            after: params.text("after"),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.documents(filter).await.map_err(of_store)?;
        let read =
            page.rows.iter().map(|row| documents::read::<Endpoint>(row).map(|endpoint| endpoint.object()));
        let objects: Vec<Value> = read.collect::<Result<_, _>>().map_err(of_store)?;
        Ok(respond(&List::new(objects, page.more, |object| object["id"].as_str().unwrap_or_default())))
    };
    answer(answered.await)
}

/// `GET /v1/webhook_endpoints/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let caller = Caller::of(&jobs, &head.extensions);
    answer(found(&jobs, &caller, &id).await.map(|(endpoint, _)| respond(&endpoint.object())))
}

/// `POST /v1/webhook_endpoints/{id}`.
pub(crate) async fn update(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&body(&jobs, request).await?)?;
        let change = Change {
            name: fields.text("name")?,
            url: fields.text("url")?,
            event_types: names(&fields)?,
            status: fields.get::<Status>("status", "enabled or disabled")?,
        };
        let (mut endpoint, _) = found(&jobs, &caller, &id).await?;
        if endpoint.update(&change, &jobs.options.webhook_rules, jobs.now()).map_err(refused)? {
            save(&jobs, &endpoint).await?;
        }
        Ok(respond(&endpoint.object()))
    };
    answer(answered.await)
}

/// `DELETE /v1/webhook_endpoints/{id}`. What was to be sent to it is discarded when it is due.
pub(crate) async fn delete(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let (_, document) = found(&jobs, &caller, &id).await?;
        jobs.store.put_document(documents::deleted(document), jobs.now()).await.map_err(of_store)?;
        Ok(respond(&json!({"id": id, "object": "webhook_endpoint.deleted", "deleted": true})))
    };
    answer(answered.await)
}

/// `POST /v1/webhook_endpoints/{id}/rotate_secret`.
pub(crate) async fn rotate(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&optional_body(&jobs, request).await?)?;
        let keep = fields.flag("keep_old_secret_active_for_24_hours")?;
        let (mut endpoint, _) = found(&jobs, &caller, &id).await?;
        let secret = endpoint.rotate(keep, &jobs.sealer, &random(&jobs), jobs.now()).map_err(refused)?;
        save(&jobs, &endpoint).await?;
        Ok(respond(&endpoint.object_with_secret(&secret)))
    };
    answer(answered.await)
}

/// `GET /v1/webhook_event_types`.
pub(crate) async fn event_types() -> Response {
    let names = EventType::ALL.map(EventType::name);
    respond(&json!({"object": "list", "data": names, "has_more": false}))
}
