//! Endpoints and deliveries of webhooks as documents of the store.

use job_store::{Document, DocumentFilter, StoreError};
use jobs::Millis;
use serde::Serialize;
use serde::de::DeserializeOwned;
use webhooks::delivery::{Delivery, Receiver};
use webhooks::endpoint::Endpoint;

use crate::shared::Jobs;

/// Events that are to be told; written by the store.
pub(crate) const EVENT: &str = "webhook_event";
/// Endpoints.
pub(crate) const ENDPOINT: &str = "webhook_endpoint";
/// Deliveries.
pub(crate) const DELIVERY: &str = "webhook_delivery";
/// Endpoints of a key at most.
pub(crate) const MOST_ENDPOINTS: usize = 100;

/// What a document holds.
///
/// # Errors
/// A document of another version.
pub(crate) fn read<T: DeserializeOwned>(document: &Document) -> Result<T, StoreError> {
    let json = document.json.as_deref().unwrap_or_default();
    serde_json::from_str(json).map_err(|error| {
        StoreError::Unavailable(format!("the {} {} cannot be read: {error}", document.kind, document.id))
    })
}

fn json(value: &impl Serialize) -> Option<String> {
    Some(serde_json::to_string(value).expect("documents have names that are strings"))
}

/// A document of an endpoint.
pub(crate) fn of_endpoint(endpoint: &Endpoint) -> Document {
    Document {
        kind: ENDPOINT.to_owned(),
        id: endpoint.id.clone(),
        key: endpoint.key.clone(),
        group: String::new(),
        due: None,
        expires_at: None,
        created_at: endpoint.created_at,
        json: json(endpoint),
    }
}

/// A document of a delivery, due at its next attempt, or at `due` while one is made.
pub(crate) fn of_delivery(delivery: &Delivery, due: Option<Millis>) -> Document {
    let group = match &delivery.receiver {
        Receiver::Endpoint(id) => id.clone(),
        Receiver::Url(_) => String::new(),
    };
    Document {
        kind: DELIVERY.to_owned(),
        id: delivery.id.clone(),
        key: delivery.key.clone(),
        group,
        due: due.or(delivery.next_at),
        expires_at: delivery.expires_at(),
        created_at: delivery.created_at,
        json: json(delivery),
    }
}

/// The document, deleted.
pub(crate) fn deleted(document: Document) -> Document {
    Document { json: None, ..document }
}

/// A document by its kind and id; of a key, if one is named.
///
/// # Errors
/// A store out of reach.
pub(crate) async fn find(
    jobs: &Jobs,
    kind: &str,
    id: &str,
    key: Option<&str>,
) -> Result<Option<Document>, StoreError> {
    let filter = DocumentFilter {
        kind: kind.to_owned(),
        id: Some(id.to_owned()),
        key: key.map(str::to_owned),
        group: None,
        after: None,
        limit: 1,
    };
    Ok(jobs.store.documents(filter).await?.rows.into_iter().next())
}

/// The endpoints of a key.
///
/// # Errors
/// A store out of reach.
pub(crate) async fn endpoints(jobs: &Jobs, key: &str) -> Result<Vec<Endpoint>, StoreError> {
    let filter = DocumentFilter {
        kind: ENDPOINT.to_owned(),
        id: None,
        key: Some(key.to_owned()),
        group: None,
        after: None,
        limit: MOST_ENDPOINTS,
    };
    jobs.store.documents(filter).await?.rows.iter().map(read).collect()
}
