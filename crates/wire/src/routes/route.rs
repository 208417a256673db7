//! A route, and what many routes have in common.

/// The format of an API's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// OpenAI: `{"error": {"message", "type", "param", "code"}}`.
    OpenAi,
    /// Anthropic: `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
    /// text-generation-inference: `{"error", "error_type", "param", "code"}`.
    Tgi,
    /// Ollama: `{"error"}`.
    Ollama,
    /// text-embeddings-inference: `{"error", "error_type", "message", "param", "code"}`.
    Tei,
    /// Cohere: `{"message"}`, with OpenAI's `error` beside it.
    Cohere,
    /// Open Inference Protocol: `{"error"}`.
    Oip,
    /// gRPC: a status in trailers.
    Grpc,
}

/// How a response body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    /// One JSON object.
    Whole,
    /// One JSON object, or server-sent events if the request sets `stream`.
    Either,
    /// Server-sent events.
    Streamed,
    /// JSON objects, one a line, or a single one if the request sets `stream` to false.
    Lines,
}

/// A route: one method of one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Path pattern; `{id}` matches one segment, `{*id}` the rest.
    pub path: &'static str,
    /// The label of the route in the metrics, where it is not the path.
    pub label: &'static str,
    /// HTTP method: `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// `operationId` of the OpenAPI document: OpenAI's where it has one.
    pub id: &'static str,
    /// Tag of the OpenAPI document; none leaves the route out of it.
    pub tag: Option<&'static str>,
    /// Summary of the operation, a sentence.
    pub summary: &'static str,
    /// Description of the response, a sentence.
    pub answers: &'static str,
    /// Name of the request body's schema; none without a body.
    pub request: Option<&'static str>,
    /// Name of the response's schema.
    pub answer: &'static str,
    /// How the response is sent.
    pub sent: ResponseMode,
    /// Format of the route's errors.
    pub shape: ErrorFormat,
}

pub(super) const GET: Route = Route {
    path: "",
    label: "",
    method: "GET",
    id: "",
    tag: Some("server"),
    summary: "",
    answers: "",
    request: None,
    answer: "Object",
    sent: ResponseMode::Whole,
    shape: ErrorFormat::OpenAi,
};
pub(super) const POST: Route = Route { method: "POST", tag: Some("completions"), ..GET };
pub(super) const PROBE: Route = Route { tag: None, ..GET };
pub(super) const OLLAMA: Route =
    Route { tag: Some("ollama"), sent: ResponseMode::Lines, shape: ErrorFormat::Ollama, ..POST };
pub(super) const OLLAMA_WHOLE: Route = Route { method: "POST", ..OLLAMA_GET };
pub(super) const ENCODER: Route = Route { tag: Some("encoders"), ..POST };
pub(super) const TEI: Route = Route { shape: ErrorFormat::Tei, ..ENCODER };
pub(super) const COHERE: Route = Route { shape: ErrorFormat::Cohere, ..ENCODER };
pub(super) const OLLAMA_GET: Route = Route { tag: Some("ollama"), shape: ErrorFormat::Ollama, ..GET };

/// Path of the health check.
pub const HEALTH: &str = "/health";
/// Path of the liveness probe: whether the process should be kept running.
pub const LIVE: &str = "/health/live";
/// Path of the readiness probe: whether to route requests to this server.
pub const READY: &str = "/health/ready";
/// Path of the Prometheus metrics.
pub const METRICS: &str = "/metrics";

impl Route {
    /// The path in the syntax of OpenAPI.
    pub fn documented_path(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// The label of the route in the metrics.
    pub fn label(&self) -> &'static str {
        if self.label.is_empty() { self.path } else { self.label }
    }

    /// Whether the route computes with a model. Answers of such routes carry the node's load.
    pub fn infers(&self) -> bool {
        let tags = ["completions", "responses", "messages", "encoders", "inference", "ollama"];
        let acts = self.method == "POST" && self.request.is_some();
        acts && self.tag.is_some_and(|tag| tags.contains(&tag))
    }

    /// Whether the route's pattern matches a path.
    pub(super) fn matches(&self, path: &str) -> bool {
        if let Some((start, rest)) = self.path.split_once("{*") {
            let end = rest.split_once('}').map_or("", |(_, end)| end);
            let name = path.strip_prefix(start).and_then(|rest| without_end(rest, end));
            return name.is_some_and(|name| !name.is_empty() && !name.starts_with('/'));
        }
        let mut segments = path.split('/');
        let known = self.path.split('/').all(|part| {
            segments.next().is_some_and(|segment| {
                if part.starts_with('{') { !segment.is_empty() } else { part == segment }
            })
        });
        known && segments.next().is_none()
    }
}

/// The path without its last segments, which the pattern `end` describes.
fn without_end<'a>(path: &'a str, end: &str) -> Option<&'a str> {
    let mut rest = path;
    for pattern in end.rsplit('/').filter(|pattern| !pattern.is_empty()) {
        let (before, segment) = rest.rsplit_once('/')?;
        let fits = if pattern.starts_with('{') { !segment.is_empty() } else { pattern == segment };
        rest = fits.then_some(before)?;
    }
    Some(rest)
}
