//! `GET /info`: the default model, in the words of text-embeddings-inference if it is an encoder, else in those of
//! text-generation-inference.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use inference::{Capability, EncoderFacts};
use serde_json::{Map, Value, json};
use wire::Fault;

use crate::state::State;
use crate::{faults, tgi};

/// `GET /info`.
pub(crate) async fn info(Shared(state): Shared<Arc<State>>) -> Response {
    if state.can(None, "generate").unwrap_or(true) {
        return tgi::info(&state).await;
    }
    described(&state).await.unwrap_or_else(|fault| faults::tei(&fault))
}

async fn described(state: &State) -> Result<Response, Fault> {
    // What an encoder is like is known once it is loaded.
    drop(state.service.model(None).await?);
    let capability = state.capability(None)?;
    let facts = capability.encoder.clone().unwrap_or_default();
    let options = state.service.options();
    Ok(axum::Json(json!({
        "model_id": capability.names.first(),
        "model_sha": null,
        "model_dtype": facts.precision,
        "served_model_name": capability.names.first(),
        "model_type": model_type(&capability, &facts),
        "max_concurrent_requests": options.requests,
        "max_input_length": facts.max_tokens,
        "max_batch_tokens": null,
        "max_batch_requests": null,
        "max_client_batch_size": wire::limits::INPUTS,
        "auto_truncate": true,
        "tokenization_workers": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "sha": null,
        "docker_label": null,
    }))
    .into_response())
}

/// The kind of model: `{"embedding": {"pooling"}}`, or `reranker` or `classifier` with its labels.
fn model_type(capability: &Capability, facts: &EncoderFacts) -> Value {
    if let Some(pooling) = &facts.pooling {
        return json!({"embedding": {"pooling": pooling}});
    }
    let kind = if capability.operations.contains(&"rerank") { "reranker" } else { "classifier" };
    let labels = facts.labels.iter().enumerate();
    let by_id: Map<String, Value> =
        labels.clone().map(|(id, label)| (id.to_string(), label.as_str().into())).collect();
    let by_label: Map<String, Value> = labels.map(|(id, label)| (label.clone(), id.into())).collect();
    json!({kind: {"id2label": by_id, "label2id": by_label}})
}
