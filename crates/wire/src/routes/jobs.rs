//! Routes of durable jobs, files, batches and webhooks.

use super::route::{ErrorFormat, GET, ResponseMode, Route};

const JOB: Route = Route { tag: Some("jobs"), answer: "Job", ..GET };
const JOB_POST: Route = Route { method: "POST", ..JOB };
const FILE: Route = Route { tag: Some("files"), answer: "File", ..GET };
const BATCH: Route = Route { tag: Some("batches"), answer: "Batch", ..GET };
const BATCH_POST: Route = Route { method: "POST", ..BATCH };
const MESSAGES: Route =
    Route { tag: Some("batches"), answer: "MessageBatch", shape: ErrorFormat::Anthropic, ..GET };
const MESSAGES_POST: Route = Route { method: "POST", ..MESSAGES };
const WEBHOOK: Route = Route { tag: Some("webhooks"), answer: "WebhookEndpoint", ..GET };
const WEBHOOK_POST: Route = Route { method: "POST", ..WEBHOOK };

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/jobs",
        id: "createJob",
        summary: "Accepts a request as a job, which is run even if the server restarts.",
        answers: "The job, queued.",
        request: Some("JobRequest"),
        ..JOB_POST
    },
    Route {
        path: "/v1/jobs",
        id: "listJobs",
        summary: "Lists jobs, newest first.",
        answers: "A page of jobs.",
        answer: "JobList",
        ..JOB
    },
    Route {
        path: "/v1/jobs/retry",
        id: "retryJobs",
        summary: "Queues ended jobs again, by default the dead ones.",
        answers: "How many were queued.",
        request: Some("JobsRetryRequest"),
        answer: "JobsRetried",
        ..JOB_POST
    },
    Route {
        path: "/v1/jobs/stats",
        id: "jobStats",
        summary: "Counts jobs by status and class.",
        answers: "The counts.",
        answer: "JobStats",
        ..JOB
    },
    Route {
        path: "/v1/jobs/{id}",
        id: "getJob",
        summary: "Retrieves a job; `wait` seconds are waited for its end.",
        answers: "The job.",
        ..JOB
    },
    Route {
        path: "/v1/jobs/{id}",
        method: "DELETE",
        id: "deleteJob",
        summary: "Deletes an ended job.",
        answers: "The id of the deleted job.",
        answer: "Deleted",
        ..JOB
    },
    Route {
        path: "/v1/jobs/{id}/result",
        id: "getJobResult",
        summary: "Retrieves the body of a job's answer.",
        answers: "The answer as the endpoint gave it.",
        answer: "Object",
        ..JOB
    },
    Route {
        path: "/v1/jobs/{id}/events",
        id: "streamJobEvents",
        summary: "Streams the events of a job until it ends.",
        answers: "An event for each change.",
        sent: ResponseMode::Streamed,
        ..JOB
    },
    Route {
        path: "/v1/jobs/{id}/cancel",
        id: "cancelJob",
        summary: "Cancels a job.",
        answers: "The job in its current state.",
        ..JOB_POST
    },
    Route {
        path: "/v1/jobs/{id}/retry",
        id: "retryJob",
        summary: "Queues an ended job again.",
        answers: "The job, queued.",
        ..JOB_POST
    },
    Route {
        path: "/status/{id}",
        id: "getTask",
        summary: "Retrieves the state of a task of POST /generate.",
        answers: "The task.",
        answer: "Task",
        ..JOB
    },
    Route {
        path: "/v1/files",
        method: "POST",
        id: "createFile",
        summary: "Keeps a file, sent as multipart/form-data.",
        answers: "The file.",
        ..FILE
    },
    Route {
        path: "/v1/files",
        id: "listFiles",
        summary: "Lists files.",
        answers: "A page of files.",
        answer: "FileList",
        ..FILE
    },
    Route {
        path: "/v1/files/{id}",
        id: "retrieveFile",
        summary: "Retrieves what is known of a file.",
        answers: "The file.",
        ..FILE
    },
    Route {
        path: "/v1/files/{id}",
        method: "DELETE",
        id: "deleteFile",
        summary: "Deletes a file.",
        answers: "The id of the deleted file.",
        answer: "Deleted",
        ..FILE
    },
    Route {
        path: "/v1/files/{id}/content",
        id: "downloadFile",
        summary: "Retrieves the bytes of a file, or a range of them.",
        answers: "The bytes.",
        answer: "Object",
        ..FILE
    },
    Route {
        path: "/v1/batches",
        id: "createBatch",
        summary: "Runs the requests of a file.",
        answers: "The batch.",
        request: Some("BatchRequest"),
        ..BATCH_POST
    },
    Route {
        path: "/v1/batches",
        id: "listBatches",
        summary: "Lists batches, newest first.",
        answers: "A page of batches.",
        answer: "BatchList",
        ..BATCH
    },
    Route {
        path: "/v1/batches/{id}",
        id: "retrieveBatch",
        summary: "Retrieves a batch.",
        answers: "The batch.",
        ..BATCH
    },
    Route {
        path: "/v1/batches/{id}/cancel",
        id: "cancelBatch",
        summary: "Cancels a batch.",
        answers: "The batch in its current state.",
        ..BATCH_POST
    },
    Route {
        path: "/v1/batches/{id}/output",
        id: "streamBatchOutput",
        summary: "Streams the lines of a batch that have ended, while it runs.",
        answers: "Lines of JSON in the order of the input.",
        answer: "Object",
        ..BATCH
    },
    Route {
        path: "/v1/messages/batches",
        id: "createMessageBatch",
        summary: "Runs the requests of a message batch (Anthropic).",
        answers: "The message batch.",
        request: Some("MessageBatchRequest"),
        ..MESSAGES_POST
    },
    Route {
        path: "/v1/messages/batches",
        id: "listMessageBatches",
        summary: "Lists message batches, newest first (Anthropic).",
        answers: "A page of message batches.",
        answer: "MessageBatchList",
        ..MESSAGES
    },
    Route {
        path: "/v1/messages/batches/{id}",
        id: "getMessageBatch",
        summary: "Retrieves a message batch (Anthropic).",
        answers: "The message batch.",
        ..MESSAGES
    },
    Route {
        path: "/v1/messages/batches/{id}",
        method: "DELETE",
        id: "deleteMessageBatch",
        summary: "Deletes an ended message batch (Anthropic).",
        answers: "The id of the deleted message batch.",
        answer: "MessageBatchDeleted",
        ..MESSAGES
    },
    Route {
        path: "/v1/messages/batches/{id}/cancel",
        id: "cancelMessageBatch",
        summary: "Cancels a message batch (Anthropic).",
        answers: "The message batch in its current state.",
        ..MESSAGES_POST
    },
    Route {
        path: "/v1/messages/batches/{id}/results",
        id: "getMessageBatchResults",
        summary: "Retrieves the results of an ended message batch (Anthropic).",
        answers: "Lines of JSON, one for each request.",
        answer: "Object",
        ..MESSAGES
    },
    Route {
        path: "/v1/webhook_endpoints",
        id: "createWebhookEndpoint",
        summary: "Registers a URL that is told of events.",
        answers: "The endpoint, with its signing secret, which is not shown again.",
        request: Some("WebhookEndpointRequest"),
        ..WEBHOOK_POST
    },
    Route {
        path: "/v1/webhook_endpoints",
        id: "listWebhookEndpoints",
        summary: "Lists webhook endpoints.",
        answers: "A page of endpoints.",
        answer: "WebhookEndpointList",
        ..WEBHOOK
    },
    Route {
        path: "/v1/webhook_endpoints/{id}",
        id: "getWebhookEndpoint",
        summary: "Retrieves a webhook endpoint.",
        answers: "The endpoint.",
        ..WEBHOOK
    },
    Route {
        path: "/v1/webhook_endpoints/{id}",
        id: "updateWebhookEndpoint",
        summary: "Changes a webhook endpoint.",
        answers: "The endpoint as it is now.",
        request: Some("WebhookEndpointUpdate"),
        ..WEBHOOK_POST
    },
    Route {
        path: "/v1/webhook_endpoints/{id}",
        method: "DELETE",
        id: "deleteWebhookEndpoint",
        summary: "Deletes a webhook endpoint.",
        answers: "The id of the deleted endpoint.",
        answer: "Deleted",
        ..WEBHOOK
    },
    Route {
        path: "/v1/webhook_endpoints/{id}/rotate_secret",
        id: "rotateWebhookSecret",
        summary: "Replaces the signing secret of a webhook endpoint.",
        answers: "The endpoint, with its new secret, which is not shown again.",
        ..WEBHOOK_POST
    },
    Route {
        path: "/v1/webhook_endpoints/{id}/test",
        id: "testWebhookEndpoint",
        summary: "Sends an event of type webhook.test to an endpoint.",
        answers: "What the endpoint answered.",
        answer: "WebhookTest",
        ..WEBHOOK_POST
    },
    Route {
        path: "/v1/webhook_endpoints/{id}/deliveries",
        id: "listWebhookDeliveries",
        summary: "Lists what was sent to a webhook endpoint, newest first.",
        answers: "A page of deliveries.",
        answer: "WebhookDeliveryList",
        ..WEBHOOK
    },
    Route {
        path: "/v1/webhook_endpoints/{id}/deliveries/{delivery}/replay",
        id: "replayWebhookDelivery",
        summary: "Sends a delivery again.",
        answers: "The delivery, which is on its way.",
        answer: "WebhookDelivery",
        ..WEBHOOK_POST
    },
    Route {
        path: "/v1/webhook_event_types",
        id: "listWebhookEventTypes",
        summary: "Lists the types of events that an endpoint can be told of.",
        answers: "The types.",
        answer: "WebhookEventTypes",
        ..WEBHOOK
    },
];
