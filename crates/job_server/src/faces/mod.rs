//! The APIs over the rows of the store: own jobs, files and batches of OpenAI's, message batches of Anthropic's, webhooks.
//!
//! Whoever asks with another key than a thing was made with is told that it is not there.

mod ask;
pub(crate) mod fault;
pub(crate) mod files;
mod hooks;
mod lines;
mod messages;
mod openai_batches;
mod own;
pub(crate) mod target;

use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, post};

use crate::shared::Jobs;

pub use own::{GuideBody, accept_guide, guide_body, prefers_async, respond_async};

/// The handler of the route with this operation id in [`wire::routes`]; none if it is not one of these APIs.
pub fn handler(id: &str) -> Option<MethodRouter<Arc<Jobs>>> {
    Some(match id {
        "createJob" => post(own::routes::create),
        "listJobs" => get(own::lists::list),
        "retryJobs" => post(own::lists::retry),
        "jobStats" => get(own::lists::stats),
        "getJob" => get(own::routes::retrieve),
        "deleteJob" => delete(own::routes::delete),
        "getJobResult" => get(own::routes::result),
        "streamJobEvents" => get(own::events::stream),
        "cancelJob" => post(own::routes::cancel),
        "retryJob" => post(own::routes::retry),
        "getTask" => get(own::task::retrieve),
        "createFile" => post(files::upload::create),
        "listFiles" => get(files::routes::list),
        "retrieveFile" => get(files::routes::retrieve),
        "deleteFile" => delete(files::routes::delete),
        "downloadFile" => get(files::content::content),
        "createBatch" => post(openai_batches::create),
        "listBatches" => get(openai_batches::list),
        "retrieveBatch" => get(openai_batches::retrieve),
        "cancelBatch" => post(openai_batches::cancel),
        "streamBatchOutput" => get(lines::output),
        "createMessageBatch" => post(messages::create),
        "listMessageBatches" => get(messages::list),
        "getMessageBatch" => get(messages::retrieve),
        "deleteMessageBatch" => delete(messages::delete),
        "cancelMessageBatch" => post(messages::cancel),
        "getMessageBatchResults" => get(messages::results),
        _ => return hooks::handler(id),
    })
}

/// The fault of an answer of the store.
pub fn fault(error: &job_store::StoreError) -> wire::Fault {
    fault::of_store(error.clone())
}
