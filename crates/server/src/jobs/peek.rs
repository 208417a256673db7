//! A body that is looked at before it is decided who answers.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header, request::Parts};
use httpd::body::Media;
use wire::Fault;

use crate::state::State;

/// The head of a request and its whole body, decompressed.
pub(crate) async fn whole(state: &State, request: Request) -> Result<(Parts, Vec<u8>), Fault> {
    let (head, body) = request.into_parts();
    let read = Request::from_parts(head.clone(), body);
    let bytes = httpd::body::read(&state.edge, read, Media::Json).await?;
    // Counted again when it is read again; held twice only between the two.
    let (body, _memory) = bytes.decompressed(state.edge.options.body_bytes)?;
    Ok((head, body))
}

/// The request as it was.
pub(crate) fn again(mut head: Parts, body: Vec<u8>) -> Request {
    head.headers.remove(header::CONTENT_ENCODING);
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    Request::from_parts(head, Body::from(body))
}
