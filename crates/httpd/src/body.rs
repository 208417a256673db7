//! Reading a body: its type, size and time, and the memory of all bodies together.
//!
//! Memory is taken as bytes arrive, not as they are announced: a body that trickles holds what has come of it. Each client
//! has a part of the sum, and small bodies have a sum of their own, so that large ones leave room for them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use events::Rejection;
use inference::{LimitReached, Owner, Share, Shares};
use tokio_stream::StreamExt;
use wire::Fault;

use crate::body_memory::LARGE;
use crate::edge::Edge;
use crate::encoding::Encoding;
use crate::request::owner;

/// A body, the memory that it holds, and whose it is.
pub struct Bytes {
    bytes: Vec<u8>,
    encoding: Encoding,
    owner: Owner,
    memory: Share,
}

impl Bytes {
    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Bytes as far as they are known before the body is decompressed; a compressed one counts as large.
    pub fn size(&self) -> usize {
        if self.encoding == Encoding::Identity { self.bytes.len() } else { self.bytes.len().max(LARGE) }
    }

    /// The body as it was before it was compressed, at most `limit` bytes, and the memory that it holds: free when the
    /// second part is dropped.
    ///
    /// # Errors
    /// When it is not compressed as its head says, is larger than the limit, or there is no memory for it.
    pub fn decompressed(self, limit: usize) -> Result<(Vec<u8>, Share), Fault> {
        let Bytes { bytes, encoding, mut memory, .. } = self;
        let full = |_| Fault::busy("too many bytes of bodies are held", 2);
        let bytes = encoding.undo(bytes, limit, |more| memory.grow(more).map_err(full))?;
        Ok((bytes, memory))
    }
}

/// A body that is too large is read on for this many times the limit, so that the client gets to see the answer
/// instead of a broken connection.
const READ_ON: usize = 4;

/// The media types that a body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// JSON or `application/octet-stream`; from what is no browser any, or none.
    Any,
}

/// Reads the body of a request, bounded in size, time and memory.
///
/// # Errors
/// A media type or an encoding that is not known, a body that is too large, too slow, or one too many.
pub async fn read(edge: &Edge, request: Request, media: Media) -> Result<Bytes, Fault> {
    check_type(request.headers(), media)?;
    let encoding = Encoding::of(request.headers())?;
    let limit = edge.options.body_bytes;
    let owner = owner(&request);
    let declared = request.body().size_hint().exact().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let waits = request.headers().contains_key(header::EXPECT);
    if declared.is_some_and(|n| n > limit) && (waits || declared.is_some_and(|n| n > limit * READ_ON)) {
        return Err(edge.refused(Rejection::BodySize, Fault::too_large(limit)));
    }
    let memory = &edge.body_memory;
    let _reading = memory.reading.take(owner, 1).map_err(|full| {
        let (most, each) = (memory.reading.most(), memory.reading.most_each());
        edge.refused(Rejection::BodyMemory, full_of(full, "bodies are being read", most, each))
    })?;
    let timeout = edge.options.body_timeout;
    match tokio::time::timeout(timeout, collect(edge, request.into_body(), encoding, declared, owner)).await {
        Ok(done) => done,
        Err(_) => Err(edge.refused(Rejection::BodyTime, Fault::slow_body(timeout.as_secs()))),
    }
}

/// The memory of the messages of a body that is read as it comes.
#[derive(Clone)]
pub struct MessageMemory {
    shares: Arc<Shares>,
    owner: Owner,
    held: Arc<Mutex<(usize, Option<Share>)>>,
}

impl MessageMemory {
    /// The bytes that have come since the last call, and their memory, which is free when it is dropped.
    pub fn take(&self) -> (usize, Option<Share>) {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn grow(&self, more: usize) -> Result<(), LimitReached> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut held.1 {
            Some(share) => share.grow(more)?,
            empty => *empty = Some(self.shares.take(self.owner, more)?),
        }
        held.0 += more;
        Ok(())
    }
}

/// A request whose body's bytes are counted as they are read; a `timed` one must come within the time for a body.
pub fn counted(edge: &Edge, request: Request, timed: bool) -> (Request, MessageMemory) {
    let (owner, shares) = (owner(&request), edge.body_memory.large.clone());
    let memory = MessageMemory { shares, owner, held: Arc::default() };
    let timeout = edge.options.body_timeout;
    let counted = memory.clone();
    let request = request.map(move |inner| {
        let end = timed.then(|| Box::pin(tokio::time::sleep(timeout)));
        Body::new(Counted { inner, memory: counted, end, seconds: timeout.as_secs() })
    });
    (request, memory)
}

/// A body whose bytes are counted.
struct Counted {
    inner: Body,
    memory: MessageMemory,
    end: Option<Pin<Box<tokio::time::Sleep>>>,
    seconds: u64,
}

impl HttpBody for Counted {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, axum::body::Bytes::len);
                if this.memory.grow(size).is_err() {
                    let full = Fault::busy("too many bytes of bodies are held", 2);
                    return Poll::Ready(Some(Err(axum::Error::new(full))));
                }
            }
            Poll::Pending if this.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) => {
                return Poll::Ready(Some(Err(axum::Error::new(Fault::slow_body(this.seconds)))));
            }
            Poll::Ready(_) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// A browser sends `text/plain`, forms and bodies without a type across origins without asking; JSON and binary data it
/// must ask for, and is not allowed. All browsers say where a page that sends is from.
fn check_type(headers: &HeaderMap, media: Media) -> Result<(), Fault> {
    let is_page = headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site");
    if media == Media::Any && !is_page {
        return Ok(());
    }
    let value = headers.get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap_or("?"));
    let essence = value.map(|v| v.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence {
        Some(e) if e == "application/json" || (e.starts_with("application/") && e.ends_with("+json")) => {
            Ok(())
        }
        Some(e) if e == "application/octet-stream" && media == Media::Any => Ok(()),
        _ => Err(Fault::media_type(value)),
    }
}

/// The body's bytes, with memory for them: a body whose length is not known is small until it is not.
async fn collect(
    edge: &Edge,
    body: Body,
    encoding: Encoding,
    declared: Option<usize>,
    owner: Owner,
) -> Result<Bytes, Fault> {
    let limit = edge.options.body_bytes;
    let full = |shares: &Arc<Shares>, full: LimitReached| {
        let (most, each) = (shares.most(), shares.most_each());
        edge.refused(Rejection::BodyMemory, full_of(full, "bytes of bodies are held", most, each))
    };
    let least = if encoding == Encoding::Identity { 0 } else { LARGE };
    let mut shares = edge.body_memory.of(declared.unwrap_or(0).max(least));
    let mut memory = shares.take(owner, 0).map_err(|f| full(shares, f))?;
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(LARGE));
    let mut total = 0_usize;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|e| Fault::body(format!("the body could not be read: {e}")))?;
        total = total.saturating_add(chunk.len());
        if total <= limit {
            if total >= LARGE && Arc::ptr_eq(shares, &edge.body_memory.small) {
                shares = &edge.body_memory.large;
                memory = shares.take(owner, bytes.len()).map_err(|f| full(shares, f))?;
            }
            memory.grow(chunk.len()).map_err(|f| full(shares, f))?;
            bytes.extend_from_slice(&chunk);
        } else if total > limit.saturating_mul(READ_ON) {
            break;
        }
    }
    if total > limit {
        return Err(edge.refused(Rejection::BodySize, Fault::too_large(limit)));
    }
    Ok(Bytes { bytes, encoding, owner, memory })
}

fn full_of(full: LimitReached, what: &str, most: usize, each: usize) -> Fault {
    match full {
        LimitReached::Total => Fault::busy(format!("too many {what}: {most} is the limit"), 2),
        LimitReached::PerOwner => {
            Fault::busy(format!("too many {what} for this client: {each} is its limit"), 2)
        }
    }
}
