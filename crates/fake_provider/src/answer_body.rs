//! The body of an answer: bytes at once, or what a task sends.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use thiserror::Error;
use tokio::sync::mpsc;

/// The end of a connection that the script asks for.
#[derive(Debug, Error)]
#[error("the script of the fake provider ends the connection here")]
pub(crate) struct Cut;

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Option<Bytes>),
    Sent(mpsc::Receiver<Result<Bytes, Cut>>),
}

impl AnswerBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }

    /// The bytes of a body that is whole.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Whole(bytes) => bytes.as_ref(),
            Self::Sent(_) => None,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Sent(receiver) => {
                receiver.poll_recv(cx).map(|sent| sent.map(|result| result.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Sent(_) => SizeHint::default(),
        }
    }
}
