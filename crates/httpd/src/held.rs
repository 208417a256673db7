//! Whole answers that wait for their readers: bounded in bytes, for each client and in sum.
//!
//! How slowly a reader may take one is [`crate::write_timeout`]'s concern. Streams are bounded by their events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;
use events::Rejection;
use hyper::body::{Frame, SizeHint};
use inference::{LimitReached, Share};
use wire::Fault;

use crate::edge::Edge;
use crate::faults::respond;
use crate::request::owner;

/// Bytes up to which an answer is not counted: a connection holds no more of small ones than of what it sends anyway.
const SMALL: u64 = 64 << 10;
/// Bytes that are handed to the connection at once; what it has not asked for stays counted.
const AT_ONCE: usize = 64 << 10;

/// Counts a large answer for as long as any of it waits, or puts a refusal in its place.
pub(crate) async fn hold(Shared(edge): Shared<Arc<Edge>>, request: Request, next: Next) -> Response {
    let owner = owner(&request);
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let Some(size) = response.body().size_hint().exact().filter(|size| *size > SMALL) else {
        return response;
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    match edge.answer_memory.take(owner, size) {
        Ok(share) => held(response, size, share).await,
        Err(full) => {
            let (most, whose) = match full {
                LimitReached::Total => (edge.answer_memory.most(), "all answers"),
                LimitReached::PerOwner => (edge.answer_memory.most_each(), "this client's answers"),
            };
            let message = format!(
                "the answer has {size} bytes; {whose} that wait for their readers may have {most} bytes together"
            );
            let fault = edge.refused(Rejection::AnswerMemory, Fault::busy(message, 5));
            edge.site.fault(&path, &fault)
        }
    }
}

async fn held(response: Response, size: usize, share: Share) -> Response {
    let (head, body) = response.into_parts();
    match axum::body::to_bytes(body, size).await {
        Ok(bytes) => {
            Response::from_parts(head, Body::new(Held(Bytes::from_owner(Counted { bytes, _share: share }))))
        }
        Err(error) => respond(&Fault::internal(format!("an answer broke: {error}"))),
    }
}

/// Bytes with their share: free when the last part of them is.
struct Counted {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that is handed out part by part, as the connection asks for it.
struct Held(Bytes);

impl HttpBody for Held {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let size = self.0.len().min(AT_ONCE);
        Poll::Ready((size > 0).then(|| Ok(Frame::data(self.0.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use inference::Owner;

    use super::*;

    #[tokio::test]
    async fn abuse_a8_an_answer_counts_until_its_last_byte_is_taken() {
        let shares = inference::Shares::new(1_000_000, 500_000);
        let owner = Owner::Key(1);
        let take = || shares.take(owner, 400_000);
        let response = held(Response::new(Body::from(vec![7; 400_000])), 400_000, take().unwrap()).await;
        assert_eq!(take().unwrap_err(), LimitReached::PerOwner);
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(400_000));
        let mut parts = Vec::new();
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            parts.push(frame.unwrap().into_data().unwrap());
        }
        drop(body);
        assert_eq!(parts.iter().map(Bytes::len).sum::<usize>(), 400_000);
        parts.truncate(1);
        assert_eq!(take().unwrap_err(), LimitReached::PerOwner, "a part of it is on its way");
        parts.clear();
        take().unwrap();
    }
}
