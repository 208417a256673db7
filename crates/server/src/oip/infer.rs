//! `POST /v2/models/NAME/infer`: tensors in, tensors out, as JSON or with binary data behind it.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use httpd::body::Media;
use inference::{Infer, Inferred, Operation, Output};
use service::Takes;
use wire::Fault;
use wire::error::quote;
use wire::oip::{
    InferRequest, OutputRequest, ResponseBody, ResponseHead, as_wanted, plain_name, write_response,
};

use crate::requests::{Parsed, parsed_as};
use crate::state::State;

/// The header with the number of bytes of JSON before binary data, of requests and of answers.
const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
/// Bytes from which on an answer is written off the async threads.
const LARGE: usize = 64 << 10;

/// What the answer is to look like.
pub(crate) struct Wanted {
    pub(crate) id: Option<String>,
    pub(crate) outputs: Vec<OutputRequest>,
    pub(crate) binary_output: bool,
    pub(crate) timeout: Option<Duration>,
}

/// The operation of a request, and what its answer is to look like.
pub(crate) fn operation(model: String, request: InferRequest) -> (Operation, Wanted) {
    let InferRequest { id, parameters, inputs, outputs, binary_output, timeout_us } = request;
    let names = outputs.iter().map(|output| output.name.clone()).collect();
    let infer = Infer { model: Some(model), inputs, outputs: names, parameters };
    let wanted = Wanted { id, outputs, binary_output, timeout: timeout_us.map(Duration::from_micros) };
    (Operation::Infer(infer), wanted)
}

/// The shorter of two time limits.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Answers a request for inference.
pub(super) async fn answer(state: &State, model: String, request: Request) -> Result<Response, Fault> {
    let header = header_length(&request)?;
    let compression = httpd::accepted(request.headers());
    let make = move |body: Vec<u8>| {
        let request = InferRequest::parse(body.into(), header)?;
        Ok(operation(model, request))
    };
    let Parsed { mut request, admitted, asked: wanted } =
        parsed_as(state, request, Takes::Texts, Media::Any, make).await?;
    request.time_limit = shorter(request.time_limit, wanted.timeout);
    let inferred = match state.service.answer(request, admitted).await? {
        Output::Tensors(inferred) => inferred,
        _ => return Err(Fault::internal("tensors were asked for, and something else came")),
    };
    let bytes: usize = inferred.outputs.iter().map(wire::oip::Tensor::byte_size).sum();
    if bytes < LARGE {
        return written(inferred, &wanted, compression);
    }
    let writing = tokio::task::spawn_blocking(move || written(inferred, &wanted, compression));
    writing.await.map_err(|error| Fault::internal(format!("an answer was not written: {error}")))?
}

/// The header's value.
fn header_length(request: &Request) -> Result<Option<usize>, Fault> {
    let Some(value) = request.headers().get(&HEADER_LENGTH) else { return Ok(None) };
    let text = value.to_str().unwrap_or("not ASCII");
    match text.trim().parse() {
        Ok(length) => Ok(Some(length)),
        Err(_) => {
            let message =
                format!("the header {HEADER_LENGTH} is {}; it must be a number of bytes", quote(text));
            Err(Fault::field(HEADER_LENGTH.as_str(), message))
        }
    }
}

fn written(
    inferred: Inferred,
    wanted: &Wanted,
    compression: Option<&'static str>,
) -> Result<Response, Fault> {
    let Inferred { model, version, outputs, labels } = inferred;
    let label = |output: &str, index: usize| Inferred::label(&labels, output, index);
    let outputs = as_wanted(outputs, &wanted.outputs, &label)?;
    let id = wanted.id.clone();
    let (model, version) = (plain_name(&model).to_owned(), version.to_string());
    let head = ResponseHead { model, version, id, ..ResponseHead::default() };
    let is_binary = |name: &str| {
        let output = wanted.outputs.iter().find(|output| output.name == name);
        output.and_then(|output| output.binary).unwrap_or(wanted.binary_output)
    };
    let ResponseBody { bytes, header: length } = write_response(&head, &outputs, &is_binary)?;
    let (bytes, encoding) = httpd::compressed(bytes, compression);
    let kind = if length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = ([(header::CONTENT_TYPE, kind)], bytes).into_response();
    let headers = response.headers_mut();
    if let Some(length) = length {
        headers.insert(HEADER_LENGTH, HeaderValue::from(length));
    }
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    Ok(response)
}
