//! Durable jobs in front of many machines: a job's request goes the way of a client's, with its key's label, budget and
//! policy, when an upstream has room.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use inference::RequestContext;
use job_server::in_process::ask;
use job_server::{Checked, Executor, Jobs, MeanTime, Options, Ran, Work};
use job_store::Store;
use jobs::Class;
use serde_json::Value;
use translation::Head;
use wire::Fault;

use crate::api::{self, APIS, Api};
use crate::state::Shared;
use crate::wishes::CLASS;

/// Runs jobs through the gateway.
struct Upstreams {
    shared: Weak<Shared>,
    router: Router,
    /// Jobs at once.
    parallel: usize,
    mean: MeanTime,
}

/// Takes jobs from now on, so many of them at once.
pub(crate) fn take(
    shared: &Arc<Shared>,
    router: Router,
    store: Arc<dyn Store>,
    options: Options,
    parallel: usize,
) -> Arc<Jobs> {
    let upstreams = Upstreams { shared: Arc::downgrade(shared), router, parallel, mean: MeanTime::default() };
    let jobs = Arc::new(Jobs::new(store, Arc::new(upstreams), shared.edge.clone(), options));
    shared.jobs.store(Some(jobs.clone()));
    jobs
}

/// Adds the routes of jobs, files, batches and webhooks.
pub(crate) fn routes(shared: &Arc<Shared>, mut router: Router) -> Router {
    let Some(jobs) = shared.jobs.load_full() else { return router };
    for route in wire::routes::ROUTES {
        if let Some(handler) = job_server::faces::handler(route.id) {
            router = router.route(route.path, handler.with_state(jobs.clone()));
        }
    }
    router
}

/// Whether requests of an operation can be jobs: those whose path says it all.
fn takes_jobs(api: &Api) -> bool {
    api.path != api::GEMINI && !["/tokenize", "/v1/messages/count_tokens"].contains(&api.path)
}

impl Upstreams {
    fn shared(&self) -> Result<Arc<Shared>, Fault> {
        self.shared
            .upgrade()
            .ok_or_else(|| Fault::unavailable("shutting_down", "the gateway is shutting down", 5))
    }

    async fn answer(&self, work: Work) -> Result<Ran, Fault> {
        let shared = self.shared()?;
        let Work { job, body, .. } = work;
        let path = api::at(&job.endpoint).map(|api| api.path);
        let context = RequestContext::new(shared.edge.audit(), job.id.clone(), "POST", path, None, None);
        if !job.key.is_empty() {
            context.identify(shared.edge.client_named(&job.key), &job.key);
        }
        let prepare = |request: &mut Request| {
            if let Ok(id) = HeaderValue::from_str(&job.id) {
                request.headers_mut().insert(httpd::REQUEST_ID, id);
            }
            if job.class == Class::Batch {
                request.headers_mut().insert(CLASS, HeaderValue::from_static("batch"));
            }
        };
        let answer = ask(self.router.clone(), &job.endpoint, body, context.clone(), prepare).await?;
        context.record_status(answer.status);
        Ok(answer.into())
    }
}

impl Executor for Upstreams {
    fn endpoints(&self) -> Vec<&'static str> {
        APIS.iter().filter(|api| takes_jobs(api)).map(|api| api.path).collect()
    }

    fn check(&self, endpoint: &str, body: &[u8], key: &str) -> Result<Checked, Fault> {
        let shared = self.shared()?;
        let Some(api) = APIS.iter().find(|api| api.path == endpoint && takes_jobs(api)) else {
            let message = format!(
                "the endpoint {} takes no jobs; these do: {}",
                wire::error::quote(endpoint),
                self.endpoints().join(", ")
            );
            return Err(Fault::field("endpoint", message));
        };
        let head = Head::read(api.dialect, body)?;
        if head.stream {
            let message =
                "the answer of a job is whole; leave `stream` out and read the job's events instead";
            return Err(Fault::field("stream", message));
        }
        let model = head.model.clone().ok_or_else(|| Fault::missing("model"))?;
        let snapshot = shared.snapshot.load_full();
        let policy = snapshot.keys.get(key);
        let may =
            |route: &Arc<crate::route::Route>| policy.is_none_or(|policy| policy.may_ask(route.names()));
        if snapshot.route(&model).filter(|route| may(route)).is_none() {
            return Err(Fault::no_model(&model, &[]));
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else {
            return Err(Fault::body("the body is no JSON object"));
        };
        for field in ["stream", "stream_options", "background"] {
            fields.remove(field);
        }
        let body = Value::Object(fields).to_string().into_bytes();
        Ok(Checked { model, body, output_limit: head.max_tokens })
    }

    fn run<'a>(&'a self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let began = Instant::now();
            let ran = self.answer(work).await.unwrap_or_else(Ran::from);
            if ran.status == 200 {
                self.mean.count(began.elapsed());
            }
            ran
        })
    }

    fn is_ready(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| !shared.is_draining())
    }

    fn parallel(&self) -> usize {
        self.parallel
    }

    fn stuck(&self) -> Option<Duration> {
        // Each attempt at an upstream has a time limit of its own.
        None
    }

    fn fingerprint(&self, _model: &str) -> Option<String> {
        None
    }

    fn expected_seconds(&self, queued_jobs: u64, _output_limit: Option<u64>) -> Option<f64> {
        self.mean.expected_seconds(queued_jobs, self.parallel())
    }
}
