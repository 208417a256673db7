//! From the body of a request to an operation, and to its output.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use httpd::body::Media;
use inference::{Generate, Generation, Operation, Output};
use service::{Admitted, Takes};
use wire::Fault;
use wire::error::quote;

use crate::state::State;

/// The header for clients that cannot add the field `timeout`, seconds.
const TIMEOUT: &str = "x-request-timeout";

/// Reads a body: the operation that it asks for, and what its answer is to look like.
pub(crate) type Read<O, A> = fn(&[u8]) -> Result<(O, A), Fault>;

/// A request in the engine, what its answer is to look like, and its name.
pub(crate) struct Begun<A> {
    pub(crate) generation: Generation,
    pub(crate) asked: A,
    pub(crate) id: String,
}

/// From the body into the engine; `make` is computed off the async threads.
pub(crate) async fn begin<A: Send + 'static>(
    state: &State,
    request: Request,
    make: impl FnOnce(&[u8]) -> Result<(Generate, A), Fault> + Send + 'static,
) -> Result<Begun<A>, Fault> {
    let make = move |body: &[u8]| make(body).map(|(generate, asked)| (Operation::Generate(generate), asked));
    let Parsed { request, admitted, asked } = parsed(state, request, Takes::Answers, make).await?;
    let id = request.context.request_id();
    match state.service.answer(request, admitted).await? {
        Output::Generation(generation) => Ok(Begun { generation, asked, id }),
        _ => Err(Fault::internal("an answer was asked for, and something else came")),
    }
}

/// An operation that was let in, and what its answer is to look like.
pub(crate) struct Parsed<A> {
    pub(crate) request: inference::Request,
    pub(crate) admitted: Admitted,
    pub(crate) asked: A,
}

/// Reads the body, has the request let in and its body parsed by `make`, off the async threads. What the request holds
/// lives as long as the work on it, also when the client leaves.
pub(crate) async fn parsed<A: Send + 'static>(
    state: &State,
    request: Request,
    takes: Takes,
    make: impl FnOnce(&[u8]) -> Result<(Operation, A), Fault> + Send + 'static,
) -> Result<Parsed<A>, Fault> {
    let make = |bytes: Vec<u8>| {
        wire::scan::values(&bytes)?;
        make(&bytes)
    };
    parsed_as(state, request, takes, Media::Json, make).await
}

/// As [`parsed`], for bodies of other media types, which `make` checks for their JSON values.
pub(crate) async fn parsed_as<A: Send + 'static>(
    state: &State,
    request: Request,
    takes: Takes,
    media: Media,
    make: impl FnOnce(Vec<u8>) -> Result<(Operation, A), Fault> + Send + 'static,
) -> Result<Parsed<A>, Fault> {
    state.service.open_or_reject()?;
    let context = httpd::context(&request).cloned();
    let context: Arc<_> = context.ok_or_else(|| Fault::internal("a request without a context"))?;
    let time_limit = time_limit(&request)?;
    let body = httpd::body::read(&state.edge, request, media).await?;
    let admitted = state.service.admit(takes, &context, body.size()).await?;
    let limit = state.edge.options.body_bytes;
    let parsing = admitted.run(move |admitted, _| {
        let (bytes, memory) = body.decompressed(limit)?;
        admitted.hold(memory);
        make(bytes)
    });
    let (admitted, (operation, asked)) = state.service.counted(parsing.await)?;
    let request = inference::Request { operation, context, time_limit };
    Ok(Parsed { request, admitted, asked })
}

fn time_limit(request: &Request) -> Result<Option<Duration>, Fault> {
    let Some(value) = request.headers().get(TIMEOUT) else { return Ok(None) };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f32>().ok());
    match seconds.filter(|s| (0.001..=wire::limits::TIMEOUT_S).contains(s)) {
        Some(seconds) => Ok(Some(service::whole_ms(seconds))),
        None => {
            let message = format!(
                "the header {TIMEOUT} is {}; it must be between 0.001 and {} seconds",
                quote(value.to_str().unwrap_or("not ASCII")),
                wire::limits::TIMEOUT_S
            );
            Err(Fault::field(TIMEOUT, message))
        }
    }
}
