//! The bytes between a socket and the HTTP library: every head is checked before the library sees it, and the end of the
//! client's sending side is told apart from a client that left.
//!
//! A head that is refused becomes a request of this module's own ([`REFUSED`]), which the layers answer with the fault: so a
//! refusal has a body, a request id, security headers, a line in the log and a count, like every other answer.
//!
//! A client that has said all it wanted may end its sending side and wait (`shutdown(SHUT_WR)`); one that left looks the same
//! until something is sent to it, which its system then refuses. So while an answer is computed for a client whose side has
//! ended, something harmless is sent now and then: `100 Continue` where no byte of the answer has left, a comment in an
//! event stream. The second write after a client left fails, and that cancels the work. HTTP/1.0 knows no interim answers: there
//! the work is done. TLS says that a side has ended by `close_notify`; an end without it is an error, and cancels at once.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use wire::Fault;

use crate::head::{self, Chunks, Framing, Head};
use crate::streams::{Handed, Streams};

/// What the library is given in place of a head that is refused.
const REFUSED: &[u8] = b"REFUSED /- HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// Put into the head of a request with a chunked body: nothing is read behind such a body, so that no two readings of where it
/// ends can differ.
const CLOSE: &[u8] = b"connection: close\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Bytes that one read takes from the socket, beyond what is asked for.
const READ_BYTES: usize = 4 << 10;
/// Empty lines before a request, which old clients send.
const EMPTY_LINES: usize = 4;
/// What a client still sends is taken for so long after the last answer, and so many bytes: closing with bytes unread would make
/// its system throw away the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 8 << 20;
/// Waits before each look whether a client whose side has ended is still there; the last one repeats.
const LOOKS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// A head that was refused: why, and the path that it asked for.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) path: Option<String>,
}

/// What the bytes of a connection and its requests know of each other.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// A request was handed over, and its answer is not complete.
    busy: AtomicBool,
    /// The client's sending side has ended.
    ended: AtomicBool,
    state: Mutex<Wakers>,
    /// The requests of HTTP/2.
    streams: Streams,
}

#[derive(Default)]
struct Wakers {
    refused: Option<Refused>,
    /// Whoever waits for the answer's end.
    reader: Option<Waker>,
    /// Whoever waits for the end of the client's side.
    stream: Option<Waker>,
}

impl Shared {
    /// What a connection shares whose readers may take nothing for `stuck`.
    pub(crate) fn new(stuck: Duration) -> Shared {
        Shared(Arc::new(Inner { streams: Streams::new(stuck), ..Inner::default() }))
    }

    /// The refusal that the request at hand stands for, if it is one.
    pub(crate) fn take_refusal(&self) -> Option<Refused> {
        self.lock().refused.take()
    }

    /// The answer to the request at hand is under way until the guard goes.
    pub(crate) fn answering(&self) -> Answering {
        Answering(self.clone())
    }

    fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
        if let Some(waker) = self.lock().stream.take() {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wakers> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while an answer is made and sent.
pub(crate) struct Answering(Shared);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.busy.store(false, Ordering::Release);
        if let Some(waker) = self.0.lock().reader.take() {
            waker.wake();
        }
    }
}

/// Ticks at the times of [`LOOKS`].
struct Looks {
    done: usize,
    next: Pin<Box<Sleep>>,
}

impl Looks {
    fn new() -> Looks {
        Looks { done: 0, next: Box::pin(tokio::time::sleep(LOOKS[0])) }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.next.as_mut().poll(context));
        self.done = (self.done + 1).min(LOOKS.len() - 1);
        self.next.as_mut().reset(Instant::now() + LOOKS[self.done]);
        Poll::Ready(())
    }
}

/// What HTTP/2 begins with (RFC 9113, section 3.4); no request of HTTP/1 does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Where the bytes that come belong.
enum Place {
    /// Nothing has come yet that says which version is spoken.
    First,
    /// HTTP/2, whose bytes are handed over as they are: the library checks them.
    Through,
    Head,
    /// The head in `ready` is handed over, `at` bytes of it so far; the body that `framing` describes comes next.
    Handing {
        at: usize,
        framing: Framing,
    },
    Length(u64),
    Chunked(Chunks),
    /// Nothing is read any more.
    Over,
}

/// A stream that the HTTP library reads whole, checked heads from.
pub(crate) struct Line<S> {
    inner: S,
    shared: Shared,
    head_bytes: usize,
    headers: usize,
    place: Place,
    /// Read and not yet handed over.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were searched for the end of a head.
    scanned: usize,
    empty_lines: usize,
    /// A checked head.
    ready: Vec<u8>,
    is_1_1: bool,
    /// Whether the answer to the last request has begun.
    begun: bool,
    /// Whether the library has nothing more to write than it wrote.
    flushed: bool,
    looks: Option<Looks>,
    /// The part of an interim answer that is still to be written.
    interim: &'static [u8],
    linger: Option<(Pin<Box<Sleep>>, usize)>,
    /// For the first head.
    first: Option<Pin<Box<Sleep>>>,
}

impl<S> Line<S> {
    /// Heads of at most `head_bytes` bytes and `headers` lines, the first of which comes within `first`.
    pub(crate) fn new(
        inner: S,
        shared: Shared,
        head_bytes: usize,
        headers: usize,
        first: Duration,
    ) -> Line<S> {
        Line {
            inner,
            shared,
            head_bytes,
            headers,
            place: Place::First,
            buffer: Vec::new(),
            scanned: 0,
            empty_lines: 0,
            ready: Vec::new(),
            is_1_1: true,
            begun: false,
            flushed: true,
            looks: None,
            interim: &[],
            linger: None,
            first: Some(Box::pin(tokio::time::sleep(first))),
        }
    }

    /// The head at the start of the buffer, taken out of it, if it is whole.
    fn take_head(&mut self) -> Result<Option<Head>, Fault> {
        while self.buffer.starts_with(b"\r\n") && self.empty_lines < EMPTY_LINES {
            self.buffer.drain(..2);
            self.scanned = 0;
            self.empty_lines += 1;
        }
        let end = match head::end(&self.buffer, &mut self.scanned)? {
            Some(end) if end <= self.head_bytes => end,
            Some(_) => return Err(head::too_large(self.head_bytes)),
            None if self.buffer.len() > self.head_bytes => return Err(head::too_large(self.head_bytes)),
            None if self.shared.has_ended() && !self.buffer.is_empty() => return Err(head::cut()),
            None => return Ok(None),
        };
        let head = head::check(&self.buffer[..end], self.headers)?;
        self.ready.clear();
        self.ready.extend(self.buffer.drain(..end));
        if head.framing == Framing::Chunked {
            self.ready.truncate(end - 2);
            self.ready.extend_from_slice(CLOSE);
            self.ready.extend_from_slice(b"\r\n");
        }
        (self.scanned, self.empty_lines) = (0, 0);
        Ok(Some(head))
    }

    /// Makes the next head ready; false if it is not whole yet.
    fn next_head(&mut self) -> bool {
        let framing = match self.take_head() {
            // The library's own deadline is for later heads: it begins when it knows the version.
            Ok(None) => return false,
            Ok(Some(head)) => {
                self.is_1_1 = head.is_1_1;
                head.framing
            }
            Err(fault) => {
                let path = head::path(&self.buffer).map(str::to_owned);
                self.buffer = Vec::new();
                self.ready = REFUSED.to_vec();
                self.is_1_1 = false;
                self.shared.lock().refused = Some(Refused { fault, path });
                Framing::Length(u64::MAX)
            }
        };
        self.first = None;
        self.shared.0.busy.store(true, Ordering::Release);
        (self.begun, self.looks) = (false, None);
        self.place = Place::Handing { at: 0, framing };
        true
    }

    /// The library writes. What answers `Expect: 100-continue` is not the answer's beginning.
    fn writes(&mut self, bytes: &[u8]) {
        self.begun |= bytes != CONTINUE;
        self.flushed = false;
    }

    /// Hands over from the buffer, at most `most` bytes; how many there were.
    fn give(&mut self, buffer: &mut ReadBuf<'_>, most: usize) -> usize {
        let count = self.buffer.len().min(most).min(buffer.remaining());
        buffer.put_slice(&self.buffer[..count]);
        self.buffer.drain(..count);
        count
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// Reads into the own buffer. Ready with false at the end of the client's side.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.shared.has_ended() {
            return Poll::Ready(Ok(false));
        }
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut some = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut some))?;
        self.buffer.extend_from_slice(some.filled());
        let any = !some.filled().is_empty();
        if !any {
            self.shared.end();
        }
        Poll::Ready(Ok(any))
    }

    /// While an answer is made: reads ahead, within bounds, to notice when the client leaves. Never ready but for errors.
    fn look_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.lock().reader = Some(context.waker().clone());
        if !self.shared.0.busy.load(Ordering::Acquire) {
            // It ended meanwhile.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        while self.buffer.len() <= self.head_bytes {
            if !ready!(self.fill(context))? {
                ready!(self.look(context))?;
                break;
            }
        }
        Poll::Pending
    }

    /// Whether a client whose side has ended is there still: an error if not. Pending else.
    fn look(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_1_1 || self.begun || !self.flushed {
            return Poll::Pending;
        }
        loop {
            ready!(self.interim(context))?;
            ready!(self.looks.get_or_insert_with(Looks::new).poll(context));
            self.interim = CONTINUE;
        }
    }

    /// Writes what is left of an interim answer.
    fn interim(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.interim.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.interim.is_empty() {
            let count = ready!(Pin::new(&mut self.inner).poll_write(context, self.interim))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim = self.interim.get(count..).unwrap_or_default();
        }
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// Reads until it is known which version is spoken. Ready with whether it is HTTP/2.
    fn version(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.buffer.len() < PREFACE.len() && PREFACE.starts_with(&self.buffer) {
            if !ready!(self.fill(context))? {
                return Poll::Ready(Ok(false));
            }
        }
        Poll::Ready(Ok(self.buffer.starts_with(PREFACE)))
    }

    /// Fails once the first head has not come in time.
    fn first_deadline(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(first) = &mut self.first else { return Ok(()) };
        match first.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "no request came in time")),
        }
    }

    /// HTTP/2: hands over what comes, unless nobody needs the connection or a reader is stuck.
    fn read_through(&mut self, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = out.remaining();
        if self.give(out, most) > 0 {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(done) = Pin::new(&mut self.inner).poll_read(context, out) {
            return Poll::Ready(done);
        }
        self.shared.0.streams.poll_watch(context)
    }

    fn read_chunks(&mut self, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Place::Chunked(chunks) = &mut self.place else { return Poll::Ready(Ok(())) };
            if chunks.is_over() {
                self.place = Place::Head;
                return Poll::Ready(Ok(()));
            }
            if !self.buffer.is_empty() {
                let most = self.buffer.len().min(out.remaining());
                let taken = chunks.follow(&self.buffer[..most]);
                let taken = taken.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
                self.give(out, taken);
                return Poll::Ready(Ok(()));
            }
            if !ready!(self.fill(context))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn read_length(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
        left: u64,
    ) -> Poll<io::Result<()>> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(out.remaining());
        let mut count = self.give(out, most);
        if count == 0 && !self.shared.has_ended() {
            let mut some = ReadBuf::new(out.initialize_unfilled_to(most));
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut some))?;
            count = some.filled().len();
            out.advance(count);
            if count == 0 {
                self.shared.end();
            }
        }
        self.place = Place::Length(left - count as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Line<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.place {
                Place::First => {
                    this.first_deadline(context)?;
                    if ready!(this.version(context))? {
                        this.shared.0.streams.begin();
                        (this.place, this.first) = (Place::Through, None);
                    } else {
                        this.place = Place::Head;
                    }
                }
                Place::Through => return this.read_through(context, out),
                Place::Head => {
                    this.first_deadline(context)?;
                    if this.shared.0.busy.load(Ordering::Acquire) {
                        return this.look_ahead(context);
                    }
                    // An end between requests is an end.
                    if !this.next_head() && !ready!(this.fill(context))? && this.buffer.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Place::Handing { at, framing } => {
                    let count = (this.ready.len() - at).min(out.remaining());
                    out.put_slice(&this.ready[at..at + count]);
                    if at + count < this.ready.len() {
                        this.place = Place::Handing { at: at + count, framing };
                        return Poll::Ready(Ok(()));
                    }
                    // Connections live long, and large heads are rare.
                    this.ready = Vec::new();
                    this.buffer.shrink_to(READ_BYTES);
                    this.place = match framing {
                        Framing::Length(u64::MAX) => Place::Over,
                        Framing::Length(length) => Place::Length(length),
                        Framing::Chunked => Place::Chunked(Chunks::default()),
                    };
                    return Poll::Ready(Ok(()));
                }
                Place::Length(0) => this.place = Place::Head,
                Place::Length(left) => return this.read_length(context, out, left),
                Place::Chunked(_) => {
                    let before = out.filled().len();
                    ready!(this.read_chunks(context, out))?;
                    if out.filled().len() > before || matches!(this.place, Place::Chunked(_)) {
                        return Poll::Ready(Ok(()));
                    }
                }
                Place::Over => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.interim(context))?;
        this.writes(bytes);
        Pin::new(&mut this.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.interim(context))?;
        this.writes(slices.first().map_or(&[], |slice| slice));
        Pin::new(&mut this.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.interim(context))?;
        ready!(Pin::new(&mut this.inner).poll_flush(context))?;
        this.flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Ends the own side, then takes what the client still sends, within bounds.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(context))?;
        }
        let is_drained = match &this.place {
            Place::Head | Place::Length(0) => this.buffer.is_empty(),
            Place::Chunked(chunks) => chunks.is_over() && this.buffer.is_empty(),
            Place::Through => true,
            _ => false,
        };
        if is_drained || this.shared.has_ended() {
            return Poll::Ready(Ok(()));
        }
        let (end, taken) = this.linger.get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER)), 0));
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        while *taken < LINGER_BYTES && end.as_mut().poll(context).is_pending() {
            let mut some = ReadBuf::uninit(&mut bytes);
            match Pin::new(&mut this.inner).poll_read(context, &mut some) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !some.filled().is_empty() => *taken += some.filled().len(),
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The refusal of a head of HTTP/2 that has too many lines, or that names two hosts; the library has checked the rest.
pub(crate) fn unreadable<B>(request: &hyper::Request<B>, most: usize) -> Option<Refused> {
    if request.version() != hyper::Version::HTTP_2 {
        return None;
    }
    let path = Some(request.uri().path().to_owned());
    let (lines, host) = (request.headers().len(), request.headers().get(header::HOST));
    if lines > most {
        return Some(Refused { fault: head::too_many_lines(lines, most), path });
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    if host.is_some_and(|host| authority.is_some_and(|authority| authority != host.as_bytes())) {
        let fault = Fault::body("the request names one host in :authority and another in Host");
        return Some(Refused { fault, path });
    }
    None
}

/// The answer as it leaves: the request counts as under way until its last byte is handed over, and an event stream looks
/// whether a client whose side has ended is there.
pub(crate) fn watched(response: Response, answering: Answering) -> Response {
    let events = HeaderValue::from_static("text/event-stream; charset=utf-8");
    let is_events = response.headers().get(header::CONTENT_TYPE) == Some(&events);
    let handed = answering.0.0.streams.handed();
    response.map(|inner| Body::new(Watched { inner, answering, is_events, looks: None, handed }))
}

struct Watched {
    inner: Body,
    answering: Answering,
    is_events: bool,
    looks: Option<Looks>,
    /// For an answer over HTTP/2, the time when a part of it was handed over.
    handed: Option<Handed>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            if let Some(handed) = &this.handed {
                handed.set(frame.is_some());
            }
            return Poll::Ready(frame);
        }
        if let Some(handed) = &this.handed {
            handed.set(false);
        }
        if !this.is_events {
            return Poll::Pending;
        }
        let shared = &this.answering.0;
        shared.lock().stream = Some(context.waker().clone());
        if !shared.has_ended() {
            return Poll::Pending;
        }
        ready!(this.looks.get_or_insert_with(Looks::new).poll(context));
        // A comment. Whole events come before and after it.
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
