//! Reading a body: its type, size and time, and the memory of all bodies together.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use events::{Event, Rejection};
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::StreamExt;
use wire::Fault;

use crate::Served;
use crate::state::State;

/// A body, and the memory it was promised.
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    _memory: OwnedSemaphorePermit,
}

impl Bytes {
    /// Has `read` work on the body, on the threads for templates and tokenizers. A panic there goes on here.
    pub(crate) async fn read_by<T: Send + 'static>(
        self,
        served: &Arc<Served>,
        read: impl FnOnce(&Served, &[u8]) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let served = served.clone();
        match tokio::task::spawn_blocking(move || read(&served, &self.bytes)).await {
            Ok(outcome) => outcome,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

/// A body that is too large is read on for this many times the limit, so that the client gets to see the answer
/// instead of a broken connection.
const READ_ON: usize = 4;

pub(crate) async fn read(state: &State, request: Request) -> Result<Bytes, Fault> {
    check_type(request.headers())?;
    let limit = state.options.body_bytes;
    let declared = request.body().size_hint().exact().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let waits = request.headers().contains_key(header::EXPECT);
    if declared.is_some_and(|n| n > limit) && (waits || declared.is_some_and(|n| n > limit * READ_ON)) {
        return Err(Fault::too_large(limit));
    }
    let kib = u32::try_from(declared.unwrap_or(limit).min(limit) / 1024 + 1).unwrap_or(u32::MAX);
    let Ok(memory) = state.body_memory.clone().try_acquire_many_owned(kib) else {
        state.metrics.record(Event::Rejected(Rejection::BodyMemory));
        return Err(Fault::busy("too many large bodies are being read", 2));
    };
    let timeout = state.options.body_timeout;
    match tokio::time::timeout(timeout, collect(request.into_body(), declared, limit)).await {
        Ok(done) => done.map(|bytes| Bytes { bytes, _memory: memory }),
        Err(_) => Err(Fault::slow_body(timeout.as_secs())),
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

async fn collect(body: Body, declared: Option<usize>, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(limit));
    let mut total = 0_usize;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|e| Fault::body(format!("the body could not be read: {e}")))?;
        total = total.saturating_add(chunk.len());
        if total <= limit {
            bytes.extend_from_slice(&chunk);
        } else if total > limit.saturating_mul(READ_ON) {
            break;
        }
    }
    if total > limit { Err(Fault::too_large(limit)) } else { Ok(bytes) }
}
