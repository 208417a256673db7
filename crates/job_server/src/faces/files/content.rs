//! `GET /v1/files/{id}/content`: the bytes of a file, or a range of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use jobs::File;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::Fault;

use super::name::disposition;
use super::routes::visible;
use crate::faces::ask::Caller;
use crate::faces::fault::{answer, fault};
use crate::faces::own::{is_known, unchanged};
use crate::shared::Jobs;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Pieces that wait for their reader.
const PIECES: usize = 2;

/// `GET /v1/files/{id}/content`.
pub(crate) async fn content(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let file = visible(&jobs, &id, caller.scope()).await?;
        let tag = format!("\"{}\"", file.sha256);
        if is_known(&head.headers, &tag) {
            return Ok(unchanged(&tag));
        }
        let part = range(&head.headers, &tag, file.bytes);
        respond(&jobs, &file, &tag, part)
    };
    answer(answered.await)
}

/// What is asked for of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// From one byte to another, both among them.
    Range(u64, u64),
    /// Nothing that the file has.
    Outside,
}

/// The range that a request asks for. What is no range of bytes, or several, is passed over (RFC 9110, section 14.2).
fn range(headers: &HeaderMap, tag: &str, bytes: u64) -> Part {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|known| known != tag) {
        return Part::Whole;
    }
    let Some(range) = text(header::RANGE).and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((from, to)) = range.trim().split_once('-') else { return Part::Whole };
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let last = bytes.saturating_sub(1);
    match (number(from), number(to)) {
        (Some(from), None) if to.is_empty() && from < bytes => Part::Range(from, last),
        (Some(from), Some(to)) if from <= to && from < bytes => Part::Range(from, to.min(last)),
        (None, Some(tail)) if from.is_empty() && tail > 0 && bytes > 0 => {
            Part::Range(bytes.saturating_sub(tail), last)
        }
        (Some(from), Some(to)) if from > to => Part::Whole,
        (Some(_), None) if !to.is_empty() => Part::Whole,
        (None, None) => Part::Whole,
        (None, Some(_)) if !from.is_empty() => Part::Whole,
        _ => Part::Outside,
    }
}

fn respond(jobs: &Arc<Jobs>, file: &File, tag: &str, part: Part) -> Result<Response, Fault> {
    let (status, from, length) = match part {
        Part::Whole => (StatusCode::OK, 0, file.bytes),
        Part::Range(from, to) => (StatusCode::PARTIAL_CONTENT, from, to - from + 1),
        Part::Outside => return Ok(outside(file.bytes)),
    };
    let mut response = Response::new(bytes(jobs, &file.id, from, length));
    *response.status_mut() = status;
    let named =
        |text: &str| HeaderValue::from_str(text).map_err(|_| Fault::internal("a file's name is no header"));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::ETAG, named(tag)?);
    headers.insert(header::CONTENT_DISPOSITION, named(&disposition(&file.filename))?);
    if status == StatusCode::PARTIAL_CONTENT {
        let place = format!("bytes {from}-{}/{}", from + length - 1, file.bytes);
        headers.insert(header::CONTENT_RANGE, named(&place)?);
    }
    Ok(response)
}

fn outside(bytes: u64) -> Response {
    let message = format!("the range lies outside of the file, which has {bytes} bytes");
    let mut response = httpd::respond(&fault(416, "range_not_satisfiable", message));
    if let Ok(place) = HeaderValue::from_str(&format!("bytes */{bytes}")) {
        response.headers_mut().insert(header::CONTENT_RANGE, place);
    }
    response
}

/// Bytes of a file, read as they are taken.
pub(crate) fn bytes(jobs: &Arc<Jobs>, id: &str, from: u64, length: u64) -> Body {
    let (pieces, received) = mpsc::channel(PIECES);
    let (jobs, id) = (jobs.clone(), id.to_owned());
    tokio::spawn(async move {
        let (mut at, end) = (from, from.saturating_add(length));
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let read = jobs.store.read_file(&id, at, most).await;
            let read = match read {
                Ok(read) if read.is_empty() => Err(std::io::Error::other("the file is shorter than it was")),
                Ok(read) => Ok(Bytes::from(read)),
                Err(error) => Err(std::io::Error::other(error)),
            };
            at = match &read {
                Ok(read) => at + read.len() as u64,
                Err(_) => end,
            };
            // A reader that is gone needs no more.
            if pieces.send(read).await.is_err() {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        let of = |value: &str, bytes| {
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_str(value).unwrap())]);
            range(&headers, "\"t\"", bytes)
        };
        assert_eq!(of("bytes=0-499", 10_000), Part::Range(0, 499));
        assert_eq!(of("bytes=500-999", 10_000), Part::Range(500, 999));
        assert_eq!(of("bytes=-500", 10_000), Part::Range(9_500, 9_999));
        assert_eq!(of("bytes=9500-", 10_000), Part::Range(9_500, 9_999));
        assert_eq!(of("bytes=-99999", 10_000), Part::Range(0, 9_999));
        assert_eq!(of("bytes=0-99999", 10_000), Part::Range(0, 9_999));
        for whole in ["bytes=0-0,-1", "bytes=5-2", "bytes=", "bytes=-", "lines=0-1", "bytes=a-5", "bytes=5-b"]
        {
            assert_eq!(of(whole, 10_000), Part::Whole, "{whole}");
        }
        for outside in ["bytes=10000-", "bytes=10000-10001", "bytes=-0"] {
            assert_eq!(of(outside, 10_000), Part::Outside, "{outside}");
        }
        assert_eq!(of("bytes=0-", 0), Part::Outside);
    }

    #[test]
    fn a_range_of_another_version_is_the_whole() {
        let mut headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-1"))]);
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"old\""));
        assert_eq!(range(&headers, "\"t\"", 10), Part::Whole);
        assert_eq!(range(&headers, "\"old\"", 10), Part::Range(0, 1));
    }
}
