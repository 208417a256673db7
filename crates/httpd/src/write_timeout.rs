//! A time limit for writes: a socket whose reader must take bytes, and not too slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use events::{Event, Metrics};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes a second that a reader who is behind must take in the mean, beside the time limit.
const SLOWEST: u64 = 64 << 10;

/// A stream on which a write fails that makes no progress for `limit`, and one that has gone on for `limit` and the time that
/// its bytes take at [`SLOWEST`]: an answer is not held for a reader who takes a byte now and then. Reads are bounded
/// elsewhere: heads by hyper, bodies by their own deadline.
pub(crate) struct WriteTimeout<S> {
    inner: S,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
    /// Since when there has been something to write all the time, and bytes taken since.
    behind: Option<(Instant, u64)>,
    /// Told when a reader is given up.
    metrics: Option<Arc<Metrics>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(inner: S, limit: Duration) -> WriteTimeout<S> {
        let deadline = Box::pin(tokio::time::sleep(limit));
        WriteTimeout { inner, limit, deadline, waiting: false, behind: None, metrics: None }
    }

    /// Counts a reader that is given up.
    pub(crate) fn counted(mut self, metrics: Arc<Metrics>) -> WriteTimeout<S> {
        self.metrics = Some(metrics);
        self
    }

    /// Passes a write's result on; a pending one counts against the deadlines.
    fn watch_write(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(taken)), Some((_, all))) = (&poll, &mut self.behind) {
            *all += *taken as u64;
        }
        if poll.is_pending() {
            self.behind.get_or_insert_with(|| (Instant::now(), 0));
        }
        self.watch(context, poll)
    }

    /// Passes a result on; a pending one counts against the deadlines.
    fn watch<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waiting = false;
            return poll;
        }
        if !std::mem::replace(&mut self.waiting, true) {
            let now = Instant::now();
            let (since, taken) = self.behind.unwrap_or((now, 0));
            let slowest = since + self.limit + Duration::from_millis(taken.saturating_mul(1_000) / SLOWEST);
            self.deadline.as_mut().reset(slowest.min(now + self.limit));
        }
        if self.deadline.as_mut().poll(context).is_ready() {
            // Once: the connection ends.
            if let Some(metrics) = self.metrics.take() {
                metrics.record(Event::ConnectionTimedOut);
            }
            let message = "the client took too little of its answer in the time for it";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch_write(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.watch_write(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        if poll.is_ready() {
            // HTTP flushes when it has written all that it has: the reader has caught up.
            self.behind = None;
        }
        self.watch(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(context);
        self.watch(context, poll)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_given_up() {
        let (near, far) = tokio::io::duplex(16);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30));
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    /// How far a writer of `total` bytes gets whose reader takes `each` bytes a second.
    async fn read_slowly(each: usize, total: usize) -> (io::Result<()>, Duration) {
        let (near, mut far) = tokio::io::duplex(16 << 10);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; each];
            while far.read_exact(&mut buffer).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let began = Instant::now();
        let outcome = async {
            near.write_all(&vec![0; total]).await?;
            near.flush().await
        };
        let outcome = outcome.await;
        let took = began.elapsed();
        drop(near);
        reader.await.unwrap();
        (outcome, took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for() {
        let (outcome, took) = read_slowly(100 << 10, 10 << 20).await;
        outcome.unwrap();
        assert!(took > Duration::from_secs(90), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn abuse_a8_a_reader_that_takes_a_little_now_and_then_is_given_up() {
        let (outcome, took) = read_slowly(64, 1 << 20).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((30..33).contains(&took.as_secs()), "{took:?}");
    }
}
