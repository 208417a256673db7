//! Reading a body: its type, size and time, and the memory of all bodies together.
//!
//! Memory is taken as bytes arrive, not as they are announced: a body that trickles holds what has come of it. Each client
//! has a part of the sum, and small bodies have a sum of their own, so that large ones leave room for them.

use std::sync::Arc;

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

/// Reads the body of a request, bounded in size, time and memory.
///
/// # Errors
/// A media type or an encoding that is not known, a body that is too large, too slow, or one too many.
pub async fn read(edge: &Edge, request: Request) -> Result<Bytes, Fault> {
    check_type(request.headers())?;
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

/// A browser sends `text/plain` and forms across origins without asking; JSON it must ask for, and is not allowed.
fn check_type(headers: &HeaderMap) -> Result<(), Fault> {
    let value = headers.get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap_or("?"));
    let essence = value.map(|v| v.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence {
        Some(e) if e == "application/json" || (e.starts_with("application/") && e.ends_with("+json")) => {
            Ok(())
        }
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
