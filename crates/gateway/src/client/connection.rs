//! A connection to an upstream: one request at a time, read where it is waited for.
//!
//! There is no task and no buffer of its own: what has come is read into the stack of whoever waits, and only what is
//! there is kept. A thousand idle streams hold a thousand sockets, and next to nothing else.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::body::Decoder;
use super::head::{self, Framing, Head};
use super::outgoing::Outgoing;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// A stream of bytes in both directions.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection.
pub(super) struct Connection {
    socket: Box<dyn Socket>,
    /// What is still to be written.
    outgoing: Option<Outgoing>,
    /// Read, and not yet taken.
    buffer: Vec<u8>,
    body: Decoder,
    /// Whether it may be used again when the body is over.
    stays: bool,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) why: String,
    /// Whether any of the request was written.
    pub(super) begun: bool,
}

impl Connection {
    pub(super) fn new(socket: impl Socket + 'static) -> Connection {
        Connection {
            socket: Box::new(socket),
            outgoing: None,
            buffer: Vec::new(),
            body: Decoder::new(Framing::Length(0)),
            stays: true,
        }
    }

    /// Whether it can take another request: nothing is under way, and the server has said nothing more.
    pub(super) fn is_ready(&mut self) -> bool {
        let ended = self.outgoing.is_none() && self.buffer.is_empty() && self.body.is_over();
        // What a server says unasked, or its end, is a reason to leave it.
        ended && self.stays && self.fill(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Sends a request and reads the head of its answer.
    ///
    /// # Errors
    /// A connection that breaks, or an answer that is none.
    pub(super) async fn ask(&mut self, request: Outgoing) -> Result<Head, Broken> {
        self.outgoing = Some(request);
        let (head, size) = poll_fn(|context| self.poll_head(context)).await.map_err(|why| {
            let begun = self.outgoing.as_ref().is_none_or(Outgoing::is_begun);
            Broken { why, begun }
        })?;
        match self.buffer.len() == size {
            true => self.buffer = Vec::new(),
            false => drop(self.buffer.drain(..size)),
        }
        self.body = Decoder::new(head.framing);
        self.stays = head.stays;
        Ok(head)
    }

    /// The request that was not sent.
    pub(super) fn take_unsent(&mut self) -> Option<Outgoing> {
        self.outgoing.take().filter(|outgoing| !outgoing.is_begun())
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(Head, usize), String>> {
        // A server may refuse a request before it has read all of it.
        let mut written = self.poll_write(context);
        loop {
            match take_head(&mut self.buffer) {
                Ok(Some(found)) => return Poll::Ready(Ok(found)),
                Ok(None) => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
            match (self.fill(context), &mut written) {
                (Poll::Ready(Ok(1..)), _) => {}
                (_, Poll::Ready(Err(error))) => return Poll::Ready(Err(error.to_string())),
                (Poll::Ready(Ok(0)), _) => {
                    return Poll::Ready(Err("the server closed it".to_owned()));
                }
                (Poll::Ready(Err(error)), _) => return Poll::Ready(Err(error.to_string())),
                (Poll::Pending, _) => return Poll::Pending,
            }
        }
    }

    /// Writes what is left of the request.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(outgoing) = &mut self.outgoing else { return Poll::Ready(Ok(())) };
        while !outgoing.is_written() {
            let socket = Pin::new(&mut self.socket);
            let count = ready!(socket.poll_write_vectored(context, &outgoing.slices()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            outgoing.written(count);
        }
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.outgoing = None;
        Poll::Ready(Ok(()))
    }

    /// Reads once; how many bytes there were, none at the end.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut some = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut some))?;
        self.buffer.extend_from_slice(some.filled());
        Poll::Ready(Ok(some.filled().len()))
    }

    /// The next bytes of the body; none at its end.
    ///
    /// # Errors
    /// A body that breaks off, or is none.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, String>> {
        // What is left of a request that is answered already; who does not read it does not matter.
        if let Poll::Ready(Err(_)) = self.poll_write(context) {
            (self.outgoing, self.stays) = (None, false);
        }
        loop {
            if self.body.is_over() {
                // Bytes behind the end are not asked for: nothing good is said there.
                self.stays &= self.buffer.is_empty();
                return Poll::Ready(Ok(None));
            }
            let data = match self.buffer.is_empty() {
                false => self.take_data()?,
                true => match ready!(self.read_data(context))? {
                    Some(data) => data,
                    None => continue,
                },
            };
            if !data.is_empty() {
                return Poll::Ready(Ok(Some(data)));
            }
        }
    }

    /// The data among the bytes that came with the head.
    fn take_data(&mut self) -> Result<Bytes, String> {
        let bytes = std::mem::take(&mut self.buffer);
        if let Decoder::Length(left) = &mut self.body
            && *left >= bytes.len() as u64
        {
            *left -= bytes.len() as u64;
            return Ok(Bytes::from(bytes));
        }
        self.data_of(&bytes)
    }

    /// Reads once; the data among what came. None where the body has ended with the connection.
    fn read_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, String>> {
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut some = ReadBuf::uninit(&mut bytes);
        let read = ready!(Pin::new(&mut self.socket).poll_read(context, &mut some));
        read.map_err(|error| error.to_string())?;
        if !some.filled().is_empty() {
            return Poll::Ready(self.data_of(some.filled()).map(Some));
        }
        if !matches!(self.body, Decoder::Close) {
            return Poll::Ready(Err("the server closed it before the answer's end".to_owned()));
        }
        (self.body, self.stays) = (Decoder::new(Framing::Length(0)), false);
        Poll::Ready(Ok(None))
    }

    fn data_of(&mut self, bytes: &[u8]) -> Result<Bytes, String> {
        let mut data = Vec::with_capacity(bytes.len());
        let taken = self.body.feed(bytes, &mut data)?;
        self.stays &= taken == bytes.len();
        Ok(Bytes::from(data))
    }
}

/// The head that the buffer begins with and its length; interim answers before it are taken out.
fn take_head(buffer: &mut Vec<u8>) -> Result<Option<(Head, usize)>, String> {
    loop {
        match head::parse(buffer)? {
            Some((head, _)) if head.status.as_u16() == 101 => {
                return Err("the server switched to another protocol".to_owned());
            }
            Some((head, size)) if head.status.is_informational() => drop(buffer.drain(..size)),
            other => return Ok(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

    fn request(body: &'static [u8]) -> Outgoing {
        Outgoing::post("/v1/x", &[b"host: a\r\n"], Bytes::from_static(body))
    }

    /// A connection with a server that writes this, and leaves if it `leaves`.
    async fn connected(says: &[u8], leaves: bool) -> (Connection, Option<DuplexStream>) {
        let (near, mut far) = duplex(64 << 10);
        far.write_all(says).await.unwrap();
        (Connection::new(near), (!leaves).then_some(far))
    }

    async fn whole(connection: &mut Connection) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        while let Some(data) = connection.chunk().await? {
            all.extend_from_slice(&data);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_connection_takes_one_request_after_the_other() {
        let (near, mut far) = duplex(64 << 10);
        let mut connection = Connection::new(near);
        for _ in 0..3 {
            assert!(connection.is_ready());
            far.write_all(ANSWER).await.unwrap();
            let head = connection.ask(request(b"{}")).await.unwrap();
            assert!(!connection.is_ready(), "the body is not read");
            assert_eq!((head.status.as_u16(), whole(&mut connection).await.unwrap()), (200, b"hi".to_vec()));
            let mut asked = [0; 53];
            far.read_exact(&mut asked).await.unwrap();
            assert!(asked.starts_with(b"POST /v1/x HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&asked));
        }
        drop(far);
        assert!(!connection.is_ready());
    }

    #[tokio::test]
    async fn interim_answers_are_passed_over() {
        let says =
            [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", ANSWER].concat();
        let (mut connection, _far) = connected(&says, false).await;
        assert_eq!(connection.ask(request(b"{}")).await.unwrap().status.as_u16(), 200);
        assert_eq!(whole(&mut connection).await.unwrap(), b"hi");
        assert!(connection.is_ready());
    }

    #[tokio::test]
    async fn an_answer_before_the_end_of_the_request() {
        let (near, mut far) = duplex(64);
        far.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        let mut connection = Connection::new(near);
        assert_eq!(connection.ask(request(&[b'x'; 4096])).await.unwrap().status.as_u16(), 413);
        assert_eq!(whole(&mut connection).await.unwrap(), b"no");
        assert!(!connection.is_ready(), "the rest of the request is not written");
    }

    #[tokio::test]
    async fn what_was_not_written_is_given_back() {
        let (near, far) = duplex(64);
        drop(far);
        let mut connection = Connection::new(near);
        assert!(!connection.ask(request(b"{}")).await.unwrap_err().begun);
        assert!(connection.take_unsent().is_some());
        let (near, mut far) = duplex(16);
        let mut connection = Connection::new(near);
        let (asked, _) = tokio::join!(connection.ask(request(b"{}")), async move {
            let mut some = [0; 8];
            far.read_exact(&mut some).await.unwrap();
        });
        assert!(asked.unwrap_err().begun);
        assert!(connection.take_unsent().is_none());
    }

    #[tokio::test]
    async fn bodies_that_break_off() {
        for (says, all) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi"[..], None),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", None),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", Some(b"hi")),
            (b"HTTP/1.1 200 OK\r\n\r\nhi", Some(b"hi")),
        ] {
            let (mut connection, _) = connected(says, true).await;
            connection.ask(request(b"")).await.unwrap();
            assert_eq!(whole(&mut connection).await.ok(), all.map(|all| all.to_vec()));
            assert!(!connection.is_ready());
        }
    }

    #[tokio::test]
    async fn bytes_behind_an_answer_end_the_connection() {
        for says in [[ANSWER, b"HTTP/1.1 200 OK\r\n"].concat(), [ANSWER, b"x"].concat()] {
            let (mut connection, _far) = connected(&says, false).await;
            connection.ask(request(b"{}")).await.unwrap();
            assert_eq!(whole(&mut connection).await.unwrap(), b"hi");
            assert!(!connection.is_ready());
        }
    }

    #[tokio::test]
    async fn a_head_without_end_is_refused() {
        let (near, mut far) = duplex(1 << 20);
        far.write_all(b"HTTP/1.1 200 OK\r\na: ").await.unwrap();
        far.write_all(&vec![b'x'; 100 << 10]).await.unwrap();
        let broken = Connection::new(near).ask(request(b"{}")).await.unwrap_err();
        assert!(broken.why.contains("65536"), "{}", broken.why);
    }
}
