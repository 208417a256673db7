//! The APIs over the rows of the store: own jobs, files and batches of OpenAI's, message batches of Anthropic's, webhooks.

use std::sync::Arc;

use axum::routing::MethodRouter;

use crate::shared::Jobs;

/// The handler of the route with this operation id in [`wire::routes`]; none if it is not one of these APIs.
pub fn handler(id: &str) -> Option<MethodRouter<Arc<Jobs>>> {
    let _ = id;
    None
}
