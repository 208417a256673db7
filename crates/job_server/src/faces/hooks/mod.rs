//! `/v1/webhook_endpoints`: who is told of events, and what was sent.

mod deliveries;
mod endpoints;

use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, post};

use crate::shared::Jobs;

/// The handler of a route of webhooks; none if it is not one of these.
pub(super) fn handler(id: &str) -> Option<MethodRouter<Arc<Jobs>>> {
    Some(match id {
        "createWebhookEndpoint" => post(endpoints::create),
        "listWebhookEndpoints" => get(endpoints::list),
        "getWebhookEndpoint" => get(endpoints::retrieve),
        "updateWebhookEndpoint" => post(endpoints::update),
        "deleteWebhookEndpoint" => delete(endpoints::delete),
        "rotateWebhookSecret" => post(endpoints::rotate),
        "testWebhookEndpoint" => post(deliveries::test),
        "listWebhookDeliveries" => get(deliveries::list),
        "replayWebhookDelivery" => post(deliveries::replay),
        "listWebhookEventTypes" => get(endpoints::event_types),
        _ => return None,
    })
}
