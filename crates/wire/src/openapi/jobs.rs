//! Schemas and parameters of durable jobs, files, batches and webhooks.

use serde_json::{Value, json};

use super::parts::{object, reference};
use crate::routes::Route;

/// Whether the route answers 202: what it was asked for is done later.
pub(super) fn is_accepted(route: &Route) -> bool {
    route.id == "createJob"
}

/// The media type of an answer that is no JSON object.
pub(super) fn media(route: &Route) -> Option<&'static str> {
    match route.id {
        "downloadFile" => Some("application/octet-stream"),
        "streamBatchOutput" => Some("application/x-ndjson"),
        "getMessageBatchResults" => Some("application/x-jsonl"),
        "streamJobEvents" => Some("text/event-stream"),
        _ => None,
    }
}

/// Adds what the table of routes does not hold: query parameters, headers, and bodies that are no JSON.
pub(super) fn complete(route: &Route, operation: &mut Value) {
    let mut parameters: Vec<Value> = operation["parameters"].as_array().cloned().unwrap_or_default();
    let before = parameters.len();
    parameters.extend(query(route.id));
    let error = operation["responses"]["400"]["content"].clone();
    if ["createJob", "createBatch", "createMessageBatch"].contains(&route.id) {
        parameters.push(json!({"name": "Idempotency-Key", "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255}}));
        operation["responses"]["422"] =
            json!({"description": "The Idempotency-Key was sent with another body.", "content": error});
    }
    if ["jobs", "files", "batches", "webhooks"].iter().any(|tag| route.tag == Some(tag)) {
        let said = [
            ("409", "The state of what is named does not allow it."),
            ("501", "The server was started without `--jobs`."),
        ];
        for (status, description) in said {
            operation["responses"][status] = json!({"description": description, "content": error});
        }
    }
    if route.id == "downloadFile" {
        parameters.push(json!({"name": "Range", "in": "header", "schema": {"type": "string"}}));
        let mut part = operation["responses"]["200"].clone();
        part["description"] = "The bytes of the Range.".into();
        operation["responses"]["206"] = part;
        operation["responses"]["416"] = operation["responses"]["400"].clone();
        operation["responses"]["416"]["description"] = "The Range lies outside of the file.".into();
    }
    if parameters.len() > before {
        operation["parameters"] = parameters.into();
    }
    if route.id == "createFile" {
        let form = object(
            json!({
                "purpose": {"enum": ["batch", "user_data"]},
                "expires_after[anchor]": {"const": "created_at"},
                "expires_after[seconds]": {"type": "string", "pattern": "^[0-9]{4,7}$"},
                "file": {"type": "string", "contentMediaType": "application/octet-stream"},
            }),
            json!({}),
            &["purpose", "file"],
        );
        operation["requestBody"] =
            json!({"required": true, "content": {"multipart/form-data": {"schema": form}}});
    }
}

/// The query parameters of an operation.
fn query(id: &str) -> Vec<Value> {
    let text = json!({"type": "string"});
    let limit = |most: u32| json!({"type": "integer", "minimum": 1, "maximum": most});
    let status =
        json!({"enum": ["queued", "running", "cancelling", "succeeded", "failed", "cancelled", "expired"]});
    let purpose = json!({"enum": ["batch", "batch_output", "user_data"]});
    let number = json!({"type": "integer", "minimum": 0});
    let named: Vec<(&str, Value)> = match id {
        "listJobs" => vec![
            ("status", status),
            ("dead", json!({"enum": ["1", "true", "0", "false"]})),
            ("model", text.clone()),
            ("after", text),
            ("limit", limit(100)),
        ],
        "getJob" => vec![("wait", json!({"type": "integer", "minimum": 0, "maximum": 60}))],
        "streamJobEvents" => vec![("after", number)],
        "streamBatchOutput" => {
            vec![("after", number), ("follow", json!({"enum": ["1", "true", "0", "false"]}))]
        }
        "listFiles" => vec![
            ("after", text),
            ("limit", limit(10_000)),
            ("order", json!({"enum": ["asc", "desc"]})),
            ("purpose", purpose),
        ],
        "listBatches" | "listWebhookEndpoints" | "listWebhookDeliveries" => {
            vec![("after", text), ("limit", limit(100))]
        }
        "listMessageBatches" => {
            vec![("after_id", text.clone()), ("before_id", text), ("limit", limit(1_000))]
        }
        _ => Vec::new(),
    };
    named.into_iter().map(|(name, schema)| json!({"name": name, "in": "query", "schema": schema})).collect()
}

fn list(of: &str) -> Value {
    object(
        json!({"object": {"const": "list"}, "data": {"type": "array", "items": reference(of)},
            "has_more": {"type": "boolean"}}),
        json!({"first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]}}),
        &["object", "data", "has_more"],
    )
}

/// The schemas, by name.
pub(super) fn schemas() -> Value {
    let schemas = [of_jobs(), of_files(), of_messages(), of_webhooks()];
    schemas.into_iter().fold(json!({}), super::parts::joined)
}

fn metadata() -> Value {
    json!({"type": ["object", "null"], "maxProperties": 16, "propertyNames": {"maxLength": 64},
        "additionalProperties": {"type": "string", "maxLength": 512}})
}

fn of_jobs() -> Value {
    let seconds = |least: u32| json!({"type": ["integer", "null"], "minimum": least});
    let webhook = json!({"type": ["object", "null"], "properties": {"endpoint_id": {"type": "string"}, "url": {"type": "string"}}});
    let statuses =
        json!({"enum": ["queued", "running", "cancelling", "succeeded", "failed", "cancelled", "expired"]});
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 0});
    json!({
        "JobRequest": object(json!({
            "endpoint": {"type": "string", "minLength": 1, "description": "Path of the endpoint that the job asks."},
            "body": {"type": "object", "description": "The request as that endpoint takes it."},
            "priority": {"enum": ["interactive", "default", "batch", null]},
            "run_at": seconds(0), "deadline_seconds": seconds(1), "retain_seconds": seconds(1),
            "max_attempts": {"type": ["integer", "null"], "minimum": 1, "maximum": 20},
            "metadata": metadata(), "webhook": webhook,
            "strict": {"type": ["boolean", "null"], "description": "Refuse a deadline that the queue cannot meet."},
        }), json!({}), &["endpoint", "body"]),
        "Job": object(json!({"id": text, "object": {"const": "job"}, "status": statuses, "endpoint": text,
            "model": text, "created_at": number, "attempts": number, "dead": {"type": "boolean"},
            "result": {}, "error": {"type": ["object", "null"]}}), json!({}), &["id", "object", "status", "endpoint", "created_at"]),
        "JobList": list("Job"),
        "JobsRetryRequest": object(json!({"filter": {"type": ["object", "null"], "properties": {
            "status": {"enum": ["failed", "expired", "cancelled", null]}, "dead": {"type": ["boolean", "null"]},
            "model": {"type": ["string", "null"]}}}}), json!({}), &[]),
        "JobsRetried": object(json!({"retried": number, "has_more": {"type": "boolean"}}), json!({}), &["retried", "has_more"]),
        "JobStats": object(json!({"object": {"const": "job.stats"}, "jobs": {"type": "array"}, "dead": number,
            "batches": {"type": "object"}}), json!({}), &["object", "jobs", "dead", "batches"]),
        "Task": object(json!({"task_id": text, "status": {"enum": ["pending", "processing", "completed", "failed"]},
            "result": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]}}), json!({}),
            &["task_id", "status", "result", "error"]),
    })
}

fn of_files() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 0});
    let after = json!({"type": ["object", "null"], "required": ["anchor", "seconds"], "properties": {
        "anchor": {"const": "created_at"}, "seconds": {"type": "integer", "minimum": 3_600, "maximum": 2_592_000}}});
    json!({
        "File": object(json!({"id": text, "object": {"const": "file"}, "bytes": number, "created_at": number,
            "filename": text, "purpose": {"enum": ["batch", "batch_output", "user_data"]}}), json!({}),
            &["id", "object", "bytes", "created_at", "filename", "purpose"]),
        "FileList": list("File"),
        "BatchRequest": object(json!({
            "input_file_id": text, "endpoint": {"type": "string", "minLength": 1},
            "completion_window": {"type": "string", "pattern": "^[0-9]+[hd]$", "description": "From 1h to 7d; OpenAI's is 24h."},
            "metadata": metadata(), "output_expires_after": after,
        }), json!({}), &["input_file_id", "endpoint", "completion_window"]),
        "Batch": object(json!({"id": text, "object": {"const": "batch"}, "endpoint": text, "input_file_id": text,
            "completion_window": text, "created_at": number,
            "status": {"enum": ["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]}}),
            json!({}), &["id", "object", "endpoint", "input_file_id", "completion_window", "status", "created_at"]),
        "BatchList": list("Batch"),
    })
}

fn of_messages() -> Value {
    let text = json!({"type": "string"});
    let request = object(
        json!({"custom_id": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}, "params": reference("MessagesRequest")}),
        json!({}),
        &["custom_id", "params"],
    );
    json!({
        "MessageBatchRequest": object(json!({"requests": {"type": "array", "minItems": 1, "maxItems": 100_000, "items": request}}),
            json!({}), &["requests"]),
        "MessageBatch": object(json!({"id": text, "type": {"const": "message_batch"},
            "processing_status": {"enum": ["in_progress", "canceling", "ended"]}, "request_counts": {"type": "object"},
            "created_at": text, "expires_at": text, "results_url": {"type": ["string", "null"]}}), json!({}),
            &["id", "type", "processing_status", "request_counts", "created_at", "expires_at"]),
        "MessageBatchList": object(json!({"data": {"type": "array", "items": reference("MessageBatch")},
            "has_more": {"type": "boolean"}, "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]}}),
            json!({}), &["data", "has_more", "first_id", "last_id"]),
        "MessageBatchDeleted": object(json!({"id": text, "type": {"const": "message_batch_deleted"}}), json!({}), &["id", "type"]),
    })
}

fn of_webhooks() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 0});
    let types = json!({"type": "array", "minItems": 1, "items": text});
    json!({
        "WebhookEndpointRequest": object(json!({"name": text, "url": text, "event_types": types}), json!({}), &["url", "event_types"]),
        "WebhookEndpointUpdate": object(json!({"name": text, "url": text, "event_types": types}), json!({}), &[]),
        "WebhookEndpoint": object(json!({"id": text, "object": {"const": "webhook_endpoint"}, "name": text, "url": text,
            "event_types": types, "created_at": number, "updated_at": number, "signing_secret_hint": text}), json!({}),
            &["id", "object", "url", "event_types", "created_at"]),
        "WebhookEndpointList": list("WebhookEndpoint"),
        "WebhookDelivery": object(json!({"id": text, "object": {"const": "webhook_delivery"},
            "state": {"enum": ["pending", "sending", "delivered", "dead", "discarded"]}}), json!({}), &["id", "object", "state"]),
        "WebhookDeliveryList": list("WebhookDelivery"),
        "WebhookTest": object(json!({"object": {"const": "webhook_endpoint.test"}, "success": {"type": "boolean"},
            "status_code": {"type": ["integer", "null"]}, "error": {"type": ["string", "null"]}}), json!({}), &["object", "success"]),
        "WebhookEventTypes": object(json!({"object": {"const": "list"}, "data": types}), json!({}), &["object", "data"]),
    })
}
