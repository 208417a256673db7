//! `GET /v1/jobs/{id}/events`: what happens to a job, as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use job_store::{JobEvent, StoreError};
use jobs::Job;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use wire::Fault;

use super::view;
use crate::faces::ask::{Caller, Params};
use crate::faces::fault::{answer, of_store_for, waiting};
use crate::shared::Jobs;
use crate::watchers::Watched;

/// Between two looks at the text of a job that runs here.
const DELTA: Duration = Duration::from_millis(200);
/// Parts of a stream that wait for their reader.
const PARTS: usize = 8;

/// `GET /v1/jobs/{id}/events`.
pub(crate) async fn stream(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    answer(begin(&jobs, id, &head).await)
}

async fn begin(jobs: &Arc<Jobs>, id: String, head: &Parts) -> Result<Response, Fault> {
    let params = Params::of(&head.uri)?;
    let after = params.number("after", 0..=u64::MAX)?.or_else(|| last_id(&head.headers)).unwrap_or(0);
    let delta = params.flag("delta", false)?;
    let caller = Caller::of(jobs, &head.extensions);
    let job = jobs.store.job(&id, caller.scope()).await.map_err(|error| of_store_for(error, &id))?;
    let watched = jobs.watch(&id).ok_or_else(|| waiting(jobs.options.max_waiting))?;
    let (parts, received) = mpsc::channel(PARTS);
    let follower = Follower {
        jobs: jobs.clone(),
        id: job.id,
        after,
        delta: delta.then_some(0),
        sent_at: Instant::now(),
        parts,
    };
    tokio::spawn(follower.follow(watched));
    let body = ReceiverStream::new(received).map(Ok::<Bytes, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The last event that a client has seen before its connection broke.
fn last_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.trim().parse().ok()
}

/// Follows a job until it has ended, its reader is gone, or the server stops.
struct Follower {
    jobs: Arc<Jobs>,
    id: String,
    /// The last event that was sent.
    after: u64,
    /// Bytes of the answer's text that were sent, if they are wanted.
    delta: Option<usize>,
    sent_at: Instant,
    parts: mpsc::Sender<Bytes>,
}

/// Why a stream ends.
struct Over;

impl Follower {
    async fn follow(mut self, watched: Watched) {
        let (jobs, parts) = (self.jobs.clone(), self.parts.clone());
        tokio::select! {
            // Whatever the reason, the stream is over.
            Over = self.run(&watched) => {}
            () = parts.closed() => {}
            () = jobs.closed() => {}
        }
    }

    async fn run(&mut self, watched: &Watched) -> Over {
        let jobs = self.jobs.clone();
        let pause = if self.delta.is_some() { DELTA.min(jobs.options.look) } else { jobs.options.look };
        loop {
            let changed = watched.changed(pause);
            match self.step().await {
                Ok(()) => {}
                Err(over) => return over,
            }
            if self.sent_at.elapsed() >= jobs.options.ping && self.send(": waiting\n\n".into()).await.is_err()
            {
                return Over;
            }
            changed.await;
        }
    }

    /// Sends what is new.
    async fn step(&mut self) -> Result<(), Over> {
        self.send_text().await?;
        let job = match self.jobs.store.job(&self.id, None).await {
            Ok(job) => job,
            // The next look may succeed.
            Err(StoreError::Unavailable(_)) => return Ok(()),
            Err(_) => return Err(Over),
        };
        let mut all = true;
        if job.sequence > self.after {
            let events = self.jobs.store.events(&self.id, self.after).await.map_err(|_| Over)?;
            // Lines of batches have a sequence and no events.
            all = events.last().is_none_or(|last| last.sequence >= job.sequence);
            for event in events {
                self.send(written(&self.jobs, &event)).await?;
                self.after = event.sequence;
            }
        }
        if job.status.is_terminal() && all { Err(Over) } else { Ok(()) }
    }

    /// Sends the text that came since the last look, if the job runs in this process.
    async fn send_text(&mut self) -> Result<(), Over> {
        let (Some(sent), Some(watch)) = (self.delta, self.jobs.live.watch(&self.id)) else { return Ok(()) };
        let text = watch.text_after(sent);
        if text.is_empty() {
            return Ok(());
        }
        self.delta = Some(sent + text.len());
        let data = serde_json::json!({"offset": sent, "text": text});
        self.send(format!("event: job.delta\ndata: {data}\n\n")).await
    }

    async fn send(&mut self, part: String) -> Result<(), Over> {
        self.sent_at = Instant::now();
        self.parts.send(part.into()).await.map_err(|_| Over)
    }
}

/// An event as it is sent: the job's object as it was then.
fn written(jobs: &Jobs, event: &JobEvent) -> String {
    let data = match serde_json::from_str::<Job>(&event.data) {
        Ok(job) => view::brief(jobs, &job).to_string(),
        Err(_) => event.data.replace('\n', " "),
    };
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.name)
}
