//! Durable jobs of this machine: their routes, and requests that would rather wait.

mod check;
mod local;
pub(crate) mod peek;

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post};
use job_server::{Jobs, Options};
use job_store::Store;
use wire::Fault;
use wire::routes::{ErrorFormat, Route};

use crate::faults;
use crate::in_process::InProcess;
use crate::state::State;
use local::Local;
pub(crate) use local::ResponseId;

/// Takes jobs from now on.
pub(crate) fn take(state: &State, routes: InProcess, store: Arc<dyn Store>, options: Options) -> Arc<Jobs> {
    let jobs = Arc::new(Jobs::new(store, Arc::new(Local::new(routes)), state.edge.clone(), options));
    state.set_jobs(Some(jobs.clone()));
    jobs
}

/// The handler of a route of jobs, files, batches and webhooks.
pub(crate) fn handler(state: &State, route: &Route) -> Option<MethodRouter<Arc<State>>> {
    let handler = job_server::faces::handler(route.id)?;
    Some(match state.jobs() {
        Some(jobs) => handler.with_state(jobs),
        None => match route.method {
            "GET" => get(off),
            "DELETE" => delete(off),
            _ => post(off),
        },
    })
}

/// What is said where jobs are off.
async fn off(request: Request) -> Response {
    let message = "this server keeps no jobs, batches or files: start it with --jobs";
    let fault = Fault::switched_off("jobs_off", message);
    if request.uri().path().starts_with("/v1/messages") {
        return faults::anthropic(&fault);
    }
    httpd::respond(&fault)
}

/// Before routes that infer: a request with `Prefer: respond-async` becomes a job.
pub(crate) async fn prefer(
    Shared((state, format)): Shared<(Arc<State>, ErrorFormat)>,
    request: Request,
    next: Next,
) -> Response {
    let wanted = job_server::faces::prefers_async(request.headers());
    let (Some(jobs), true) = (state.jobs(), wanted) else { return next.run(request).await };
    match peek::whole(&state, request).await {
        Ok((head, body)) => job_server::faces::respond_async(&jobs, head, body).await,
        Err(fault) => faults::of_format(format, &fault),
    }
}

/// Before `POST /generate`: the published guide's shape, `{"prompt", "max_tokens"}`, becomes a job.
pub(crate) async fn guide(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let Some(jobs) = state.jobs() else { return next.run(request).await };
    match peek::whole(&state, request).await {
        Ok((head, body)) => match job_server::faces::guide_body(&body) {
            Some(guided) => job_server::faces::accept_guide(&jobs, head, guided).await,
            None => next.run(peek::again(head, body)).await,
        },
        Err(fault) => faults::tgi(&fault),
    }
}

/// Adds the metrics of jobs to those of the server.
pub(crate) async fn add_metrics(jobs: &Jobs, format: events::Format, text: &mut String) {
    let more = job_server::metrics(jobs, format).await;
    // There is one mark of the end.
    if let Some(end) = text.strip_suffix("# EOF\n").map(str::len) {
        text.truncate(end);
    }
    text.push_str(&more);
}
