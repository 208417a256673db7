//! Lines of batches that have ended, sent as they are read from the store.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use job_store::StoreError;
use jobs::BatchKind;
use jobs::output::openai_line;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use wire::Fault;

use super::ask::{Caller, Params};
use super::fault::{answer, not_found, of_store_for, waiting};
use crate::shared::Jobs;
use crate::watchers::Watched;

/// Lines that are read at once.
const LINES: usize = 64;
/// Parts of a stream that wait for their reader.
const PARTS: usize = 2;

/// `GET /v1/batches/{id}/output`.
pub(crate) async fn output(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    answer(begin(&jobs, id, &head).await)
}

async fn begin(jobs: &Arc<Jobs>, id: String, head: &Parts) -> Result<Response, Fault> {
    let params = Params::of(&head.uri)?;
    let after = params.number("after", 0..=u64::from(u32::MAX))?;
    let follows = params.flag("follow", true)?;
    let caller = Caller::of(jobs, &head.extensions);
    let batch = jobs.store.batch(&id, caller.scope()).await.map_err(|error| of_store_for(error, &id))?;
    if batch.kind != BatchKind::OpenAi {
        return Err(not_found("batch", &id));
    }
    let watched = jobs.watch(&id).ok_or_else(|| waiting(jobs.options.max_waiting))?;
    let (parts, received) = mpsc::channel(PARTS);
    let follower =
        Follower { jobs: jobs.clone(), id, next: after.map_or(0, |after| after + 1), follows, parts };
    tokio::spawn(follower.follow(watched));
    let body = ReceiverStream::new(received).map(Ok::<Bytes, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Follows a batch until it has ended, its reader is gone, or the server stops.
struct Follower {
    jobs: Arc<Jobs>,
    id: String,
    /// The number of the next line.
    next: u64,
    /// Whether lines are waited for that have not ended.
    follows: bool,
    parts: mpsc::Sender<Bytes>,
}

impl Follower {
    async fn follow(mut self, watched: Watched) {
        let (jobs, parts) = (self.jobs.clone(), self.parts.clone());
        tokio::select! {
            () = self.run(&watched) => {}
            () = parts.closed() => {}
            () = jobs.closed() => {}
        }
    }

    async fn run(&mut self, watched: &Watched) {
        loop {
            let changed = watched.changed(self.jobs.options.look);
            match self.step().await {
                Ok(Step::Sent) => continue,
                Ok(Step::Waits) if self.follows => changed.await,
                Ok(Step::Waits | Step::Over) => return,
                // The next look may succeed.
                Err(StoreError::Unavailable(_)) => changed.await,
                Err(error) => return tracing::warn!(batch = self.id, %error, "a batch's output was cut off"),
            }
        }
    }

    /// Sends the lines that have ended, up to the first that has not.
    async fn step(&mut self) -> Result<Step, StoreError> {
        // Before the lines are read: one that ends in between is read by the next step.
        let batch = self.jobs.store.batch(&self.id, None).await?;
        let lines = self.jobs.store.lines(&self.id, self.next, LINES, true).await?;
        let Some(last) = lines.last().and_then(|line| line.job.line) else {
            let over = batch.status.is_terminal() || (batch.is_settled() && self.next >= batch.counts.total);
            return Ok(if over { Step::Over } else { Step::Waits });
        };
        let mut part = Vec::new();
        for line in &lines {
            part.extend_from_slice(&openai_line(&line.job, &line.result));
            part.push(b'\n');
        }
        if self.parts.send(part.into()).await.is_err() {
            return Ok(Step::Over);
        }
        self.next = last + 1;
        Ok(Step::Sent)
    }
}

/// What a step did.
enum Step {
    Sent,
    /// The next line has not ended.
    Waits,
    Over,
}
