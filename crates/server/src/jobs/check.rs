//! What a request must be to become a job, and what of it is kept.

use job_server::Checked;
use serde_json::{Map, Value};
use wire::embeddings::EmbeddingsRequest;
use wire::{ChatRequest, CompletionRequest, Fault, ResponsesRequest};

use crate::state::State;

/// An endpoint whose requests can be jobs.
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    /// Fails where the endpoint would answer 400 to the body, as far as that can be told without a model.
    parse: fn(&[u8]) -> Result<(), Fault>,
    /// The field that bounds the answer's tokens.
    limits: &'static [&'static str],
    /// Whether an answer depends on a seed, and so gets one if the client gave none: whoever runs the request a second time
    /// gives the same answer.
    pub(super) seeded: bool,
    /// Whether an answer can be continued from its tokens.
    pub(super) resumes: bool,
    /// Whether the body may say how urgent it is.
    pub(super) prioritized: bool,
}

const GENERATES: Endpoint = Endpoint {
    path: "",
    parse: |_| Ok(()),
    limits: &["max_completion_tokens", "max_tokens"],
    seeded: true,
    resumes: true,
    prioritized: true,
};
const ENCODES: Endpoint =
    Endpoint { limits: &[], seeded: false, resumes: false, prioritized: false, ..GENERATES };

/// Every endpoint whose requests can be jobs.
pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint { path: "/v1/chat/completions", parse: |body| ChatRequest::parse(body).map(drop), ..GENERATES },
    Endpoint {
        path: "/v1/completions",
        parse: |body| CompletionRequest::parse(body).map(drop),
        limits: &["max_tokens"],
        ..GENERATES
    },
    Endpoint {
        path: "/v1/responses",
        parse: |body| ResponsesRequest::parse(body).map(drop),
        limits: &["max_output_tokens"],
        resumes: false,
        ..GENERATES
    },
    Endpoint {
        path: "/v1/messages",
        parse: |body| wire::anthropic::read(&wire::json::read(body)?, false).map(drop),
        limits: &["max_tokens"],
        seeded: false,
        resumes: false,
        ..GENERATES
    },
    Endpoint { path: "/v1/embeddings", parse: |body| EmbeddingsRequest::parse(body).map(drop), ..ENCODES },
    Endpoint { path: "/v1/rerank", ..ENCODES },
    Endpoint { path: "/v1/score", ..ENCODES },
    Endpoint { path: "/rerank", ..ENCODES },
    Endpoint { path: "/classify", ..ENCODES },
    Endpoint { path: "/embed", ..ENCODES },
    Endpoint { path: "/pooling", ..ENCODES },
];

/// The endpoint at a path.
pub(super) fn endpoint(path: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
}

/// Checks a request that is to be a job. `random` becomes its seed if it needs one.
pub(super) fn check(state: &State, path: &str, body: &[u8], random: u64) -> Result<Checked, Fault> {
    let Some(endpoint) = endpoint(path) else {
        let known: Vec<&str> = ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
        let message = format!(
            "the endpoint {} takes no jobs; these do: {}",
            wire::error::quote(path),
            known.join(", ")
        );
        return Err(Fault::field("endpoint", message));
    };
    wire::scan::values(body)?;
    let mut fields = object(body)?;
    refuse_stream(&fields)?;
    fields.remove("stream");
    fields.remove("stream_options");
    if endpoint.path == "/v1/responses" {
        fields.remove("background");
    }
    if endpoint.seeded && needs_seed(&fields) {
        fields.insert("seed".to_owned(), Value::from(random >> 33));
    }
    let kept = serde_json::to_vec(&fields).expect("an object with string keys serializes");
    (endpoint.parse)(&kept)?;
    let model = fields.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    state.service.find(Some(&model).filter(|model| !model.is_empty()).map(String::as_str))?;
    let limits = endpoint.limits.iter().filter_map(|name| fields.get(*name).and_then(Value::as_u64));
    Ok(Checked { model, body: kept, output_limit: limits.min() })
}

/// Refuses a request whose answer would be streamed.
pub(super) fn refuse_stream(fields: &Map<String, Value>) -> Result<(), Fault> {
    if fields.get("stream").is_none_or(|stream| *stream != Value::Bool(true)) {
        return Ok(());
    }
    let message = "the answer of a job is whole; leave `stream` out and read the job's events instead";
    Err(Fault::field("stream", message))
}

/// The object that a body is.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Fault> {
    match wire::json::read(body)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(Fault::body("the body is no JSON object")),
    }
}

/// Whether the answer depends on a seed that nobody has given.
fn needs_seed(fields: &Map<String, Value>) -> bool {
    let greedy = fields.get("temperature").and_then(Value::as_f64).is_some_and(|heat| heat == 0.0);
    !greedy && fields.get("seed").is_none_or(Value::is_null)
}
